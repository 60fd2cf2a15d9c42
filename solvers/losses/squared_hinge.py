"""The squared hinge."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.lanes import maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import Loss, NoParameters, inside, onto


class SquaredHinge(Loss, NoParameters):
    """max(0, 1 - z)^2 / 2."""

    __slots__ = ()

    name = "squared_hinge"
    liblinear = "L2R_L2LOSS_SVC_DUAL"
    liblinear_l1 = "L1R_L2LOSS_SVC"
    curvature = 1.0

    def best_constant(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean: no margin is above 1 there."""
        return mean

    def value(self, p: Number, y: Number) -> Number:
        """max(0, 1 - z)^2 / 2."""
        m = maximum(1.0 - y * p, 0.0)
        return 0.5 * m * m

    def slope(self, p: Number, y: Number) -> Number:
        """-y max(0, 1 - z)."""
        return -y * maximum(1.0 - y * p, 0.0)

    def steps_exactly(self) -> bool:
        """Return True: a step beyond 2 / ||x||^2 on a long row would diverge."""
        return True

    def sgd_slope(self, p: Number, y: Number, q: Number) -> Number:
        """-y max(0, 1 - z) / (1 + q): the slope after the exact step."""
        return -y * maximum(1.0 - y * p, 0.0) / (q + 1.0)

    def curvature_at(self, p: Number, y: Number) -> Number:
        """1 where z < 1."""
        return where(y * p < 1.0, 1.0, 0.0)

    def conjugate(self, a: Number, y: Number) -> Number:
        """a^2/2 - a for a >= 0."""
        a = onto(a, math.inf)
        return inside(a, math.inf, 0.5 * a * a - a)

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a by (1 - z - a)/(1 + q), not below 0."""
        return maximum(a + (1.0 - y * p - a) / (q + 1.0), 0.0) - a
