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
(lam_b/2) (b - b(a))^2.  Where the charge lam_b is on the distance from a level b_0,

    b(a) = b_0 + s_b/lam_b,   D(a) = .. - s_b^2/(2 lam_b) - b_0 s_b,   s_b = mean weight_i a_i s_i

and what the intercept moves to with a centre c is drawn to b_0 with the share lam_b / lam_p.

A row's dual variable is kept as one number, or where several streams step as what it was before a
pass, how it moved, and the round that it was stepped in, of which `shares` says how much counts.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels, reading_part
from fewpass.solvers.kernels.prefetch import prefetch_line
from fewpass.solvers.kernels.rows import (
    PREFETCH_ROWS,
    Rows,
    add,
    add_scaled,
    add_vector,
    dot_vector,
    norm2,
    norm2_scaled,
    prefetch_row,
)
from fewpass.solvers.kernels.shapes import Order, PerColumn, PerRow, RowState, Shares, SideBySide
from fewpass.solvers.losses import Problem, bracket, conjugate, value
from fewpass.solvers.losses.wide_loss import level_of_scores
from fewpass.solvers.protocol import Block, Certificate, Mispaired, ProblemStats, Sum, Weights

LARGEST = 1e300
LONGEST = 10.0  # square of the constant column, at most: it is in every row, however long they are
MOST_CHARGED = 1e200  # times lam_b: lam_p stays a number, however short the rows
#: How much more than others column j gains of a step: g (d + 1,); None where all gain alike, which
#: is known when a kernel is compiled: asked in every step it costs an eighth of a dense row.
Gains = PerColumn | None
ROUNDING = 1e-15  # of a gap that is a difference, relative to the objective
#: Of the numbers per row of several streams, after what the dual variable was: how it moved in the
#: newest pass, in which of its rounds, and what the row has along V (merging.py).
MOVE, ROUND, ALONG_ROW = 1, 2, 3
STREAM_NUMBERS = 4


class Column(NamedTuple):
    """The constant column, scaled so that its weight v is charged lam; intercept = unit v + kept c.

    c is the centre.
    """

    value: float  # in every row; 0 for no intercept
    unit: float
    ratio: float  # lam_b / lam_p, which may be far below the rounding of `row_state`
    level: Any = 0.0  # b_0; of several scores (wide,)

    def offset(self, centre: Any, r: float = 1.0) -> Any:
        """Return the intercept's part that does not depend on v: with this centre, and r lam_p."""
        ratio = self.ratio / r
        return (1.0 - ratio) * centre + ratio * self.level

    def under_lam_b(self, v: Any) -> Any:
        """Return b(a), the intercept that goes with the dual variables under lam_b alone."""
        return self.unit * v / self.ratio + self.level


def constant_column(problem: Problem, stats: ProblemStats, least: float = 0.0) -> Column:
    """Return the column: no longer than a typical row, shorter where lam_p has to be `least`."""
    return column_of_rows(problem, stats.mean_square, least)


def column_of_rows(problem: Problem, mean_square: float, least: float) -> Column:
    """Return the same for rows of this mean ||x||^2."""
    if problem.intercept == 0.0:
        return Column(0.0, 0.0, 1.0)
    typical = problem.lam * problem.intercept**2 / min(mean_square or 1.0, LONGEST)
    charge = max(problem.lam_b, min(typical, MOST_CHARGED * problem.lam_b, LARGEST), least)
    unit = math.sqrt(problem.lam / charge)
    level = level_of_scores(problem) if problem.loss.width > 1 else problem.level
    return Column(problem.intercept * unit, unit, problem.lam_b / charge, level)


class Centre(NamedTuple):
    """The relation of the constant column's weight v to the intercept: unit v + offset.

    Of several scores v and offset are arrays (wide,), padded as in wide_rows.py.
    """

    unit: float
    offset: Any = 0.0

    def intercept(self, v: Any) -> Any:
        """Return the intercept."""
        return self.unit * (v if np.ndim(v) else float(v)) + self.offset

    def weights(self, w: NDArray[np.float64], K: int = 1) -> Weights:
        """Read weights out of a vector (d + 1,) that ends in v; coef sees it.

        Or those of K scores out of w (d + 1, wide): coef (K, d), intercept (K,).
        """
        if w.ndim == 1:
            return Weights(w[:-1], self.intercept(w[-1]))
        return Weights(w[:-1, :K].T, self.intercept(w[-1])[:K])


class DualPoint(NamedTuple):
    """Weights, and how the dual variables that they come from are kept."""

    coef: NDArray[np.float64]  # (d,), or (K, d) of several scores
    intercept: Any  # a number, or (K,)
    shares: NDArray[np.float64]  # (1,), or (1 + m,)


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
    # mypy loses its place in the second of two starred tuples.
    loss, gap = sum_brackets(problem, *at, *block[:4], per_row(block))  # type: ignore[arg-type]
    return GapPart(part.loss + loss, part.gap + gap, part.rows + block.order.shape[0])


#: Loss and duality gap at w(a), every row's dual variable being read.
GAP = Sum("reduce-gap", no_gap, add_gap, row_state="read")


