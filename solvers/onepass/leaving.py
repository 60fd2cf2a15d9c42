"""Learners that can no longer win leave the pass.

    at row t of n, after every twentieth of the pass, for each learner k (the best of its outputs):
        gap_k = (J_k - J) / J,   J the smallest of all learners
        k trails if  gap_k (t / n)^p > .02,   p = 1 for AdaGrad and averaged SGD, 3 for Newton
    a learner that trails at two looks in a row leaves: it takes no more steps and is not chosen

(t / n)^p is by how much a gap can still shrink: averages approach the optimum like 1 / t, and
streaming Newton, which begins with blocks that it fits too well, has been seen to do so like
1 / t^3.
A learner that leaves so would end more than two percent behind.  Averaged SGD is evaluated by the
average, so not before half as many rows are averaged as came before.  Of the squared loss streaming
Newton's weights are the model whatever J says: the others leave, and it stays.

Of models that differ in lam alone, and rows by the hundred thousand, that with the least J less its
penalty goes on alone from a tenth of the pass on: on clicks, celeba and credit any look from a
twentieth on chose within .0001 of the best (docs/methods.md).

Rows are counted from the beginning of the pass, so no cut of the rows into blocks changes a bit.
All stay where streams share the rows, or the number of rows is unknown or small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem
from fewpass.solvers.onepass.adagrad import G, W
from fewpass.solvers.onepass.onepass_state import (
    NEWTON,
    OnepassState,
    WeightSquares,
    charges,
    late_losses,
    leading_output,
)
from fewpass.solvers.onepass.streaming_newton import n_pending, unusable
from fewpass.solvers.onepass.visit import ASGD, LAST, LEFT
from fewpass.solvers.protocol import ENDLESS, ProblemStats
from fewpass.solvers.sgd.averaged_state import has_exploded

LOOKS = 20  # of a pass
#: From that look on the best lam goes on alone, in a pass of that many rows or more.
LAM_LOOK, LAM_ROWS = 2, 100_000
#: Columns a row until then, from which on all lam stay: texts want less and less regularisation.
MANY_COLUMNS = 4
GRAIN, NEWTON_GRAIN = 1024, 2048  # rows; multiples of the latter end a block of Newton
FIRST_LOOK = 2  # after a tenth
BEHIND = 0.02  # of J, at the end
NEAR = 1.05  # times the smallest J, where streaming Newton's optimum of the squared loss is certain
AVERAGED = 1.5  # times the rows before averaging begins


class Learner(NamedTuple):
    """One learner, and how fast its gap may shrink."""

    bit: int
    outputs: slice
    power: float


ADAGRAD, SGD, QUADRATIC = (
    Learner(1, slice(LAST, ASGD), 1.0),
    Learner(2, slice(ASGD, ASGD + 1), 1.0),
    Learner(4, slice(NEWTON, NEWTON + 1), 3.0),
)


def rows_to_look(stats: ProblemStats, state: OnepassState) -> int:
    """Return how many more rows are visited before the next look; ENDLESS if there is none."""
    n, grain = stats.stream_rows, NEWTON_GRAIN if state.newton.used else GRAIN
    if stats.streams > 1 or n == ENDLESS or n < LOOKS * grain or is_decided(state):
        return ENDLESS
    visited = state.t - state.rows_before
    for k in range(FIRST_LOOK, LOOKS):
        look = -(-(n * k) // (LOOKS * grain)) * grain
        if look > visited:
            return look - visited
    return ENDLESS


def is_decided(state: OnepassState) -> bool:
    """Return whether a single learner goes on."""
    adagrad = float(state.progressive.sums[0, LAST]) < LEFT
    newton = state.newton.used and not state.newton.left
    return adagrad + newton + (not has_exploded(state.sgd)) <= 1


def looked(
    problem: Problem, stats: ProblemStats, state: OnepassState, shown: OnepassState,
    squares: WeightSquares,
) -> OnepassState:  # fmt: skip
    """Return the state without the learners that trail now, and did so at the last look.

    `shown` is the same state as after a block, and `squares` are those of its weights.  A state
    whose learner is decided stays as it is: interleaved models are looked at as long as any needs
    it.
    """
    if is_decided(state):
        return state
    losses = late_losses(state)
    charged = charges(problem, shown, losses, squares)
    state = state._replace(progressive=state.progressive._replace(charges=charged))
    trail = trailing(problem, stats, state, losses + charged)
    for learner, leave in ((ADAGRAD, adagrad_left), (SGD, sgd_left), (QUADRATIC, newton_left)):
        if trail & state.trailing & learner.bit:
            state = leave(state)
    return state._replace(trailing=trail, chosen=leading_output(state))


def trailing(
    problem: Problem, stats: ProblemStats, state: OnepassState, J: NDArray[np.float64]
) -> int:
    """Return the bits of the learners that can hardly win."""
    best, share = float(np.min(J)), state.t / (stats.stream_rows + state.rows_before)
    if problem.loss.is_quadratic and J[NEWTON] <= NEAR * best:
        return ADAGRAD.bit | SGD.bit
    bits = 0
    for learner in (ADAGRAD, SGD, QUADRATIC):
        own = float(np.min(J[learner.outputs]))
        evaluated = np.isfinite(own) and is_comparable(problem, state, learner)
        if evaluated and (own - best) * share**learner.power > BEHIND * best:
            bits |= learner.bit
    return bits


def is_comparable(problem: Problem, state: OnepassState, learner: Learner) -> bool:
    """Return whether a learner's losses say something of how it ends."""
    if learner is QUADRATIC:
        return not (problem.loss.is_quadratic or n_pending(state.newton))
    if learner is SGD:
        start = state.sgd.t0 - state.rows_before
        return state.t - state.rows_before >= AVERAGED * start
    return True


