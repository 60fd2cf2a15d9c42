"""The steps of averaged SGD for one model; interleaved_steps.py has several.

`row_step` and `average` are the algorithm (averaged_sgd.py), shared by both and by
averaging_start.py; only the access to rows and weights differs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import Rows, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import (
    Matrix,
    Number,
    Order,
    PerRow,
    SideBySide,
    WholeNumbers,
)
from fewpass.solvers.kernels.simd.fused_step import (
    at_hand,
    fetch,
    move_then_dot,
    put_back,
    skipping_pays,
)
from fewpass.solvers.kernels.simd.lanes import fma
from fewpass.solvers.loss_monitor import (
    LISTEN_EVERY,
    LossMonitor,
    ReportLosses,
    end_of,
    listen,
    smoothing,
    with_float_counts,
    with_integer_counts,
)
from fewpass.solvers.losses import Loss, Problem, sgd_slope, steps_exactly, value
from fewpass.solvers.penalties import strength
from fewpass.solvers.protocol import Block
from fewpass.solvers.sgd.averaged_state import Average, Iterate, SgdState
from fewpass.solvers.sgd.schedule import Schedule, step_size

FLUSH_ABOVE = 1e6  # alpha: the relative error of bar is about 1e-16 alpha
FLUSH_BETA_ABOVE = 1e200  # the decaying average's divisor grows like 0.99^-t


class StepScalars(NamedTuple):
    """The scalars that a step changes, next to W; the monitor's counts are floats."""

    theta: Iterate
    inverse: float  # 1 / alpha
    bar: Average
    monitor: LossMonitor


def visit_rows(
    state: SgdState, schedule: Schedule, problem: Problem, least: float, start: int,
    block: Block, ends: WholeNumbers, report: ReportLosses,
) -> SgdState:  # fmt: skip
    """Algorithm 1 over rows order[start:]; t0 is known, `least` is the mean loss of zero weights.

    `report` is called with the losses after `ends` rows, those beyond `start`.
    """
    ends = ends[ends > start]
    curve = np.zeros((len(ends), 2))
    theta, bar, monitor, t = step_rows(
        state.W, state.theta, state.bar, state.monitor, state.t, state.t0, state.gamma0, schedule,
        problem, least, start, ends, curve, *block[:4],
    )  # fmt: skip
    for end, (seen, lost) in zip(ends.tolist(), curve.tolist(), strict=True):
        if seen:
            report(end, (seen, lost))
    return state._replace(theta=theta, bar=bar, monitor=monitor, t=t)


@kernel
def step_rows(
    W: SideBySide, theta: Iterate, bar: Average, monitor: LossMonitor, t: int, t0: int,
    gamma0: float, schedule: Schedule, problem: Problem, least: float, start: int,
    ends: WholeNumbers, curve: Matrix, rows: Rows, y: PerRow, weight: PerRow, order: Order,
) -> tuple[Iterate, Average, LossMonitor, int]:  # fmt: skip
    """Take the steps; W changes in place.  Returns (theta, bar, monitor, t).

    After `ends` rows (ascending), `curve` gets the number of rows monitored and their loss sum.
    """
    at = StepScalars(theta, 1.0 / theta.alpha, bar, with_float_counts(monitor))
    V, last, skips = at_hand(rows, W), order.shape[0] - 1, skipping_pays(rows)
    noted, end = 0, end_of(ends, 0)
    upcoming = step_size(schedule, gamma0, t + 1)  # computed a row ahead, as much depends on it
    s = move_then_dot(rows, 0, None, None, V, order[start]) if start <= last else 0.0
    for r in range(start, last + 1):
        i, after = order[r], order[min(r + 1, last)]
        prefetch_row(rows, y, weight, order, r)
        t += 1
        gamma, upcoming = upcoming, step_size(schedule, gamma0, t + 1)
        square = square_of(problem.loss, rows, i)
        at, k = row_step(at, problem, least, gamma, t, y[i], weight[i], s, square)
        if at.monitor.diverged > 0.0:
            break
        if skips and k == 0.0:
            s = move_then_dot(rows, i, None, None, V, after)
        elif t <= t0 + 1:
            s = move_then_dot(rows, i, -k, None, V, after)
        else:
            s = move_then_dot(rows, i, -k, at.bar.tau * k, V, after)
        at = average(at, t, t0)
        flushes = at.theta.alpha > FLUSH_ABOVE or at.bar.beta > FLUSH_BETA_ABOVE
        if flushes or t == t0 + 1:
            put_back(rows, V, W)
            if t == t0 + 1:  # bar <- theta
                W[:, 1] = 0.0
            if flushes:
                flush(W, at.theta.alpha, at.bar.tau, at.bar.beta)
                at = flushed(at)
            fetch(rows, V, W)
            s = move_then_dot(rows, 0, None, None, V, after)
        if r + 1 == end:
            curve[noted, 0], curve[noted, 1] = at.monitor.n_monitored, at.monitor.loss_sum
            noted, end = noted + 1, end_of(ends, noted + 1)
    put_back(rows, V, W)
    return at.theta, at.bar, with_integer_counts(at.monitor), t


@part_of_kernels
def square_of(loss: Loss, rows: Rows, i: int) -> float:
    """Return ||x_i||^2 if steps are exact, else 0."""
    return norm2(rows, i) if steps_exactly(loss) else 0.0


@part_of_kernels
def row_step(
    at: StepScalars, problem: Problem, least: float, gamma: Number, t: int, y: Number,
    weight: float, s: Number, square: float,
) -> tuple[StepScalars, Number]:  # fmt: skip
    """Take the step of a row with s = u . x: (3) and (2) of averaged_sgd.py, for numbers or lanes.

    `square` is ||x||^2 if steps are exact, else arbitrary.  Returns the scalars after the step, and
    the multiple of the row to subtract from u.  After divergence all other numbers are undefined.
    """
    p = prediction(at, problem, s)
    if t % LISTEN_EVERY == 0:
        at = monitored(at, problem, least, smoothing(at.monitor.n_monitored + 1.0), p, y)
    return move(at, problem, gamma, p, y, weight, square)


@part_of_kernels
def prediction(at: StepScalars, problem: Problem, s: Number) -> Number:
    """Return theta . x for s = u . x."""
    return fma(s, at.inverse, problem.intercept * at.theta.b)


@part_of_kernels
def monitored(
    at: StepScalars, problem: Problem, least: float, rate: Number, p: Number, y: Number
) -> StepScalars:
    """Update the monitor with the loss of a row before its step."""
    loss, first = problem.loss, problem.intercept * problem.level
    monitor = listen(at.monitor, rate, value(loss, p, y), value(loss, first, y), least)
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
