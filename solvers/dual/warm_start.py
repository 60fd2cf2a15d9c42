"""Dual variables for given weights: how dual coordinate ascent goes on from another model.

At weights (w, b) every row's slope is a dual variable, a_i = -s_i phi'(x_i . w + b): near the
optimum w(a) is then near w.  Far from it a may be much worse than zeros, as w(a) is -1/lam times a
gradient.  So a share theta of it is taken.  D is concave and D(0) >= 0, hence

    D(theta a)  >=  theta A - theta^2 B,      A = -(1/n) sum_i weight_i phi*(-a_i),
                                              B = (lam/2) ||w(a)||^2 + what the intercept costs

which is largest at theta = A / (2 B), if that is below 1, and never below 0.  With the intercept
charged from a centre (duality.py) this says where to begin; charged lam_b from its level, what is
proven of (w, b) itself.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import constant_column, per_row
from fewpass.solvers.dual.sdca_state import (
    RUNNING,
    START,
    SdcaState,
    note_begin,
    read_column,
    weights_of_steps,
)
from fewpass.solvers.gradient import squared
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerColumn, PerRow, RowState
from fewpass.solvers.kernels.simd.wide_rows import padded_scores
from fewpass.solvers.losses import Problem, conjugate, direction, slope, value
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, State, Sum, Weights
from fewpass.solvers.scaled_gap import dual_scale, searched


class DualsPart(NamedTuple):
    """Sums over some rows, weighted; parts add."""

    loss: float
    worth: float  # of -phi*(-a)
    V: NDArray[np.float64]  # (d,) of a s x; of several scores (d, wide)
    v_b: Any  # of a s times the constant column; (wide,)
    rows: int


def no_duals(at: Weights) -> DualsPart:
    """Return the sums over no rows."""
    return DualsPart(0.0, 0.0, np.zeros_like(at.coef), 0.0, 0)


def add_duals(problem: Problem, at: Weights, block: Block, part: DualsPart) -> DualsPart:
    """Write the dual variables of one block's rows, and add up what goes with them."""
    loss, worth, v_b = write_duals(
        part.V,
        *at,
        problem,
        *block[:4],  # type: ignore[arg-type]  # mypy loses its place after another starred tuple
        per_row(block),
    )
    rows = part.rows + block.order.shape[0]
    return DualsPart(part.loss + loss, part.worth + worth, part.V, part.v_b + v_b, rows)


#: Slopes at some weights, kept as dual variables.
SLOPES_AS_DUALS = Sum("reduce-duals", no_duals, add_duals, row_state="write")


def started_at(state: State, weights: Weights) -> State:
    """Return a first state at given weights, of one score or of K; its duals are not yet known."""
    of_scores, K = state.W.ndim > 2, np.size(weights.intercept)
    state.W[(slice(None, -1), START, *([slice(K)] if of_scores else []))] = weights.coef.T
    offset = padded_scores(weights.intercept, K) if of_scores else weights.intercept
    return state._replace(centre=state.centre._replace(offset=offset))


def begin_at_duals(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: DualsPart, sweep: int,
    step: Problem | None = None,
) -> SdcaState:  # fmt: skip
    """Begin the first pass of a state at its weights' dual variables, as many of them as help.

    The weights given are the best certified ones until a pass finds better ones.  `step` is the
    problem of the steps, where that is another one.  A proximal centre is where the dual variables
    are, or where the penalty shrinks weights, at those given.
    """
    n, b, step = total.rows, state.centre.offset, step or problem
    column, reg = constant_column(step, stats), float(np.ravel(state.proximal.charged)[-1])
    centre = column.offset(b, reg)
    w = np.concatenate([total.V, [column.unit * total.v_b]]) / (step.lam * n)
    worth = float(total.worth - np.sum(total.v_b * centre)) / n
    shift = np.asarray(state.proximal.shift)
    w[-1] /= math.sqrt(reg)  # as its charge counts
    theta = share_of_steps(step, worth, w, shift)
    w[-1] /= math.sqrt(reg)
    given = read_column(state, START)
    best = state.best.replaced(given, proven_of_given(problem, given, total))
    state.W[:, RUNNING] = theta * w + shift if state.proximal.shrinks else theta * w
    if len(state.proximal.z) and not state.proximal.shrinks:
        state.proximal.z[:-1] = theta * w[:-1]
    state.W[:, START] = weights_of_steps(step, state)
    state.shares[:] = 0.0
    state.shares[0] = theta
    return note_begin(state)._replace(
        centre=state.centre._replace(offset=centre), best=best, passes=1, row_version=sweep
    )


def share_of_steps(
    step: Problem, worth: float, w: NDArray[np.float64], shift: NDArray[np.float64]
) -> float:
    """Return the share of the dual variables that the steps best begin with."""
    if step.penalty.is_smooth:
        return best_share(worth, 0.5 * step.lam * squared(w))
    centre = np.broadcast_to(shift, w.shape)

    def loss(theta: float) -> float:
        charged = step.penalty.conjugate(step.lam * (theta * w + centre)[:-1])
        return charged + 0.5 * step.lam * (theta * float(w[-1])) ** 2 - theta * worth

    return searched(loss, 1.0)


def best_share(A: float, B: float) -> float:
    """Return the theta in [0, 1] that makes theta A - theta^2 B largest."""
    if A <= 0.0:
        return 0.0
    return min(1.0, 0.5 * A / B) if B > 0.0 else 1.0


def proven_of_given(problem: Problem, at: Weights, total: DualsPart) -> Certificate:
    """Return objective and gap of the weights that the slopes were taken at."""
    n, level, K = total.rows, np.asarray(problem.level), np.size(at.intercept)
    up, v_b = at.intercept - level, np.ravel(total.v_b)[:K] / n
    charged = 2.0 * problem.penalty.value(at.coef.ravel()) + problem.lam_b * squared(up)
    objective = total.loss / n + 0.5 * charged
    A = total.worth / n - float(np.sum(level * v_b))
    if not problem.penalty.is_smooth:
        s = total.V / n
        theta = dual_scale(problem, s, float(v_b[0]), total.worth / n)
        B = problem.penalty.conjugate(theta * s) + 0.5 * squared(theta * v_b) / problem.lam_b
        return Certificate(objective, max(0.0, objective - theta * A + B))
    B = 0.5 * squared(total.V) / (problem.lam * n * n) + 0.5 * squared(v_b) / problem.lam_b
    theta = best_share(A, B)
    return Certificate(objective, max(0.0, objective - theta * A + theta * theta * B))


@kernel
def write_duals(
    V: PerColumn, w: PerColumn, b: float, problem: Problem, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState,
) -> tuple[float, float, float]:  # fmt: skip
    """V += sum of weighted a s x; returns the sums of losses, of -phi*(-a) and of a s.

    A row's dual variable becomes the first of the numbers kept for it, the others 0.
    """
    loss, total, worth, v_b = problem.loss, 0.0, 0.0, 0.0
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        p, s = dot_vector(rows, i, w) + problem.intercept * b, direction(problem.loss, y[i])
        a = -s * slope(loss, p, y[i])
        row_state[i, :] = 0.0
        row_state[i, 0] = a
        total += weight[i] * value(loss, p, y[i])
        worth -= weight[i] * conjugate(loss, a, y[i])
        v_b += weight[i] * a * s * problem.intercept
        add_vector(rows, i, weight[i] * a * s, V)
    return total, worth, v_b