def adagrad_left(state: OnepassState) -> OnepassState:
    """Return the state without AdaGrad, whose numbers are 0 from now on."""
    state.progressive.sums[0, ADAGRAD.outputs] = LEFT
    clear_left(state)
    return state


def clear_left(state: OnepassState) -> None:
    """Clear the numbers of AdaGrad if it has left: interleaved models may have moved them."""
    if state.progressive.sums[0, LAST] >= LEFT:
        state.columns[:, W : G + 2] = 0.0


def sgd_left(state: OnepassState) -> OnepassState:
    """Return the state without averaged SGD, as after a divergence."""
    return state._replace(sgd=state.sgd._replace(monitor=state.sgd.monitor._replace(diverged=1.0)))


def newton_left(state: OnepassState) -> OnepassState:
    """Return the state without streaming Newton."""
    return state._replace(newton=unusable(state.newton))


def rows_to_lam(stats: ProblemStats, state: OnepassState) -> int:
    """Return how many more rows are visited before the best lam goes on alone; ENDLESS: never."""
    n = stats.stream_rows
    if stats.streams > 1 or n == ENDLESS or n < LAM_ROWS:
        return ENDLESS
    look = -(-(n * LAM_LOOK) // (LOOKS * NEWTON_GRAIN)) * NEWTON_GRAIN
    visited = state.t - state.rows_before
    return look - visited if look >= visited else ENDLESS


def has_many_columns(state: OnepassState) -> bool:
    """Return whether rows had more columns so far than a tenth of them can tell the lam by."""
    seen = np.count_nonzero(state.columns[:-1, W])
    return bool(seen > MANY_COLUMNS * (state.t - state.rows_before))


def least_late_loss(state: OnepassState) -> float:
    """Return the least late-weighted loss of all outputs; infinite if none has any."""
    return float(np.min(late_losses(state)))


def left(state: OnepassState) -> OnepassState:
    """Return a state without any learner."""
    return newton_left(sgd_left(adagrad_left(state)))


def has_left(state: OnepassState) -> bool:
    """Return whether no learner is left."""
    return not np.isfinite(least_late_loss(state))
