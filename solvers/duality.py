"""The dual problem, and what a pass over the data proves with it.

    w(a) = (1/(lam n)) sum_i weight_i a_i s_i x_i,   s_i = y_i, or 1 for the squared loss
    D(a) = -(1/n) sum_i weight_i phi*(-a_i) - (lam/2) ||w(a)||^2

D is never above the optimum, whatever a is, and at w = w(a)

    f(w) - D(a) = (1/n) sum_i weight_i [ phi(p_i) + phi*(-a_i) + a_i s_i p_i ],   p_i = x_i . w

where no term is negative: summed like this, a gap of 1e-19 is still seen, while a difference ends
at 1e-16.  At any other weights w the gap is that sum, taken there, plus (lam/2) ||w - w(a)||^2.

The intercept is the weight of one more, constant column.  Charged lam / 100, the column would be
ten times as long as a unit row, every row would point its way, and steps would be slow.  It is
charged more (lam_p) for its distance from a centre, which follows it from pass to pass: a proximal
point method for one weight, whose steps are nearly whole as lam_p is far below the curvature of
the loss.  With b(a) under lam_b alone, a gap at any intercept b is the sum above, taken there, plus
(lam_b/2) (b - b(a))^2.

Dual variables are kept per row as k numbers, of which a_i is the sum weighted by `shares`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.dispatch import kernel, part_of_kernels
from solvers.losses import Problem, conjugate, direction, value
from solvers.prefetch import touch_line
from solvers.protocol import Block, Certificate, Facts, Sum
from solvers.rows import LOOK_AHEAD, add, add_vector, dot_vector, look_ahead

ROUNDING = 1e-15  # of a gap that is a difference, relative to the objective


class Column(NamedTuple):
    """The constant column, scaled so that its weight v is charged lam; intercept = unit v + kept c.

    c is the centre.
    """

    value: float  # in every row; 0 for no intercept
    unit: float
    kept: float  # 1 - lam_b / lam_p


def constant_column(problem: Problem, facts: Facts, least: float = 0.0) -> Column:
    """Return the column: no longer than a typical row, shorter where lam_p has to be `least`."""
    if problem.intercept == 0.0:
        return Column(0.0, 0.0, 0.0)
    typical = problem.lam * problem.intercept**2 / (facts.mean_square or 1.0)
    charge = max(problem.lam_b, typical, least)
    unit = math.sqrt(problem.lam / charge)
    return Column(problem.intercept * unit, unit, 1.0 - problem.lam_b / charge)


class DualPoint(NamedTuple):
    """Weights, and how the dual variables that they come from are kept."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float
    shares: NDArray[np.float64]  # (k,)


class GapPart(NamedTuple):
    """Sums over some rows, weighted; parts add."""

    loss: float
    gap: float  # of the brackets
    rows: int


def no_gap(_at: DualPoint) -> GapPart:
    """Return the sums over no rows."""
    return GapPart(0.0, 0.0, 0)


def add_gap(problem: Problem, at: DualPoint, block: Block, part: GapPart) -> GapPart:
    """Add one block's loss and brackets, dual variables read from its row state."""
    loss, gap = sum_brackets(problem, *at, *block[:4], per_row(block))
    return GapPart(part.loss + loss, part.gap + gap, part.rows + block.order.shape[0])


#: Loss and duality gap at w(a), every row's dual variable being read.
GAP = Sum("gather-gap", no_gap, add_gap, row_state="read")


def gap_certificate(
    problem: Problem, at: DualPoint, b_dual: float, total: GapPart, away: float = 0.0
) -> Certificate:
    """Turn the sums over all rows, taken at any weights and intercept, into objective and gap.

    `b_dual` is b(a), the intercept that goes with the dual variables under lam_b alone, and `away`
    the square of the weights' distance from w(a).
    """
    square = problem.lam * float(at.coef @ at.coef) + problem.lam_b * at.intercept**2
    far = problem.lam * away + problem.lam_b * (at.intercept - b_dual) ** 2
    gap = total.gap / total.rows + 0.5 * far
    return Certificate(total.loss / total.rows + 0.5 * square, max(0.0, gap))


def lowered_gap(known: Certificate, found: Certificate) -> float:
    """Gap of weights with a certificate, now that another one is known: D has been as high.

    By how much D has risen since is known as a difference only.
    """
    higher = (found.objective - found.gap) - (known.objective - known.gap)
    gap = max(0.0, known.gap - max(0.0, higher)) + ROUNDING * abs(known.objective)
    return min(gap, known.gap)


def per_row(block: Block) -> NDArray[np.float64]:
    """See a block's row state as (n, k), whatever k is."""
    return block.row_state.reshape(block.y.shape[0], -1)


@part_of_kernels
def look_ahead_kept(kept: Any, order: Any, r: Any) -> None:
    """Ask the memory for the numbers of a row to come, as `look_ahead` does for the row."""
    touch_line(kept, order[min(r + LOOK_AHEAD, order.shape[0] - 1)] * kept.shape[1])


@kernel
def dual_variable(kept: Any, i: Any, shares: Any) -> Any:
    """a_i out of the numbers that are kept."""
    a = shares[0] * kept[i, 0]
    for k in range(1, shares.shape[0]):
        a += shares[k] * kept[i, k]
    return a


@kernel
def sum_brackets(
    problem: Any, w: Any, b: Any, shares: Any,
    rows: Any, y: Any, weight: Any, order: Any, kept: Any,
) -> Any:  # fmt: skip
    """Sums of the weighted losses and brackets of the rows."""
    loss, total, gap = problem.loss, 0.0, 0.0
    for r in range(order.shape[0]):
        i = order[r]
        look_ahead(rows, y, weight, order, r)
        look_ahead_kept(kept, order, r)
        a = dual_variable(kept, i, shares)
        p = dot_vector(rows, i, w) + problem.intercept * b
        phi = value(loss, p, y[i])
        total += weight[i] * phi
        gap += weight[i] * (phi + conjugate(loss, a, y[i]) + a * direction(loss, y[i]) * p)
    return total, gap


@kernel
def keep_step(kept: Any, i: Any, a: Any, delta: Any) -> Any:
    """Write a row's dual variable: as one number, or as what it was and how it moves."""
    if kept.shape[1] == 1:
        kept[i, 0] = a + delta
    else:
        kept[i, 0] = a
        kept[i, 1] = delta


@kernel
def move_weights(
    rows: Any, i: Any, step: Any, fresh: Any, column: Any, running: Any, anew: Any
) -> Any:
    """Add a row, constant column included, to `running` (d + 1, 1) and to `anew` (d + 1,)."""
    d = anew.shape[0] - 1
    if step != 0.0:
        add(rows, i, step, running)
        running[d, 0] += step * column
    if fresh != 0.0:
        add_vector(rows, i, fresh, anew)
        anew[d] += fresh * column
