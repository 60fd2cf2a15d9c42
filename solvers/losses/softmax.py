"""The softmax loss: multinomial logistic regression.

    phi(v, y) = log sum_k exp(v_k) - v_y,      phi*(-a) = sum_k p_k log p_k,   p = e_y - a

p in the simplex: a = 0 stands for p = e_y.  A row's bracket is the Kullback-Leibler divergence of
softmax(v) from p.  The best p is where

    log p_k + q p_k = v_k + q p0_k - mu,       sum_k p_k = 1

found by Newton's method in log p, with the constraint linearised: that keeps p above 0, and takes
one exponential a class and step.

Sources: Blondel, Martins and Niculae 2020 for the conjugate; Bohning 1992 for the curvature of 1/2.
docs/methods.md, section 2.4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.lanes import (
    Eight,
    any_lane,
    broadcast,
    clip,
    load,
    maximum,
    store,
    sum_lanes,
    where,
)
from fewpass.solvers.kernels.shapes import Matrix
from fewpass.solvers.kernels.simd.exp_log import exp_below, log_below
from fewpass.solvers.kernels.simd.wide_rows import PerClass
from fewpass.solvers.losses.loss import Link
from fewpass.solvers.losses.wide_loss import Classes, WideLoss
from fewpass.solvers.softmax_of_scores import softmax, softmax_and_losses

MOST_STEPS = 30
SMALL_STEP = 1e-4  # of a p: D rises by nearly all that it can
LONG_STEP, SHORT_STEP = 2.0, -30.0  # in log p; above the first it counts by its logarithm
LEAST_LOG = -690.0  # of a p: it is above 1e-300
LEAST = 1e-300


@part_of_kernels
def exponentials(v: PerClass, e: PerClass) -> tuple[float, float]:
    """Write exp(v - max v) into e; return max v and the sum."""
    lanes, top = Eight(), load(v, 0, Eight())
    for k in range(8, v.shape[0], 8):
        top = maximum(load(v, k, lanes), top)
    store(e, 0, top)
    highest = e[0]
    for k in range(1, 8):
        highest = max(highest, e[k])
    total = broadcast(0.0, lanes)
    for k in range(0, v.shape[0], 8):
        each = exp_below(maximum(load(v, k, lanes) - highest, LEAST_LOG - 100.0))
        store(e, k, each)
        total += each
    return highest, sum_lanes(total)


@part_of_kernels
def probabilities_behind(a: PerClass, y: int, p: PerClass) -> None:
    """Write p = e_y - a into p; what is below 0 by rounding becomes 0."""
    lanes = Eight()
    for k in range(0, a.shape[0], 8):
        store(p, k, maximum(-load(a, k, lanes), 0.0))
    p[y] = max(1.0 - a[y], 0.0)


@part_of_kernels
def newton_step(q: float, p0: PerClass, log_p: PerClass, p: PerClass, rest: PerClass) -> float:
    """Change log p and p by one step; return at least the largest change of a p."""
    lanes, wide = Eight(), p.shape[0]
    first, second, third = broadcast(0.0, lanes), broadcast(0.0, lanes), broadcast(0.0, lanes)
    for k in range(0, wide, 8):
        own, log_own = load(p, k, lanes), load(log_p, k, lanes)
        r = load(rest, k, lanes) + q * (load(p0, k, lanes) - own) - log_own
        ph = own / (1.0 + q * own)
        first += ph
        second += ph * r
        third += own
    mu = (sum_lanes(second) - (1.0 - sum_lanes(third))) / sum_lanes(first)
    most = broadcast(0.0, lanes)
    for k in range(0, wide, 8):
        own, log_own = load(p, k, lanes), load(log_p, k, lanes)
        r = load(rest, k, lanes) + q * (load(p0, k, lanes) - own) - log_own
        d = (r - mu) / (1.0 + q * own)
        is_long = d > LONG_STEP
        if any_lane(is_long):
            d = where(is_long, 2.0 + log_below(maximum(d - 1.0, 1.0)), d)
        d = maximum(d, SHORT_STEP)
        most = maximum(abs(d) * own, most)
        log_own = clip(log_own + d, LEAST_LOG, -LEAST_LOG)
        store(log_p, k, log_own)
        store(p, k, exp_below(log_own))
    return sum_lanes(most)


class SoftmaxLoss(WideLoss, Classes):
    """Log loss of the softmax of K scores: multinomial logistic regression, with probabilities."""

    __slots__ = ()

    name = "softmax"
    liblinear = None
    curvature = 0.5

    @property
    def link(self) -> Link:
        """The softmax of the scores."""
        return softmax

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the softmax of scores (n, K)."""
        return softmax(scores)

    def losses(self, scores: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log sum exp(v) - v_y of every row."""
        return softmax_and_losses(scores, y.astype(np.int64))[1]

    def constant_loss(self, shares: NDArray[np.float64], *, intercept: bool) -> float:
        """Return the entropy of the shares; log K without an intercept."""
        p = shares[shares > 0.0]
        return float(-(p @ np.log(p))) if intercept else float(np.log(self.n_classes))

    def best_scores(self, weight: NDArray[np.float64]) -> tuple[float, ...]:
        """Return the logarithms of the shares, of mean 0."""
        log = np.log(weight)
        return tuple((log - log.mean()).tolist())

    def loss_and_slopes(self, v: PerClass, y: int, g: PerClass) -> float:
        """softmax(v) - e_y."""
        lanes = Eight()
        top, total = exponentials(v, g)
        for k in range(0, v.shape[0], 8):
            store(g, k, load(g, k, lanes) * (1.0 / total))
        g[y] -= 1.0
        return float(top + log_below(total) - v[y])

    def curvature_of_scores(self, v: PerClass, y: int, g: PerClass, C: Matrix) -> None:
        """diag(p) - p p' for p = softmax(v)."""
        _, total = exponentials(v, g)
        for k in range(self.n_classes):
            for m in range(k):
                C[k, m] = C[m, k] = -(g[k] / total) * (g[m] / total)
            C[k, k] = (g[k] / total) * (1.0 - g[k] / total)

    def loss_and_bracket(
        self, v: PerClass, a: PerClass, y: int, scratch: Matrix
    ) -> tuple[float, float]:
        """sum p (log p - log softmax(v))."""
        lanes, p, e = Eight(), scratch[0], scratch[1]
        probabilities_behind(a, y, p)
        top, total = exponentials(v, e)
        level = top + log_below(total)
        divergence = broadcast(0.0, lanes)
        for k in range(0, v.shape[0], 8):
            own = load(p, k, lanes)
            log_ratio = log_below(maximum(own, LEAST)) - (load(v, k, lanes) - level)
            divergence += where(own > 0.0, own * log_ratio, 0.0)
        return level - v[y], sum_lanes(divergence)

    def worth_of(self, a: PerClass, y: int) -> float:
        """-sum p log p."""
        lanes, entropy = Eight(), broadcast(0.0, Eight())
        for k in range(0, a.shape[0], 8):
            own = maximum(-load(a, k, lanes), 0.0)
            entropy -= own * log_below(maximum(own, LEAST))
        own = max(1.0 - a[y], LEAST)
        return float(sum_lanes(entropy) - own * log_below(own))

    def best_duals(
        self, a: PerClass, v: PerClass, y: int, q: float, new: PerClass, scratch: Matrix
    ) -> float:
        """Newton's method in log p from between p0 and softmax(v); see the module's docstring."""
        lanes, wide = Eight(), v.shape[0]
        p0, log_p, p = scratch[0], scratch[1], scratch[2]
        probabilities_behind(a, y, p0)
        top, total = exponentials(v, p)
        e = 1.0 / (1.0 + 0.5 * q)
        for k in range(0, wide, 8):
            own = (1.0 - e) * load(p0, k, lanes) + (e / total) * load(p, k, lanes)
            own = maximum(own, LEAST)
            store(p, k, own)
            store(log_p, k, log_below(own))
        step, change = 0, 1.0
        while step < MOST_STEPS and not change < SMALL_STEP:
            change = newton_step(q, p0, log_p, p, v)
            step += 1
        if change < SMALL_STEP:
            others = 0.0
            for k in range(self.n_classes):
                others += p[k]
            unit, others = 1.0 / others, 0.0
            for k in range(self.n_classes):
                new[k] = -unit * p[k]
                others += unit * p[k] if k != y else 0.0
            new[y] = others
        else:
            for k in range(wide):
                new[k] = a[k]
        return float(top + log_below(total) - v[y])
