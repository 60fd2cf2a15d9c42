"""The rounds of dual ascent on rows in memory (ascent_in_memory.py): over all, over active rows.

Rounds over active rows end when their brackets are a tenth of what they were in the first one, or a
third of the gap that is aimed at, or after as many visits as a few passes make: twice as many
after every round over all rows, as those that should be active are not known well before.

Near the optimum the rounds of coordinate ascent are slow along a few directions, and what they
moved since some rounds before points there.  A long step goes further in that direction, as far as
D rises.  With v the move of the dual variables and u that of the weights, the quadratic that D is
along v, under the hinge, is largest at

    t  =  [ (1/n) sum_i weight_i d(-phi*(-a_i))/dv  -  lam w . u ] / (lam ||u||^2)

Rows that would leave the domain of their dual variable stay, and if D does not rise by what the
others do, which its change tells without a reading, the step is taken back.

Source: docs/methods.md, section 7.13; the idea of the long step is the extrapolation of Bertrand
and Massias 2021, "Anderson acceleration of coordinate descent", with one direction in place of
several.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import Column
from fewpass.solvers.dual.sdca_steps import best_step
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import Order, Vector
from fewpass.solvers.losses import Problem, bracket, conjugate, direction, value

LEFT = 0.1  # share of the active rows' brackets that ends their rounds
ENOUGH = 0.3  # of the gap that is aimed at, likewise; what a round over all is to leave
SHRUNK = 0.1  # of both in rounds over active rows, of the aim in others: shrunk rows' brackets
MOST_AGAIN = 16.0  # passes' visits to active rows, between two rounds over all
EVERY = 2.0  # passes' visits, likewise, between two long steps
MOSTLY = 0.8  # of the rows active: then all rows are visited
LEAST_LEFT = 0.5  # share of the gap that a round over all rows is believed to leave, at least
CHECKED = 12  # rounds over all rows, after which it is asked whether they are slow
FARTHEST, SHORT = 50.0, 0.1  # of a long step, in last moves: no longer; shorter brings too little
NEAR = 1e-3  # of the move: for the slope of the conjugates


class Ascent(NamedTuple):
    """State that changes."""

    w: NDArray[np.float64]  # (d + 1,) the constant column's last
    duals: NDArray[np.float64]  # (n, 1)
    order: NDArray[np.int64]  # (n,) the active ones first
    offset: NDArray[np.float64]  # (1,) of the intercept, next to the constant column (duality.py)
    random: NDArray[np.uint64]  # (1,) state of a generator
    w_before: NDArray[np.float64]  # (d + 1,) at the last long step
    duals_before: NDArray[np.float64]  # (n,)


class Aim(NamedTuple):
    """The goal, and the rows that are shrunk."""

    tol: float
    least: float  # objectives below count as this large
    shrink: float  # times brackets below which a row is shrunk; 0: only rows that do not move
    lam: float


class GivenRows(NamedTuple):
    """Data that does not change."""

    problem: Problem
    column: Column
    aim: Aim
    squares: NDArray[np.float64]  # (n,) of rows, constant column included
    rows: Rows
    y: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,)


class Round(NamedTuple):
    """The state of the ascent after a round over all rows."""

    active: int = 0
    brackets: float = math.inf  # sum over that round
    before: float = math.inf  # over the one before
    objective: float = 0.0  # about
    rounds: int = 0  # over all rows
    visits: int = 0


@kernel
def row_squares(rows: Rows, out: Vector) -> None:
    """Write ||x_i||^2 of all rows, (n,)."""
    for i in range(out.shape[0]):
        out[i] = norm2(rows, i)


@part_of_kernels
def seems_small(brackets: float, before: float, objective: float, n: int, aim: Aim) -> bool:
    """Say whether the gap after a round over all rows seems small enough to be certified."""
    left = max(LEAST_LEFT, min(1.0, brackets / before)) if before > 0.0 else 1.0
    return brackets * left <= n * aim.tol * max(objective, aim.least)


@kernel
def ascend_until(
    at: Ascent, given: GivenRows, here: Round, most: float, pause: int
) -> tuple[int, float, float, float, int, int]:
    """Go on in rounds over active rows, then over all; return the fields of Round.

    Until the gap after a round over all rows seems small enough, `most` visits are made, or `pause`
    visits in this call, or it is time to look at the rate.
    """
    n, stop = given.y.shape[0], here.visits + pause
    active, brackets, rounds, visits = here.active, here.brackets, here.rounds, here.visits
    before, objective = here.before, here.objective
    while True:
        aimed = n * given.aim.tol * max(objective, given.aim.least)
        if 0 < active < MOSTLY * n:
            again = n * min(MOST_AGAIN, 2.0 ** min(rounds, 10))
            visits += visit_active(at, given, active, brackets, aimed, min(again, most - visits))
        limit = given.aim.shrink / n * max(SHRUNK * aimed, ENOUGH * brackets) if rounds > 0 else 0.0
        before = brackets
        brackets, lost, active = visit_round(at, given, n, limit)
        rounds, visits = rounds + 1, visits + n
        objective, of_intercept = charged(at, given)
        objective, brackets = objective + lost / n, brackets + n * of_intercept
        small = seems_small(brackets, before, objective, n, given.aim)
        if small or visits >= min(most, stop) or rounds % CHECKED == 0:
            return active, brackets, before, objective, rounds, visits


@kernel
def visit_active(
    at: Ascent, given: GivenRows, active: int, brackets: float, aimed: float, most: float
) -> int:
    """Go over the first rows of the order, as long as they are active; return the visits.

    `brackets` is what all rows' added up to, and `aimed` what they are to.
    """
    n, first, visits, due = given.y.shape[0], -1.0, 0, EVERY * given.y.shape[0]
    limit = given.aim.shrink * SHRUNK / n * max(aimed, LEFT * brackets)
    m = active
    note_begin(at, m)
    while m > 0 and visits < most:
        if visits >= due:
            step_far(at, given, active)
            note_begin(at, active)
            due += EVERY * n
        reached, _, moved = visit_round(at, given, m, limit)
        visits += m
        if first < 0.0:
            first = reached
        if reached <= max(LEFT * first, ENOUGH * aimed):
            break
        m = moved
    return visits


@part_of_kernels
def note_begin(at: Ascent, m: int) -> None:
    """Note the weights, and the dual variables of the first m rows."""
    for j in range(at.w.shape[0]):
        at.w_before[j] = at.w[j]
    for r in range(m):
        at.duals_before[at.order[r]] = at.duals[at.order[r], 0]


@kernel
def visit_round(at: Ascent, given: GivenRows, m: int, limit: float) -> tuple[float, float, int]:
    """Take the best step for the first m rows of the order, in a new one; move the centre.

    Returns the sums of their brackets and losses before the steps, and how many of them, which come
    first now, are still active: they moved, and their brackets are above `limit`.
    """
    mix(at.order, m, at.random)
    problem, column, rows, y, weight = (
        given.problem,
        given.column,
        given.rows,
        given.y,
        given.weight,
    )
    loss, w, order = problem.loss, at.w, at.order[:m]
    d, scale = w.shape[0] - 1, 1.0 / (given.aim.lam * y.shape[0])
    shift, total, lost, active = problem.intercept * at.offset[0], 0.0, 0.0, 0
    for r in range(m):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        c, a = weight[i], at.duals[i, 0]
        p = dot_vector(rows, i, w) + (column.value * w[d] + shift)
        phi = value(loss, p, y[i])
        own = c * bracket(loss, a, p, y[i], phi, conjugate(loss, a, y[i]))
        lost += c * phi
        total += own
        delta, step, _ = best_step(loss, a, y[i], c, p, given.squares[i], scale, 1.0)
        if delta != 0.0:
            at.duals[i, 0] = a + delta
            add_vector(rows, i, step, w)
            w[d] += step * column.value
            if own > limit:
                order[r] = order[active]
                order[active] = i
                active += 1
    if column.value != 0.0:
        b = column.unit * w[d] + at.offset[0]
        at.offset[0] = (1.0 - column.ratio) * b + column.ratio * column.level
    return total, lost, active


@part_of_kernels
def charged(at: Ascent, given: GivenRows) -> tuple[float, float]:
    """Return the penalty, and what the intercept's distance from b(a) adds to the gap."""
    w, d, lam_b, column = at.w, at.w.shape[0] - 1, given.problem.lam_b, given.column
    square = 0.0
    for j in range(d):
        square += w[j] * w[j]
    if column.value == 0.0:
        return 0.5 * given.aim.lam * square, 0.0
    b = column.unit * w[d] + at.offset[0]
    up, difference = b - column.level, b - (column.unit * w[d] / column.ratio + column.level)
    return 0.5 * (given.aim.lam * square + lam_b * up * up), 0.5 * lam_b * difference * difference


