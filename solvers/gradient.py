"""Objective, gradient and certificate of any weights, as one reduce.

f is lam-strongly convex in w and lam_b-strongly convex in b, so at any point, with any
(sub)gradient (g, g_b) of f there,

    f(w, b) - f* <= ||g||^2 / (2 lam) + g_b^2 / (2 lam_b)

and, as no loss is below 0, f(w, b) - f* <= f(w, b); the smaller of the two is the certificate.
With a penalty that has no gradient it is that of scaled_gap.py.
The first is also the duality gap of the slopes where the loss is smooth; for the plain hinge it
holds but does not go to zero (docs/methods.md, section 4).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels, reading_part
from fewpass.solvers.kernels.lanes import Eight, broadcast, load, store, sum_lanes
from fewpass.solvers.kernels.rows import Rows, add_vector, dot_vector
from fewpass.solvers.kernels.shapes import LaneVector, Number, Order, PerColumn, PerRow, Vector
from fewpass.solvers.kernels.simd.row_blocks import TILE, add_eight, dot_eight, prefetch_eight
from fewpass.solvers.loss_monitor import LossSum, ReportLosses, ignore_losses, inside, report_block
from fewpass.solvers.losses import Problem, slope, value
from fewpass.solvers.protocol import Block, Certificate, Part, Sum, Weights
from fewpass.solvers.scaled_gap import FIRST, scaled_gap

NO_KNOTS: Vector = np.empty(0)
RISE = 1e-12  # relative increase of an objective; smaller ones are rounding
SUFFICIENT_DECREASE = 1e-4  # of a step, as a fraction of what the slope predicts (Armijo's c1)


class GradientPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    loss: float  # sum of weighted losses
    G: NDArray[np.float64]  # (d,) sum of weighted slopes times rows
    g_b: float  # sum of weighted slopes times the constant column
    rows: int


def no_gradient(at: Weights) -> GradientPart:
    """Return the zero of the sums."""
    return GradientPart(0.0, np.zeros_like(at.coef), 0.0, 0)


def add_gradient(
    problem: Problem, at: Weights, block: Block, part: GradientPart,
    report: ReportLosses = ignore_losses, every: int = 0,
) -> GradientPart:  # fmt: skip
    """Add one block's loss and gradient at the given weights; G is added to in place.

    If the block has a row state, the weighted slopes are written into it.
    """
    return GradientPart(*added(part, at.coef, at.intercept, problem, block, report, every))


def added(
    part: Part, w: NDArray[np.float64], b: float, problem: Problem, block: Block,
    report: ReportLosses, every: int,
) -> tuple[float, NDArray[np.float64], float, int]:  # fmt: skip
    """Return the first fields of a part with a block added; report the losses on the way."""
    loss, G, g_b, before = part[:4]
    rows, tiles = block.order.shape[0], max(1, every // TILE)
    noted_inside = inside(report, rows, tiles * TILE)
    more, slopes = add_slopes(G, w, b, problem, *block[:5], tiles, noted_inside)
    report_block(report, LossSum(before, loss), rows, more, noted_inside, tiles * TILE)
    return loss + more, G, g_b + slopes, before + rows


#: The gradient at some weights, and the same with every row's slope stored.
GRADIENT = Sum("reduce-gradient", no_gradient, add_gradient, reports=True)
GRADIENT_AND_SLOPES = GRADIENT._replace(row_state="write")


def certificate(
    problem: Problem, at: Weights, total: Part, gradient: Weights | None = None
) -> Certificate:
    """Return the certificate that follows from the sums over all rows, of one score or of K.

    `gradient` is that of the objective, where it is at hand.
    """
    if not problem.penalty.is_smooth:
        return scaled_certificate(problem, at, total, FIRST)[0]
    g, up = gradient or whole_gradient(problem, at, total), at.intercept - np.asarray(problem.level)
    with np.errstate(over="ignore", invalid="ignore"):  # huge weights: inf or nan
        square, error, error_b = squared(at.coef), squared(g.coef), squared(g.intercept)
        charged = float(np.sum(0.5 * problem.lam_b * up * up))
    objective = total.loss / total.rows + 0.5 * problem.lam * square + charged
    gap = error / (2.0 * problem.lam)
    if problem.intercept:
        gap += error_b / (2.0 * problem.lam_b)
    return Certificate(objective, min(gap, objective))


def squared(v: Any) -> float:
    """Return the sum of squares of numbers of any shape."""
    each = np.ravel(v)
    return float(each @ each)


def scaled_certificate(
    problem: Problem, at: Weights, total: Part, theta: float, thetas: Vector = NO_KNOTS,
    brackets: Vector = NO_KNOTS,
) -> tuple[Certificate, float]:  # fmt: skip
    """Return the same for an l1 penalty, by scaling the slopes, and the theta: see scaled_gap.py.

    `theta` is that of the pass before, and `brackets` what this one has summed at `thetas`.
    """
    n, up = total.rows, at.intercept - problem.level
    loss, g = total.loss / n, Weights(total.G / n, total.g_b / n)
    objective = loss + problem.penalty.value(at.coef) + 0.5 * problem.lam_b * up * up
    if not (math.isfinite(objective) and math.isfinite(float(g.coef.sum()))):
        return Certificate(objective, objective), theta
    gap = scaled_gap(problem, at, g, loss, thetas, brackets / n)
    return Certificate(objective, min(gap.gap, objective)), gap.theta


class Bounds(NamedTuple):
    """Bounds on the objective at the newest accepted weights, proven by gradients."""

    objective: float = 0.0
    gap: float = 0.0  # objective minus optimum, at most
    lower: float = 0.0  # lower bound on the optimum

    @property
    def certificate(self) -> Certificate:
        """The certificate: objective and gap."""
        return Certificate(self.objective, self.gap)

    def has_risen(self, objective: float) -> bool:
        """Return whether an objective is above this one by more than rounding, or NaN."""
        return not objective <= self.objective * (1.0 + RISE)

    def moved(self, certified: Certificate) -> Bounds:
        """Return the bounds at new weights, keeping the best lower bound.

        Objectives are sums over rows: their rounding error stays in the gap.
        """
        lower = max(self.lower, certified.objective * (1.0 - RISE) - certified.gap)
        gap = min(certified.gap, certified.objective * (1.0 + RISE) - lower)
        return Bounds(certified.objective, gap, lower)

    def stayed(self, certified: Certificate) -> Bounds:
        """Return the bounds at the same weights, with the lower bound of a rejected trial."""
        lower = self.moved(certified).lower
        gap = min(self.gap, self.objective * (1.0 + RISE) - lower)
        return Bounds(self.objective, gap, lower)


def whole_gradient(problem: Problem, at: Weights, total: Part) -> Weights:
    """Return the gradient of the objective, of one score or of K."""
    G, g_b, K = total.G, total.g_b, np.size(at.intercept)
    if G.ndim > 1:
        G, g_b = G[:, :K].T, g_b[:K]
    up = at.intercept - np.asarray(problem.level)
    return Weights(G / total.rows + problem.lam * at.coef, g_b / total.rows + problem.lam_b * up)


@kernel
def add_slopes(
    G: PerColumn, w: PerColumn, b: float, problem: Problem, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, slopes: PerRow, tiles: int, inside: Vector,
) -> tuple[float, float]:  # fmt: skip
    """G += sum of weighted slopes times rows; returns the sums of losses and of slopes.

    `slopes` (n,) receives the weighted slopes of the rows visited, unless its shape is (0,).
    `inside` receives the running loss sums at regular intervals, until it is full.
    """
    n, count = order.shape[0], 0
    whole = n - n % TILE
    lanes, p, target, c, g = Eight(), np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    losses, sums = broadcast(0.0, lanes), broadcast(0.0, lanes)
    for start in range(0, whole, TILE):
        for k in range(TILE):
            target[k], c[k] = y[order[start + k]], weight[order[start + k]]
            if k % 8 == 7:
                prefetch_eight(rows, y, weight, order, start + k - 7)
                dot_eight(rows, order, start + k - 7, w, p[k - 7 :])
        for k in range(0, TILE, 8):
            phi, change = losses_of(problem, b, load(p, k, lanes), load(target, k, lanes))
            losses += load(c, k, lanes) * phi
            change = load(c, k, lanes) * change
            sums += change
            store(g, k, change)
        if slopes.shape[0] > 0:
            for k in range(TILE):
                slopes[order[start + k]] = g[k]
        for k in range(0, TILE, 8):
            add_eight(rows, order, start + k, g[k:], G)
        count = noted(inside, count, start + TILE == (count + 1) * tiles * TILE, losses)
    all_losses, all_slopes = sum_lanes(losses), sum_lanes(sums)
    for r in range(whole, n):
        i = order[r]
        phi, change = losses_of(problem, b, dot_vector(rows, i, w), y[i])
        all_losses += weight[i] * phi
        all_slopes += weight[i] * change
        if slopes.shape[0] > 0:
            slopes[i] = weight[i] * change
        add_vector(rows, i, weight[i] * change, G)
    return all_losses, problem.intercept * all_slopes


@reading_part
def noted(inside: Vector, count: int, is_due: bool, losses: LaneVector) -> int:
    """Store the running loss if it is due; return the number of entries stored."""
    if is_due and count < inside.shape[0]:
        inside[count] = sum_lanes(losses)
        count += 1
    return count


@part_of_kernels
def losses_of(problem: Problem, b: float, p: Number, y: Number) -> tuple[Number, Number]:
    """Return loss and slope for a prediction p without intercept: a row's, or eight in lanes."""
    p = p + problem.intercept * b
    return value(problem.loss, p, y), slope(problem.loss, p, y)
