"""The steps of averaged SGD (averaged_sgd.py): one text for one model and for several side by side.

`lanes` says how many: One() steps a model, Eight() a group of eight, whose numbers and weights lie
in lanes (interleaved.py).  Groups are stepped one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import LaneWidth, any_lane, fma, load, store, where
from fewpass.solvers.kernels.rows import Rows, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import (
    Number,
    Order,
    PerRow,
    SideBySide,
    Truth,
    Vector,
    WholeNumbers,
)
from fewpass.solvers.kernels.simd.fused_step import (
    at_hand,
    fetch,
    move_then_dot,
    put_back,
    skipping_pays,
)
from fewpass.solvers.kernels.simd.interleaved import in_lanes, lanes_for, out_of_lanes, targets_of
from fewpass.solvers.loss_monitor import (
    LISTEN_EVERY,
    LossMonitor,
    ReportLosses,
    end_of,
    listen,
    smoothing,
)
from fewpass.solvers.losses import Loss, Problem, sgd_slope, steps_exactly, value
from fewpass.solvers.penalties import L2, strength
from fewpass.solvers.protocol import Block
from fewpass.solvers.sgd.averaged_state import Average, Iterate, Schedule, SgdState, step_size

FLUSH_ABOVE = 1e6  # alpha: the relative error of bar is about 1e-16 alpha
FLUSH_BETA_ABOVE = 1e200  # the decaying average's divisor grows like 0.99^-t


Curve = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]  # (ends, 2, lanes)


class StepScalars(NamedTuple):
    """The scalars that a step changes, next to W; the monitor's counts are floats."""

    theta: Iterate
    inverse: float  # 1 / alpha
    bar: Average
    monitor: LossMonitor


class SgdModel(NamedTuple):
    """A model to step; several at once are at the same row, and average from the same one."""

    problem: Problem
    schedule: Schedule
    state: SgdState
    label: int = -1  # the class that counts as +1, all others as -1; -1: targets unchanged


class InCommon(NamedTuple):
    """Arrays that models share which are stepped at once."""

    loss: Loss
    c: float  # power of the decay of steps
    zero_loss: float  # mean loss of zero weights
    t0: int  # averaging starts after it; not SOUGHT


