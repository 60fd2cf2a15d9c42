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
number of columns: working_set.py has that state, its sums and its steps.
docs/methods.md, sections 8 and 8.1.
"""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.batch.batch_method import BatchMethod, Trial
from fewpass.solvers.batch.cholesky import EPSILON, solved_in_tiles, substitute
from fewpass.solvers.batch.working_set import (
    MOST_SET,
    SetState,
    absorbed,
    first_set_state,
    newest_of,
    point_of,
    refuse_crowded,
    started,
    started_at,
)
from fewpass.solvers.batch.working_set_sums import SetPart, SetPoint, add_sums, no_sums
from fewpass.solvers.estimates.expected_passes import conditioning, digits
from fewpass.solvers.gradient import RISE, SUFFICIENT_DECREASE, Bounds, added
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector, prefetch_row
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow
from fewpass.solvers.kernels.simd.row_blocks import add_four_squares
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem, curvature_at
from fewpass.solvers.needs import Needs, refuse_unfit
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    ExpectedPasses,
    Part,
    ProblemStats,
    Sum,
    Sweep,
    Walk,
    Weights,
)
from fewpass.solvers.registry import WHOLE_GRADIENTS

GROWTH = 6.0  # powers of e by which f may grow along a step that is then halved
ENOUGH = 400  # rows per column for H
LARGE = 1000  # columns from which on H is factored tile by tile
AS_DEAR = 4  # columns whose part of H costs about as much as a row of a gradient
START, PER_DIGIT = 4.0, 0.7  # expected passes, ...
WITH_L1, EXACT_WITH_L1 = 8.0, 4.0  # ... and in place of the first with an l1 penalty


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


def thinning(problem: Problem, stats: ProblemStats) -> int:
    """Return k if H is summed over every k-th row: it then costs about as much as the gradient."""
    if problem.loss.is_quadratic:
        return 1
    return max(1, min(stats.d // AS_DEAR, stats.n // (ENOUGH * (stats.d + 1))))


def no_curvature(at: CurvedPoint | SetPoint) -> CurvedPart | SetPart:
    """Return the zero of the sums."""
    if isinstance(at, SetPoint):
        return no_sums(at)
    d = at.coef.shape[0]
    return CurvedPart(0.0, np.zeros(d), 0.0, 0, np.zeros((d + 1, d + 1)), 0)


def add_curvature(
    problem: Problem, at: CurvedPoint | SetPoint, block: Block, part: Any,
    report: ReportLosses = ignore_losses, every: int = 0,
) -> CurvedPart | SetPart:  # fmt: skip
    """Add one block's loss, gradient and curvature at the given weights, in place."""
    if isinstance(at, SetPoint):
        return add_sums(problem, at, block, part, report, every)
    whole = added(part, at.coef, at.intercept, problem, block, report, every)
    few = np.ascontiguousarray(
        block.order[:: at.thinned]
    )  # contiguous: one kernel for any thinning
    add_squares(part.H, at.coef, at.intercept, problem, *block[:3], few)
    return CurvedPart(*whole, part.H, part.H_rows + few.shape[0])


#: Objective, gradient and H at a point.
CURVED = Sum("reduce-curvature", no_curvature, add_curvature, telling=add_curvature)


def first_of(_problem: Problem, _stats: ProblemStats, states: list[SetState]) -> SetState:
    """Return the first stream's start: one is enough."""
    return states[0]


def nothing_to_say(_state: SetState) -> dict[str, float]:
    """Return no metrics: a start is no progress to draw."""
    return {}


def rows_left(state: SetState) -> int:
    """Return how many rows the start is made of."""
    return state.rows_left


def needs_no_start(state: NewtonState | SetState) -> bool:
    """Whether a state has weights to begin with, or begins at 0."""
    return not isinstance(state, SetState) or state.rows_left == 0


#: Weights of the first rows, before the first pass with an l1 penalty.
FIRST_ROWS = Walk(
    name="walk-first-rows",
    step=started,
    join=first_of,
    order="stored",
    metrics=nothing_to_say,
    rows=rows_left,
    skips=needs_no_start,
)


