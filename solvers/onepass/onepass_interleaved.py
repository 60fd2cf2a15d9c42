"""One visit of every row by all learners of several interleaved models: visit.py in lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import Rows, lies_for_sparse_rows, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerRow, Truth, Vector
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
from fewpass.solvers.kernels.simd.lanes import (
    Eight,
    Four,
    LaneWidth,
    Sixteen,
    Two,
    any_lane,
    broadcast,
    load,
    store,
    where,
)
from fewpass.solvers.loss_monitor import LossMonitor
from fewpass.solvers.losses import Loss, Problem, from_level, value
from fewpass.solvers.onepass.adagrad import ETAS, RECORD, SCRATCH, RecordLayout, longest
from fewpass.solvers.onepass.adagrad import U as AVERAGES
from fewpass.solvers.onepass.adagrad import W as LAST_WEIGHTS
from fewpass.solvers.onepass.onepass_state import (
    OnepassState,
    WeightSquares,
    inverse_mass,
    sgd_factors,
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
from fewpass.solvers.sgd.averaged_state import SOUGHT, Average, Iterate, SgdState
from fewpass.solvers.sgd.interleaved_steps import (
    DIVERGED,
    NUMBERS,
    SCALARS,
    as_scalars,
    flush_lanes,
    load_scalars,
    problem_and_step,
    sgd_numbers,
    store_scalars,
    with_scalars,
)
from fewpass.solvers.sgd.schedule import Schedule
from fewpass.solvers.sgd.steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    StepScalars,
    average,
    row_step,
    square_of,
)

COLUMNS = RECORD + 2  # numbers of a column: AdaGrad's record, and averaged SGD's two
#: Numbers of each model in `about`, two for its two AdaGrad learners; see interleaved_steps.py.
ABOUT = 10
SQUARES = 2 * ASGD + 1
TWICE: dict[type[LaneWidth], LaneWidth] = {Two: Four(), Four: Eight(), Eight: Sixteen()}
#: Largest memory of interleaved models: beyond it, what every column costs at each look, and when
#: models are interleaved and unpacked, is more than their steps side by side save.
MOST_BYTES = 48 << 20
LAM, LAM_B, STEP, LABEL, LEVEL = range(0, ABOUT, 2)


def fit_together(states: list[OnepassState]) -> bool:
    """Whether models are interleaved: with sparse rows, at the same row, and in little memory."""
    moments = {(s.t, s.rows_before, s.mass, s.values_per_row, s.sgd.t0) for s in states}
    first, lanes = states[0].sgd, lanes_taken(len(states))
    fits = len(moments) == 1 and first.t0 != SOUGHT and lies_for_sparse_rows(first.W)
    return fits and lanes * COLUMNS * states[0].columns[:, 0].nbytes <= MOST_BYTES


def numbers_of(state: OnepassState) -> NDArray[np.float64]:
    """Return all numbers per column of a model, (d + 1, 10)."""
    own = np.zeros((len(state.columns), COLUMNS))
    own[:, :RECORD], own[:-1, RECORD:] = state.columns, state.sgd.W
    return own


def with_numbers_of(state: OnepassState, W: NDArray[np.float64]) -> OnepassState:
    """Return the state with these numbers per column."""
    columns, both = np.ascontiguousarray(W[:, :RECORD]), np.ascontiguousarray(W[:-1, RECORD:])
    return state._replace(columns=columns, sgd=state.sgd._replace(W=both))


EMPTY = np.empty((0, 0))


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
    least: float,
    pace: StepConstants,
    W: NDArray[np.float64],
    block: Block,
) -> tuple[Clock, list[NDArray[np.float64]], list[SgdState]]:
    """Step several models, all at the same row, over a block; W (see interleaved.py) changes.

    `owns` are the problems of averaged SGD.  Returns the clock, and for every model its sums of
    losses and the state of averaged SGD.
    """
    first, how = states[0], lanes_for(len(states))
    twice = TWICE[type(how)]
    about = [
        (
            *(p.lam, p.lam, p.lam_b, p.lam_b),
            *(s.unit * eta for eta in ETAS),
            *(label, label, s.level, s.level),
        )
        for p, s, label in zip(problems, states, labels, strict=True)
    ]
    of_sgd = sgd_numbers(owns, schedules, [s.sgd for s in states])
    losses = in_lanes([s.progressive.sums.reshape(-1).tolist() for s in states], how)
    scalars = in_lanes([as_scalars(s.sgd) for s in states], how)
    t, mass = visit_interleaved(
        W, losses, scalars, Clock(first.t, first.mass), pace, problems[0].loss,
        problems[0].intercept, in_lanes(about, how), in_lanes(of_sgd, how), first.sgd.t0,
        schedules[0].c, least, how, twice, *block[:4],
    )  # fmt: skip
    sums = [np.reshape(each, (2, OUTPUTS)) for each in out_of_lanes(losses, len(states), how)]
    moved = out_of_lanes(scalars, len(states), how)
    sgd = [with_scalars(state.sgd, t, q) for state, q in zip(states, moved, strict=True)]
    return Clock(t, mass), sums, sgd


@kernel
def visit_interleaved(
    W: AllGroups, losses: EndToEnd, scalars: EndToEnd, clock: Clock, pace: StepConstants,
    loss: Loss, intercept: float, about: EndToEnd, of_sgd: EndToEnd, t0: int, c: float,
    least: float, how: LaneWidth, twice: LaneWidth, rows: Rows, y: PerRow, weight: PerRow,
    order: Order,
) -> tuple[int, float]:  # fmt: skip
    """visit_rows for models in lanes, all at one row; W, losses and scalars change in place.

    For every model W has ten numbers per column, `losses` the ten of visit_rows, `scalars` the
    scalars of averaged SGD, `about` lam, lam_b, step, label and level of both AdaGrad learners, and
    `of_sgd` the `numbers` of visit_interleaved in sgd/.  Returns t and mass.
    """
    (t, mass), (horizon, root_n) = clock, pace
    L, V, last = how.width, W.reshape(-1), order.shape[0] - 1
    groups, columns, width = W.shape
    most = longest(rows, order)
    scratch = np.empty(SCRATCH * L * (most + 1))
    for r in range(last + 1):
        i, next_row = order[r], order[min(r + 1, last)]
        prefetch_row(rows, y, weight, order, r)
        t += 1
        share, square = late_weight(t, horizon), square_of(loss, rows, i)
        for g in range(groups):
            start = g * columns * width
            mine = ABOUT * L * g
            lam, lam_b = load(about, mine + LAM * L, twice), load(about, mine + LAM_B * L, twice)
            of_adagrad = from_level(loss, load(about, mine + LEVEL * L, twice))
            of_average = from_level(loss, load(about, mine + LEVEL * L, how))
            if any_lane(load(losses, (2 * OUTPUTS * g + LAST) * L, how) < LEFT):
                learn(
                    rows, i, targets_of(load(about, mine + LABEL * L, twice), y[i]), weight[i],
                    share, Problem(of_adagrad, L2(lam), intercept, lam_b, 0.0),
                    load(about, mine + STEP * L, twice), root_n, mass, V,
                    RecordLayout(start, width, start + width * (columns - 1)), losses,
                    2 * OUTPUTS * L * g, scratch, most, twice,
                )  # fmt: skip

            problem, gamma = problem_and_step(of_sgd, NUMBERS * L * g, of_average, c, t, how)
            target, first = targets_of(load(about, mine + LABEL * L, how), y[i]), SCALARS * L * g
            place = start + RECORD * L
            at = load_scalars(scalars, first, how)
            alive = at.monitor.diverged <= 0.0
            if not any_lane(alive):
                continue
            s, s_bar = dot_both_lanes(rows, i, V, width, place, how)
            p = sgd_prediction(at, problem, t, t0, s, s_bar)
            monitor_alive(
                losses, (2 * OUTPUTS * g + ASGD) * L, alive, weight[i], share,
                value(of_average, p, target), how,
            )  # fmt: skip
            moved, k = row_step(at, problem, least, gamma, t, target, weight[i], s, square)
            at = of_those(alive, moved, at)
            alive = at.monitor.diverged <= 0.0
            k = where(alive, k, 0.0)
            if t <= t0 + 1:
                add_lanes(rows, i, -k, V, width, place, (next_row, place), how)
            else:
                both = where(alive, at.bar.tau * k, 0.0)
                add_both_lanes(rows, i, -k, both, V, width, place, (next_row, place), how)
            at = of_those(alive, average(at, t, t0), at)
            store_scalars(scalars, first, L, at)
            if t == t0 + 1:  # bar <- theta
                for lane in range(L):
                    if scalars[first + DIVERGED * L + lane] == 0.0:
                        W[g, :, (COLUMNS - 1) * L + lane] = 0.0
            if any_lane(at.theta.alpha > FLUSH_ABOVE) or any_lane(at.bar.beta > FLUSH_BETA_ABOVE):
                flush_lanes(W[g, :, RECORD * L :], L, scalars, first)
        mass += share
    return t, mass


def squares_of_each(states: list[OnepassState], W: NDArray[np.float64]) -> list[WeightSquares]:
    """Return the squares of every model's weights, which are interleaved in W."""
    how, per_mass = lanes_for(len(states)), inverse_mass(states[0])
    factors = in_lanes([sgd_factors(state.sgd) for state in states], how)
    sums = squares_in_lanes(W, per_mass, factors, how, TWICE[type(how)])
    each = out_of_lanes(sums, len(states), how)
    return [WeightSquares(np.reshape(own[:-1], (2, ASGD)).T.copy(), own[-1]) for own in each]


