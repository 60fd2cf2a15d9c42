"""The squared loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import LossOfNumbers, NoParameters


class Squared(LossOfNumbers, NoParameters):
    """(p - y)^2 / 2: ridge regression."""

    __slots__ = ()

    name = "squared"
    liblinear = "L2R_L2LOSS_SVR"
    curvature = 1.0
    is_quadratic = True

    def best_constant(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean."""
        return mean

    def value(self, p: Number, y: Number) -> Number:
        """(p - y)^2 / 2."""
        return 0.5 * (p - y) * (p - y)

    def slope(self, p: Number, y: Number) -> Number:
        """Return p - y."""
        return p - y

    def curvature_at(self, p: Number, y: Number) -> Number:
        """1."""
        return 1.0

    def conjugate(self, a: Number, y: Number) -> Number:
        """a^2/2 - a y."""
        return 0.5 * a * a - a * y

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Return (y - p - a)/(1 + q)."""
        return (y - p - a) / (1.0 + q)
