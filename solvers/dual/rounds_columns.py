"""The columns of a round: which thread adds which, and adding rows to them, for each kind of rows.

What columns come to depends on the order of the rows alone.  How the square of the weights changes
is a sum over columns; it is made of whole numbers, which add up to the same however the columns are
shared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.solvers.dual.sdca_state import RUNNING
from fewpass.solvers.kernels.dispatch import FUSED, by_type, called_by_kernels
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.kernels.shapes import (
    Cuts,
    Index,
    Matrix,
    Order,
    SideBySide,
    Vector,
    WholeNumbers,
)


class SharedByThreads(NamedTuple):
    """Arrays that the threads of a step share, in rounds of B rows."""

    first: WholeNumbers  # (parts + 1,) column that each thread's begin with
    cuts: Cuts  # (B, parts + 1) of sparse rows, where each thread's columns begin in a row
    move: Vector  # (d,) of dense rows, what is added
    before: Vector  # (B,) dual variables, ...
    delta: Vector  # (B,) their steps, ...
    step: Vector  # (B,) and by how much the row is added to the weights
    sums: Matrix  # (PARTS, SUMS), see rounds_steps.py
    squares: WholeNumbers  # (parts,) by how much the square of the weights changes
    arrived: WholeNumbers  # (1,) see meeting.py


@by_type
def cut_row(rows: Rows, i: Index, k: Index, our: SharedByThreads) -> None:
    """Note where each thread's columns begin in row i, the k-th of a round.

    Whoever steps the row does it, while the caches have it.
    """


@by_type
def add_round(  # type: ignore[empty-body]
    rows: Rows, chosen: Order, share: float, W: SideBySide, our: SharedByThreads, part: int,
    whole: float,
) -> np.int64:  # fmt: skip
    """Add `share` times every row's step to RUNNING, in a thread's columns.

    Returns `whole` times the change of their sum of squares.
    """


@cut_row.register(DenseRows)
def _(rows: DenseRows, i: Index, k: Index, our: SharedByThreads) -> None:
    pass  # a row has all columns, in their order


@cut_row.register(SparseRows)
def _(rows: SparseRows, i: Index, k: Index, our: SharedByThreads) -> None:
    parts, stop = our.first.shape[0] - 1, np.int64(rows.indptr[i + 1])
    our.cuts[k, 0], our.cuts[k, parts] = rows.indptr[i], stop
    for part in range(1, parts):
        our.cuts[k, part] = position_of(rows, our.first[part], our.cuts[k, part - 1], stop)


@called_by_kernels
def position_of(rows: SparseRows, column: Index, start: Index, stop: Index) -> np.int64:
    """Return the first position of a row's pairs whose column is at least this one."""
    low, left = np.uint64(start), np.uint64(stop - start)
    one = np.uint64(1)
    while left:  # by halves: columns ascend
        half = left >> one
        before = rows.indices[low + half] < column
        low = low + half + one if before else low
        left = left - half - one if before else half
    return np.int64(low)


@add_round.register(DenseRows, fastmath=FUSED)
def _(
    rows: DenseRows, chosen: Order, share: float, W: SideBySide, our: SharedByThreads, part: int,
    whole: float,
) -> np.int64:  # fmt: skip
    low, high, move = our.first[part], our.first[part + 1], our.move
    for j in range(low, high):
        move[j] = 0.0
    for k in range(chosen.shape[0]):
        i, a = chosen[k], share * our.step[k]
        for j in range(low, high):
            move[j] += a * np.float64(rows.X[i, j])
    total = np.int64(0)
    for j in range(low, high):
        w = W[j, RUNNING]
        total += np.int64(move[j] * (w + w + move[j]) * whole)
        W[j, RUNNING] = w + move[j]
    return total


@add_round.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, chosen: Order, share: float, W: SideBySide, our: SharedByThreads, part: int,
    whole: float,
) -> np.int64:  # fmt: skip
    total = np.int64(0)
    for k in range(chosen.shape[0]):
        a = share * our.step[k]
        if a == 0.0:
            continue
        for n in range(np.uint64(our.cuts[k, part]), np.uint64(our.cuts[k, part + 1])):
            j = rows.indices[n]
            x, w = a * np.float64(rows.data[n]), W[j, RUNNING]
            total += np.int64(x * (w + w + x) * whole)
            W[j, RUNNING] = w + x
    return total
