"""Objective, gradient and curvature in one pass: what Newton's method sums over the rows.

    H = mean c_i phi''(p_i) x_i x_i^T + lam I

H is of all columns, or of a working set of them (working_set_sums.py).  With many times more rows
than columns it is summed over every k-th row of a block only (`thinning`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.gradient import added
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector, prefetch_row
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow
from fewpass.solvers.kernels.simd.row_blocks import add_four_squares
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem, curvature_at
from fewpass.solvers.protocol import Block, ProblemStats, Sum

ENOUGH = 400  # rows per column for H
AS_DEAR = 4  # columns whose part of H costs about as much as a row of a gradient


class CurvedPoint(NamedTuple):
    """The point of a reduction, and the thinning of H."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float
    thinned: int


class CurvedPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    loss: float
    G: NDArray[np.float64]  # (d,) of weighted slopes times rows
    g_b: float  # the same for the constant column
    rows: int
    H: NDArray[np.float64]  # (d + 1, d + 1), its lower triangle: of curvatures times squares
    H_rows: int  # rows in it


def whole_curvature(problem: Problem, total: CurvedPart) -> NDArray[np.float64]:
    """Return the lower triangle of H, normalised and with lam."""
    H = total.H / total.H_rows
    H[np.diag_indices_from(H)] += problem.lam
    if problem.intercept:
        H[-1, -1] += problem.lam_b - problem.lam
    return H


def thinning(problem: Problem, stats: ProblemStats, columns: int) -> int:
    """Return k if H is summed over every k-th row: it then costs about as much as the gradient."""
    if problem.loss.is_quadratic:
        return 1
    return max(1, min(columns // AS_DEAR, stats.n // (ENOUGH * (columns + 1))))


def no_curvature(at: CurvedPoint) -> CurvedPart:
    """Return the zero of the sums."""
    d = at.coef.shape[0]
    return CurvedPart(0.0, np.zeros(d), 0.0, 0, np.zeros((d + 1, d + 1)), 0)


def add_curvature(
    problem: Problem, at: CurvedPoint, block: Block, part: CurvedPart,
    report: ReportLosses = ignore_losses, every: int = 0,
) -> CurvedPart:  # fmt: skip
    """Add one block's loss, gradient and curvature at the given weights, in place."""
    whole = added(part, at.coef, at.intercept, problem, block, report, every)
    few = np.ascontiguousarray(
        block.order[:: at.thinned]
    )  # contiguous: one kernel for any thinning
    add_squares(part.H, at.coef, at.intercept, problem, *block[:3], few)
    return CurvedPart(*whole, part.H, part.H_rows + few.shape[0])


#: Objective, gradient and H at a point.
CURVED = Sum("reduce-curvature", no_curvature, add_curvature, telling=add_curvature)


@kernel
def add_squares(
    H: LowerTriangle, w: PerColumn, b: float, problem: Problem, rows: Rows, y: PerRow,
    weight: PerRow, order: Order,
) -> None:  # fmt: skip
    """H += weighted curvatures times squares of the rows, constant column last."""
    loss, intercept, d, last = problem.loss, problem.intercept, w.shape[0], order.shape[0] - 1
    four, c = np.empty(4, np.int64), np.empty(4)
    for start in range(0, order.shape[0], 4):
        for k in range(4):
            four[k] = i = order[min(start + k, last)]
            prefetch_row(rows, y, weight, order, min(start + k, last))
            p = dot_vector(rows, i, w) + intercept * b
            c[k] = weight[i] * curvature_at(loss, p, y[i]) if start + k <= last else 0.0
            if intercept != 0.0 and c[k] != 0.0:
                add_vector(rows, i, c[k] * intercept, H[d])
                H[d, d] += c[k] * intercept * intercept
        if c[0] != 0.0 or c[1] != 0.0 or c[2] != 0.0 or c[3] != 0.0:
            add_four_squares(rows, four, 0, c, H)
