"""The group lasso: columns that belong together are all 0, or none is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.penalties.elastic_net import ChargedSizes, ElasticNet
from fewpass.solvers.penalties.penalty import Vector

NO_GROUPS = np.empty(0, np.int32)


class NormsAndSquares(NamedTuple):
    """The numbers of the group lasso, and the group of every column, counted from 0."""

    l1: float
    l2: float = 0.0
    groups: NDArray[np.int32] = NO_GROUPS  # (d,); (0,): not known yet


class GroupLasso(ChargedSizes, NormsAndSquares):
    """l1 sum_g sqrt(d_g) ||w_g|| + (l2/2) ||w||^2, with d_g the number of columns of group g.

    Source: Yuan and Lin 2006, "Model Selection and Estimation in Regression with Grouped
    Variables".
    """

    __slots__ = ()

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

    def with_groups(self, groups: NDArray[np.int32]) -> GroupLasso:
        """Return the same with the group of every column, (d,)."""
        return self._replace(groups=groups)

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

    def sums(self, v: Vector) -> Vector:
        """Return the sum over every group."""
        return np.asarray(np.bincount(self.groups, v), float)

    def of_columns(self, v: Any) -> Any:
        """Return for every column the number of its group."""
        return v[self.groups]

    def near(self, s: Vector) -> Vector:
        """Return s with every s_g cut to norm l1 sqrt(d_g)."""
        most, norms = self.l1 * self.roots, self.norms(s)
        near: Vector = s * np.minimum(1.0, most / np.where(norms > 0.0, norms, 1.0))[self.groups]
        return near

    def distance(self, w: Vector, g: Vector) -> Vector:
        """Return l1 sqrt(d_g) w_g / ||w_g|| + l2 w_g + g_g; of a w_g of 0 what l1 leaves of g_g."""
        most, sizes, slopes = self.l1 * self.roots, self.norms(w), self.norms(g)
        left = np.maximum(0.0, 1.0 - most / np.where(slopes > 0.0, slopes, 1.0))[self.groups]
        pull = (most / np.where(sizes > 0.0, sizes, 1.0))[self.groups]
        return np.where((sizes == 0.0)[self.groups], left * g, (pull + self.l2) * w + g)
