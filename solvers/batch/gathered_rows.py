"""Rows of a tile, cut to the columns of a working set: what a Newton pass with an l1 penalty reads.

Of a sparse row most values are in columns whose weights are 0 and stay so.  One look at `place`
tells which are not: these few make the predictions at both ends of a step, and the second
derivatives.  Only the gradient needs the others.  Dense rows are read as they lie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import FUSED, by_type
from fewpass.solvers.kernels.rows import (
    DenseRows,
    Rows,
    SparseRows,
    dot_vector,
    end_cell,
    first_cell,
)
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow, Vector
from fewpass.solvers.kernels.simd.row_blocks import TILE, dot_eight


class GatheredRows(NamedTuple):
    """Values of sparse rows in the columns of a set, of a tile's rows one after the other."""

    place: NDArray[np.int32]  # (d,): where a column is in the set; -1: not in it
    ends: NDArray[np.float64]  # (k, 2) weights at the end of a step and at its beginning
    at: NDArray[np.uint32]  # (TILE, most) places, in ascending order
    x: NDArray[np.float64]  # (TILE, most) values there
    counts: NDArray[np.int64]  # (TILE,)


def gathered_rows(
    rows: Rows, order: NDArray[np.int64], place: NDArray[np.int32], ends: NDArray[np.float64]
) -> GatheredRows:
    """Return room for the rows of a tile; none for dense rows."""
    most = 0
    if isinstance(rows, SparseRows) and order.shape[0]:
        most = int((rows.indptr[order + 1] - rows.indptr[order]).max())
    shape = TILE, most + 1
    at, counts = np.zeros(shape, np.uint32), np.zeros(TILE, int)
    return GatheredRows(place, ends, at, np.zeros(shape), counts)


@by_type
def read_tile(
    rows: Rows, order: Order, start: int, m: int, w: PerColumn, before: PerColumn,
    cut: GatheredRows, p: Vector, q: Vector,
) -> None:  # fmt: skip
    """p[k] = x_i . w and q[k] = x_i . before for i = order[start + k], k < m; q stays without it.

    Sparse rows are gathered, and their weights are read from `cut`.
    """


@by_type
def add_tile_squares(
    rows: Rows, order: Order, start: int, m: int, every: int, cut: GatheredRows,
    weight: PerRow, curvatures: PerRow, column: float, H: LowerTriangle, squares: Vector,
) -> None:  # fmt: skip
    """H += curvature x x^T, squares += weight x^2, over every `every`-th row of those cut.

    Nothing for dense rows, whose squares are added four by four.
    """


@read_tile.register(DenseRows, fastmath=FUSED)
def _(
    rows: DenseRows, order: Order, start: int, m: int, w: PerColumn, before: PerColumn,
    cut: GatheredRows, p: Vector, q: Vector,
) -> None:  # fmt: skip
    has_step = before.shape[0] > 0
    for k in range(0, m - 7, 8):
        dot_eight(rows, order, start + k, w, p[k:])
        if has_step:
            dot_eight(rows, order, start + k, before, q[k:])
    for k in range(m - m % 8, m):
        p[k] = dot_vector(rows, order[start + k], w)
        if has_step:
            q[k] = dot_vector(rows, order[start + k], before)


@read_tile.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, order: Order, start: int, m: int, w: PerColumn, before: PerColumn,
    cut: GatheredRows, p: Vector, q: Vector,
) -> None:  # fmt: skip
    place, ends = cut.place, cut.ends
    for k in range(m):
        at, x, count = cut.at[k], cut.x[k], np.uint64(0)
        for n in range(first_cell(rows, order[start + k]), end_cell(rows, order[start + k])):
            j = place[rows.indices[n]]
            at[count], x[count] = np.uint32(j), np.float64(rows.data[n])
            count += np.uint64(j >= 0)  # no branch: nobody can tell which are
        for n in range(1, count):
            j, value, o = at[n], x[n], n
            while o > 0 and at[o - 1] > j:  # rows mostly come in order of their columns
                at[o], x[o] = at[o - 1], x[o - 1]
                o -= 1
            at[o], x[o] = j, value
        here, there = 0.0, 0.0
        for n in range(count):
            here += ends[at[n], 0] * x[n]
            there += ends[at[n], 1] * x[n]
        p[k], q[k], cut.counts[k] = here, there, count


@add_tile_squares.register(DenseRows, fastmath=FUSED)
def _(
    rows: DenseRows, order: Order, start: int, m: int, every: int, cut: GatheredRows,
    weight: PerRow, curvatures: PerRow, column: float, H: LowerTriangle, squares: Vector,
) -> None:  # fmt: skip
    pass


@add_tile_squares.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, order: Order, start: int, m: int, every: int, cut: GatheredRows,
    weight: PerRow, curvatures: PerRow, column: float, H: LowerTriangle, squares: Vector,
) -> None:  # fmt: skip
    last = squares.shape[0]
    for k in range(-start % every, m, every):
        at, x, c, own = cut.at[k], cut.x[k], curvatures[start + k], weight[order[start + k]]
        for n in range(cut.counts[k]):
            j = at[n]
            if j >= last:  # not 0, but not in W
                break
            squares[j] += own * x[n] * x[n]
            row, scaled = H[j], c * x[n]
            for o in range(n + 1):
                row[at[o]] += scaled * x[o]
            H[last, j] += scaled * column
        H[last, last] += c * column * column
