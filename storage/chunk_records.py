"""Records of a chunk: sums over its rows, and their norms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.table import DenseTable, Table

BLOCK_ITEMS = 1 << 16  # numbers squared at a time, so that they stay in the processor's cache


def measured_record(k: int, table: Table, templates: Iterable[str] = ()) -> ChunkRecord:
    """Return the record of rows that are chunk `k`, without objects yet.

    Raises
    ------
    ValueError
        Values are not finite or too large to square.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # refused just below
        squares = row_squares(table)
        sum_fourth = np.square(squares).sum()
    return ChunkRecord(
        rows=table.n_rows,
        nnz=table.nnz,
        target_sum=_finite(k, table.target.sum()),
        max_square=_finite(k, squares.max()),
        sum_square=_finite(k, squares.sum()),
        sum_fourth=_finite(k, sum_fourth),
        objects=dict.fromkeys(templates),
    )


def row_squares(table: Table) -> NDArray[np.float64]:
    """Return ||x||^2 of every row, (n,), summed in double precision."""
    if isinstance(table, DenseTable):
        return _dense_squares(table.X)
    squares = np.zeros(table.n_rows)
    filled = np.flatnonzero(np.diff(table.indptr))
    ends = np.append(table.indptr[filled], table.nnz)
    start = 0
    while start < filled.size:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + BLOCK_ITEMS)) - 1)
        values = np.square(table.data[ends[start] : ends[stop]].astype(np.float64, copy=False))
        squares[filled[start:stop]] = np.add.reduceat(values, ends[start:stop] - ends[start])
        start = stop
    return squares


def _dense_squares(X: NDArray[Any]) -> NDArray[np.float64]:
    squares = np.empty(X.shape[0])
    step, copied = max(1, BLOCK_ITEMS // X.shape[1]), not X.flags.c_contiguous
    for start in range(0, X.shape[0], step):
        block = X[start : start + step].astype(np.float64, copy=copied)
        np.einsum("ij,ij->i", block, block, out=squares[start : start + step])
    return squares


def _finite(k: int, number: np.floating) -> float:
    if not np.isfinite(number):
        raise ValueError(
            f"Chunk {k} has values that are not finite, or too large to square. "
            "Remove or scale them before they are stored."
        )
    return float(number)
