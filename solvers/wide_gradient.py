"""Objective, gradient and certificate of a loss of several scores: gradient.py for K at once.

f(W, b) - f* <= ||G||^2 / (2 lam) + ||g_b||^2 / (2 lam_b),     and f(W, b) - f* <= f(W, b)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, prefetch_columns, prefetch_row
from fewpass.solvers.kernels.shapes import Order, PerRow, Vector
from fewpass.solvers.kernels.simd.wide_rows import (
    EndToEnd,
    PerClass,
    add_wide,
    padded,
    scores_of,
    weigh,
)
from fewpass.solvers.loss_monitor import LossSum, ReportLosses, ignore_losses, inside, report_block
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, LossOfScores, loss_and_slopes
from fewpass.solvers.protocol import Block, Sum, Weights


class WideGradientPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    loss: float  # sum of weighted losses
    G: NDArray[np.float64]  # (d, wide) sum of rows times weighted slopes
    g_b: NDArray[np.float64]  # (wide,) sum of weighted slopes times the constant column
    rows: int


def in_columns(coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return coef (K, d) as (d, wide), padded with zeros."""
    V = np.zeros((coef.shape[1], padded(len(coef))))
    V[:, : len(coef)] = coef.T
    return V


def base_of(intercept: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """Return what K intercepts add to scores, padded with classes that there are not (wide,)."""
    base = np.full(padded(len(intercept)), PADDED)
    base[: len(intercept)] = value * intercept
    return base


def no_wide_gradient(at: Weights) -> WideGradientPart:
    """Return the zero of the sums."""
    wide = padded(len(at.coef))
    return WideGradientPart(0.0, np.zeros((at.coef.shape[1], wide)), np.zeros(wide), 0)


def add_wide_gradient(
    problem: Problem, at: Weights, block: Block, part: WideGradientPart,
    report: ReportLosses = ignore_losses, every: int = 0,
) -> WideGradientPart:  # fmt: skip
    """Add one block's loss and gradient at the given weights; G and g_b are added to in place."""
    rows, every = block.order.shape[0], max(1, every)
    noted = inside(report, rows, every)
    V, base = in_columns(at.coef).ravel(), base_of(at.intercept, problem.intercept)
    more = add_wide_slopes(
        part.G.ravel(), part.g_b, V, base, problem.loss, problem.intercept, *block[:4], every,
        noted,
    )  # fmt: skip
    report_block(report, LossSum(part.rows, part.loss), rows, more, noted, every)
    return part._replace(loss=part.loss + more, rows=part.rows + rows)


#: The gradient at some weights.
WIDE_GRADIENT = Sum("reduce-gradient", no_wide_gradient, add_wide_gradient, reports=True)


@kernel
def add_wide_slopes(
    G: EndToEnd, g_b: PerClass, V: EndToEnd, base: PerClass, loss: LossOfScores, intercept: float,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, every: int, inside: Vector,
) -> float:  # fmt: skip
    """G += sum of rows times weighted slopes, g_b += that of slopes; returns the sum of losses.

    `inside` receives the running loss sums at regular intervals, until it is full.
    """
    wide, total, last = base.shape[0], 0.0, order.shape[0] - 1
    v, g, noted = np.empty(wide), np.empty(wide), 0
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_columns(rows, order[min(r + 1, last)], V, wide)
        scores_of(rows, i, V, base, v)
        total += weight[i] * loss_and_slopes(loss, v, int(y[i]), g)
        weigh(g, weight[i], intercept, g_b)
        add_wide(rows, i, g, G, wide, 0)
        if noted < inside.shape[0] and (r + 1) % every == 0:
            inside[noted] = total
            noted += 1
    return total


def loss_at_zero(loss: LossOfScores) -> float:
    """Return the loss of a row whose scores are all 0."""
    return float(loss.losses(np.zeros((1, loss.width)), np.zeros(1))[0])
