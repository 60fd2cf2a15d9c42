"""One visit of every row by all learners of several interleaved models: visit.py in lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import (
    Eight,
    Four,
    LaneWidth,
    Sixteen,
    Two,
    any_lane,
    broadcast,
    half,
    load,
    store,
    where,
)
from fewpass.solvers.kernels.rows import Rows, lies_for_sparse_rows, prefetch_row
from fewpass.solvers.kernels.shapes import (
    LaneVector,
    Number,
    Order,
    PerRow,
    SideBySide,
    Truth,
    Vector,
)
from fewpass.solvers.kernels.simd.interleaved import (
    AllGroups,
    EndToEnd,
    add_both_lanes,
    add_lanes,
    dot_both_lanes,
    in_lanes,
    lanes_for,
    lanes_taken,
    out_of_lanes,
    targets_of,
)
from fewpass.solvers.losses import Loss, Problem, from_level, value
from fewpass.solvers.onepass.adagrad import COLUMNS, ETAS, RECORD, SCRATCH, longest
from fewpass.solvers.onepass.adagrad import U as AVERAGES
from fewpass.solvers.onepass.adagrad import W as LAST_WEIGHTS
from fewpass.solvers.onepass.onepass_state import (
    OnepassState,
    WeightSquares,
    inverse_mass,
    sgd_factors,
    squares_of_weights,
)
from fewpass.solvers.onepass.visit import (
    ASGD,
    LAST,
    LEFT,
    OUTPUTS,
    Clock,
    StepConstants,
    bounded_loss,
    late_weight,
    learn,
    sgd_prediction,
)
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block
from fewpass.solvers.sgd.averaged_state import SOUGHT, Schedule, SgdState, step_size
from fewpass.solvers.sgd.steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    InCommon,
    SgdModel,
    as_scalars,
    average,
    fixed_numbers,
    of_those,
    read_numbers,
    read_scalars,
    row_step,
    settle,
    square_of,
    with_scalars,
    write_scalars,
)

SQUARES = 2 * ASGD + 1
TWICE: dict[type[LaneWidth], LaneWidth] = {Two: Four(), Four: Eight(), Eight: Sixteen()}
#: Largest memory of interleaved models: beyond it, what every column costs at each look, and when
#: models are interleaved and unpacked, is more than their steps side by side save.
MOST_BYTES = 48 << 20


def fit_together(states: list[OnepassState]) -> bool:
    """Return whether models are interleaved: with sparse rows, at one row, in little memory."""
    moments = {(s.t, s.rows_before, s.mass, s.values_per_row, s.sgd.t0) for s in states}
    first, taken = states[0].sgd, lanes_taken(len(states))
    fits = len(moments) == 1 and first.t0 != SOUGHT and lies_for_sparse_rows(first.W)
    return fits and taken * COLUMNS * states[0].columns[:, 0].nbytes <= MOST_BYTES


def numbers_of(state: OnepassState) -> NDArray[np.float64]:
    """Return all numbers per column of a model, (d + 1, 10)."""
    own = np.zeros((len(state.columns), COLUMNS))
    own[:, :RECORD], own[:-1, RECORD:] = state.columns, state.sgd.W
    return own


def with_numbers_of(state: OnepassState, W: NDArray[np.float64]) -> OnepassState:
    """Return the state with these numbers per column."""
    columns, both = np.ascontiguousarray(W[:, :RECORD]), np.ascontiguousarray(W[:-1, RECORD:])
    return state._replace(columns=columns, sgd=state.sgd._replace(W=both))


def looking_at(state: OnepassState, W: NDArray[np.float64], k: int, L: int) -> OnepassState:
    """Return model k's state with its numbers as views of W, in groups of L models."""
    own = W[k // L, :, k % L :: L]
    return state._replace(
        columns=own[:, :RECORD], sgd=state.sgd._replace(W=own[:-1, RECORD:])
    )  # fmt: skip


def fill_lanes(W: NDArray[np.float64], models: int, L: int) -> None:
    """Pad the last group with copies of the last model's numbers."""
    for k in range(models, W.shape[0] * L):
        W[k // L, :, k % L :: L] = W[(models - 1) // L, :, (models - 1) % L :: L]


def walk_interleaved(
    problems: list[Problem],
    owns: list[Problem],
    schedules: list[Schedule],
    states: list[OnepassState],
    labels: list[int],
    zero_loss: float,
    pace: StepConstants,
    W: NDArray[np.float64],
    block: Block,
) -> tuple[Clock, list[NDArray[np.float64]], list[SgdState]]:
    """Step several models, all at the same row, over a block; W (see interleaved.py) changes.

    `owns` are the problems of averaged SGD.  Returns the clock, and for every model its sums of
    losses and the state of averaged SGD.
    """
    first, lanes = states[0], lanes_for(len(states))
    models = [
        SgdModel(own, schedule, state.sgd, label)
        for own, schedule, state, label in zip(owns, schedules, states, labels, strict=True)
    ]
    common = InCommon(problems[0].loss, schedules[0].c, zero_loss, first.sgd.t0)
    numbers, losses, scalars = (
        in_lanes(each, lanes).reshape(len(W), -1)
        for each in (
            [adagrad_numbers(*own) for own in zip(problems, states, models, strict=True)],
            [state.progressive.sums.reshape(-1).tolist() for state in states],
            [as_scalars(state.sgd) for state in states],
        )
    )
    for g, own in enumerate(W):
        t, mass = visit_interleaved(
            own, losses[g], scalars[g], numbers[g], problems[0].intercept,
            Clock(first.t, first.mass), pace, common, lanes, TWICE[type(lanes)], *block[:4],
        )  # fmt: skip
    sums = [np.reshape(each, (2, OUTPUTS)) for each in out_of_lanes(losses, len(states), lanes)]
    moved = out_of_lanes(scalars, len(states), lanes)
    sgd = [with_scalars(state.sgd, t, q) for state, q in zip(states, moved, strict=True)]
    return Clock(t, mass), sums, sgd


def adagrad_numbers(problem: Problem, state: OnepassState, model: SgdModel) -> list[float]:
    """Return the numbers of a model that stay, as visit_interleaved takes them."""
    pairs = problem.lam, problem.lam_b, model.label, state.level
    lam, lam_b, label, level = ((number, number) for number in pairs)
    steps = (state.unit * eta for eta in ETAS)
    return [*lam, *lam_b, *steps, *label, *level, *fixed_numbers(model)]


@part_of_kernels
def read_adagrad(
    V: Vector, loss: Loss, intercept: float, lanes: LaneWidth
) -> tuple[Problem, LaneVector, LaneVector]:
    """Return problem, steps and labels of both AdaGrad learners of a group's models."""
    L = half(lanes)
    moved = from_level(loss, load(V, 8 * L, lanes))
    problem = Problem(moved, L2(load(V, 0, lanes)), intercept, load(V, 2 * L, lanes), 0.0)
    return problem, load(V, 4 * L, lanes), load(V, 6 * L, lanes)


@kernel
def visit_interleaved(
    W: SideBySide, losses: Vector,
    scalars: Vector, numbers: Vector, intercept: float, clock: Clock, pace: StepConstants,
    common: InCommon, lanes: LaneWidth, twice: LaneWidth, rows: Rows, y: PerRow, weight: PerRow,
    order: Order,
) -> tuple[int, float]:  # fmt: skip
    """visit_rows for a group of models in lanes, all at one row; returns t and mass.

    Parameters
    ----------
    W
        The columns' records, then averaged SGD's vectors, (d + 1, 10 lanes), changed in place.
    losses
        Of each model the late-weighted sums of the outputs' losses before the steps, then the plain
        ones, changed in place.  AdaGrad rests where they are `LEFT`.
    scalars
        Of averaged SGD, see steps.py, changed in place; a model stops after divergence.
    numbers
        Of each model lam, lam_b, step, label and level of both AdaGrad learners, then those of
        averaged SGD, see steps.py.
    common
        Of averaged SGD.
    lanes, twice
        Lanes of the group, and twice as many.
    """
    (t, mass), (horizon, root_n), (loss, c, zero_loss, t0) = clock, pace, common
    L, last, V = lanes.width, order.shape[0] - 1, W.reshape(-1)
    step, place = W.shape[1], RECORD * L
    adagrad, most = any_lane(load(losses, LAST * L, lanes) < LEFT), longest(rows, order)
    scratch = np.empty(SCRATCH * L * (most + 1))
    of_adagrad, etas, labels = read_adagrad(numbers, loss, intercept, twice)
    loss_of_one = from_level(loss, load(numbers, 8 * L, lanes))
    problem, schedule, gamma0, label = read_numbers(numbers[10 * L :], loss_of_one, c, lanes)
    at = read_scalars(scalars, lanes)
    for r in range(last + 1):
        i, next_row = order[r], order[min(r + 1, last)]
        prefetch_row(rows, y, weight, order, r)
        t += 1
        share = late_weight(t, horizon)
        if adagrad:
            learn(
                rows, i, targets_of(labels, y[i]), weight[i], share, of_adagrad, etas, root_n, mass,
                V, step, losses, scratch, most, twice,
            )  # fmt: skip
        mass += share

        alive = at.monitor.diverged <= 0.0
        if not any_lane(alive):
            continue
        s, s_bar = dot_both_lanes(rows, i, V, step, place, lanes)
        target, square, gamma = (
            targets_of(label, y[i]), square_of(loss, rows, i), step_size(schedule, gamma0, t),
        )  # fmt: skip
        p = sgd_prediction(at, problem, t, t0, s, s_bar)
        count_alive(losses, alive, weight[i], share, value(loss_of_one, p, target), lanes)
        moved, k = row_step(at, problem, zero_loss, gamma, t, target, weight[i], s, square)
        at = of_those(alive, moved, at)
        alive = at.monitor.diverged <= 0.0
        if not any_lane(alive):
            continue
        k = where(alive, k, 0.0)
        if t <= t0 + 1:
            add_lanes(rows, i, -k, V, step, place, (next_row, place), lanes)
        else:
            later = where(alive, at.bar.tau * k, 0.0)
            add_both_lanes(rows, i, -k, later, V, step, place, (next_row, place), lanes)
        at = of_those(alive, average(at, t, t0), at)
        flushes = any_lane(at.theta.alpha > FLUSH_ABOVE) or any_lane(at.bar.beta > FLUSH_BETA_ABOVE)
        if flushes or t == t0 + 1:
            write_scalars(scalars, at, lanes)
            settle(W, place, scalars, L, t == t0 + 1)
            at = read_scalars(scalars, lanes)
    write_scalars(scalars, at, lanes)
    return t, mass


def squares_of_each(states: list[OnepassState], W: NDArray[np.float64]) -> list[WeightSquares]:
    """Return the squares of every model's weights, which are interleaved in W; or of one's."""
    if len(W) == 0:
        return [squares_of_weights(state) for state in states]
    lanes, per_mass = lanes_for(len(states)), inverse_mass(states[0])
    factors = in_lanes([sgd_factors(state.sgd) for state in states], lanes)
    sums = squares_in_lanes(W, per_mass, factors, lanes, TWICE[type(lanes)])
    each = out_of_lanes(sums, len(states), lanes)
    return [WeightSquares(np.reshape(own[:-1], (2, ASGD)).T.copy(), own[-1]) for own in each]


@kernel
def squares_in_lanes(
    W: AllGroups, per_mass: float, factors: EndToEnd, lanes: LaneWidth, twice: LaneWidth
) -> EndToEnd:
    """Return SQUARES numbers of each model, in lanes.

    ||w||^2 of AdaGrad's four outputs, b^2 of them, ||w||^2 of averaged SGD.
    Columns are added up in the order of onepass_state.py.
    """
    L, V = lanes.width, W.reshape(-1)
    groups, columns, width = W.shape
    sums, most = np.zeros(groups * SQUARES * L), columns - 1
    for g in range(groups):
        u, uh = load(factors, 2 * L * g, lanes), load(factors, (2 * g + 1) * L, lanes)
        last, average, sgd = broadcast(0.0, twice), broadcast(0.0, twice), broadcast(0.0, lanes)
        for j in range(most):
            at = (g * columns + j) * width
            w = load(V, at + LAST_WEIGHTS * L, twice)
            bar = w + load(V, at + AVERAGES * L, twice) * per_mass
            last, average = last + w * w, average + bar * bar
            s = u * load(V, at + RECORD * L, lanes) + uh * load(V, at + (RECORD + 1) * L, lanes)
            sgd = sgd + s * s
        at, to = (g * columns + most) * width, g * SQUARES * L
        b = load(V, at + LAST_WEIGHTS * L, twice)
        bar = b + load(V, at + AVERAGES * L, twice) * per_mass
        store(sums, to, last)
        store(sums, to + 2 * L, average)
        store(sums, to + 4 * L, b * b)
        store(sums, to + 6 * L, bar * bar)
        store(sums, to + 8 * L, sgd)
    return sums


@part_of_kernels
def count_alive(
    losses: Vector, alive: Truth, c: float, share: float, loss: Number, lanes: LaneWidth
) -> None:
    """Add averaged SGD's losses of models that have not diverged."""
    loss, L = bounded_loss(c, loss), lanes.width
    late, plain = load(losses, ASGD * L, lanes), load(losses, (OUTPUTS + ASGD) * L, lanes)
    store(losses, ASGD * L, where(alive, late + share * loss, late))
    store(losses, (OUTPUTS + ASGD) * L, where(alive, plain + loss, plain))
