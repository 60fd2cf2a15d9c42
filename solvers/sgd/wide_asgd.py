"""Averaged SGD for a loss of several scores: one model that makes the scores of all classes.

The algorithm, its first step size and its guard are those of averaged_sgd.py, with the gradient of
K scores in place of a slope.  Averaging begins after a given number of rows.  theta = u / alpha and
bar = (tau u + uh) / beta as there, u and uh (d, wide), side by side in W.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import Eight, load, store
from fewpass.solvers.kernels.rows import Rows, prefetch_columns, prefetch_row
from fewpass.solvers.kernels.shapes import Matrix, Order, PerRow, WholeNumbers
from fewpass.solvers.kernels.simd.wide_rows import (
    PerClass,
    add_scores,
    add_wide,
    padded,
    padded_scores,
    wide_zeros,
)
from fewpass.solvers.loss_monitor import (
    LISTEN_EVERY,
    LossMonitor,
    ReportLosses,
    end_of,
    ends_of,
    ignore_losses,
    listen,
    smoothing,
)
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, LossOfScores, level_of_scores, loss_and_slopes
from fewpass.solvers.needs import Needs
from fewpass.solvers.penalties import strength
from fewpass.solvers.protocol import Block, ProblemStats, Walk, Weights
from fewpass.solvers.sgd.averaged_sgd import Asgd, largest_square
from fewpass.solvers.sgd.averaged_state import (
    NEVER,
    SOUGHT,
    Average,
    Iterate,
    Schedule,
    SgdState,
    at_intercept,
    scale_intercept,
    step_size,
)
from fewpass.solvers.sgd.first_step_size import TRIAL_ROWS, smallest_good_step
from fewpass.solvers.sgd.steps import FLUSH_ABOVE
from fewpass.solvers.wide_gradient import loss_at_zero

BothVectors = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]  # (d, 2, wide): u and uh


@kernel
def step_wide_rows(
    W: BothVectors, b: PerClass, b_bar: PerClass, alpha: float, tau: float, beta: float,
    monitor: LossMonitor, t: int, t0: int, gamma0: float, schedule: Schedule, problem: Problem,
    level: PerClass, zero_loss: float, ends: WholeNumbers, curve: Matrix, rows: Rows, y: PerRow,
    weight: PerRow, order: Order,
) -> tuple[float, float, float, LossMonitor, int]:  # fmt: skip
    """Take the steps; W and the intercepts b, b_bar (wide,), charged from `level`, change in place.

    Returns alpha, tau, beta, the monitor and t.  After `ends` rows (ascending), `curve` gets the
    number of rows monitored and their loss sum.
    """
    loss: LossOfScores = problem.loss
    lam, intercept, lam_b = strength(problem.penalty), problem.intercept, problem.lam_b
    wide, V, lanes, last = W.shape[2], W.reshape(-1), Eight(), order.shape[0] - 1
    noted, end, step = 0, end_of(ends, 0), 2 * W.shape[2]
    v, both = np.empty(wide), np.empty(step)
    g, more = both[:wide], both[wide:]
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_columns(rows, order[min(r + 1, last)], V, step)
        t += 1
        gamma = step_size(schedule, gamma0, t)
        scores_at(rows, i, V, step, 1.0 / alpha, intercept, b, loss.n_classes, v)
        now = loss_and_slopes(loss, v, int(y[i]), g)
        if t % LISTEN_EVERY == 0:
            rate = smoothing(monitor.n_monitored + 1.0)
            monitor = listen(monitor, rate, now, zero_loss, zero_loss)
            if monitor.diverged > 0.0:
                break
        alpha /= 1.0 - lam * gamma
        pull = gamma * weight[i]
        for k in range(0, wide, 8):
            own, slope = load(b, k, lanes), load(g, k, lanes)
            up = own - load(level, k, lanes)
            store(b, k, own - (gamma * lam_b * up + pull * intercept * slope))
            store(g, k, -alpha * pull * slope)
            store(more, k, tau * alpha * pull * slope)
        if t > t0 + 1:
            add_wide(rows, i, both, V, step, 0)
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


@kernel
def wide_trial_objective(
    W: BothVectors, level: PerClass, gamma0: float, schedule: Schedule, problem: Problem,
    rows: Rows, y: PerRow, weight: PerRow, order: Order,
) -> float:  # fmt: skip
    """Return the objective on rows `order` after one pass of SGD over them, from a constant."""
    loss: LossOfScores = problem.loss
    lam, intercept, lam_b = strength(problem.penalty), problem.intercept, problem.lam_b
    wide, V, alpha, step = W.shape[2], W.reshape(-1), 1.0, 2 * W.shape[2]
    v, g, b = np.empty(wide), np.empty(wide), level.copy()
    for r in range(order.shape[0]):
        i = order[r]
        gamma = step_size(schedule, gamma0, r + 1)
        scores_at(rows, i, V, step, 1.0 / alpha, intercept, b, loss.n_classes, v)
        loss_and_slopes(loss, v, int(y[i]), g)
        alpha /= 1.0 - lam * gamma
        for k in range(wide):
            b[k] -= gamma * (lam_b * (b[k] - level[k]) + weight[i] * intercept * g[k])
            g[k] *= -alpha * gamma * weight[i]
        add_wide(rows, i, g, V, step, 0)
        if alpha > 1e100:
            flush_wide(W, alpha, 0.0, 1.0)
            alpha = 1.0
    total, square = 0.0, 0.0
    for r in range(order.shape[0]):
        i = order[r]
        scores_at(rows, i, V, step, 1.0 / alpha, intercept, b, loss.n_classes, v)
        total += weight[i] * loss_and_slopes(loss, v, int(y[i]), g)
    for j in range(W.shape[0]):
        for k in range(wide):
            square += W[j, 0, k] * W[j, 0, k]
    charged = 0.0
    for k in range(loss.n_classes):
        charged += (b[k] - level[k]) ** 2
    mean = total / order.shape[0]
    return float(mean + 0.5 * lam * square / alpha**2 + 0.5 * lam_b * charged)


class WideAsgd(Asgd):
    """Averaged SGD for several scores."""

    needs: ClassVar[Needs] = Needs(several_scores=True)
    by_column: ClassVar[bool] = False
    width: PositiveInt
    """K, the number of scores."""

    def first_state(self, problem: Problem, stats: ProblemStats) -> SgdState:
        """Return the best constant; ValueError for what is not built for several scores."""
        self.refuse_one_score(problem)
        of_one = super().first_state(problem, stats._replace(d=0))
        level: Any = level_of_scores(problem)
        return at_intercept(of_one._replace(W=wide_zeros(stats.d, 2, len(level))), level)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> SgdState:
        """Return a state at weights that were trained on other rows; see averaged_sgd.py."""
        state: SgdState = self.init(problem, stats)
        state.W[:, :, : self.width] = weights.coef.T[:, None]
        b: Any = padded_scores(weights.intercept, self.width)
        t0 = state.t0 if state.t0 in (SOUGHT, NEVER) else rows_before + state.t0
        return at_intercept(state, b)._replace(t=rows_before, t0=t0)

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """Return one walk; a row's classes are side by side already."""
        (walk,) = super().program(epoch)
        return (walk._replace(interleaved=None, pairs=None),)

    def weights(self, state: SgdState) -> Weights:
        """Return the average once averaging has begun, else the last iterate."""
        W, b = super().weights(state)
        return Weights(np.ascontiguousarray(W[:, : self.width].T), b[: self.width].copy())

    def step(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> SgdState:  # fmt: skip
        """Visit the rows of a block."""
        problem, state, length = self.prepared(problem, stats, state, block)
        ends = ends_of(stats.stream_rows, len(block.order), report)
        curve = np.zeros((len(ends), 2))
        b: Any
        b_bar: Any
        (b, alpha), (b_bar, tau, beta) = state.theta, state.bar
        alpha, tau, beta, monitor, t = step_wide_rows(
            state.W, b, b_bar, alpha, tau, beta, state.monitor, state.t, state.t0, state.gamma0,
            self.schedule(problem), problem._replace(level=0.0), level_of_scores(problem),
            loss_at_zero(problem.loss), ends, curve, *block[:4],
        )  # fmt: skip
        for end, (seen, lost) in zip(ends.tolist(), curve.tolist(), strict=True):
            if seen:
                report(end, (seen, lost))
        after = state._replace(
            theta=Iterate(b, alpha), bar=Average(b_bar, tau, beta), monitor=monitor, t=t
        )
        return scale_intercept(after, length)

    def _begin(
        self, problem: Problem, stats: ProblemStats, state: SgdState, block: Block
    ) -> SgdState:
        """Estimate the first step size on first rows."""
        first = block._replace(order=block.order[:TRIAL_ROWS])
        objective_of = partial(trial, problem, self.schedule(problem), stats.d, first)
        square = largest_square(problem, stats)
        return state._replace(gamma0=smallest_good_step(problem.lam, square, objective_of))


def trial(problem: Problem, schedule: Schedule, d: int, first: Block, gamma0: float) -> float:
    """Return the objective on first rows after a pass over them."""
    W, level = wide_zeros(d, 2, padded(problem.loss.width)), level_of_scores(problem)
    one = problem._replace(level=0.0)
    return float(wide_trial_objective(W, level, gamma0, schedule, one, *first[:4]))
