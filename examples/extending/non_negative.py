"""Squares of weights that are at least 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.lanes import LaneWidth, load, maximum
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.penalties.penalty import Penalty, Vector


class Squares(NamedTuple):
    """The number of the penalty."""

    lam: float


class NonNegative(Penalty, Squares):
    """(lam/2) ||w||^2 for w >= 0, infinite for others."""

    __slots__ = ()

    is_smooth = False

    @property
    def name(self) -> str:
        """Its word."""
        return "nonnegative"

    @classmethod
    def of(cls, lam: float, l1_ratio: float) -> NonNegative:
        """Take all of lam for squares."""
        return cls(lam)

    def at(self, lam: float) -> NonNegative:
        """Take another lam."""
        return NonNegative(lam)

    @property
    def total(self) -> float:
        """lam."""
        return self.lam

    def strength(self) -> float:
        """Return lam."""
        return self.lam

    def shrunk(self, u: Number) -> Number:
        """max(u, 0)."""
        return maximum(u, 0.0)

    def in_lanes(self, V: Vector, place: int, lanes: LaneWidth) -> NonNegative:
        """Read lam of every model."""
        return NonNegative(load(V, place, lanes))

    def over(self, reg: float) -> NonNegative:
        """Divide by reg."""
        return NonNegative(self.lam / reg)

    def with_strength(self, least: float) -> NonNegative:
        """Take at least so much."""
        return NonNegative(max(self.lam, least))

    def value(self, w: Vector) -> float:
        """(lam/2) ||w||^2, or infinity."""
        return 0.5 * self.lam * float(w @ w) if (w >= 0.0).all() else np.inf

    def conjugate(self, s: Vector) -> float:
        """Sum of max(s_j, 0)^2 / (2 lam)."""
        return float(np.square(np.maximum(s, 0.0)).sum()) / (2.0 * self.lam)

    def brackets(self, w: Vector, s: Vector) -> float:
        """Add up (lam/2) (w_j - max(s_j, 0)/lam)^2 + w_j max(-s_j, 0)."""
        difference = w - np.maximum(s, 0.0) / self.lam
        return 0.5 * self.lam * float(difference @ difference) + float(w @ np.maximum(-s, 0.0))

    def most_scale(self, s: Vector) -> float:
        """R* is finite everywhere."""
        return 1.0

    def distance(self, w: Vector, g: Vector) -> Vector:
        """At w_j = 0 only what leads upwards counts."""
        return np.where(w > 0.0, self.lam * w + g, np.minimum(g, 0.0))

    def zero_for_certain(self, s: Vector, radius: Vector) -> NDArray[np.bool_]:
        """Where s_j stays below 0."""
        return s + radius < 0.0
