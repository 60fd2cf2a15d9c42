"""A long step of dual ascent: further in the direction of the last rounds, as far as D rises.

Near the optimum the rounds of coordinate ascent are slow along a few directions, and what they
moved since some rounds before points there.  With v the move of the dual variables and u that of
the weights, the quadratic that D is along v, under the hinge, is largest at

    t  =  [ (1/n) sum_i weight_i d(-phi*(-a_i))/dv  -  lam w . u ] / (lam ||u||^2)

Rows that would leave the domain of their dual variable stay, and if D does not rise by what the
others do, which its change tells without a reading, the step is taken back.

Source: docs/methods.md, section 7.13; the idea is the extrapolation of Bertrand and Massias 2021,
"Anderson acceleration of coordinate descent", with one direction in place of several.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import add_vector
from fewpass.solvers.losses import conjugate, direction

if TYPE_CHECKING:
    from fewpass.solvers.dual.rounds_in_memory import Ascent, GivenRows

FARTHEST, SHORT = 50.0, 0.1  # times the last move: no longer; shorter is not worth its arithmetic
NEAR = 1e-3  # of the move: for the slope of the conjugates


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
    """Move rows t times as far again as they went; return what D gains without its squares, n fold.

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
