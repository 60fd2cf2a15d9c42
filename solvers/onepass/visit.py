"""One visit of every row by all learners: predictions, then steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import LaneWidth, fma, half, load, store, where
from fewpass.solvers.kernels.rows import (
    Rows,
    add,
    add_both,
    dot_both,
    prefetch_columns,
    prefetch_row,
)
from fewpass.solvers.kernels.shapes import LaneVector, Number, Order, PerRow, SideBySide, Vector
from fewpass.solvers.loss_monitor import MOST_LOSS
from fewpass.solvers.losses import Problem, counted_slope, value
from fewpass.solvers.onepass.adagrad import (
    RECORD,
    SCRATCH,
    U,
    W,
    count_slope,
    count_slopes,
    implicit_slope,
    longest,
    move,
    move_at,
    predict,
)
from fewpass.solvers.penalties import strength
from fewpass.solvers.sgd.averaged_state import Schedule, step_size
from fewpass.solvers.sgd.steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    StepScalars,
    average,
    flush,
    flushed,
    row_step,
    square_of,
)

#: Outputs: AdaGrad's last weights and late-weighted averages at both step sizes, then averaged
#: SGD's average.
LAST, POLY, ASGD = 0, 2, 4
OUTPUTS = 5
LEFT = 1e300  # late-weighted losses of an output that has left the pass (leaving.py)


class Clock(NamedTuple):
    """Progress of a pass."""

    t: int  # rows visited
    mass: float  # sum of (t/n)^5 over them


class StepConstants(NamedTuple):
    """Constants of AdaGrad's steps and of the late weights."""

    horizon: float  # n of (t/n)^5: rows of the pass, and those before it
    root_n: float  # square root of the mean number of values in a row, with the constant one


@part_of_kernels
def late_weight(t: int, horizon: float) -> float:
    """Return (t/n)^5."""
    share = t / horizon
    square = share * share
    return square * square * share


@part_of_kernels
def bounded_loss(c: float, loss: Number) -> Number:
    """Return a row's weighted and bounded loss."""
    return c * where(loss <= MOST_LOSS, loss, MOST_LOSS)


@part_of_kernels
def count_loss(losses: Vector, output: int, c: float, share: float, loss: float) -> None:
    """Add an output's loss before the row's step, late-weighted and plain."""
    loss = bounded_loss(c, loss)
    losses[output] += share * loss
    losses[OUTPUTS + output] += loss


@part_of_kernels
def monitor_both(
    losses: Vector, output: int, c: float, share: float, loss: LaneVector, lanes: LaneWidth
) -> None:
    """Add the losses of two adjacent outputs, late-weighted and plain."""
    loss, L = bounded_loss(c, loss), half(lanes)
    late_at, at = output * L, (OUTPUTS + output) * L
    store(losses, late_at, fma(share, loss, load(losses, late_at, lanes)))
    store(losses, at, loss + load(losses, at, lanes))


@part_of_kernels
def learn(
    rows: Rows, i: int, target: Number, c: float, share: float, problem: Problem, etas: LaneVector,
    root_n: float, mass: float, V: Vector, step: int, losses: Vector, scratch: Vector,
    most: int, lanes: LaneWidth,
) -> None:  # fmt: skip
    """Predict row i by both AdaGrad learners, of all models, and take their steps.

    `scratch` is scratch memory for at most `most` values; `losses` as in monitor_both.
    """
    loss, lam = problem.loss, strength(problem.penalty)
    intercept, lam_b = problem.intercept, problem.lam_b
    L, constant = half(lanes), V.shape[0] - step
    p, average_u = predict(rows, i, V, step, lanes)
    p += intercept * load(V, constant + W * L, lanes)
    average_u += intercept * load(V, constant + U * L, lanes)
    p_bar = p + average_u * (1.0 / mass if mass > 0.0 else 0.0)
    monitor_both(losses, LAST, c, share, value(loss, p, target), lanes)
    monitor_both(losses, POLY, c, share, value(loss, p_bar, target), lanes)

    g0 = c * counted_slope(loss, p, target)
    a, q = count_slopes(rows, i, g0, etas, root_n, lam, V, step, scratch, lanes)
    if intercept != 0.0:
        da, dq = count_slope(intercept, g0, etas, root_n, lam_b, V, constant, scratch, most, lanes)
        a, q = a + da, q + dq
    g = implicit_slope(loss, c, a, q, target)
    move(rows, i, g, mass, V, step, scratch, lanes)
    if intercept != 0.0:
        move_at(g, mass, V, constant, scratch, most, lanes)


