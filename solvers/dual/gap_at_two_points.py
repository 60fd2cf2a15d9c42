"""The duality gap at two points at once: w(a), and weights nearby that may be better.

A gap at any u, a being the dual variables of w(a), is the sum of brackets of duality.py, taken at
u, plus (lam/2) ||u - w(a)||^2: no term is negative, and a second prediction per row is the cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import Centre, DualPoint, GapPart, gap_certificate, per_row
from fewpass.solvers.dual.sdca_steps import row_sums
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, dot_both, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerRow, RowState
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, Sum


class TwoPoints(NamedTuple):
    """Two weight vectors, the first of them w(a); columns end in the constant column's weight."""

    W: NDArray[np.float64]  # (d + 1, 2)
    centre: Centre
    shares: NDArray[np.float64]  # (1,) what a row's number is multiplied by for its dual variable


class PairSums(NamedTuple):
    """Sums over some rows at two points, weighted; parts add."""

    losses: NDArray[np.float64]
    gaps: NDArray[np.float64]
    rows: int


def no_gaps(_at: TwoPoints) -> PairSums:
    """Return the sums over no rows."""
    return PairSums(np.zeros(2), np.zeros(2), 0)


def add_gaps(problem: Problem, at: TwoPoints, block: Block, part: PairSums) -> PairSums:
    """Add one block's losses and brackets."""
    m = block.order.shape[0]
    sums = sum_both(at, problem, *block[:4], per_row(block), 0, m)
    return PairSums(part.losses + sums[:2], part.gaps + sums[2:], part.rows + m)


#: Losses and brackets at both points, every row's dual variable being read.
GAP_AT_TWO_POINTS = Sum("reduce-gap", no_gaps, add_gaps, row_state="read")


def better_of_both(
    problem: Problem, at: TwoPoints, b_dual: float, total: PairSums
) -> tuple[Certificate, DualPoint]:
    """Return the point of the smaller objective, and what the sums over all rows prove of it.

    `b_dual` is b(a), the intercept that goes with the dual variables under lam_b alone.
    """
    pairs = []
    for k in range(2):
        point = DualPoint(at.W[:-1, k], at.centre.intercept(at.W[-1, k]), at.shares)
        difference = at.W[:-1, k] - at.W[:-1, 0]
        gap = total.gaps[k] + 0.5 * problem.lam * float(difference @ difference) * total.rows
        part = GapPart(float(total.losses[k]), float(gap), total.rows)
        pairs.append((gap_certificate(problem, point, b_dual, part), point))
    return min(pairs, key=lambda pair: pair[0].objective)


@kernel
def sum_both(
    at: TwoPoints, problem: Problem, rows: Rows, y: PerRow, weight: PerRow, order: Order,
    row_state: RowState, start: int, stop: int,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Weighted losses at both points over order[start:stop], then the brackets of the gap."""
    loss, d = problem.loss, at.W.shape[0] - 1
    column, shift = problem.intercept * at.centre.unit, problem.intercept * at.centre.offset
    loss_0, loss_1, gap_0, gap_1 = 0.0, 0.0, 0.0, 0.0
    for r in range(start, stop):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        p_0, p_1 = dot_both(rows, i, at.W)
        p_0 += column * at.W[d, 0] + shift
        p_1 += column * at.W[d, 1] + shift
        a = at.shares[0] * row_state[i, 0]
        first, second, third, fourth = row_sums(loss, a, y[i], weight[i], p_0, p_1)
        loss_0 += first
        gap_0 += second
        loss_1 += third
        gap_1 += fourth
    return loss_0, loss_1, gap_0, gap_1