def gap_certificate(
    problem: Problem, at: DualPoint, b_dual: Any, total: GapPart, away: float = 0.0
) -> Certificate:
    """Turn the sums over all rows, taken at any weights and intercept, into objective and gap.

    `b_dual` is b(a), the intercept that goes with the dual variables under lam_b alone, and `away`
    lam times the square of the weights' distance from w(a), or twice the penalty's brackets.
    Non-finite values become `LARGEST`.
    """
    difference, up = at.intercept - b_dual, at.intercept - np.asarray(problem.level)
    charged = float(np.sum(problem.lam_b * up * up))
    square = 2.0 * problem.penalty.value(at.coef.ravel()) + charged
    far = away + float(np.sum(problem.lam_b * difference * difference))
    gap = min(LARGEST, total.gap / total.rows + 0.5 * far)
    objective = min(LARGEST, total.loss / total.rows + 0.5 * square)
    return Certificate(objective, max(0.0, gap))


def lowered_gap(own: Certificate, other: Certificate) -> float:
    """Gap of weights with a certificate, now that another one is known: D has been as high.

    By how much D has risen since is known as a difference only, and where the known gap is far
    larger than the objective not even that: then the distance to D itself is the better bound.
    """
    sizes = abs(own.objective), abs(other.objective), other.gap
    D = other.objective - other.gap
    risen = max(0.0, D - (own.objective - own.gap))
    by_rise = max(0.0, own.gap - risen) + ROUNDING * max(*sizes, own.gap)
    by_distance = max(0.0, own.objective - D) + ROUNDING * max(sizes)
    return min(own.gap, by_rise, by_distance)


def require_pair(
    problem: Problem, w: NDArray[np.float64], duals: NDArray[np.float64], loss: float
) -> None:
    """Refuse weights w, constant column included, that are not w(a) but for rounding.

    A gap that was summed at w is wrong by (lam/2) ||w - w(a)||^2: what matters is refused.  Weights
    that have left all bounds are for others to find.

    Parameters
    ----------
    w, duals
        (d + 1,) the weights, and w(a) as added up from the dual variables that were read.
    loss
        Mean over the rows: with (lam/2) ||w||^2 the size that rounding is relative to.

    Raises
    ------
    Mispaired
        When a certificate would be wrong by more than `ROUNDING`.
    """
    w, difference, square = w.ravel(), (w - duals).ravel(), 0.5 * problem.lam
    wrong, size = square * float(difference @ difference), loss + square * float(w @ w)
    if math.isfinite(wrong) and wrong > ROUNDING * max(1.0, size):
        raise Mispaired(
            "The dual variables that were read are not those of the weights: the certificate "
            f"would be wrong by {wrong:.2g}. Row numbers of another time lie in the run's folder. "
            "Delete its newest snapshots to go on from one before, or train again."
        )


def per_row(block: Block) -> NDArray[np.float64]:
    """See a block's row state as (n, k), whatever k is."""
    return block.row_state.reshape(block.y.shape[0], -1)


@part_of_kernels
def prefetch_resident(row_state: RowState, order: Order, r: int) -> None:
    """Prefetch the numbers of a later row, as `prefetch_row` does the row."""
    prefetch_line(row_state, order[min(r + PREFETCH_ROWS, order.shape[0] - 1)] * row_state.shape[1])


@reading_part
def dual_variable(row_state: RowState, i: int, shares: Shares) -> float:
    """a_i out of the numbers that are kept; of several streams its round tells the share."""
    a = shares[0] * row_state[i, 0]
    if shares.shape[0] > 1:
        a += shares[1 + int(row_state[i, ROUND])] * row_state[i, MOVE]
    return a  # type: ignore[no-any-return]


@kernel
def sum_brackets(
    problem: Problem, w: PerColumn, b: float, shares: Shares, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState,
) -> tuple[float, float]:  # fmt: skip
    """Sums of the weighted losses and brackets of the rows."""
    loss, total, gap = problem.loss, 0.0, 0.0
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        a = dual_variable(row_state, i, shares)
        p = dot_vector(rows, i, w) + problem.intercept * b
        phi = value(loss, p, y[i])
        total += weight[i] * phi
        gap += weight[i] * bracket(loss, a, p, y[i], phi, conjugate(loss, a, y[i]))
    return total, gap


@kernel
def store_step(row_state: RowState, i: int, a: float, delta: float, round_of_pass: float) -> None:
    """Write a row's dual variable: as one number, or as what it was, how it moves, and when."""
    if row_state.shape[1] == 1:
        row_state[i, 0] = a + delta
    else:
        row_state[i, 0] = a
        row_state[i, MOVE] = delta
        row_state[i, ROUND] = round_of_pass


@reading_part
def square_of(rows: Rows, i: int, column: float, g: Gains) -> float:
    """Sum over the columns of g_j x_ij^2, constant column included; 1 each if g is None."""
    at_column = column * column
    if g is None:
        return norm2(rows, i) + at_column  # type: ignore[no-any-return]
    return norm2_scaled(rows, i, g) + g[g.shape[0] - 1] * at_column  # type: ignore[no-any-return]


@kernel
def move_weights(
    rows: Rows, i: int, step: float, fresh: float, column: float, running: SideBySide,
    anew: PerColumn, g: Gains,
) -> None:  # fmt: skip
    """Add a row, constant column included, to `running` (d + 1, 1) and to `anew` (d + 1,).

    `running` gains g_j times as much in column j, or as much if g is None.
    """
    d = anew.shape[0] - 1
    if step != 0.0:
        if g is None:
            add(rows, i, step, running)
            running[d, 0] += step * column
        else:
            add_scaled(rows, i, step, running, g)
            running[d, 0] += step * g[d] * column
    if fresh != 0.0:
        add_vector(rows, i, fresh, anew)
        anew[d] += fresh * column
