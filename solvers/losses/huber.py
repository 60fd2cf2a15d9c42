"""The Huber loss."""

from __future__ import annotations

from fewpass.solvers.kernels.lanes import clip, maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import ROUNDED, LossOfNumbers, Smoothing


class Huber(LossOfNumbers, Smoothing):
    """The squared loss near the target, linear beyond `smoothing`: robust against outliers.

    Source: Huber 1964, "Robust Estimation of a Location Parameter".
    """

    __slots__ = ()

    name = "huber"
    liblinear = "L2R_L2LOSS_SVR"
    curvature = 1.0

    def value(self, p: Number, y: Number) -> Number:
        """r^2 / 2 for |r| = |p - y| <= smoothing, linear beyond."""
        r = p - y
        near = clip(r, -self.smoothing, self.smoothing)
        return near * (r - 0.5 * near)

    def slope(self, p: Number, y: Number) -> Number:
        """Return p - y, within [-smoothing, smoothing]."""
        return clip(p - y, -self.smoothing, self.smoothing)

    def curvature_at(self, p: Number, y: Number) -> Number:
        """1, and in the linear part the curvature of the touching parabola."""
        return self.smoothing / maximum(abs(p - y), self.smoothing)

    def conjugate(self, a: Number, y: Number) -> Number:
        """a^2/2 - a y for |a| <= smoothing."""
        inside = abs(a) <= self.smoothing + ROUNDED
        a = clip(a, -self.smoothing, self.smoothing)
        return where(inside, 0.5 * a * a - a * y, float("inf"))

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a by (y - p - a)/(1 + q), within [-smoothing, smoothing]."""
        return clip(a + (y - p - a) / (1.0 + q), -self.smoothing, self.smoothing) - a
