"""Predictions by weights that a penalty shrinks: x_i . shrunk(u) for a row and a vector u.

`dot` and its like of rows.py, with every entry of u shrunk as it is read.  A penalty that leaves u
as it is has these themselves (l2.py).
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import FUSED, by_type
from fewpass.solvers.kernels.rows import Rows, SparseRows, cell, end_cell, first_cell, in_cells
from fewpass.solvers.kernels.shapes import LaneVector, Number, SideBySide, Vector
from fewpass.solvers.kernels.simd.lanes import LaneWidth, broadcast, fma, load


@by_type
def shrunk(penalty: tuple[float, ...], u: Number) -> Number:
    """Return argmin over v of (v - u)^2 / 2 + R(v), without R's quadratic part."""


@by_type
def dot_shrunk(  # type: ignore[empty-body]
    rows: Rows, i: int, W: SideBySide, penalty: tuple[float, ...]
) -> float:
    """Return x_i . shrunk(W[:, 0])."""


@by_type
def dot_both_shrunk(  # type: ignore[empty-body]
    rows: Rows, i: int, W: SideBySide, penalty: tuple[float, ...]
) -> tuple[float, float]:
    """Return x_i . W[:, 0] and x_i . shrunk(W[:, 1])."""


@by_type
def dot_both_lanes_shrunk(  # type: ignore[empty-body]
    rows: Rows, i: int, V: Vector, width: int, place: int, how: LaneWidth,
    penalty: tuple[Number, ...],
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    """Return the same for every lane, as `dot_both_lanes` does; the penalty is in lanes."""


@in_cells(dot_shrunk)
def _(rows: Rows, i: int, W: SideBySide, penalty: tuple[float, ...]) -> float:
    total = 0.0
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        total += x * shrunk(penalty, W[j, 0])
    return total


@in_cells(dot_both_shrunk)
def _(rows: Rows, i: int, W: SideBySide, penalty: tuple[float, ...]) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        first += x * W[j, 0]
        second += x * shrunk(penalty, W[j, 1])
    return first, second


@dot_both_lanes_shrunk.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, i: int, V: Vector, width: int, place: int, how: LaneWidth,
    penalty: tuple[Number, ...],
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    L = how.width
    first, second = broadcast(0.0, how), broadcast(0.0, how)
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        at, x = np.int64(rows.indices[n]) * width + place, np.float64(rows.data[n])
        first = fma(x, load(V, at, how), first)
        second = fma(x, shrunk(penalty, load(V, at + L, how)), second)
    return first, second
