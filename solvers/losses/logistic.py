"""The logistic loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.lanes import any_lane, clip, maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.kernels.simd.exp_log import exp_below, log_below, log_one_plus
from fewpass.solvers.losses.loss import Link, Loss, inside, onto


@part_of_kernels
def sigmoid(s: Number) -> Number:
    """Return 1 / (1 + exp(-s)) without overflow."""
    e = exp_below(-abs(s))
    return where(s > 0.0, 1.0, e) / (1.0 + e)


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(-score)), (n,), always positive."""
    p: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(scores, -700.0, 700.0)))
    return p


@part_of_kernels
def logs(a: Number) -> tuple[Number, Number, Number]:
    """Return min(a, 1 - a), its logarithm, and that of max(a, 1 - a)."""
    a = onto(a, 1.0)
    small = where(a > 0.5, 1.0 - a, a)
    return small, log_below(small), log_one_plus(-small)


#: A Halley step this short leaves an error of its cube, and D an error of the square of that.
LAST_STEP = 4e-3
FAR, LEAST_BEND = 8.0, 0.02  # for a first guess that is good for any a and q
MOST_STEPS = 60
MOST_MEAN = 1.0 - 1e-15  # of targets: odds of a single class have no end


class ScoreLevel(NamedTuple):
    """The score that others count from."""

    level: float = 0.0


class Logistic(Loss, ScoreLevel):
    """log(1 + exp(-z)): logistic regression, with probabilities."""

    __slots__ = ()

    name = "logistic"
    liblinear = "L2R_LR"
    liblinear_l1 = "L1R_LR"
    curvature = 0.25

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return none: the level is the data's, and no setting."""
        return ()

    @property
    def link(self) -> Link:
        """1 / (1 + exp(-score))."""
        return probabilities

    def best_constant(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """log(p / (1 - p)) for a share p of +1."""
        odds: NDArray[np.float64] = 2.0 * np.arctanh(np.clip(mean, -MOST_MEAN, MOST_MEAN))
        return odds

    def from_level(self, level: Number) -> Logistic:
        """Add the level to all scores."""
        return Logistic(level)

    def value(self, p: Number, y: Number) -> Number:
        """log(1 + exp(-z)), with exp(-|z|) alone."""
        z = y * (p + self.level)
        return where(z > 0.0, 0.0, -z) + log_one_plus(exp_below(-abs(z)))

    def slope(self, p: Number, y: Number) -> Number:
        """-y / (1 + exp(z))."""
        z = y * (p + self.level)
        e = exp_below(-abs(z))
        return -y * where(z > 0.0, e, 1.0) / (1.0 + e)

    def curvature_at(self, p: Number, y: Number) -> Number:
        """exp(-|p|) / (1 + exp(-|p|))^2."""
        e = exp_below(-abs(p + self.level))
        return e / ((1.0 + e) * (1.0 + e))

    def conjugate(self, a: Number, y: Number) -> Number:
        """a log a + (1 - a) log(1 - a) for 0 <= a <= 1."""
        small, log_small, log_large = logs(a)
        entropy = small * log_small + (1.0 - small) * log_large
        return inside(onto(a, 1.0), 1.0, entropy + a * y * self.level)

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a to sigmoid(s), s the root of the increasing F(s) = s + z + q (sigmoid(s) - a).

        One Newton step from sigmoid(s) = a, then Halley steps, or bisection where these are slow.
        Few operations depend on p, as a model's next row waits for this step.
        """
        z = y * (p + self.level)
        low, high = -z - q * (1.0 - a), -z + q * a
        _, log_small, log_large = logs(a)
        s = where(a > 0.5, log_large - log_small, log_small - log_large)
        s, bend = clip(s, -FAR, FAR), q * maximum(a * (1.0 - a), LEAST_BEND)
        s = clip((bend * s - z) * (1.0 / (1.0 + bend)), low, high)
        g, result, is_open, most = sigmoid(s), a, a > -1.0, high - low
        for _step in range(MOST_STEPS):
            bend = g * (1.0 - g)
            F, slant = s + z + q * (g - a), 1.0 + q * bend
            low, high = where(F > 0.0, low, s), where(F > 0.0, s, high)
            half = 0.5 * (low + high) - s
            step = -F * slant / (slant * slant - 0.5 * F * q * bend * (1.0 - 2.0 * g))
            step = where((low - s <= step) & (step <= high - s), step, half)
            step = where(abs(step) > most, half, step)
            result = where(is_open, g + bend * step * (1.0 + (0.5 - g) * step), result)
            is_open = is_open & (abs(step) > LAST_STEP)
            if not any_lane(is_open):
                break
            s, most = s + step, 0.5 * abs(step)
            g = sigmoid(s)
        return clip(result, 0.0, 1.0) - a
