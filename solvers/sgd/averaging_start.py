"""Search for the start of averaging (Xu 2011, section 2.3).

    for each row i, t = 1, 2, ...
        compare the losses of theta and bar on the row, both smoothed
        theta <- its step                                           (3) and (2), as usual
        bar   <- (1 - eta) bar + eta theta,   eta = 1/100           (6) with a constant eta
        stop at the first t >= 100 where bar predicts better, or at `latest`

The steps are those of steps.py, by the same functions.  The average of (6) then starts afresh.
"""

from __future__ import annotations

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_both, dot_both
from fewpass.solvers.kernels.shapes import Order, PerRow, SideBySide, WholeNumbers
from fewpass.solvers.loss_monitor import EMA_RATE, ReportLosses, smoothing
from fewpass.solvers.losses import Problem, value
from fewpass.solvers.protocol import Block
from fewpass.solvers.sgd.averaged_state import SOUGHT, Schedule, SgdState, step_size
from fewpass.solvers.sgd.steps import (
    FLUSH_ABOVE,
    FLUSH_BETA_ABOVE,
    SgdModel,
    StepScalars,
    after_steps,
    flush,
    flushed,
    mixed_in,
    monitored,
    move,
    prediction,
    square_of,
    step_scalars,
)

SOONEST = 100  # rows before the earliest start


def seek_start(
    model: SgdModel, zero_loss: float, latest: int, block: Block, ends: WholeNumbers,
    report: ReportLosses,
) -> tuple[SgdState, int]:  # fmt: skip
    """Step until averaging starts or the rows end.  Returns (state, rows visited).

    `report` is called with the losses after `ends` rows, until the search ends.
    """
    (problem, schedule, state, _), (rows, y, weight, order) = model, block[:4]
    visited = 0
    for end in ends if len(ends) else [len(order)]:
        at, bar_loss, t, t0, more = step_and_compare(
            state.W, step_scalars(state), state.bar_loss, state.t, state.gamma0, schedule, problem,
            zero_loss, latest, rows, y, weight, order[visited:end],
        )  # fmt: skip
        state = after_steps(state, at, t)._replace(bar_loss=bar_loss, t0=t0)
        visited += more
        if visited == end:
            report(int(end), state.monitor[:2])
        if t0 != SOUGHT or at.monitor.diverged:
            break
    return state, visited


@kernel
def step_and_compare(
    W: SideBySide, at: StepScalars, bar_loss: float, t: int, gamma0: float, schedule: Schedule,
    problem: Problem, zero_loss: float, latest: int, rows: Rows, y: PerRow, weight: PerRow,
    order: Order,
) -> tuple[StepScalars, float, int, int, int]:  # fmt: skip
    """Take the steps of the search; W changes in place."""
    loss, r, t0 = problem.loss, 0, SOUGHT
    while r < order.shape[0] and t0 == SOUGHT and at.monitor.diverged == 0.0:
        i = order[r]
        r += 1
        t += 1
        s, s_bar = dot_both(rows, i, W)
        p = prediction(at, problem, s)
        p_bar = (at.bar.tau * s + s_bar) / at.bar.beta + problem.intercept * at.bar.b
        rate = smoothing(t)
        at = monitored(at, problem, zero_loss, rate, p, y[i])
        bar_loss += rate * (value(loss, p_bar, y[i]) - bar_loss)
        gamma, square = step_size(schedule, gamma0, t), square_of(loss, rows, i)
        at, k = move(at, problem, gamma, p, y[i], weight[i], square)
        add_both(rows, i, -k, at.bar.tau * k, W)
        at = mixed_in(at, EMA_RATE)
        if at.theta.alpha > FLUSH_ABOVE or at.bar.beta > FLUSH_BETA_ABOVE:
            flush(W, at.theta.alpha, at.bar.tau, at.bar.beta)
            at = flushed(at)
        if t >= SOONEST and (bar_loss < at.monitor.loss or t >= latest):
            t0 = t
    return at, bar_loss, t, t0, r
