"""The epsilon-insensitive loss."""

from __future__ import annotations

import math
from typing import NamedTuple

from fewpass.solvers.kernels.lanes import clip, maximum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.losses.loss import ROUNDED, LossOfNumbers


class Zone(NamedTuple):
    """The parameter of the epsilon-insensitive loss."""

    epsilon: float = 0.1  # errors up to here cost nothing


class EpsilonInsensitive(LossOfNumbers, Zone):
    """max(0, |p - y| - epsilon): support vector regression.

    Source: Vapnik 1995, "The Nature of Statistical Learning Theory".
    """

    __slots__ = ()

    name = "epsilon_insensitive"
    liblinear = "L2R_L1LOSS_SVR_DUAL"
    curvature = math.inf
    is_smooth = False

    def value(self, p: Number, y: Number) -> Number:
        """max(0, |p - y| - epsilon)."""
        return maximum(abs(p - y) - self.epsilon, 0.0)

    def slope(self, p: Number, y: Number) -> Number:
        """-1 or 1 where |p - y| > epsilon."""
        r = p - y
        return where(abs(r) > self.epsilon, where(r > 0.0, 1.0, -1.0), 0.0)

    def conjugate(self, a: Number, y: Number) -> Number:
        """-a y + epsilon |a| for |a| <= 1."""
        on = clip(a, -1.0, 1.0)
        return where(abs(a - on) <= ROUNDED, self.epsilon * abs(on) - on * y, float("inf"))

    def dual_step(self, a: Number, p: Number, y: Number, q: Number) -> Number:
        """Move a to soft(y - p + q a, epsilon)/q, within [-1, 1]; a row of zeros has q = 0."""
        r = y - p + q * a
        beyond = r - clip(r, -self.epsilon, self.epsilon)
        flat = where(beyond > 0.0, 1.0, where(beyond < 0.0, -1.0, 0.0))
        wish = beyond / where(q > 0.0, q, 1.0)
        return clip(where(q > 0.0, wish, flat), -1.0, 1.0) - a
