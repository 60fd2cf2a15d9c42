"""The common part of LIBSVM's and Vowpal Wabbit's text: rows without names of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import refuse_nameless
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import line_pieces
from fewpass.pipeline.tables.readers.source import Expected, Piece, Source


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

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Cut the files at ends of lines."""
        return line_pieces(self._addresses, piece_bytes, self._longest_line)

    def _bytes_of_rows(self, per_byte: float, whole: float) -> int:
        """Return the bytes of all rows in memory, from those of a byte of the first file."""
        stored = sum(file.bytes or 0 for file in self.files)
        return int(per_byte * whole * stored / max(1, self.files[0].bytes or 0))
