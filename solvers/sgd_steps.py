"""The steps of averaged SGD over rows, for one model; sgd_abreast.py has several side by side.

`row_step` and `average` are the algorithm (sgd.py), for both; what differs is only how rows and
weights meet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.dispatch import kernel, part_of_kernels
from solvers.lanes import choose_above, choose_at_most, fused
from solvers.losses import slope, value
from solvers.rows import look_ahead
from solvers.rows_in_turn import at_hand, fetch, move_then_dot, put_back, skipping_pays
from solvers.schedule import step_size

FLUSH_ABOVE = 1e6  # alpha: the relative error of bar is about 1e-16 alpha
FLUSH_BETA_ABOVE = 1e200  # the decaying average's divisor grows like 0.99^-t
LISTEN_EVERY = 8  # rows between two that are asked for their loss before the step
EXPLODED = 10.0  # a smoothed loss this many times that of zero weights is a lost pass
NEVER = 1 << 62  # t0 of plain SGD: no row is late enough
SOUGHT = -1  # t0 while the rule of section 2.3 looks for it
EMA_RATE = 0.01


class SgdState(NamedTuple):
    """Everything that changes; `ema_*` lives only while the start of averaging is looked for."""

    W: NDArray[np.float64]  # (d, 2) columns u and uh
    ema_vector: NDArray[np.float64]  # (d,), or (0,): ema = (ema_tau u + ema_vector) / ema_beta
    b: float  # intercept of theta
    b_bar: float  # intercept of bar
    b_ema: float
    alpha: float
    beta: float
    tau: float
    ema_beta: float
    ema_tau: float
    t: int  # rows visited
    t0: int  # averaging starts after it; SOUGHT, NEVER or a row count
    gamma0: float  # 0 until the first block calibrates it
    heard: int  # rows whose loss before the step was taken
    loss_sum: float  # over them
    loss: float  # smoothed
    loss_zero: float  # the same smoothing of the loss of zero weights
    loss_ema: float  # the same smoothing of the decaying average's loss, while t0 is looked for
    lost: int  # 1 once the loss exploded


class Moment(NamedTuple):
    """What a row's step changes besides W, and 1 / alpha."""

    b: float
    b_bar: float
    alpha: float
    inverse: float
    beta: float
    tau: float
    heard: float
    loss_sum: float
    smooth: float
    smooth_zero: float
    lost: float


@kernel
def visit_rows(
    state: Any, schedule: Any, problem: Any, usual: Any, start: Any,
    rows: Any, y: Any, weight: Any, order: Any,
) -> Any:  # fmt: skip
    """Algorithm 1 over rows order[start:]; t0 is known, `usual` is zero weights' mean loss."""
    W, ema_vector, b, b_bar, b_ema, alpha, beta, tau, ema_beta, ema_tau, t, t0, gamma0 = state[:13]
    heard, loss_sum, smooth, smooth_zero, loss_ema, lost = state[13:]
    at = Moment(
        b, b_bar, alpha, 1.0 / alpha, beta, tau, float(heard), loss_sum, smooth, smooth_zero,
        float(lost),
    )  # fmt: skip
    V, last, skips = at_hand(rows, W), order.shape[0] - 1, skipping_pays(rows)
    upcoming = step_size(schedule, gamma0, t + 1)  # known a row ahead: what waits for it is long
    s = move_then_dot(rows, 0, None, None, V, order[start]) if start <= last else 0.0
    for r in range(start, last + 1):
        i, after = order[r], order[min(r + 1, last)]
        look_ahead(rows, y, weight, order, r)
        t += 1
        gamma, upcoming = upcoming, step_size(schedule, gamma0, t + 1)
        at, k = row_step(at, problem, usual, gamma, t, y[i], weight[i], s)
        if at.lost > 0.0:
            break
        if skips and k == 0.0:
            s = move_then_dot(rows, i, None, None, V, after)
        elif t <= t0 + 1:
            s = move_then_dot(rows, i, -k, None, V, after)
        else:
            s = move_then_dot(rows, i, -k, at.tau * k, V, after)
        at = average(at, t, t0)
        flushes = at.alpha > FLUSH_ABOVE or at.beta > FLUSH_BETA_ABOVE
        if flushes or t == t0 + 1:
            put_back(rows, V, W)
            if t == t0 + 1:  # bar <- theta
                W[:, 1] = 0.0
            if flushes:
                flush(W, at.alpha, at.beta, at.tau)
                at = flushed(at)
            fetch(rows, V, W)
            s = move_then_dot(rows, 0, None, None, V, after)
    put_back(rows, V, W)
    return SgdState(
        W, ema_vector, at.b, at.b_bar, b_ema, at.alpha, at.beta, at.tau, ema_beta, ema_tau, t, t0,
        gamma0, int(at.heard), at.loss_sum, at.smooth, at.smooth_zero, loss_ema, int(at.lost),
    )  # fmt: skip


