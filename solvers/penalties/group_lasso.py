"""The group lasso: columns that belong together are all 0, or none is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.penalties.elastic_net import ROUNDED, ElasticNet
from fewpass.solvers.penalties.penalty import Penalty, Vector

NO_GROUPS = np.empty(0, np.int32)


class NormsAndSquares(NamedTuple):
    """The numbers of the group lasso, and the group of every column, counted from 0."""

    l1: float
    l2: float = 0.0
    groups: NDArray[np.int32] = NO_GROUPS  # (d,); (0,): not known yet


class GroupLasso(Penalty, NormsAndSquares):
    """l1 sum_g sqrt(d_g) ||w_g|| + (l2/2) ||w||^2, with d_g the number of columns of group g.

    Source: Yuan and Lin 2006, "Model Selection and Estimation in Regression with Grouped
    Variables".
    """

    __slots__ = ()

    is_smooth = False
    by_column = False

    def __eq__(self, other: object) -> bool:
        """Compare groups, too."""
        if not isinstance(other, GroupLasso) or self[:2] != other[:2]:
            return False
        return np.array_equal(self.groups, other.groups)

    def __hash__(self) -> int:
        return hash((type(self), self.l1, self.l2, self.groups.tobytes()))

    @property
    def name(self) -> str:
        """group_lasso."""
        return "group_lasso"

    @classmethod
    def of(cls, lam: float, l1_ratio: float) -> GroupLasso:
        """l1 = l1_ratio lam, l2 = (1 - l1_ratio) lam, as in grpreg; the groups come later."""
        return cls(l1_ratio * lam, (1.0 - l1_ratio) * lam)

    def with_groups(self, groups: NDArray[np.int32]) -> GroupLasso:
        """Return the same with the group of every column, (d,)."""
        return self._replace(groups=groups)

    def at(self, lam: float) -> GroupLasso:
        """Return the penalty of the same ratio and groups, and another `lam`."""
        return self._replace(l1=self.l1 / self.total * lam, l2=self.l2 / self.total * lam)

    @property
    def total(self) -> float:
        """l1 + l2."""
        return self.l1 + self.l2

    def strength(self) -> float:
        """Return l2."""
        return self.l2

    @property
    def in_kernels(self) -> ElasticNet:
        """The numbers alone: no kernel asks for more."""
        return ElasticNet(self.l1, self.l2)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of columns of every group."""
        return np.bincount(self.groups)

    @property
    def roots(self) -> Vector:
        """sqrt(d_g) of every group; 1 where a group has no column here."""
        roots: Vector = np.sqrt(np.maximum(self.sizes, 1))
        return roots

    @property
    def widest(self) -> int:
        """Columns of the largest group."""
        return int(self.sizes.max(initial=1))

    def norms(self, w: Vector) -> Vector:
        """Return ||w_g|| of every group."""
        norms: Vector = np.sqrt(np.bincount(self.groups, np.square(w)))
        return norms

    def size(self, w: Vector) -> float:
        """Return sum_g sqrt(d_g) ||w_g||."""
        return float(self.roots @ self.norms(w))

    def slopes(self, g: Vector) -> Vector:
        """Return ||g_g|| / sqrt(d_g), for every column of g that of its group."""
        slopes: Vector = (self.norms(g) / self.roots)[self.groups]
        return slopes

    def whole(self, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return all columns of the groups of which some are chosen."""
        whole: NDArray[np.bool_] = (np.bincount(self.groups, some) > 0)[self.groups]
        return whole

    def complete(self, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the columns of the groups of which all are chosen."""
        complete: NDArray[np.bool_] = (np.bincount(self.groups, ~some) == 0)[self.groups]
        return complete

    def among(self, columns: NDArray[np.bool_] | NDArray[np.int64]) -> GroupLasso:
        """Return the penalty of some columns, whole groups, counted anew from 0."""
        _, groups = np.unique(self.groups[columns], return_inverse=True)
        return self._replace(groups=groups.astype(np.int32))

    def value(self, w: Vector) -> float:
        """l1 sum_g sqrt(d_g) ||w_g|| + (l2/2) ||w||^2."""
        return self.l1 * self.size(w) + 0.5 * self.l2 * float(w @ w)

    def conjugate(self, s: Vector) -> float:
        """Sum of (||s_g|| - l1 sqrt(d_g))_+^2 / (2 l2); without l2 0, or infinite if one is."""
        over = np.maximum(self.norms(s) - self.l1 * self.roots, 0.0)
        if self.l2 > 0.0:
            return float(over @ over) / (2.0 * self.l2)
        return 0.0 if float((over / self.roots).max(initial=0.0)) <= ROUNDED * self.l1 else math.inf

    def brackets(self, w: Vector, s: Vector) -> float:
        """Each group's, with s_g cut to norm l1 sqrt(d_g) as the near part of s."""
        if self.l2 == 0.0 and math.isinf(self.conjugate(s)):
            return math.inf
        most, norms = self.l1 * self.roots, self.norms(s)
        cut = np.minimum(1.0, most / np.where(norms > 0.0, norms, 1.0))
        near = s * cut[self.groups]
        products = np.bincount(self.groups, near * w)
        by_size = float(np.maximum(most * self.norms(w) - products, 0.0).sum())
        if self.l2 == 0.0:
            return by_size
        difference = w - (s - near) / self.l2
        return by_size + 0.5 * self.l2 * float(difference @ difference)

    def brackets_along(self, w: Vector, s: Vector) -> Callable[[float], float]:
        """Return a line in theta where there is no l2: no clipping before `most_scale`."""
        if self.l2 > 0.0:
            return super().brackets_along(w, s)
        charged, product = self.value(w), float(s @ w)
        return lambda theta: charged - theta * product

    def most_scale(self, s: Vector) -> float:
        """Return l1 / max ||s_g|| / sqrt(d_g), less by rounding, if below 1 and there is no l2."""
        most = float((self.norms(s) / self.roots).max(initial=0.0))
        if self.l2 > 0.0 or most <= self.l1:
            return 1.0
        return self.l1 / most / (1.0 + ROUNDED)

    def distance(self, w: Vector, g: Vector) -> Vector:
        """Return l1 sqrt(d_g) w_g / ||w_g|| + l2 w_g + g_g; of a w_g of 0 what l1 leaves of g_g."""
        most, sizes, slopes = self.l1 * self.roots, self.norms(w), self.norms(g)
        left = np.maximum(0.0, 1.0 - most / np.where(slopes > 0.0, slopes, 1.0))[self.groups]
        pull = (most / np.where(sizes > 0.0, sizes, 1.0))[self.groups]
        return np.where((sizes == 0.0)[self.groups], left * g, (pull + self.l2) * w + g)

    def zero_for_certain(self, s: Vector, radius: Vector) -> NDArray[np.bool_]:
        """Return whether ||s_g|| stays below l1 sqrt(d_g) within the norm of the radii."""
        certain = self.norms(s) + self.norms(radius) < self.l1 * self.roots
        of_columns: NDArray[np.bool_] = certain[self.groups]
        return of_columns