@part_of_kernels
def mix(order: Order, m: int, random: NDArray[np.uint64]) -> None:
    """Bring the first m numbers in random order (xorshift; Fisher and Yates)."""
    s = random[0]
    for k in range(m - 1, 0, -1):
        s ^= s << np.uint64(13)
        s ^= s >> np.uint64(7)
        s ^= s << np.uint64(17)
        j = np.int64(((s >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        order[k], order[j] = order[j], order[k]
    random[0] = s


@kernel
def step_far(at: Ascent, given: GivenRows, m: int) -> None:
    """Go on where the first m rows went since `duals_before`, all others standing still."""
    t = min(FARTHEST, best_length(at, given, m))
    if not t > SHORT:
        return
    lam = given.aim.lam
    for j in range(at.w.shape[0]):
        at.w_before[j] = at.w[j]
    gain, rise = go_on(at, given, m, t), 0.0
    for j in range(at.w.shape[0]):
        rise += (at.w[j] - at.w_before[j]) * (at.w[j] + at.w_before[j])
    if not gain > 0.5 * lam * given.y.shape[0] * rise:
        for j in range(at.w.shape[0]):
            at.w[j] = at.w_before[j]
        for r in range(m):
            at.duals[at.order[r], 0] = at.duals_before[at.order[r]]


@part_of_kernels
def best_length(at: Ascent, given: GivenRows, m: int) -> float:
    """Return t; 0 where nothing moved."""
    loss, y, weight, slope = given.problem.loss, given.y, given.weight, 0.0
    shift, square, along = given.problem.intercept * at.offset[0], 0.0, 0.0
    for j in range(at.w.shape[0]):
        u = at.w[j] - at.w_before[j]
        square += u * u
        along += u * at.w[j]
    for r in range(m):
        i = at.order[r]
        a, v = at.duals[i, 0], at.duals[i, 0] - at.duals_before[i]
        change = conjugate(loss, a - NEAR * v, y[i]) - conjugate(loss, a, y[i])
        slope += weight[i] * (change / NEAR - shift * direction(loss, y[i]) * v)
    lam = given.aim.lam
    return (slope / y.shape[0] - lam * along) / (lam * square) if square > 0.0 else 0.0


@part_of_kernels
def go_on(at: Ascent, given: GivenRows, m: int, t: float) -> float:
    """Extend each last change by t; return n times the gain of the conjugates.

    Notes where they were.
    """
    loss, y, rows, d = given.problem.loss, given.y, given.rows, at.w.shape[0] - 1
    shift, gain = given.problem.intercept * at.offset[0], 0.0
    scale = 1.0 / (given.aim.lam * y.shape[0])
    for r in range(m):
        i = at.order[r]
        a, s = at.duals[i, 0], direction(loss, y[i])
        v, c = t * (a - at.duals_before[i]), given.weight[i]
        at.duals_before[i] = a
        dual = conjugate(loss, a + v, y[i])
        if v != 0.0 and dual < math.inf:
            at.duals[i, 0] = a + v
            gain += c * (conjugate(loss, a, y[i]) - dual - v * s * shift)
            step = scale * c * s * v
            add_vector(rows, i, step, at.w)
            at.w[d] += step * given.column.value
    return gain
