"""The gamma loss with a log link."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.lanes import maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.kernels.simd.exp_log import log_below
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


class Gamma(LogLink):
    """y exp(-p) + p - log y - 1: half the deviance of positive targets of mean exp(p).

    An offset o is a row whose target is y e^-o, exactly.

    Source: Nelder and Wedderburn 1972, "Generalized Linear Models".
    """

    __slots__ = ()

    name = "gamma"
    least_target = sys.float_info.min  # below, logarithms of kernels are wrong

    def rate(self, mean: float) -> float:
        """Return 1: the second derivative of a row is about its target over its prediction."""
        return 1.0

    def at_offset(self, y: NDArray[np.float64], offset: NDArray[np.float64]) -> WithoutOffset:
        """Return y exp(-(p + o)) + p + o - log y - 1, which is the loss of y e^-o at p."""
        return WithoutOffset(y * np.exp(-offset), np.ones(len(y)))

    def value(self, p: Number, y: Number) -> Number:
        """e^u - 1 - u for u = log y - p."""
        return excess(log_below(y) - p)

    def slope(self, p: Number, y: Number) -> Number:
        """1 - y exp(-p)."""
        return 1.0 - exp_capped(log_below(y) - p)

    def curvature_at(self, p: Number, y: Number) -> Number:
        """y exp(-p)."""
        return exp_capped(log_below(y) - p)

    def conjugate(self, a: Number, y: Number) -> Number:
        """m log m - a - a log y for m = 1 + a >= 0."""
        m = maximum(1.0 + a, 0.0)
        worth = m * log_or_zero(m) - (m - 1.0) * (1.0 + log_below(y))
        return where(1.0 + a >= -ROUNDED, worth, INFINITE)

    def bracket(self, a: Number, p: Number, y: Number, phi: Number, dual: Number) -> Number:
        """m (e^u - 1 - u) for m = 1 + a, u = log y - p - log m; y exp(-p) for m = 0."""
        m, far = 1.0 + a, log_below(y) - p
        divergence = where(m > 0.0, m * excess(far - log_or_zero(m)), exp_or_inf(far))
        return where(dual < INFINITE, divergence, INFINITE)

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a to e^t - 1, t + q e^t = log y - p + q (1 + a)."""
        m = maximum(1.0 + a, 0.0)
        return exp_capped(log_of_root(q, log_below(y) - p + q * m)) - (1.0 + a)
