"""Sparse rows stored dense: every cell that is not written is a zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from fewpass.pipeline.tables.readers.source import Parsed, Piece, Source
from fewpass.storage.table import DenseTable, SparseTable, n_bytes

_LOOK_BYTES = 1 << 18
#: Bytes of dense rows for one of text: as for text in which every cell is written.
_USUAL = 2.0


class FilledSource:
    """Rows of a sparse source as dense ones; see `Source` for the methods.

    Parameters
    ----------
    rows
        What refuses, or cuts, rows that are wider.
    n_features
        Width of the rows.
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    layout: Literal["dense", "sparse"] = "dense"

    def __init__(self, rows: Source, n_features: int) -> None:
        self._rows, self._width = rows, n_features
        self.n_features: int | None = n_features
        self.files, self.packed, self.schema = rows.files, rows.packed, rows.schema
        self.left_out, self.has_weight = rows.left_out, rows.has_weight
        first, n_text = first_rows(rows)
        dense = n_bytes(filled(first, n_features)) if first.n_rows else 0
        self._grown, self._per_byte = dense / max(1, n_bytes(first)), dense / max(1, n_text)

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from those of the sparse ones and the first rows."""
        return int(self._grown * self._rows.estimated_bytes())

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Stretches of whole lines, shorter where rows take much more than their text."""
        return self._rows.pieces(max(1, int(piece_bytes / max(1.0, self._per_byte / _USUAL))))

    def parse(self, piece: Piece) -> Parsed:
        """Rows of one piece."""
        parsed = self._rows.parse(piece)
        assert isinstance(parsed.table, SparseTable), "the source is sparse"
        table = filled(parsed.table, self._width)
        return parsed._replace(table=table, max_index=self._width - 1)


def first_rows(source: Source) -> tuple[SparseTable, int]:
    """Return the first rows of a sparse source, and the bytes of their text."""
    piece = next(iter(source.pieces(_LOOK_BYTES)))
    table = source.parse(piece).table
    assert isinstance(table, SparseTable), "the source is sparse"
    return table, piece.n_bytes


def filled(table: SparseTable, n_features: int) -> DenseTable:
    """Write the zeros of sparse rows out; no index is n_features or more."""
    X = np.zeros((table.n_rows, n_features), table.data.dtype)
    X[np.repeat(np.arange(table.n_rows), np.diff(table.indptr)), table.indices] = table.data
    return DenseTable(X, table.target, table.weight)
