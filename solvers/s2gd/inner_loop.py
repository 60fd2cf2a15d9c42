"""The inner loop of S2GD: steps that cost only the rows' non-zeros (another form of Algorithm 3).

G and the decay change every weight in every step.  They are represented by scalars,

    y = A z - B G,    A <- (1 - h lam) A,    B <- (1 - h lam) B + h,    z <- z - (h/A) [..] x_i

with z and G in the same cache line, and without a time stamp per weight.  y is written back into z
("fold") once A falls below 1e-3.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add, dot_both, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerRow, SideBySide
from fewpass.solvers.losses import Problem, slope
from fewpass.solvers.penalties import strength

FOLD_BELOW = 1e-3  # A: until then the loss of precision in z does not matter


@kernel
def inner_steps(
    W: SideBySide, A: float, B: float, b: float, G_b: float, problem: Problem, h: float, batch: int,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, slopes: PerRow,
) -> tuple[float, float, float]:  # fmt: skip
    """Take steps over the rows in order, `batch` rows per step; `slopes` are those at the anchor.

    A last, smaller batch takes a proportionally shorter step.  Returns (A, B, b).
    """
    loss, lam = problem.loss, strength(problem.penalty)
    intercept, lam_b = problem.intercept, problem.lam_b
    change = np.empty(batch)
    for start in range(0, order.shape[0], batch):
        size = min(batch, order.shape[0] - start)
        total = 0.0
        for k in range(size):
            i = order[start + k]
            prefetch_row(rows, y, weight, order, start + k)
            s_z, s_G = dot_both(rows, i, W)
            p = A * s_z - B * s_G + intercept * b
            change[k] = weight[i] * slope(loss, p, y[i]) - slopes[i]
            total += change[k]
        share = h / batch
        A *= 1.0 - share * size * lam
        B = (1.0 - share * size * lam) * B + share * size
        b -= share * (size * (lam_b * (b - problem.level) + G_b) + intercept * total)
        for k in range(size):
            if change[k] != 0.0:
                add(rows, order[start + k], -share / A * change[k], W)
        if A < FOLD_BELOW:
            fold(W, A, B)
            A, B = 1.0, 0.0
    return A, B, b


@kernel
def fold(W: SideBySide, A: float, B: float) -> None:
    """Write y = A z - B G back into z."""
    for j in range(W.shape[0]):
        W[j, 0] = A * W[j, 0] - B * W[j, 1]
