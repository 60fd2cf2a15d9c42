"""Newton's method over reductions: for few columns, in as few passes as there are digits.

    x <- x - t H^-1 grad f(x),      H = mean c_i phi''(p_i) x_i x_i^T + lam I

A pass adds up objective, gradient and H together; t is 1, and is halved while f has not fallen as
it should (Armijo), a pass each time.  How the columns are scaled and how they go together makes no
difference, which is what other methods pay their passes for.  H is d x d, so this is for up to a
few hundred columns; where rows are many times more, every k-th of a block, in order, stands for all
in H (`thinning`): the gradient stays exact, and an error of H costs a fraction of a pass.

Under the squared loss H knows everything, and the second pass certifies the optimum.
docs/methods.md, section 8.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.estimates.expected_passes import conditioning, digits
from fewpass.solvers.gradient import RISE, Bounds, added
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector, prefetch_row
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow
from fewpass.solvers.kernels.simd.row_blocks import add_four_squares
from fewpass.solvers.loss_monitor import Tell, untold
from fewpass.solvers.losses import Problem, curvature_at
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    Block,
    ExpectedPasses,
    ProblemStats,
    Sum,
    Weights,
)
from fewpass.solvers.registry import WHOLE_GRADIENTS

EPSILON = 1e-15  # of a pivot, least: what rounding may take of it
DECREASE = 1e-4  # of what the slope promises, at least
ENOUGH = 400  # rows per column that H needs
AS_DEAR = 4  # columns whose share of H costs about what a row of a gradient does
START, PER_DIGIT = 4.0, 0.7  # passes to expect


class NewtonState(NamedTuple):
    """Everything that changes; the next point is x + t p.  The intercept is the last number."""

    x: NDArray[np.float64]  # (d + 1,)
    p: NDArray[np.float64]  # (d + 1,)
    bounds: Bounds  # at x
    thinned: int  # every how manieth row counts in H
    t: float = 0.0
    slope: float = 0.0  # of f at x along p
    evaluations: int = 0
    shortened: int = 0  # steps that were


class CurvedPoint(NamedTuple):
    """Where a reduction is taken, and every how manieth row counts in H."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float
    thinned: int


class CurvedPart(NamedTuple):
    """Sums over some rows; parts add."""

    loss: float
    G: NDArray[np.float64]  # (d,) of weighted slopes times rows
    g_b: float  # the same for the constant column
    rows: int
    H: NDArray[np.float64]  # (d + 1, d + 1), its lower triangle: of curvatures times squares
    H_rows: int  # rows in it


def whole_curvature(problem: Problem, total: CurvedPart) -> NDArray[np.float64]:
    """Return the lower triangle of H."""
    H = total.H / total.H_rows
    H[np.diag_indices_from(H)] += problem.lam
    if problem.intercept:
        H[-1, -1] += problem.lam_b - problem.lam
    return H