class Newton(BatchMethod):
    """Newton's method, for few columns of any scale; with an l1 penalty for any columns."""

    needs: ClassVar[Needs] = Needs(
        loss="smooth", penalty="sizes", most_columns=5000, instead=WHOLE_GRADIENTS,
        any_level=True, steep=True,
    )  # fmt: skip
    sum: ClassVar[Sum] = CURVED
    states: ClassVar[tuple[type, ...]] = (NewtonState, SetState)
    scale_free: ClassVar[bool] = True
    kind: Literal["newton"] = "newton"

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Raise ValueError for a loss with a kink; with an l1 penalty columns are unlimited."""
        needs = self.needs if problem.penalty.is_smooth else self.needs._replace(most_columns=None)
        refuse_unfit(self.kind, needs, problem, stats.d, stats.streams)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        passes = super().program(epoch)
        return (FIRST_ROWS, *passes) if epoch == 0 else passes

    def first_state(self, problem: Problem, stats: ProblemStats) -> NewtonState | SetState:
        if not problem.penalty.is_smooth:
            return first_set_state(problem, stats)
        x, p = np.append(np.zeros(stats.d), problem.level), np.zeros(stats.d + 1)
        return NewtonState(x, p, Bounds(), thinning(problem, stats))

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> NewtonState | SetState:
        begun: NewtonState | SetState = self.init(problem, stats)
        x = np.append(*weights)
        if isinstance(begun, SetState):
            return started_at(problem.penalty, begun, x)
        return begun._replace(x=x)

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of two vectors, and of the matrix of a reduction."""
        columns = stats.d if problem.penalty.is_smooth else min(stats.d, MOST_SET)
        return super().state_bytes(problem, stats) + 8 * (columns + 1) ** 2

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """One pass per trial, digits doubling at the end; two passes for a quadratic."""
        exact = problem.loss.is_quadratic
        if not problem.penalty.is_smooth and tol < 1.0:
            first = EXACT_WITH_L1 if exact else WITH_L1 + PER_DIGIT * digits(tol)
            return ExpectedPasses(None, first, 1.0)
        has_estimate = problem.loss.is_steep or conditioning(problem, stats) is not None
        if not has_estimate or not tol < 1.0:
            return ExpectedPasses(None, None, 1.0)
        usual = 2.0 if exact else START + PER_DIGIT * digits(tol)
        return ExpectedPasses(theory=None, usual=usual, reductions=1.0)

    def absorb(
        self, problem: Problem, stats: ProblemStats, state: NewtonState | SetState, total: Part,
        sweep: int,
    ) -> NewtonState | SetState:  # fmt: skip
        """Accept the point of a pass or not, and take the next step."""
        if isinstance(state, SetState):
            moved = absorbed(problem, stats, state, total)
            refuse_crowded(moved)
            return moved
        after: NewtonState = super().absorb(problem, stats, state, total, sweep)
        return after

    def certificate(self, state: NewtonState | SetState) -> Certificate | None:
        """Return the bounds, and of how many columns it is proven that their weight is 0."""
        proven = super().certificate(state)
        if proven is None or not isinstance(state, SetState):
            return proven
        return proven._replace(zeros=state.zeros)

    def newest(self, state: NewtonState | SetState) -> Weights:
        if isinstance(state, SetState):
            return newest_of(state)
        there = state.x + state.t * state.p
        return Weights(there[:-1], float(there[-1]))

    def point(self, state: NewtonState | SetState) -> CurvedPoint | SetPoint:
        if isinstance(state, SetState):
            return point_of(state)
        return CurvedPoint(*self.newest(state), state.thinned)

    def weights(self, state: NewtonState | SetState) -> Weights:
        """Return the newest accepted point."""
        return Weights(state.x[:-1].copy(), float(state.x[-1]))

    def is_good(self, state: NewtonState, trial: Trial) -> bool:
        """Whether f decreased enough relative to the slope, up to rounding."""
        promised = SUFFICIENT_DECREASE * state.t * state.slope
        return trial.certificate.objective <= state.bounds.objective * (1.0 + RISE) + promised

    def go_on(
        self,
        problem: Problem,
        _stats: ProblemStats,
        state: NewtonState,
        trial: Trial,
        total: CurvedPart,
    ) -> NewtonState:
        """Accept the new point, and compute the next step."""
        g = np.append(*trial.g)
        step = solved if g.size <= LARGE else solved_in_tiles
        p = -step(whole_curvature(problem, total), g)
        return state._replace(
            x=np.append(*trial.at), p=p, t=1.0, slope=float(g @ p),
            bounds=state.bounds.moved(trial.certificate),
        )  # fmt: skip

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
    """Return H^-1 g by Cholesky factorisation in place, the sums in a fixed order."""
    x = g.copy()
    for i in range(H.shape[0]):
        for j in range(i + 1):
            left = H[i, j]
            for k in range(j):
                left -= H[i, k] * H[j, k]
            H[i, j] = left / H[j, j] if j < i else math.sqrt(max(left, EPSILON * H[i, i]))
    substitute(H, x)
    return x
