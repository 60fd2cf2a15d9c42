"""Objective, gradient and certificate of a loss of several scores: gradient.py for K at once.

f(W, b) - f* <= ||G||^2 / (2 lam) + ||g_b||^2 / (2 lam_b),     and f(W, b) - f* <= f(W, b)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, prefetch_row
from fewpass.solvers.kernels.shapes import Matrix, Order, PerRow, Vector
from fewpass.solvers.kernels.simd.lanes import Eight, load, store
from fewpass.solvers.kernels.simd.wide_rows import (
    EndToEnd,
    PerClass,
    add_scores,
    add_wide,
    padded,
    prefetch_wide,
)
from fewpass.solvers.loss_monitor import ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import PADDED, LossOfScores, WideLoss, loss_and_slopes
from fewpass.solvers.protocol import Block, Certificate, Sum, Weights


class WideGradientPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    loss: float  # sum of weighted losses
    G: NDArray[np.float64]  # (d, wide) sum of rows times weighted slopes
    g_b: NDArray[np.float64]  # (wide,) sum of weighted slopes times the constant column
    rows: int

    def of(self, K: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the means (K, d) and (K,)."""
        return self.G[:, :K].T / self.rows, self.g_b[:K] / self.rows


def constant_scores(problem: Problem, d: int) -> Weights:
    """Return where methods begin: zero weights for d features, the intercepts at their level."""
    K = problem.loss.width
    return Weights(np.zeros((K, d)), np.broadcast_to(np.asarray(problem.level, float), K).copy())


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
    inside = np.empty(0 if report is ignore_losses else (rows - 1) // every)
    V, base = in_columns(at.coef).ravel(), base_of(at.intercept, problem.intercept)
    more = add_wide_slopes(
        part.G.ravel(), part.g_b, V, base, problem.loss, problem.intercept, *block[:4], every,
        inside,
    )  # fmt: skip
    for k, so_far in enumerate(inside.tolist()):
        stop = (k + 1) * every
        report(stop, (part.rows + stop, part.loss + so_far))
    report(rows, (part.rows + rows, part.loss + more))
    return part._replace(loss=part.loss + more, rows=part.rows + rows)


#: The gradient at some weights.
WIDE_GRADIENT = Sum(
    "reduce-gradient", no_wide_gradient, add_wide_gradient, telling=add_wide_gradient
)


def wide_certificate(problem: Problem, at: Weights, total: WideGradientPart) -> Certificate:
    """Return the certificate that follows from the sums over all rows."""
    w, up = at.coef.ravel(), at.intercept - np.asarray(problem.level)
    means, g_b = total.of(len(at.coef))
    g = (means + problem.lam * at.coef).ravel()
    with np.errstate(over="ignore", invalid="ignore"):  # huge weights: inf or nan
        square, error = float(w @ w), float(g @ g)
    charged = 0.5 * problem.lam * square + 0.5 * problem.lam_b * float(up @ up)
    objective, gap = total.loss / total.rows + charged, error / (2.0 * problem.lam)
    if problem.intercept:
        slopes = g_b + problem.lam_b * up
        gap += float(slopes @ slopes) / (2.0 * problem.lam_b)
    return Certificate(objective, min(gap, objective))


def whole_wide_gradient(problem: Problem, at: Weights, total: WideGradientPart) -> Weights:
    """Return the gradient of the objective."""
    means, g_b = total.of(len(at.coef))
    up = at.intercept - np.asarray(problem.level)
    return Weights(means + problem.lam * at.coef, g_b + problem.lam_b * up)


@kernel
def add_wide_slopes(
    G: EndToEnd, g_b: PerClass, V: EndToEnd, base: PerClass, loss: LossOfScores, intercept: float,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, every: int, inside: Vector,
) -> float:  # fmt: skip
    """G += sum of rows times weighted slopes, g_b += that of slopes; returns the sum of losses.

    `inside` receives the running loss sums at regular intervals, until it is full.
    """
    wide, total, how, last = base.shape[0], 0.0, Eight(), order.shape[0] - 1
    v, g, noted = np.empty(wide), np.empty(wide), 0
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_wide(rows, order[min(r + 1, last)], V, wide)
        for k in range(0, wide, 8):
            store(v, k, load(base, k, how))
        add_scores(rows, i, V, wide, 0, v)
        total += weight[i] * loss_and_slopes(loss, v, int(y[i]), g)
        for k in range(0, wide, 8):
            change = weight[i] * load(g, k, how)
            store(g, k, change)
            store(g_b, k, load(g_b, k, how) + intercept * change)
        add_wide(rows, i, g, G, wide, 0)
        if noted < inside.shape[0] and (r + 1) % every == 0:
            inside[noted] = total
            noted += 1
    return total


def loss_at_zero(loss: LossOfScores) -> float:
    """Return the loss of a row whose scores are all 0."""
    return float(loss.losses(np.zeros((1, loss.width)), np.zeros(1))[0])


def losses_and_ranks(
    problem: Problem, at: Weights, block: Block
) -> tuple[float, NDArray[np.int64]]:
    """Return the sum of all rows' weighted losses, and each row's class of the highest score."""
    base = base_of(np.asarray(at.intercept), problem.intercept)
    best = np.zeros(len(block.y), np.int64)
    V = in_columns(at.coef).ravel()
    return float(judge_rows(best, V, base, problem.loss, *block[:3])), best


@kernel
def judge_rows(
    best: Order,
    V: EndToEnd,
    base: PerClass,
    loss: LossOfScores,
    rows: Rows,
    y: PerRow,
    weight: PerRow,
) -> float:
    """Write every row's class of the highest score; return the sum of the weighted losses."""
    wide, total, how = base.shape[0], 0.0, Eight()
    v, g = np.empty(wide), np.empty(wide)
    for i in range(best.shape[0]):
        for k in range(0, wide, 8):
            store(v, k, load(base, k, how))
        add_scores(rows, i, V, wide, 0, v)
        total += weight[i] * loss_and_slopes(loss, v, int(y[i]), g)
        for k in range(1, loss.n_classes):
            if v[k] > v[best[i]]:
                best[i] = k
    return total


def losses_of_wide_scores(
    loss: WideLoss, scores: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the loss of every row's scores (n, K) and class (n,)."""
    out = np.full((len(scores), padded(loss.width)), PADDED)
    out[:, : loss.width] = scores
    losses = np.empty(len(scores))
    judge_scores(losses, out, loss, y)
    return losses


@kernel
def judge_scores(losses: PerRow, V: Matrix, loss: LossOfScores, y: PerRow) -> None:
    """Write the loss of every row of V (n, wide)."""
    g = np.empty(V.shape[1])
    for i in range(V.shape[0]):
        losses[i] = loss_and_slopes(loss, V[i], int(y[i]), g)
