"""Rows in memory: a dense or a CSR matrix with targets and, optionally, weights and offsets.

Parsers produce tables, spill files and data sets store them, windows are views of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]

#: The largest weight of a row: sums of such, and of their squares, are floats.
MOST_WEIGHT = 1e100


class DenseTable(NamedTuple):
    """n rows of d numbers."""

    X: Floats  # (n, d) float32 or float64
    target: NDArray[np.float64]  # (n,) float64
    weight: NDArray[np.float64] | None  # (n,) float64; None: all weights are 1
    offset: NDArray[np.float64] | None = None  # (n,) float64, added to scores; None: there is none
    retained: NDArray[np.uint8] | None = (
        None  # (n, bytes) columns kept as written; None: there is none
    )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def nnz(self) -> int:
        """Number of stored values, zeros included."""
        return self.X.size


class SparseTable(NamedTuple):
    """n rows of (index, value) pairs: those of row i are at indptr[i] to indptr[i + 1]."""

    data: Floats  # (nnz,) float32 or float64
    indices: Integers  # (nnz,) int32 (int64 past 2^31 columns), ascending and distinct in a row
    indptr: NDArray[np.int64]  # (n + 1,) int64, indptr[0] == 0
    target: NDArray[np.float64]  # (n,) float64
    weight: NDArray[np.float64] | None  # (n,) float64; None: all weights are 1
    offset: NDArray[np.float64] | None = None  # (n,) float64, added to scores; None: there is none
    retained: NDArray[np.uint8] | None = (
        None  # (n, bytes) columns kept as written; None: there is none
    )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.indptr[-1])


Table = DenseTable | SparseTable


def n_bytes(table: Table) -> int:
    """Return the bytes of the table's arrays."""
    return sum(part.nbytes for part in table if part is not None)


class _Unmarked:
    """The memory of an array, not marked read-only."""

    def __init__(self, array: NDArray[Any]) -> None:
        place, _ = array.__array_interface__["data"]
        self.array = array  # keeps the memory alive
        self.__array_interface__ = {**array.__array_interface__, "data": (place, False)}


def are_weights(numbers: Floats) -> NDArray[np.bool_]:
    """Return which numbers (n,) may be weights of rows."""
    return (numbers >= 0.0) & (numbers <= MOST_WEIGHT)


def unmarked(table: Table) -> Table:
    """Return views of read-only arrays, such as those of frames, that are not marked read-only.

    For kernels, which never write to rows: numba would compile each one again for read-only arrays.
    """
    parts = {
        name: np.asarray(_Unmarked(part))
        for name, part in table._asdict().items()
        if part is not None and not part.flags.writeable
    }
    return table._replace(**parts)


def take(table: Table, order: Integers) -> Table:
    """Return copies of the rows `order`, in that order."""
    target = table.target[order]
    weight = None if table.weight is None else table.weight[order]
    offset = None if table.offset is None else table.offset[order]
    retained = None if table.retained is None else table.retained[order]
    if isinstance(table, DenseTable):
        return DenseTable(table.X[order], target, weight, offset, retained)
    counts = np.diff(table.indptr)[order]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    position = np.arange(indptr[-1]) + np.repeat(table.indptr[order] - indptr[:-1], counts)
    data, indices = table.data[position], table.indices[position]
    return SparseTable(data, indices, indptr, target, weight, offset, retained)


def cut(table: Table, start: int, stop: int) -> Table:
    """Return the rows start <= i < stop, as views if possible."""
    target = table.target[start:stop]
    weight = None if table.weight is None else table.weight[start:stop]
    offset = None if table.offset is None else table.offset[start:stop]
    retained = None if table.retained is None else table.retained[start:stop]
    if isinstance(table, DenseTable):
        return DenseTable(table.X[start:stop], target, weight, offset, retained)
    first, last = int(table.indptr[start]), int(table.indptr[stop])
    indptr = table.indptr[start : stop + 1] - first
    data, indices = table.data[first:last], table.indices[first:last]
    return SparseTable(data, indices, indptr, target, weight, offset, retained)


def concatenate(tables: Sequence[Table]) -> Table:
    """Return all rows of the tables, which have the same layout and weights, in order."""
    target = np.concatenate([t.target for t in tables])
    weights = [t.weight for t in tables if t.weight is not None]
    weight = np.concatenate(weights) if weights else None
    offsets = [t.offset for t in tables if t.offset is not None]
    offset = np.concatenate(offsets) if offsets else None
    every_retained = [t.retained for t in tables if t.retained is not None]
    retained = np.concatenate(every_retained) if every_retained else None
    dense = [t for t in tables if isinstance(t, DenseTable)]
    if dense:
        return DenseTable(np.concatenate([t.X for t in dense]), target, weight, offset, retained)
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
        offset,
        retained,
    )


def index_dtype(n_features: int) -> np.dtype[Any]:
    """Return the type of column indices: int32 up to 2^31 columns, else int64."""
    return np.dtype(np.int32 if n_features <= 1 << 31 else np.int64)