def thinning(problem: Problem, stats: ProblemStats) -> int:
    """Every how manieth row counts in H: so few that it costs about what the gradient does."""
    if problem.loss.is_quadratic:
        return 1
    return max(1, min(stats.d // AS_DEAR, stats.n // (ENOUGH * (stats.d + 1))))


def no_curvature(at: CurvedPoint) -> CurvedPart:
    """Return the sums over no rows."""
    d = at.coef.shape[0]
    return CurvedPart(0.0, np.zeros(d), 0.0, 0, np.zeros((d + 1, d + 1)), 0)


def add_curvature(
    problem: Problem, at: CurvedPoint, block: Block, part: CurvedPart, tell: Tell = untold,
    every: int = 0,
) -> CurvedPart:  # fmt: skip
    """Add one block's loss, gradient and curvature at the given weights, in place."""
    whole = added(part, at.coef, at.intercept, problem, block, tell, every)
    few = np.ascontiguousarray(block.order[:: at.thinned])  # one kernel, whatever is left out
    add_squares(part.H, at.coef, at.intercept, problem, *block[:3], few)
    return CurvedPart(*whole, part.H, part.H_rows + few.shape[0])


#: Objective, gradient and H at some weights.
CURVED = Sum("reduce-curvature", no_curvature, add_curvature, telling=add_curvature)


class Newton(BatchMethod):
    """Newton's method: for few columns, whatever their scales."""

    needs: ClassVar[Needs] = Needs(loss="smooth", most_columns=5000, instead=WHOLE_GRADIENTS)
    sum: ClassVar[Sum] = CURVED
    states: ClassVar[tuple[type, ...]] = (NewtonState,)
    scale_free: ClassVar[bool] = True
    kind: Literal["newton"] = "newton"

    def first_state(self, problem: Problem, stats: ProblemStats) -> NewtonState:
        """Start at zero weights."""
        x, p = np.zeros(stats.d + 1), np.zeros(stats.d + 1)
        return NewtonState(x, p, Bounds(), thinning(problem, stats))

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> NewtonState:
        """Return the state whose first gradient is taken at given weights."""
        begun: NewtonState = self.init(problem, stats)
        return begun._replace(x=np.append(*weights))

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return what two vectors take, and the matrix that a reduction's spans are given."""
        return super().state_bytes(problem, stats) + 8 * (stats.d + 1) ** 2

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One pass a trial, digits doubling at the end; one more than two certifies a square."""
        if conditioning(problem, stats) is None or not tol < 1.0:
            return ExpectedPasses(None, None, 1.0)
        exact = problem.loss.is_quadratic
        usual = 2.0 if exact else START + PER_DIGIT * digits(tol)
        return ExpectedPasses(theory=None, usual=usual, reductions=1.0)

    def newest(self, state: NewtonState) -> Weights:
        """Return the point that the next sums are taken at."""
        there = state.x + state.t * state.p
        return Weights(there[:-1], float(there[-1]))

    def point(self, state: NewtonState) -> CurvedPoint:
        """Return the same, and how many rows count in H there."""
        return CurvedPoint(*self.newest(state), state.thinned)

    def weights(self, state: NewtonState) -> Weights:
        """Return the newest point that a step ended at."""
        return Weights(state.x[:-1].copy(), float(state.x[-1]))

    def is_good(self, state: NewtonState, trial: Trial) -> bool:
        """Say whether f is as low as the slope lets one expect, up to rounding."""
        promised = DECREASE * state.t * state.slope
        return trial.found.objective <= state.bounds.objective * (1.0 + RISE) + promised

    def go_on(
        self,
        problem: Problem,
        _stats: ProblemStats,
        state: NewtonState,
        trial: Trial,
        total: CurvedPart,
    ) -> NewtonState:
        """Take the new point, and the step from there."""
        g = np.append(*trial.g)
        p = -solved(whole_curvature(problem, total), g)
        return state._replace(
            x=np.append(*trial.at), p=p, t=1.0, slope=float(g @ p),
            bounds=state.bounds.moved(trial.found),
        )  # fmt: skip

    def go_back(self, state: NewtonState, trial: Trial) -> NewtonState:
        """Go half as far; first of all, look at all rows for H once more."""
        return state._replace(
            thinned=1,
            t=0.0 if state.thinned > 1 else 0.5 * state.t,
            bounds=state.bounds.stayed(trial.found),
            shortened=state.shortened + 1,
        )


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


@kernel
def solved(H: LowerTriangle, g: PerColumn) -> PerColumn:
    """Return H^-1 g by Cholesky, in the lower triangle of H, in place; sums in a fixed order."""
    x = g.copy()
    for i in range(H.shape[0]):
        for j in range(i + 1):
            left = H[i, j]
            for k in range(j):
                left -= H[i, k] * H[j, k]
            H[i, j] = left / H[j, j] if j < i else math.sqrt(max(left, EPSILON * H[i, i]))
        for j in range(i):
            x[i] -= H[i, j] * x[j]
        x[i] /= H[i, i]
    for i in range(H.shape[0] - 1, -1, -1):
        x[i] /= H[i, i]
        for j in range(i):
            x[j] -= H[i, j] * x[i]
    return x
