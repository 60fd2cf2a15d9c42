"""Newton's method by reductions, for few columns: about as many passes as digits.

    x <- x - t H^-1 grad f(x),      H = mean c_i phi''(p_i) x_i x_i^T + lam I

A pass sums objective, gradient and H; t is 1, and is halved until f decreases enough (Armijo), one
pass each time; where f has grown by powers of e, t is divided by as much as brings it within reach.
Scaling and correlation of columns, which cost other methods many passes, make no
difference.  H is d x d, so this is for up to a few hundred columns; with many times more rows, H is
summed over every k-th row of a block only (`thinning`): the gradient stays exact, and an error of H
costs a fraction of a pass.

For the squared loss H is exact, and the second pass certifies the optimum.

With an l1 penalty most weights are 0, H is of a working set of columns only, and there may be any
number of columns: working_set_newton.py.
docs/methods.md, sections 8 and 8.1.
"""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.batch.cholesky import solved
from fewpass.solvers.gradient import RISE, SUFFICIENT_DECREASE, Bounds, added
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector, prefetch_row
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow
from fewpass.solvers.kernels.simd.row_blocks import add_four_squares
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem, curvature_at
from fewpass.solvers.needs import Needs, refuse_unfit
from fewpass.solvers.protocol import Block, Part, ProblemStats, Sum, Weights, constant_weights
from fewpass.solvers.registry import WHOLE_GRADIENTS

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
CURVED = Sum("reduce-curvature", no_curvature, add_curvature, reports=True)


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


GROWTH = 6.0  # powers of e by which f may grow along a step that is then halved


class NewtonState(NamedTuple):
    """The state; the next point is x + t p.  The last number is the intercept."""

    x: NDArray[np.float64]  # (d + 1,)
    p: NDArray[np.float64]  # (d + 1,)
    bounds: Bounds  # at x
    thinned: int  # H is summed over every thinned-th row
    t: float = 0.0
    slope: float = 0.0  # of f at x along p
    evaluations: int = 0
    shortened: int = 0  # how often a step was too long


class Newton(BatchMethod):
    """Newton's method, for few columns of any scale; with an l1 penalty for any columns."""

    needs: ClassVar[Needs] = Needs(
        loss="smooth", penalty="sizes", most_columns=5000, instead=WHOLE_GRADIENTS,
        steep=True,
    )  # fmt: skip
    sum: ClassVar[Sum] = CURVED
    states: ClassVar[tuple[type, ...]] = (NewtonState,)
    scale_free: ClassVar[bool] = True
    kind: Literal["newton"] = "newton"

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Raise ValueError for a loss with a kink; penalties with one have a class of their own."""
        needs = self.needs._replace(penalty="smooth")
        refuse_unfit(self.kind, needs, problem, stats.d, stats.streams)

    def first_state(self, problem: Problem, stats: ProblemStats) -> NewtonState:
        x = self.flat(constant_weights(problem, stats.d))
        return NewtonState(x, np.zeros_like(x), Bounds(), thinning(problem, stats, stats.d))

    def at(self, state: NewtonState, weights: Weights) -> NewtonState:
        return state._replace(x=self.flat(weights))

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of two vectors, and of the matrix of a reduction."""
        return super().state_bytes(problem, stats) + 8 * (stats.d + 1) ** 2

    def flat(self, weights: Weights) -> NDArray[np.float64]:
        """Return weights as the vector of a state."""
        return np.append(*weights)

    def read(self, x: NDArray[np.float64]) -> Weights:
        """Return the weights that a vector holds."""
        return Weights(x[:-1].copy(), float(x[-1]))

    def newest(self, state: NewtonState) -> Weights:
        return self.read(state.x + state.t * state.p)

    def point(self, state: NewtonState) -> Any:
        return CurvedPoint(*self.newest(state), state.thinned)

    def weights(self, state: NewtonState) -> Weights:
        """Return the newest accepted point."""
        return self.read(state.x)

    def is_good(self, state: NewtonState, trial: Trial) -> bool:
        """Return whether f decreased enough relative to the slope, up to rounding."""
        promised = SUFFICIENT_DECREASE * state.t * state.slope
        return trial.certificate.objective <= state.bounds.objective * (1.0 + RISE) + promised

    def go_on(
        self, problem: Problem, _stats: ProblemStats, state: NewtonState, trial: Trial, total: Part
    ) -> NewtonState:
        """Accept the new point, and compute the next step."""
        g = self.flat(trial.g)
        p = -solved(self.curvature(problem, total), g)
        return state._replace(
            x=self.flat(trial.at), p=p, t=1.0, slope=float(g @ p),
            bounds=state.bounds.moved(trial.certificate),
        )  # fmt: skip

    def curvature(self, problem: Problem, total: Part) -> NDArray[np.float64]:
        """Return H, of which the lower triangle counts."""
        return whole_curvature(problem, total)

    def go_back(self, state: NewtonState, trial: Trial) -> NewtonState:
        """Shorten the step; the first time, recompute H from all rows instead.

        Unless the step is far too long: then its length is wrong, not its direction.
        """
        shortened = max(2.0, growth(state.bounds.objective, trial) / GROWTH)
        is_of_few = state.thinned > 1 and shortened == 2.0
        return state._replace(
            thinned=1,
            t=0.0 if is_of_few else state.t / shortened,
            bounds=state.bounds.stayed(trial.certificate),
            shortened=state.shortened + 1,
        )


def growth(objective: float, trial: Trial) -> float:
    """Return the logarithm of how many times larger a trial's objective is.

    Losses with a log link grow like exp(t K) along a step: it is t K, K being the unknown.
    """
    risen = (trial.certificate.objective - objective) / max(1.0, abs(objective))
    return math.log1p(min(max(risen, 0.0), sys.float_info.max))
