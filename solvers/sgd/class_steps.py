"""The steps of averaged SGD for a loss of several scores: steps.py with (wide,) numbers of a row.

theta = u / alpha and bar = (tau u + uh) / beta as there, u and uh (d, wide), side by side in W.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import Rows, prefetch_row
from fewpass.solvers.kernels.shapes import Matrix, Order, PerRow, WholeNumbers
from fewpass.solvers.kernels.simd.lanes import Eight, load, store
from fewpass.solvers.kernels.simd.wide_rows import (
    PerClass,
    add_both_wide,
    add_scores,
    add_wide,
    prefetch_wide,
)
from fewpass.solvers.loss_monitor import (
    LISTEN_EVERY,
    LossMonitor,
    end_of,
    listen,
    smoothing,
)
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, LossOfScores, loss_and_slopes
from fewpass.solvers.penalties import strength
from fewpass.solvers.sgd.averaged_state import Schedule, step_size
from fewpass.solvers.sgd.steps import FLUSH_ABOVE

BothVectors = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]  # (d, 2, wide): u and uh


@kernel
def step_wide_rows(
    W: BothVectors, b: PerClass, b_bar: PerClass, alpha: float, tau: float, beta: float,
    monitor: LossMonitor, t: int, t0: int, gamma0: float, schedule: Schedule, problem: Problem,
    level: PerClass, least: float, ends: WholeNumbers, curve: Matrix, rows: Rows, y: PerRow,
    weight: PerRow, order: Order,
) -> tuple[float, float, float, LossMonitor, int]:  # fmt: skip
    """Take the steps; W and the intercepts b, b_bar (wide,), charged from `level`, change in place.

    Returns alpha, tau, beta, the monitor and t.  After `ends` rows (ascending), `curve` gets the
    number of rows monitored and their loss sum.
    """
    loss: LossOfScores = problem.loss
    lam, intercept, lam_b = strength(problem.penalty), problem.intercept, problem.lam_b
    wide, V, how, last = W.shape[2], W.reshape(-1), Eight(), order.shape[0] - 1
    v, g, more = np.empty(wide), np.empty(wide), np.empty(wide)
    noted, end, step = 0, end_of(ends, 0), 2 * W.shape[2]
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_wide(rows, order[min(r + 1, last)], V, step)
        t += 1
        gamma = step_size(schedule, gamma0, t)
        scores_at(rows, i, V, step, 1.0 / alpha, intercept, b, loss.n_classes, v)
        now = loss_and_slopes(loss, v, int(y[i]), g)
        if t % LISTEN_EVERY == 0:
            rate = smoothing(monitor.n_monitored + 1.0)
            monitor = listen(monitor, rate, now, least, least)
            if monitor.diverged > 0.0:
                break
        alpha /= 1.0 - lam * gamma
        pull = gamma * weight[i]
        for k in range(0, wide, 8):
            own, slope = load(b, k, how), load(g, k, how)
            up = own - load(level, k, how)
            store(b, k, own - (gamma * lam_b * up + pull * intercept * slope))
            store(g, k, -alpha * pull * slope)
            store(more, k, tau * alpha * pull * slope)
        if t > t0 + 1:
            add_both_wide(rows, i, g, more, V, step, 0)
        else:
            add_wide(rows, i, g, V, step, 0)
        if t >= t0 + 1:
            tau, beta = averaged(W, b, b_bar, alpha, tau, beta, t - t0)
        if alpha > FLUSH_ABOVE:
            flush_wide(W, alpha, tau, beta)
            alpha, tau, beta = 1.0, 0.0, 1.0
        if r + 1 == end:
            curve[noted, 0], curve[noted, 1] = monitor.n_monitored, monitor.loss_sum
            noted, end = noted + 1, end_of(ends, noted + 1)
    return alpha, tau, beta, monitor, t


@part_of_kernels
def averaged(
    W: BothVectors, b: PerClass, b_bar: PerClass, alpha: float, tau: float, beta: float, number: int
) -> tuple[float, float]:
    """Update the average by the iterate of this number, and return tau and beta."""
    if number == 1:  # bar <- theta
        b_bar[:] = b
        W[:, 1] = 0.0
        return 1.0 / alpha, 1.0
    eta = 1.0 / number
    for k in range(b.shape[0]):
        b_bar[k] += eta * (b[k] - b_bar[k])
    beta /= 1.0 - eta
    return tau + eta * beta / alpha, beta


@part_of_kernels
def scores_at(
    rows: Rows, i: int, V: PerClass, step: int, inverse: float, intercept: float, b: PerClass,
    K: int, v: PerClass,
) -> None:  # fmt: skip
    """Write a row's scores by u / alpha and b into v, PADDED beyond the classes."""
    for k in range(v.shape[0]):
        v[k] = 0.0
    add_scores(rows, i, V, step, 0, v)
    for k in range(v.shape[0]):
        v[k] = v[k] * inverse + intercept * b[k] if k < K else PADDED


@kernel
def flush_wide(W: BothVectors, alpha: float, tau: float, beta: float) -> None:
    """Write theta and bar back into W, for alpha = beta = 1 and tau = 0."""
    for j in range(W.shape[0]):
        for k in range(W.shape[2]):
            W[j, 1, k] = (tau * W[j, 0, k] + W[j, 1, k]) / beta
            W[j, 0, k] /= alpha
