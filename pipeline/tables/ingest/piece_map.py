"""Rows with random keys that are made of a piece of a source, and counts of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.rows.scaling import Measured
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.frequency_order import ColumnCounts
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.retained_columns import RetainedCells
from fewpass.pipeline.tables.ingest.row_parts import KeyedRows
from fewpass.pipeline.tables.readers.counting_rows import counting
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare
from fewpass.pipeline.tables.readers.source import BadRow, ParsedRows, Piece, Source
from fewpass.storage.table import SparseTable, Table, n_bytes

#: Skipped rows that are listed with their reason; all are counted.
LISTED = 20

Natural = Annotated[int, Field(ge=0, le=1 << 48)]


class ReadCounts(BaseModel):
    """Counts of rows, by file, and of values in them; adding is associative."""

    model_config = ConfigDict(defer_build=True, strict=True, extra="forbid")

    rows: dict[str, Natural] = {}
    """Of every file, without those that were skipped or weigh nothing."""
    skipped: dict[str, Natural] = {}
    weightless: Natural = 0
    """Rows of weight 0, which are left out."""
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
            rows={file: parsed.table.n_rows}, skipped=skipped, weightless=parsed.n_weightless,
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
        self.weightless += other.weightless
        self.max_index = max(self.max_index, other.max_index)


def skipped_in_words(parsed: ParsedRows, most: int) -> Iterator[str]:
    """Yield a sentence for each of the first skipped rows of a piece."""
    return rows_in_words(parsed.skipped[:most])


def rows_in_words(skipped: Iterable[BadRow], before: int = 0) -> Iterator[str]:
    """Yield a sentence for each row; `before` lines stand in front of what its line counts from."""
    for row in skipped:
        yield row.in_words(before)


#: First word after the seed of everything random in here.
KEYS = 1
TRAINING, TEST = 0, 1


class MappedPiece(NamedTuple):
    """The rows of a piece, and what is known of them."""

    rows: KeyedRows | None  # None: they are in a part already
    counts: LabelCounts
    read: ReadCounts
    columns: Measured | SparseTable | None  # of training rows: what scaling is measured on
    n_rows: int
    row_bytes: int
    piece: Piece  # without its content
    skipped: tuple[BadRow, ...] = ()  # the first ones, by lines as the piece has them


@unpickled_once
class PieceMap(NamedTuple):
    """The work on a piece of a source; the same in any thread and process."""

    source: Source
    plan: IngestPlan
    retained: tuple[str, ...]  # columns that are kept as they are written
    held_out: HeldOutShare
    measured: Measured | None = None  # statistics of columns, of no rows, that scaling needs

    @property
    def n_groups(self) -> int:
        """2 where there are test rows."""
        return 2 if self.plan.test_fraction else 1

    def mapped(
        self, piece: Piece, parsed: ParsedRows | None, column_counts: Sequence[ColumnCounts]
    ) -> MappedPiece:
        """Give the rows of a piece their keys, and count them.

        Parameters
        ----------
        piece, parsed
            Text and, where it was parsed before, its rows.
        column_counts
            Of each group, which those of sparse rows are added to; none where nobody asks.
        """
        parsed = counting(parsed or self.source.parse(piece))
        self._refuse_wide(parsed.max_index)
        counts, table = LabelCounts(self.plan.task, piece.where), parsed.table
        targets, keys, held_out, cells = counts.listed(parsed), None, None, None
        if self.retained:
            cells = RetainedCells(self.retained, parsed.passed, piece.file)
        if self.plan.shuffle:
            random = np.random.default_rng([self.plan.seed, KEYS, *piece.place])
            keys = random.random(table.n_rows)
        if self.plan.test_fraction:
            held_out = self.held_out.of(parsed, piece.place)
        rows = KeyedRows(table, targets, keys, held_out, cells)
        training = self._counted(rows, counts, column_counts, parsed.max_index)
        columns = self._measured(training)
        read = ReadCounts.of(parsed, piece.file)
        empty = piece._replace(content=None)
        return MappedPiece(
            rows, counts, read, columns, table.n_rows, n_bytes(table), empty,
            parsed.skipped[:LISTED],
        )  # fmt: skip

    def _counted(
        self, rows: KeyedRows, counts: LabelCounts, column_counts: Sequence[ColumnCounts],
        max_index: int,
    ) -> Table:  # fmt: skip
        """Count targets and columns of each group; return the training rows."""
        tables = []
        for group in range(self.n_groups):
            own, targets = rows.table, rows.targets
            if rows.held_out is not None:
                order = np.flatnonzero(rows.held_out == (group == TEST))
                targets = targets.of(order)
                if column_counts or (self.measured is not None and group == TRAINING):
                    own = Selection(own, order).rows()
            counts.count(targets, group)
            if column_counts:
                column_counts[group].add(own, max_index)
            tables.append(own)
        return tables[TRAINING]

    def _measured(self, training: Table) -> Measured | SparseTable | None:
        """Return what scaling is measured on."""
        if self.measured is None or isinstance(training, SparseTable):
            return None if self.measured is None else training  # type: ignore[return-value]
        own: Measured = self.measured.of(training)
        return own

    def _refuse_wide(self, max_index: int) -> None:
        n_features = self.source.n_features or max_index + 1
        need = n_features * Budget.measured_column
        if need > self.plan.budget.rows:
            least = format_bytes(self.plan.memory + need - self.plan.budget.rows)
            schema = self.source.schema
            hashed = self.source.hashes_names or (schema and schema.encoding)
            fewer = ", or hash to fewer columns (`hash_bits`)" if hashed else ""
            raise BadInput(
                f"The statistics of {n_features} columns take {format_bytes(need)}, more than "
                f"the memory has room for. Give at least {least}{fewer}."
            )
