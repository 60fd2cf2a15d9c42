"""Estimation of the first step size on the first rows (after L. Bottou's SGD programs).

1/M, the safe choice, is far too small if row norms have a heavy tail and too large if features are
correlated.  So each candidate 4^j / (M + lam), j = -2 .. 8, and half of the best one, is tried in
one pass of plain SGD over the first thousand rows.  Of those whose last iterate is within 5 % of
the lowest regularised objective on these rows, the smallest is chosen.  About 13,000 row visits.

Twice the best is not tried, and near ties go to the smaller step, because a thousand rows favour
large steps too much: on five real data sets, with three losses and two values of lam, the mean
excess after a pass was 0.74 of that with both neighbours tried.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add, dot, paired_zeros
from fewpass.solvers.kernels.shapes import Order, PerRow, SideBySide
from fewpass.solvers.losses import Loss, Problem, sgd_slope, value
from fewpass.solvers.penalties import strength
from fewpass.solvers.protocol import Block, ProblemStats
from fewpass.solvers.sgd.averaged_state import Schedule, step_size
from fewpass.solvers.sgd.steps import square_of

TRIAL_ROWS = 1000
POWERS = range(-2, 9)
NEAR_TIE = 0.05  # relative


def calibrate(
    problem: Problem, schedule: Schedule, largest_square: float, stats: ProblemStats, block: Block
) -> float:
    """Return the smallest gamma0 with nearly the lowest objective after a trial pass.

    `largest_square` is M.
    """
    trial = block._replace(order=block.order[:TRIAL_ROWS])

    def objective_of(gamma0: float) -> float:
        W = paired_zeros(stats.rows_kind, stats.d)
        return float(trial_objective(W, gamma0, schedule, problem, *trial[:4]))

    return smallest_good_step(problem.lam, largest_square, objective_of)


def smallest_good_step(
    lam: float, largest_square: float, objective_of: Callable[[float], float]
) -> float:
    """Return the smallest gamma0 with nearly the lowest objective.

    Candidates with lam gamma0 >= 0.9 or a result that is not finite are dropped; without any left,
    the smallest is returned, and training itself detects divergence.
    """
    base = 1.0 / (largest_square + lam)
    objectives: dict[float, float] = {}

    def try_step(gamma0: float) -> None:
        if lam * gamma0 < 0.9 and gamma0 not in objectives:
            objective = objective_of(gamma0)
            objectives[gamma0] = objective if np.isfinite(objective) else np.inf

    for j in POWERS:
        try_step(base * 4.0**j)
    try_step(0.5 * min(objectives, key=lambda gamma0: (objectives[gamma0], gamma0)))
    bound = (1.0 + NEAR_TIE) * min(objectives.values())
    return min(gamma0 for gamma0, objective in objectives.items() if objective <= bound)


@kernel
def trial_objective(
    W: SideBySide, gamma0: float, schedule: Schedule, problem: Problem, rows: Rows, y: PerRow,
    weight: PerRow, order: Order,
) -> float:  # fmt: skip
    """Return the objective on rows `order` after one pass of SGD over them."""
    loss: Loss = problem.loss
    lam: float = strength(problem.penalty)
    intercept, lam_b = problem.intercept, problem.lam_b
    b, alpha = problem.level, 1.0
    for r in range(order.shape[0]):
        i = order[r]
        gamma = step_size(schedule, gamma0, r + 1)
        q = gamma * weight[i] * (square_of(loss, rows, i) + intercept * intercept)
        g = weight[i] * sgd_slope(loss, dot(rows, i, W) / alpha + intercept * b, y[i], q)
        alpha /= 1.0 - lam * gamma
        add(rows, i, -alpha * gamma * g, W)
        b -= gamma * (lam_b * (b - problem.level) + intercept * g)
        if alpha > 1e100:
            for j in range(W.shape[0]):  # W[:, 0] /= alpha takes numba 1.7 s to compile
                W[j, 0] /= alpha
            alpha = 1.0
    total = 0.0
    for r in range(order.shape[0]):
        i = order[r]
        total += weight[i] * value(loss, dot(rows, i, W) / alpha + intercept * b, y[i])
    up: float = b - problem.level
    square = 0.0
    for j in range(W.shape[0]):
        square += W[j, 0] * W[j, 0]
    return total / order.shape[0] + 0.5 * lam * square / alpha**2 + 0.5 * lam_b * up * up
