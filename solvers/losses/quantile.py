"""The quantile loss."""

from __future__ import annotations

import math
from typing import NamedTuple

from fewpass.solvers.kernels.lanes import clip, maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import ROUNDED, LossOfNumbers


class QuantileLevel(NamedTuple):
    """The parameter of the quantile loss."""

    quantile: float = 0.5  # share of the targets that lie below their predictions


class Quantile(LossOfNumbers, QuantileLevel):
    """tau (y - p) where the prediction is too low, (1 - tau) (p - y) where it is too high.

    Source: Koenker and Bassett 1978, "Regression Quantiles".
    """

    __slots__ = ()

    name = "quantile"
    curvature = math.inf
    is_smooth = False

    def value(self, p: Number, y: Number) -> Number:
        """max(tau (y - p), (tau - 1) (y - p))."""
        r = y - p
        return maximum(self.quantile * r, (self.quantile - 1.0) * r)

    def slope(self, p: Number, y: Number) -> Number:
        """-tau where p < y, 1 - tau where p > y."""
        above = where(p > y, 1.0 - self.quantile, 0.0)
        return where(p < y, -self.quantile, above)

    def conjugate(self, a: Number, y: Number) -> Number:
        """-a y for tau - 1 <= a <= tau."""
        on = clip(a, self.quantile - 1.0, self.quantile)
        return where(abs(a - on) <= ROUNDED, -on * y, float("inf"))

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a by (y - p)/q, within [tau - 1, tau]; a row of zeros has q = 0."""
        r, low, high = y - p, self.quantile - 1.0, self.quantile
        flat = where(r > 0.0, high, where(r < 0.0, low, a))
        wish = a + r / where(q > 0.0, q, 1.0)
        return clip(where(q > 0.0, wish, flat), low, high) - a
