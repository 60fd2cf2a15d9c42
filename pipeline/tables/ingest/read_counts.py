"""Counts of rows as they are read: of a piece, or of several in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fewpass.pipeline.tables.readers.source import BadRow, ParsedRows

#: Skipped rows that are listed with their reason; all are counted.
LISTED = 20

Natural = Annotated[int, Field(ge=0, le=1 << 48)]


class ReadCounts(BaseModel):
    """Counts of rows, by file, and of values in them; adding is associative."""

    model_config = ConfigDict(defer_build=True, strict=True, extra="forbid")

    rows: dict[str, Natural] = {}
    """Of every file, without those that were skipped."""
    skipped: dict[str, Natural] = {}
    listed: list[str] = []
    """The first skipped rows, as sentences."""
    merged: Natural = 0
    """Values added to the one before, of the same index in the row."""
    beyond: Natural = 0
    """Values left out, beyond the features asked for."""
    words: dict[str, Natural] = {}
    """Cells that were words, of columns of numbers, by the column's name."""
    max_index: Annotated[int, Field(ge=-1, le=1 << 48)] = -1

    @classmethod
    def of(cls, parsed: ParsedRows, file: str) -> ReadCounts:
        """Count a piece of a file."""
        skipped = {parsed.skipped[0].file: parsed.n_skipped} if parsed.n_skipped else {}
        return cls.model_construct(
            rows={file: parsed.table.n_rows}, skipped=skipped,
            listed=[*skipped_in_words(parsed, LISTED)], merged=parsed.n_merged,
            beyond=parsed.n_beyond, words=dict(parsed.words), max_index=parsed.max_index,
        )  # fmt: skip

    def add(self, other: ReadCounts) -> None:
        """Add the counts of rows behind these, in place: sources may have many files."""
        counts = ("rows", "skipped", "words")
        for own, more in ((getattr(self, name), getattr(other, name)) for name in counts):
            for file, n in more.items():
                own[file] = own.get(file, 0) + n
        self.listed += other.listed[: LISTED - len(self.listed)]
        self.merged, self.beyond = self.merged + other.merged, self.beyond + other.beyond
        self.max_index = max(self.max_index, other.max_index)


def skipped_in_words(parsed: ParsedRows, most: int) -> Iterator[str]:
    """Yield a sentence for each of the first skipped rows of a piece."""
    return rows_in_words(parsed.skipped[:most])


def rows_in_words(skipped: Iterable[BadRow], before: int = 0) -> Iterator[str]:
    """Yield a sentence for each row; `before` lines stand in front of what its line counts from."""
    for row in skipped:
        yield f"{row.file}, line {row.line + before}: {row.reason}"