def visit_rows(
    models: Sequence[SgdModel], W: Sequence[NDArray[np.float64]] | NDArray[np.float64],
    zero_loss: float, start: int, block: Block, ends: WholeNumbers, report: ReportLosses,
) -> list[SgdState]:  # fmt: skip
    """Algorithm 1 over rows order[start:]; `zero_loss` is the mean loss of zero weights.

    W are the weights of each group, (d, 2 lanes), which change in place.  `report` is called with
    the losses of all models after `ends` rows, those beyond `start`.
    """
    rows, y, weight, order = block[:4]
    lanes, ends = lanes_for(len(models)), ends[ends > start]
    first = models[0]
    common = InCommon(first.problem.loss, first.schedule.c, zero_loss, first.state.t0)
    scalars = in_lanes([as_scalars(model.state) for model in models], lanes).reshape(len(W), -1)
    numbers = in_lanes([fixed_numbers(model) for model in models], lanes).reshape(len(W), -1)
    curve, t = np.zeros((len(W), len(ends), 2, lanes.width)), [first.state.t] * len(W)
    for g, own in enumerate(W):
        t[g] = step_rows(
            own, scalars[g], numbers[g], common, t[g], lanes, ends - start, curve[g],
            rows, y, weight, order[start:],
        )  # fmt: skip
    curves = curve.transpose(1, 2, 0, 3).reshape(len(ends), 2, len(W) * lanes.width)
    for end, (seen, lost) in zip(ends.tolist(), curves[:, :, : len(models)], strict=True):
        if np.all(seen > 0.0):
            report(end, (float(seen.sum()), float(lost.sum())))
    moved = zip(models, out_of_lanes(scalars, len(models), lanes), strict=True)
    return [
        with_scalars(model.state, t[k // lanes.width], own) for k, (model, own) in enumerate(moved)
    ]


def step_scalars(state: SgdState) -> StepScalars:
    """Return the numbers of a model that steps change."""
    return StepScalars(state.theta, 1.0 / state.theta.alpha, state.bar, state.monitor)


def after_steps(state: SgdState, at: StepScalars, t: int) -> SgdState:
    """Return the state at row t with these numbers."""
    return state._replace(theta=at.theta, bar=at.bar, monitor=at.monitor, t=t)


def as_scalars(state: SgdState) -> list[float]:
    """Return the same numbers as `read_scalars` takes them."""
    theta, inverse, bar, monitor = step_scalars(state)
    return [*theta, inverse, *bar, *monitor]


def with_scalars(state: SgdState, t: int, numbers: Sequence[float]) -> SgdState:
    """Return the state at row t with these numbers."""
    bar, monitor = Average(*numbers[3:6]), LossMonitor(*numbers[6:])
    return after_steps(state, StepScalars(Iterate(*numbers[:2]), numbers[2], bar, monitor), t)


def fixed_numbers(model: SgdModel) -> list[float]:
    """Return the numbers of a model that stay, as `read_numbers` takes them."""
    problem, schedule, state, label = model
    return [problem.lam, *problem[2:], schedule.a, state.gamma0, label]


@kernel
def step_rows(
    W: SideBySide, scalars: Vector, numbers: Vector, common: InCommon, t: int, lanes: LaneWidth,
    ends: WholeNumbers, curve: Curve, rows: Rows, y: PerRow, weight: PerRow, order: Order,
) -> int:  # fmt: skip
    """Take the steps of a group's models, all at row t; W and scalars change.  Returns t.

    After `ends` rows (ascending), `curve` (len(ends), 2, lanes) gets the number of rows monitored
    and their loss sum.
    """
    loss, c, zero_loss, t0 = common
    L, last, skips = lanes.width, order.shape[0] - 1, skipping_pays(rows)
    problem, schedule, gamma0, label = read_numbers(numbers, loss, c, lanes)
    V, at, noted, end = at_hand(rows, W), read_scalars(scalars, lanes), 0, end_of(ends, 0)
    upcoming = step_size(schedule, gamma0, t + 1)  # computed a row ahead, as much depends on it
    s = move_then_dot(rows, 0, None, None, V, order[0] if last >= 0 else 0, lanes)
    for r in range(last + 1):
        i, after = order[r], order[min(r + 1, last)]
        prefetch_row(rows, y, weight, order, r)
        t += 1
        gamma, upcoming = upcoming, step_size(schedule, gamma0, t + 1)
        target, square = targets_of(label, y[i]), square_of(loss, rows, i)
        at, k = row_step(at, problem, zero_loss, gamma, t, target, weight[i], s, square)
        if any_lane(at.monitor.diverged > 0.0):
            break
        if skips and not any_lane(abs(k) > 0.0):
            s = move_then_dot(rows, i, None, None, V, after, lanes)
        elif t <= t0 + 1:
            s = move_then_dot(rows, i, -k, None, V, after, lanes)
        else:
            s = move_then_dot(rows, i, -k, at.bar.tau * k, V, after, lanes)
        at = average(at, t, t0)
        flushes = any_lane(at.theta.alpha > FLUSH_ABOVE) or any_lane(at.bar.beta > FLUSH_BETA_ABOVE)
        if flushes or t == t0 + 1:
            put_back(rows, V, W)
            write_scalars(scalars, at, lanes)
            settle(W, 0, scalars, L, t == t0 + 1)
            at = read_scalars(scalars, lanes)
            fetch(rows, V, W)
            s = move_then_dot(rows, 0, None, None, V, after, lanes)
        if r + 1 == end:
            store(curve, 2 * L * noted, at.monitor.n_monitored)
            store(curve, 2 * L * noted + L, at.monitor.loss_sum)
            noted, end = noted + 1, end_of(ends, noted + 1)
    put_back(rows, V, W)
    write_scalars(scalars, at, lanes)
    return t


@part_of_kernels
def read_numbers(
    V: Vector, loss: Loss, c: float, lanes: LaneWidth
) -> tuple[Problem, Schedule, Number, Number]:
    """Return problem, schedule, first step and label of a group's models."""
    L = lanes.width
    lam, intercept, lam_b = load(V, 0, lanes), load(V, L, lanes), load(V, 2 * L, lanes)
    problem = Problem(loss, L2(lam), intercept, lam_b, load(V, 3 * L, lanes))
    return problem, Schedule(load(V, 4 * L, lanes), c), load(V, 5 * L, lanes), load(V, 6 * L, lanes)


@part_of_kernels
def read_scalars(V: Vector, lanes: LaneWidth) -> StepScalars:
    """Read the numbers of a group's models that steps change."""
    L = lanes.width
    theta = Iterate(load(V, 0, lanes), load(V, L, lanes))
    bar = Average(load(V, 3 * L, lanes), load(V, 4 * L, lanes), load(V, 5 * L, lanes))
    monitor = LossMonitor(
        load(V, 6 * L, lanes), load(V, 7 * L, lanes), load(V, 8 * L, lanes), load(V, 9 * L, lanes),
        load(V, 10 * L, lanes),
    )  # fmt: skip
    return StepScalars(theta, load(V, 2 * L, lanes), bar, monitor)


@part_of_kernels
def write_scalars(V: Vector, at: StepScalars, lanes: LaneWidth) -> None:
    """Write them."""
    L, (b, alpha), bar, monitor = lanes.width, at.theta, at.bar, at.monitor
    numbers = (
        b, alpha, at.inverse, bar.b, bar.tau, bar.beta, monitor.n_monitored, monitor.loss_sum,
        monitor.loss, monitor.reference_loss, monitor.diverged,
    )  # fmt: skip
    for k in range(len(numbers)):
        store(V, k * L, numbers[k])


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


@kernel
def settle(W: SideBySide, first: int, scalars: Vector, L: int, begins: bool) -> None:
    """Begin the averages of a group's models, or flush those that are due; not after divergence.

    Vectors are the columns of W from `first` on.
    """
    for k in range(L):
        alpha, tau, beta = scalars[L + k], scalars[4 * L + k], scalars[5 * L + k]
        if scalars[10 * L + k] > 0.0:
            continue
        if begins:  # bar <- theta
            W[:, first + L + k] = 0.0
        if alpha > FLUSH_ABOVE or beta > FLUSH_BETA_ABOVE:
            flush(W[:, first + k :: L], alpha, tau, beta)
            scalars[L + k] = scalars[2 * L + k] = scalars[5 * L + k] = 1.0
            scalars[4 * L + k] = 0.0


@part_of_kernels
def square_of(loss: Loss, rows: Rows, i: int) -> float:
    """Return ||x_i||^2 if steps are exact, else 0."""
    return norm2(rows, i) if steps_exactly(loss) else 0.0


@part_of_kernels
def row_step(
    at: StepScalars, problem: Problem, zero_loss: float, gamma: Number, t: int, y: Number,
    weight: float, s: Number, square: float,
) -> tuple[StepScalars, Number]:  # fmt: skip
    """Take the step of a row with s = u . x: (3) and (2) of averaged_sgd.py, for numbers or lanes.

    `square` is ||x||^2 if steps are exact, else arbitrary.  Returns the scalars after the step, and
    the multiple of the row to subtract from u.  After divergence all other numbers are undefined.
    """
    p = prediction(at, problem, s)
    if t % LISTEN_EVERY == 0:
        at = monitored(at, problem, zero_loss, smoothing(at.monitor.n_monitored + 1.0), p, y)
    return move(at, problem, gamma, p, y, weight, square)


@part_of_kernels
def prediction(at: StepScalars, problem: Problem, s: Number) -> Number:
    """Return theta . x for s = u . x."""
    return fma(s, at.inverse, problem.intercept * at.theta.b)


@part_of_kernels
def monitored(
    at: StepScalars, problem: Problem, zero_loss: float, rate: Number, p: Number, y: Number
) -> StepScalars:
    """Update the monitor with the loss of a row before its step."""
    loss, first = problem.loss, problem.intercept * problem.level
    monitor = listen(at.monitor, rate, value(loss, p, y), value(loss, first, y), zero_loss)
    return StepScalars(at.theta, at.inverse, at.bar, monitor)


@part_of_kernels
def move(
    at: StepScalars, problem: Problem, gamma: Number, p: Number, y: Number, weight: float,
    square: float,
) -> tuple[StepScalars, Number]:  # fmt: skip
    """theta <- (1 - lam gamma) theta - gamma weight slope(p, y) x, (2)."""
    loss, lam = problem.loss, strength(problem.penalty)
    intercept, lam_b = problem.intercept, problem.lam_b
    (b, alpha), inverse, bar, monitor = at
    change = sgd_slope(loss, p, y, gamma * weight * (square + intercept * intercept))
    g = weight * change
    alpha /= 1.0 - lam * gamma
    inverse = 1.0 / alpha  # before the next dot product, as all else waits for it
    b -= gamma * (lam_b * (b - problem.level) + intercept * g)
    after = StepScalars(Iterate(b, alpha), inverse, bar, monitor)
    return after, alpha * gamma * weight * change  # only the slope depends on the dot product


@part_of_kernels
def average(at: StepScalars, t: int, t0: int) -> StepScalars:
    """Update the average to row t, (6), after the row was added with the old tau."""
    if t == t0 + 1:
        bar = Average(at.theta.b, at.inverse, 0.0 * at.bar.beta + 1.0)
        return StepScalars(at.theta, at.inverse, bar, at.monitor)
    return mixed_in(at, 1.0 / (t - t0)) if t > t0 else at


@part_of_kernels
def mixed_in(at: StepScalars, eta: float) -> StepScalars:
    """bar <- (1 - eta) bar + eta theta."""
    b, tau, beta = at.bar
    beta /= 1.0 - eta
    tau += eta * beta * at.inverse
    b += eta * (at.theta.b - b)
    return StepScalars(at.theta, at.inverse, Average(b, tau, beta), at.monitor)


@part_of_kernels
def flushed(at: StepScalars) -> StepScalars:
    """Return the scalars after a flush."""
    return StepScalars(Iterate(at.theta.b, 1.0), 1.0, Average(at.bar.b, 0.0, 1.0), at.monitor)


@kernel
def flush(W: SideBySide, alpha: float, tau: float, beta: float) -> None:
    """Write theta and bar back into W, for alpha = beta = 1 and tau = 0."""
    for j in range(W.shape[0]):
        W[j, 1] = (tau * W[j, 0] + W[j, 1]) / beta
        W[j, 0] /= alpha
