"""The Poisson loss with a log link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.lanes import maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.log_link import (
    INFINITE,
    LogLink,
    excess,
    exp_capped,
    exp_or_inf,
    log_of_root,
    log_or_zero,
)
from fewpass.solvers.losses.loss import ROUNDED, WithoutOffset


class Poisson(LogLink):
    """exp(p) - y p, and what makes its least value 0: half the deviance of counts of mean exp(p).

    An offset o is a row whose target is y e^-o and whose weight is e^o times as large, exactly.

    Source: Nelder and Wedderburn 1972, "Generalized Linear Models".
    """

    __slots__ = ()

    name = "poisson"
    least_target = 0.0

    def rate(self, mean: float) -> float:
        """Return the mean target: the second derivative of a row is its prediction."""
        return mean or 1.0

    def at_offset(self, y: NDArray[np.float64], offset: NDArray[np.float64]) -> WithoutOffset:
        """exp(p + o) - y (p + o) = e^o (exp(p) - y e^-o p) + ..."""
        exposure = np.exp(offset)
        return WithoutOffset(y / exposure, exposure)

    def value(self, p: Number, y: Number) -> Number:
        """y (e^u - 1 - u) for u = p - log y; exp(p) for y = 0."""
        return where(y > 0.0, y * excess(p - log_or_zero(y)), exp_or_inf(p))

    def slope(self, p: Number, y: Number) -> Number:
        """exp(p) - y."""
        return exp_capped(p) - y

    def curvature_at(self, p: Number, y: Number) -> Number:
        """exp(p)."""
        return exp_capped(p)

    def conjugate(self, a: Number, y: Number) -> Number:
        """m log m - m - (y log y - y) for m = y - a >= 0."""
        m = maximum(y - a, 0.0)
        worth = m * log_or_zero(m) - m - (y * log_or_zero(y) - y)
        return where(y - a >= -ROUNDED * (1.0 + y), worth, INFINITE)

    def bracket(self, a: Number, p: Number, y: Number, phi: Number, dual: Number) -> Number:
        """m (e^u - 1 - u) for m = y - a, u = p - log m; exp(p) for m = 0."""
        m = y - a
        divergence = where(m > 0.0, m * excess(p - log_or_zero(m)), exp_or_inf(p))
        return where(dual < INFINITE, divergence, INFINITE)

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a to y - e^t, t + q e^t = p + q (y - a)."""
        m = maximum(y - a, 0.0)
        return m - exp_capped(log_of_root(q, p + q * m)) + (y - a - m)
