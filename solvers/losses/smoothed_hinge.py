"""The smoothed hinge."""

from __future__ import annotations

from fewpass.solvers.kernels.lanes import clip, maximum, minimum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import Loss, Smoothing, inside, onto


class SmoothedHinge(Loss, Smoothing):
    """The hinge with its kink smoothed over `smoothing`: at most smoothing / 2 below the hinge."""

    __slots__ = ()

    name = "smoothed_hinge"
    liblinear = "L2R_L1LOSS_SVC_DUAL"

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """1 / smoothing."""
        return 1.0 / self.smoothing

    @property
    def below_hinge(self) -> float:
        """smoothing / 2."""
        return 0.5 * self.smoothing

    def value(self, p: Number, y: Number) -> Number:
        """m^2 / (2 smoothing) for 0 <= m = 1 - z <= smoothing, linear beyond."""
        m = maximum(1.0 - y * p, 0.0)
        curved = minimum(m, self.smoothing)
        return curved * curved / (2.0 * self.smoothing) + (m - curved)

    def slope(self, p: Number, y: Number) -> Number:
        """-y m / smoothing for 0 <= m = 1 - z <= smoothing, -y beyond."""
        return -y * clip((1.0 - y * p) / self.smoothing, 0.0, 1.0)

    def curvature_at(self, p: Number, y: Number) -> Number:
        """1 / smoothing, and in the linear part the curvature of the touching parabola."""
        m = 1.0 - y * p
        return where(m > 0.0, 1.0 / maximum(m, self.smoothing), 0.0)

    def conjugate(self, a: Number, y: Number) -> Number:
        """(smoothing/2) a^2 - a for 0 <= a <= 1."""
        a = onto(a, 1.0)
        return inside(a, 1.0, 0.5 * self.smoothing * a * a - a)

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a by (1 - z - smoothing a)/(smoothing + q), within [0, 1]."""
        wish = a + (1.0 - y * p - self.smoothing * a) / (q + self.smoothing)
        return clip(wish, 0.0, 1.0) - a
