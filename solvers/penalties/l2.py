"""The l2 penalty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.lanes import LaneWidth
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.penalties.penalty import Penalty, Vector


class Squares(NamedTuple):
    """The number of the l2 penalty."""

    lam: float


class L2(Penalty, Squares):
    """(lam/2) ||w||^2: ridge."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """l2."""
        return "l2"

    @classmethod
    def of(cls, lam: float, l1_ratio: float) -> L2:  # noqa: ARG003
        """Return the penalty of `lam`; there is no ratio."""
        return cls(lam)

    def at(self, lam: float) -> L2:
        """Return the penalty of another `lam`."""
        return L2(lam)

    def over(self, reg: float) -> L2:
        """Return the penalty of lam / reg."""
        return L2(self.lam / reg)

    def with_strength(self, least: float) -> L2:
        """Return the penalty of this lam, or of a larger one."""
        return L2(max(self.lam, least))

    @property
    def total(self) -> float:
        """lam."""
        return self.lam

    def strength(self) -> float:
        """Return lam."""
        return self.lam

    def shrunk(self, u: Number) -> Number:
        """Return u."""
        return u

    def scaled_dual(self, a: Number, theta: Number) -> Number:  # noqa: ARG002
        """Return a: R* is finite everywhere."""
        return a

    def in_lanes(self, V: Vector, place: int, lanes: LaneWidth) -> L2:  # noqa: ARG002
        """Return this one: nothing is asked of it."""
        return self

    def value(self, w: Vector) -> float:
        """(lam/2) ||w||^2."""
        return 0.5 * self.lam * float(w @ w)

    def conjugate(self, s: Vector) -> float:
        """||s||^2 / (2 lam)."""
        return float(s @ s) / (2.0 * self.lam)

    def brackets(self, w: Vector, s: Vector) -> float:
        """(lam/2) ||w - s/lam||^2."""
        difference = w - s / self.lam
        return 0.5 * self.lam * float(difference @ difference)

    def most_scale(self, s: Vector) -> float:  # noqa: ARG002
        """Return 1: R* is finite everywhere."""
        return 1.0

    def distance(self, w: Vector, g: Vector) -> Vector:
        """Return lam w + g."""
        return self.lam * w + g

    def zero_for_certain(self, s: Vector, radius: Vector) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return that nothing is certain."""
        return np.zeros(len(s), dtype=np.bool_)