@kernel
def squares_in_lanes(
    W: AllGroups, per_mass: float, factors: EndToEnd, how: LaneWidth, twice: LaneWidth
) -> EndToEnd:
    """Return SQUARES numbers of each model, in lanes.

    ||w||^2 of AdaGrad's four outputs, b^2 of them, ||w||^2 of averaged SGD.
    Columns are added up in the order of onepass_state.py.
    """
    L, V = how.width, W.reshape(-1)
    groups, columns, width = W.shape
    sums, most = np.zeros(groups * SQUARES * L), columns - 1
    for g in range(groups):
        u, uh = load(factors, 2 * L * g, how), load(factors, (2 * g + 1) * L, how)
        last, average, sgd = broadcast(0.0, twice), broadcast(0.0, twice), broadcast(0.0, how)
        for j in range(most):
            at = (g * columns + j) * width
            w = load(V, at + LAST_WEIGHTS * L, twice)
            bar = w + load(V, at + AVERAGES * L, twice) * per_mass
            last, average = last + w * w, average + bar * bar
            s = u * load(V, at + RECORD * L, how) + uh * load(V, at + (RECORD + 1) * L, how)
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
def monitor_alive(
    losses: Vector, first: int, alive: Truth, c: float, share: float, loss: Vector, how: LaneWidth
) -> None:
    """Add the losses of an output, for models whose averaged SGD has not diverged."""
    loss, L = bounded_loss(c, loss), how.width
    before, plain = load(losses, first, how), load(losses, first + OUTPUTS * L, how)
    store(losses, first, where(alive, before + share * loss, before))
    store(losses, first + OUTPUTS * L, where(alive, plain + loss, plain))


@part_of_kernels
def of_those(alive: Truth, new: StepScalars, old: StepScalars) -> StepScalars:
    """Return the new scalars of models that are alive, the old ones of others."""
    theta = Iterate(
        where(alive, new.theta.b, old.theta.b), where(alive, new.theta.alpha, old.theta.alpha)
    )
    bar = Average(
        where(alive, new.bar.b, old.bar.b),
        where(alive, new.bar.tau, old.bar.tau),
        where(alive, new.bar.beta, old.bar.beta),
    )
    monitor = LossMonitor(
        where(alive, new.monitor.n_monitored, old.monitor.n_monitored),
        where(alive, new.monitor.loss_sum, old.monitor.loss_sum),
        where(alive, new.monitor.loss, old.monitor.loss),
        where(alive, new.monitor.reference_loss, old.monitor.reference_loss),
        where(alive, new.monitor.diverged, old.monitor.diverged),
    )
    return StepScalars(theta, where(alive, new.inverse, old.inverse), bar, monitor)
