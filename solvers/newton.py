"""Newton's method over gathers: for few columns, in as few passes as there are digits.

    x <- x - t H^-1 grad f(x),      H = mean c_i phi''(p_i) x_i x_i^T + lam I

A pass adds up objective, gradient and H together; t is 1, and is halved while f has not fallen as
it should (Armijo), a pass each time.  How the columns are scaled and how they go together makes no
difference, which is what other methods pay their passes for.  H is d x d, so this is for up to a
few hundred columns; where shuffled rows are many times more, every k-th of a block stands for all
in H (`thinning`): the gradient stays exact, and an error of H costs a fraction of a pass.

Under the squared loss H knows everything, and the second pass certifies the optimum.
docs/methods.md, section 8.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.dispatch import kernel
from solvers.gradient import RISE, GradientPart, add_slopes, certificate, tightened
from solvers.losses import Problem, Squared, curvature_at
from solvers.protocol import (
    Block,
    Certificate,
    Facts,
    Gather,
    Settings,
    Sum,
    Weights,
    array_bytes,
)
from solvers.rows import add_vector, dot_vector, look_ahead
from solvers.rows_at_once import add_four_squares
from solvers.smoothness import refuse_kink

EPSILON = 1e-15  # of a pivot, least: what rounding may take of it
DECREASE = 1e-4  # of what the slope promises, at least
MOST_COLUMNS = 5000
ENOUGH = 400  # rows per column that H needs
AS_DEAR = 4  # columns whose share of H costs about what a row of a gradient does


class NewtonState(NamedTuple):
    """Everything that changes; the next point is x + t p.  The intercept is the last number."""

    x: NDArray[np.float64]  # (d + 1,)
    p: NDArray[np.float64]  # (d + 1,)
    t: float
    slope: float  # of f at x along p
    thinned: int  # every how manieth row counts in H
    evaluations: int
    shortened: int  # steps that were
    objective: float  # at x
    gap: float  # at most this far is x above the optimum
    lower: float  # the optimum is not below


class CurvedPoint(NamedTuple):
    """Where a gather is taken, and every how manieth row counts in H."""

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


class Newton(Settings):
    """Newton's method: for few columns, whatever their scales."""

    kind: Literal["newton"] = "newton"

    @property
    def states(self) -> tuple[type, ...]:
        """One type throughout."""
        return (NewtonState,)

    def init(self, problem: Problem, facts: Facts) -> NewtonState:
        """Start at zero weights; ValueError for the plain hinge and for thousands of columns."""
        refuse_kink(problem)
        if facts.d > MOST_COLUMNS:
            raise ValueError(
                f"Newton's method keeps a matrix of columns by columns, and there are {facts.d} "
                f"columns, more than {MOST_COLUMNS}. Take lbfgs."
            )
        zero = np.zeros(facts.d + 1)
        return NewtonState(
            zero, zero.copy(), t=0.0, slope=0.0, thinned=thinning(problem, facts), evaluations=0,
            shortened=0, objective=0.0, gap=0.0, lower=0.0,
        )  # fmt: skip

    def start_at(
        self,
        problem: Problem,
        facts: Facts,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> NewtonState:
        """Return the state whose first gradient is taken at given weights."""
        return self.init(problem, facts)._replace(x=np.append(*weights))

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what two vectors take, and the matrix that goes where a state goes in a gather."""
        return array_bytes(self.init(problem, facts)) + 8 * (facts.d + 1) ** 2

    def program(self, epoch: int) -> tuple[Gather, ...]:  # noqa: ARG002
        """One trial."""
        return (Gather(CURVED, self.trial, self.absorb),)

    def trial(self, state: NewtonState) -> CurvedPoint:
        """Return the point that the next sums are taken at."""
        there = state.x + state.t * state.p
        return CurvedPoint(there[:-1], float(there[-1]), state.thinned)

    def weights(self, state: NewtonState) -> Weights:
        """Return the newest point that a step ended at."""
        return Weights(state.x[:-1].copy(), float(state.x[-1]))

    def certificate(self, state: NewtonState) -> Certificate | None:
        """Return what the gradients proved."""
        return Certificate(state.objective, state.gap) if state.evaluations > 0 else None

    def absorb(
        self,
        problem: Problem,
        facts: Facts,  # noqa: ARG002
        state: NewtonState,
        total: CurvedPart,
        sweep: int,  # noqa: ARG002
    ) -> NewtonState:
        """Go on from a point where f has fallen, or half as far."""
        at = self.trial(state)
        found = certificate(problem, Weights(at.coef, at.intercept), GradientPart(*total[:4]))
        gap, lower = tightened(found, state.lower)
        state = state._replace(lower=lower, evaluations=state.evaluations + 1)
        if state.evaluations > 1 and not has_fallen(state, found.objective):
            gap = min(state.gap, state.objective * (1.0 + RISE) - lower)
            return go_back(state._replace(gap=gap, shortened=state.shortened + 1))
        g = whole_gradient(problem, at, total)
        p = -solved(whole_curvature(problem, total), g)
        return state._replace(
            x=np.append(at.coef, at.intercept),
            p=p,
            t=1.0,
            slope=float(g @ p),
            objective=found.objective,
            gap=gap,
        )


def has_fallen(state: NewtonState, f: float) -> bool:
    """Say whether f is as low as the slope lets one expect, up to rounding."""
    return f <= state.objective * (1.0 + RISE) + DECREASE * state.t * state.slope


def go_back(state: NewtonState) -> NewtonState:
    """Go half as far; first of all, look at all rows for H once more."""
    return state._replace(thinned=1, t=0.0 if state.thinned > 1 else 0.5 * state.t)


def whole_gradient(problem: Problem, at: CurvedPoint, total: CurvedPart) -> NDArray[np.float64]:
    """Return the gradient of the objective as d + 1 numbers."""
    g_b = total.g_b / total.rows + problem.lam_b * at.intercept
    return np.append(total.G / total.rows + problem.lam * at.coef, g_b)


def whole_curvature(problem: Problem, total: CurvedPart) -> NDArray[np.float64]:
    """Return the lower triangle of H."""
    H = total.H / total.H_rows
    H[np.diag_indices_from(H)] += problem.lam
    if problem.intercept:
        H[-1, -1] += problem.lam_b - problem.lam
    return H


def thinning(problem: Problem, facts: Facts) -> int:
    """Every how manieth row counts in H: so few that it costs about what the gradient does."""
    if isinstance(problem.loss, Squared) or not facts.shuffled:
        return 1
    return max(1, min(facts.d // AS_DEAR, facts.n // (ENOUGH * (facts.d + 1))))


def no_curvature(at: CurvedPoint) -> CurvedPart:
    """Return the sums over no rows."""
    d = at.coef.shape[0]
    return CurvedPart(0.0, np.zeros(d), 0.0, 0, np.zeros((d + 1, d + 1)), 0)


def add_curvature(problem: Problem, at: CurvedPoint, block: Block, part: CurvedPart) -> CurvedPart:
    """Add one block's loss, gradient and curvature at the given weights, in place."""
    loss, g_b = add_slopes(part.G, at.coef, at.intercept, problem, *block)
    rows, few = block.order.shape[0], block.order[:: at.thinned]
    add_squares(part.H, at.coef, at.intercept, problem, *block[:3], few)
    return CurvedPart(
        part.loss + loss, part.G, part.g_b + g_b, part.rows + rows, part.H,
        part.H_rows + few.shape[0],
    )  # fmt: skip


#: Objective, gradient and H at some weights.
CURVED = Sum("gather-curvature", no_curvature, add_curvature)


@kernel
def add_squares(
    H: Any, w: Any, b: Any, problem: Any, rows: Any, y: Any, weight: Any, order: Any
) -> Any:
    """H += weighted curvatures times squares of the rows, constant column last."""
    loss, intercept, d, last = problem.loss, problem.intercept, w.shape[0], order.shape[0] - 1
    four, c = np.empty(4, np.int64), np.empty(4)
    for start in range(0, order.shape[0], 4):
        for k in range(4):
            four[k] = i = order[min(start + k, last)]
            look_ahead(rows, y, weight, order, min(start + k, last))
            p = dot_vector(rows, i, w) + intercept * b
            c[k] = weight[i] * curvature_at(loss, p, y[i]) if start + k <= last else 0.0
            if intercept != 0.0 and c[k] != 0.0:
                add_vector(rows, i, c[k] * intercept, H[d])
                H[d, d] += c[k] * intercept * intercept
        if c[0] != 0.0 or c[1] != 0.0 or c[2] != 0.0 or c[3] != 0.0:
            add_four_squares(rows, four, 0, c, H)


@kernel
def solved(H: Any, g: Any) -> Any:
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
