"""The hinge."""

from __future__ import annotations

import math

from fewpass.solvers.kernels.lanes import clip, maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import Loss, NoParameters, inside, onto


class Hinge(Loss, NoParameters):
    """max(0, 1 - z): the support vector machine; not smooth."""

    __slots__ = ()

    name = "hinge"
    liblinear = "L2R_L1LOSS_SVC_DUAL"
    curvature = math.inf
    is_smooth = False

    def value(self, p: Number, y: Number) -> Number:
        """max(0, 1 - z)."""
        return maximum(1.0 - y * p, 0.0)

    def slope(self, p: Number, y: Number) -> Number:
        """-y where z < 1."""
        return where(1.0 - y * p > 0.0, -y, 0.0)

    def conjugate(self, a: Number, y: Number) -> Number:
        """-a for 0 <= a <= 1."""
        a = onto(a, 1.0)
        return inside(a, 1.0, -a)

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a by (1 - z)/q, within [0, 1]; a row of zeros has q = 0."""
        m = 1.0 - y * p
        flat = where(m > 0.0, 1.0, where(m < 0.0, 0.0, a))
        wish = a + m / where(q > 0.0, q, 1.0)
        return clip(where(q > 0.0, wish, flat), 0.0, 1.0) - a
