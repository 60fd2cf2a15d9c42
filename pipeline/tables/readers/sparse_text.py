"""The common part of LIBSVM's and Vowpal Wabbit's text: rows without names of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import refuse_nameless
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import (
    WholeLines,
    line_pieces,
    ranges_apart,
    sample,
    spans_of,
)
from fewpass.pipeline.tables.readers.rejection import SKIP_ADVICE, refuse_or_list, shown
from fewpass.pipeline.tables.readers.source import Expected, ParsedRows, Piece, Source, SourceSpan
from fewpass.storage.table import SparseTable, n_bytes

#: A message shows less of an offending token.
_TOKEN_BYTES = 200


class ParsedText(NamedTuple):
    """The rows that a kernel made of whole lines."""

    table: SparseTable
    max_index: int
    bad: Any  # (listed, 3) code, position and line of the first bad rows
    n_bad: int
    n_merged: int


class SparseText(Source):
    """Files of lines, a sparse row in each.

    Attributes
    ----------
    files : tuple of SourceFile
        The files, with their sizes.
    n_features : int or None
        Number of columns; None: as many as there are.
    """

    layout: Literal["dense", "sparse"] = "sparse"
    meaningless: ClassVar[tuple[str, ...]] = ("label", "weight", "drop", "delimiter", "header")
    """Settings that the format has no use for, ..."""
    refusal: ClassVar[str]
    """... and the sentences that refuse one of them."""
    is_ascii: ClassVar[bool] = False
    """True where bad rows hold nothing else, if they are text."""
    messages: ClassVar[Mapping[int, tuple[str, str]]]
    """Fact and advice for every code of the kernel; {token} stands where the row is bad."""

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        for setting in self.meaningless:
            if getattr(options, setting) != SourceOptions.model_fields[setting].default:
                raise BadInput(self.refusal.format(setting))
        refuse_nameless(expected.schema, addresses[0].name, expected.whose, options)
        self._longest_line = expected.longest_line
        self.files = described(addresses)
        self.n_features = options.n_features
        self._addresses = tuple(addresses)
        self._options = options

    def read(self, text: WholeLines, *, stop: bool) -> ParsedText:
        """Read whole lines by the format's kernel, which may `stop` at the first bad row."""
        raise NotImplementedError

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from the first file's first lines."""
        text, whole = sample(self._addresses[0], self._longest_line)
        per_byte = n_bytes(self.read(text, stop=False).table) / text.bytes.size
        stored = sum(file.bytes or 0 for file in self.files)
        return int(per_byte * whole * stored / max(1, self.files[0].bytes or 0))

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Cut the files at ends of lines."""
        return line_pieces(self._addresses, piece_bytes, self._longest_line)

    def spans(self, piece_bytes: int) -> list[SourceSpan]:
        return spans_of(self._addresses, piece_bytes)

    def ranges(self, piece_bytes: int) -> list[SourceSpan]:
        return ranges_apart(self._addresses, piece_bytes)

    def pieces_of(self, span: SourceSpan, piece_bytes: int) -> Iterator[Piece]:
        return line_pieces(self._addresses, piece_bytes, self._longest_line, span=span)

    def parse(self, piece: Piece) -> ParsedRows:
        on_bad_row = self._options.on_bad_row
        read = self.read(piece.content, stop=on_bad_row == "refuse")
        faults = (self._explain(piece, *bad) for bad in read.bad[: read.n_bad].tolist())
        skipped = refuse_or_list(faults, piece.file, on_bad_row)
        return ParsedRows(read.table, None, read.max_index, skipped, read.n_bad, read.n_merged)

    def _explain(self, piece: Piece, code: int, at: int, line: int) -> tuple[int, str, str]:
        """Return line, fact and advice for a bad row."""
        fact, advice = self.messages[code]
        token = self.token_in(piece.content.bytes[at : at + _TOKEN_BYTES].tobytes())
        if self.is_ascii and any(c < ord(" ") or c > ord("~") for c in token):
            advice = "This does not look like text; check `format`, or fetch the file anew,"
        width = self._options.n_features or "10^18"
        fact = fact.format(token=shown(token), width=width, dtype=self._options.dtype)
        return piece.first_line + line, fact, f"{advice} {SKIP_ADVICE}"

    @staticmethod
    def token_in(text: bytes) -> bytes:
        """Return what a message shows of the text where a row is bad."""
        return text.split(b"\n")[0]