@part_of_kernels
def sgd_prediction(
    at: StepScalars, problem: Problem, t: int, t0: int, s: Number, s_bar: Number
) -> Number:
    """Return the prediction of averaged SGD for row t: bar . x, or theta . x before averaging."""
    b, tau, beta = at.bar
    if t - 1 > t0:
        return (tau * s + s_bar) / beta + problem.intercept * b
    return s * at.inverse + problem.intercept * at.theta.b


@kernel
def visit_rows(
    V: Vector, eta: Vector, losses: Vector, clock: Clock, pace: StepConstants, problem: Problem,
    sgd_W: SideBySide, at: StepScalars, t0: int, gamma0: float, schedule: Schedule,
    sgd_problem: Problem, zero_loss: float, lanes: LaneWidth, rows: Rows, y: PerRow, weight: PerRow,
    order: Order,
) -> tuple[int, float, StepScalars]:  # fmt: skip
    """Visit rows `order` with all learners; V, losses and sgd_W change in place.

    V are the columns' records, eta (2,), losses (10,): the late-weighted sums of the outputs'
    losses before the steps, then the plain ones.  t0 to zero_loss are for averaged SGD, see
    steps.py, which stops after divergence; AdaGrad rests where its losses are `LEFT`.  Returns t,
    mass and the scalars of averaged SGD.
    """
    loss, adagrad = problem.loss, losses[LAST] < LEFT
    (t, mass), (horizon, root_n) = clock, pace
    most, last = longest(rows, order), order.shape[0] - 1
    scratch, etas = np.empty(SCRATCH * (most + 1)), load(eta, 0, lanes)
    for r in range(last + 1):
        i, next_row = order[r], order[min(r + 1, last)]
        prefetch_row(rows, y, weight, order, r)
        t += 1
        target, c, share = y[i], weight[i], late_weight(t, horizon)
        if adagrad:
            prefetch_columns(rows, next_row, V, RECORD)
            learn(
                rows, i, target, c, share, problem, etas, root_n, mass, V, RECORD, losses, scratch,
                most, lanes,
            )  # fmt: skip
        mass += share

        if at.monitor.diverged == 0.0:
            prefetch_columns(rows, next_row, sgd_W, 2)
            s, s_bar = dot_both(rows, i, sgd_W)
            p_sgd = sgd_prediction(at, sgd_problem, t, t0, s, s_bar)
            count_loss(losses, ASGD, c, share, value(loss, p_sgd, target))
            gamma = step_size(schedule, gamma0, t)
            square = square_of(loss, rows, i)
            at, k = row_step(at, sgd_problem, zero_loss, gamma, t, target, c, s, square)
            if at.monitor.diverged > 0.0:
                continue
            if t <= t0 + 1:
                add(rows, i, -k, sgd_W)
            else:
                add_both(rows, i, -k, at.bar.tau * k, sgd_W)
            if t == t0 + 1:  # bar <- theta
                sgd_W[:, 1] = 0.0
            at = average(at, t, t0)
            if at.theta.alpha > FLUSH_ABOVE or at.bar.beta > FLUSH_BETA_ABOVE:
                flush(sgd_W, at.theta.alpha, at.bar.tau, at.bar.beta)
                at = flushed(at)
    return t, mass, at
