"""Rows held in memory: a dense or a CSR matrix with its targets and, optionally, row weights.

Parsers produce tables, spill files and data sets store them, windows are views of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]


class DenseTable(NamedTuple):
    """n rows of d numbers."""

    X: Floats  # (n, d) float32 or float64
    target: NDArray[np.float64]  # (n,) float64
    weight: NDArray[np.float64] | None  # (n,) float64, None: every row counts once

    @property
    def n_rows(self) -> int:
        """Rows held."""
        return len(self.X)

    @property
    def nnz(self) -> int:
        """Values held; zeros count, as they are stored."""
        return self.X.size


class SparseTable(NamedTuple):
    """n rows of (index, value) pairs: row i holds positions indptr[i] to indptr[i + 1]."""

    data: Floats  # (nnz,) float32 or float64
    indices: Integers  # (nnz,) int32 (int64 past 2^31 columns), ascending and distinct in a row
    indptr: NDArray[np.int64]  # (n + 1,) int64, indptr[0] == 0
    target: NDArray[np.float64]  # (n,) float64
    weight: NDArray[np.float64] | None  # (n,) float64, None: every row counts once

    @property
    def n_rows(self) -> int:
        """Rows held."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Values held."""
        return int(self.indptr[-1])


Table = DenseTable | SparseTable


def n_bytes(table: Table) -> int:
    """Bytes that the table's arrays take in memory."""
    return sum(part.nbytes for part in table if part is not None)


class _Unmarked:
    """An array's own memory, not marked read-only."""

    def __init__(self, array: NDArray[Any]) -> None:
        place, _ = array.__array_interface__["data"]
        self.array = array  # keeps the memory
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}


def unmarked(table: Table) -> Table:
    """See arrays that are marked read-only, as those of frames are, without that mark; no copy.

    For kernels, which write to no rows: numba would compile each one anew for marked arrays.
    """
    parts = {
        name: np.asarray(_Unmarked(part))
        for name, part in table._asdict().items()
        if part is not None and not part.flags.writeable
    }
    return table._replace(**parts)


def take(table: Table, order: Integers) -> Table:
    """Rows `order` of the table, in that order, copied."""
    target = table.target[order]
    weight = None if table.weight is None else table.weight[order]
    if isinstance(table, DenseTable):
        return DenseTable(table.X[order], target, weight)
    counts = np.diff(table.indptr)[order]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    position = np.arange(indptr[-1]) + np.repeat(table.indptr[order] - indptr[:-1], counts)
    return SparseTable(table.data[position], table.indices[position], indptr, target, weight)


def cut(table: Table, start: int, stop: int) -> Table:
    """Rows start <= i < stop, as views where the layout allows."""
    target = table.target[start:stop]
    weight = None if table.weight is None else table.weight[start:stop]
    if isinstance(table, DenseTable):
        return DenseTable(table.X[start:stop], target, weight)
    first, last = int(table.indptr[start]), int(table.indptr[stop])
    indptr = table.indptr[start : stop + 1] - first
    return SparseTable(table.data[first:last], table.indices[first:last], indptr, target, weight)


def concatenate(tables: Sequence[Table]) -> Table:
    """All rows of the tables, one after the other; every table has the same layout and weights."""
    target = np.concatenate([t.target for t in tables])
    weights = [t.weight for t in tables if t.weight is not None]
    weight = np.concatenate(weights) if weights else None
    dense = [t for t in tables if isinstance(t, DenseTable)]
    if dense:
        return DenseTable(np.concatenate([t.X for t in dense]), target, weight)
    sparse = [t for t in tables if isinstance(t, SparseTable)]
    starts = np.cumsum([0] + [t.nnz for t in sparse])
    indptr = [np.zeros(1, np.int64)]
    indptr += [t.indptr[1:] + start for t, start in zip(sparse, starts[:-1], strict=True)]
    return SparseTable(
        np.concatenate([t.data for t in sparse]),
        np.concatenate([t.indices for t in sparse]),
        np.concatenate(indptr),
        target,
        weight,
    )


def index_dtype(n_features: int) -> np.dtype[Any]:
    """Type of the column indices: int32 up to 2^31 columns."""
    return np.dtype(np.int32 if n_features <= 1 << 31 else np.int64)