@part_of_kernels
def row_step(
    at: Any, problem: Any, usual: Any, gamma: Any, t: Any, y: Any, weight: Any, s: Any
) -> Any:
    """Take one row's step, s = u . x; returns the moment after it and what u loses of the row.

    Numbers, or the lanes of several models (lanes.py).

    Where it says that the pass is lost, the rest of it has no meaning.
    """
    loss, lam, intercept, lam_b = problem
    b, b_bar, alpha, inverse, beta, tau, heard, loss_sum, smooth, smooth_zero, lost = at
    p = fused(s, inverse, intercept * b)
    if t % LISTEN_EVERY == 0:
        heard += 1.0
        rate = choose_above(1.0 / heard, EMA_RATE, 1.0 / heard, EMA_RATE)
        now = value(loss, p, y)
        loss_sum += now
        smooth += rate * (now - smooth)
        smooth_zero += rate * (value(loss, 0.0, y) - smooth_zero)
        # A few rows prove little: the bound is 100 times as wide for one row alone.
        base = choose_above(smooth_zero, usual, smooth_zero, usual)
        lost = choose_at_most(smooth, EXPLODED * base * rate / EMA_RATE, lost, 1.0)
    change = slope(loss, p, y)
    g = weight * change
    alpha /= 1.0 - lam * gamma
    inverse = 1.0 / alpha  # divided before the next dot product, for which all else waits
    b -= gamma * (lam_b * b + intercept * g)
    after = Moment(b, b_bar, alpha, inverse, beta, tau, heard, loss_sum, smooth, smooth_zero, lost)
    return after, alpha * gamma * weight * change  # all but the slope is known before it


@part_of_kernels
def average(at: Any, t: Any, t0: Any) -> Any:
    """Bring the average up to row t, after the row's share was added with the old tau."""
    b, b_bar, alpha, inverse, beta, tau, heard, loss_sum, smooth, smooth_zero, lost = at
    if t == t0 + 1:
        beta, tau, b_bar = 0.0 * beta + 1.0, inverse, b
    elif t > t0:
        eta = 1.0 / (t - t0)
        beta /= 1.0 - eta
        tau += eta * beta * inverse
        b_bar += eta * (b - b_bar)
    return Moment(b, b_bar, alpha, inverse, beta, tau, heard, loss_sum, smooth, smooth_zero, lost)


@part_of_kernels
def flushed(at: Any) -> Any:
    """Return the moment after theta and bar were written back into W."""
    return Moment(at.b, at.b_bar, 1.0, 1.0, 1.0, 0.0, *at[6:])


@kernel
def flush(W: Any, alpha: Any, beta: Any, tau: Any) -> Any:
    """Write theta and bar back into W, for alpha = beta = 1 and tau = 0."""
    for j in range(W.shape[0]):
        W[j, 1] = (tau * W[j, 0] + W[j, 1]) / beta
        W[j, 0] /= alpha
