"""The l1 penalty, alone (lasso) or with squares (elastic net)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.lanes import LaneWidth, load, maximum, minimum
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.penalties.penalty import Penalty, Vector

ROUNDED = 1e-13  # by which a scaled |s_j| may be above l1


class ChargedSizes(Penalty):
    """Base class of l1 sum root_g norm_g + (l2/2) ||w||^2: over columns, or groups of them."""

    __slots__ = ()

    is_smooth = False
    l1: float
    l2: float

    @classmethod
    def of(cls, lam: float, l1_ratio: float) -> Self:
        """l1 = l1_ratio lam, l2 = (1 - l1_ratio) lam, as in glmnet, grpreg and scikit-learn."""
        return cls(l1_ratio * lam, (1.0 - l1_ratio) * lam)  # type: ignore[call-arg]

    def at(self, lam: float) -> Self:
        """Return the penalty of the same ratio, and groups, and another `lam`."""
        share = self.l1 / self.total * lam, self.l2 / self.total * lam
        return self._replace(l1=share[0], l2=share[1])  # type: ignore[attr-defined, no-any-return]

    @property
    def total(self) -> float:
        """l1 + l2."""
        return self.l1 + self.l2

    def strength(self) -> float:
        """Return l2."""
        return self.l2

    @property
    def roots(self) -> Any:
        """Return the factor of a column's size, or a group's."""
        return 1.0

    def norms(self, w: Vector) -> Vector:
        """Return the size of every column, or the norm of every group."""
        return np.abs(w)

    def sums(self, v: Vector) -> Vector:
        """Return the number of every column, or the sum over every group."""
        return v

    def of_columns(self, v: Any) -> Any:
        """Return for every column the number of its group, or its own."""
        return v

    def near(self, s: Vector) -> Vector:
        """Return s, cut to norms of l1 root_g."""
        return np.clip(s, -self.l1, self.l1)

    def value(self, w: Vector) -> float:
        """l1 size(w) + (l2/2) ||w||^2."""
        return self.l1 * self.size(w) + 0.5 * self.l2 * float(w @ w)

    def conjugate(self, s: Vector) -> float:
        """Sum of (norm_g - l1 root_g)_+^2 / (2 l2); without l2 0, or infinite if one is above."""
        over = np.maximum(self.norms(s) - self.l1 * self.roots, 0.0)
        if self.l2 > 0.0:
            return float(over @ over) / (2.0 * self.l2)
        return 0.0 if float((over / self.roots).max(initial=0.0)) <= ROUNDED * self.l1 else math.inf

    def brackets(self, w: Vector, s: Vector) -> float:
        """(l2/2) ||w - soft(s)/l2||^2, and what l1 root_g norm_g(w) is above w_g . near(s)_g."""
        if self.l2 == 0.0 and math.isinf(self.conjugate(s)):
            return math.inf
        near, charged = self.near(s), self.l1 * self.roots * self.norms(w)
        by_size = float(np.maximum(charged - self.sums(near * w), 0.0).sum())
        if self.l2 == 0.0:
            return by_size
        difference = w - (s - near) / self.l2
        return by_size + 0.5 * self.l2 * float(difference @ difference)

    def zero_for_certain(self, s: Vector, radius: Vector) -> NDArray[np.bool_]:
        """Return whether norm_g(s) stays below l1 root_g within the norm of the radii."""
        certain = self.norms(s) + self.norms(radius) < self.l1 * self.roots
        of_columns: NDArray[np.bool_] = self.of_columns(certain)
        return of_columns

    def brackets_along(self, w: Vector, s: Vector) -> Callable[[float], float]:
        """Return a line in theta where there is no l2: no clipping before `most_scale`."""
        if self.l2 > 0.0:
            return super().brackets_along(w, s)
        charged, product = self.value(w), float(s @ w)
        return lambda theta: charged - theta * product

    def most_scale(self, s: Vector) -> float:
        """Return l1 / max norm_g / root_g, less by rounding, if below 1 and there is no l2."""
        most = float((self.norms(s) / self.roots).max(initial=0.0))
        if self.l2 > 0.0 or most <= self.l1:
            return 1.0
        return self.l1 / most / (1.0 + ROUNDED)


class SizesAndSquares(NamedTuple):
    """The numbers of the elastic net."""

    l1: float
    l2: float = 0.0


class ElasticNet(ChargedSizes, SizesAndSquares):
    """l1 sum |w_j| + (l2/2) ||w||^2.

    Sources: Tibshirani 1996, "Regression Shrinkage and Selection via the Lasso"; Zou and Hastie
    2005, "Regularization and Variable Selection via the Elastic Net".
    """

    __slots__ = ()

    is_l1 = True

    @property
    def name(self) -> str:
        """l1 where squares are not charged, else elasticnet."""
        return "elasticnet" if self.l2 > 0.0 else "l1"

    def over(self, reg: float) -> ElasticNet:
        """Return the penalty of l1 / reg and l2 / reg."""
        return ElasticNet(self.l1 / reg, self.l2 / reg)

    def with_strength(self, least: float) -> ElasticNet:
        """Return the penalty of this l2, or of a larger one."""
        return ElasticNet(self.l1, max(self.l2, least))

    def shrunk(self, u: Number) -> Number:
        """Return u, nearer to 0 by l1, but not beyond it."""
        return maximum(u - self.l1, 0.0) + minimum(u + self.l1, 0.0)

    def in_lanes(self, V: Vector, place: int, lanes: LaneWidth) -> ElasticNet:
        """Return l1 and l2 of every model, which follow one another in V."""
        return ElasticNet(load(V, place, lanes), load(V, place + lanes.width, lanes))

    def distance(self, w: Vector, g: Vector) -> Vector:
        """Return l1 sign(w_j) + l2 w_j + g_j, and where w_j is 0 what l1 leaves of g_j."""
        at_zero = np.sign(g) * np.maximum(np.abs(g) - self.l1, 0.0)
        return np.where(w == 0.0, at_zero, self.l1 * np.sign(w) + self.l2 * w + g)
