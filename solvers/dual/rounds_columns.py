"""A range of the columns in a round: adding its rows, and its end, for each kind of rows.

W (d + 1, 4) as in rounds.py: the rows' moves are added to RUNNING at once, and to MOVE, which is 0
before and after.  What columns come to depends on the order of the rows alone.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.dual.sdca_state import MOVE, RUNNING
from fewpass.solvers.kernels.dispatch import FUSED, by_type, called_by_kernels
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.kernels.shapes import Index, Order, SideBySide, Vector


@by_type
def add_round(  # type: ignore[empty-body]
    rows: Rows, chosen: Order, step: Vector, W: SideBySide, low: int, high: int, whole: float
) -> np.int64:
    """Add every step[k] x_i, i = chosen[k], to RUNNING and MOVE in columns low <= j < high.

    Returns `whole` times the square of what was added there, in whole numbers: they add up to the
    same however the columns are shared.
    """


@by_type
def end_round(rows: Rows, chosen: Order, back: float, W: SideBySide, low: int, high: int) -> None:
    """Add `back` times what was added to RUNNING in columns low <= j < high; MOVE is 0 again."""


@add_round.register(DenseRows, fastmath=FUSED)
def _(
    rows: DenseRows, chosen: Order, step: Vector, W: SideBySide, low: int, high: int, whole: float
) -> np.int64:
    for k in range(chosen.shape[0]):
        i, a = chosen[k], step[k]
        for j in range(low, high):
            W[j, MOVE] += a * np.float64(rows.X[i, j])
    total = np.int64(0)
    for j in range(low, high):
        W[j, RUNNING] += W[j, MOVE]
        total += np.int64(W[j, MOVE] * W[j, MOVE] * whole)
    return total


@end_round.register(DenseRows, fastmath=FUSED)
def _(rows: DenseRows, chosen: Order, back: float, W: SideBySide, low: int, high: int) -> None:
    if back != 0.0:
        for j in range(low, high):
            W[j, RUNNING] += back * W[j, MOVE]
    for j in range(low, high):
        W[j, MOVE] = 0.0


@add_round.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, chosen: Order, step: Vector, W: SideBySide, low: int, high: int, whole: float
) -> np.int64:
    total = np.int64(0)
    for k in range(chosen.shape[0]):
        a = step[k]
        if a == 0.0:
            continue
        for n in range(*positions_between(rows, chosen[k], low)):
            j = rows.indices[n]
            if j >= high:
                break
            x, u = a * np.float64(rows.data[n]), W[j, MOVE]
            total += np.int64(x * (u + u + x) * whole)
            W[j, MOVE] = u + x
            W[j, RUNNING] += x
    return total


@end_round.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, chosen: Order, back: float, W: SideBySide, low: int, high: int) -> None:
    for i in chosen:
        for n in range(*positions_between(rows, i, low)):
            j = rows.indices[n]
            if j >= high:
                break
            if back != 0.0:
                W[j, RUNNING] += back * W[j, MOVE]
            W[j, MOVE] = 0.0


@called_by_kernels
def positions_between(rows: SparseRows, i: Index, low: int) -> tuple[np.uint64, np.uint64]:
    """Return the positions of row i's pairs, from column `low` on."""
    start, stop = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    if low == 0:
        return start, stop
    end = stop
    while start < stop:  # by halves: columns ascend
        middle = (start + stop) >> np.uint64(1)
        if rows.indices[middle] < low:
            start = middle + np.uint64(1)
        else:
            stop = middle
    return start, end
