"""The interface of penalties: what the objective charges for weights, the intercept left out.

    R(w) = sum_j R_j(w_j),      R*(s) = sup over w of s . w - R(w)

A penalty is one file next to this one, a class whose methods are the formulas (docs/methods.md,
section 2).  Its instances are NamedTuples of numbers, so that kernels can take them.  `strength`,
`shrunk` and `scaled_dual` are compiled into kernels, one body per type, as the formulas of losses
are (where one leaves a number as it is, it costs nothing); the others go over whole vectors,
between passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import OfFormulas, Verb, by_type
from fewpass.solvers.kernels.lanes import LaneWidth
from fewpass.solvers.kernels.rows import shrunk
from fewpass.solvers.kernels.shapes import Number

Vector = NDArray[np.float64]


@by_type
def strength(penalty: Penalty) -> Number:
    """Return the strong convexity of R: what the squares of weights are charged, twice."""


@by_type
def scaled_dual(penalty: Penalty, a: Number, theta: Number) -> Number:
    """Return theta a, whose bracket is summed; a where theta is always 1: its logs serve twice."""


@by_type
def in_lanes(  # type: ignore[empty-body]
    penalty: Penalty, V: Vector, place: int, lanes: LaneWidth
) -> Penalty:
    """Return the penalties of models side by side, their numbers read from V; None are needed."""


class Penalty(OfFormulas):
    """Base class of penalties; methods, plans and certificates use these members only."""

    __slots__ = ()

    formulas: ClassVar[tuple[Verb, ...]] = (strength, shrunk, scaled_dual, in_lanes)
    is_smooth: ClassVar[bool] = True
    """True where R has a gradient; without one some weights are 0 at the optimum."""
    is_l1: ClassVar[bool] = False
    """True where it charges for sizes, and for squares, and nothing else."""

    by_column: ClassVar[bool] = True
    """True where it is a sum over columns; else over groups of them."""

    @property
    def name(self) -> str:
        """Its name in commands, plans and flows."""
        raise NotImplementedError

    @classmethod
    def of(cls, lam: float, l1_ratio: float) -> Penalty:
        """Return the penalty of a plan's `lam` and `l1_ratio`."""
        raise NotImplementedError

    def scaled_dual(self, a: Number, theta: Number) -> Number:
        """Return theta a."""
        return theta * a

    def with_groups(self, groups: NDArray[np.int32]) -> Penalty:  # noqa: ARG002
        """Return the same; of groups those of all columns, (d,)."""
        return self

    def at(self, lam: float) -> Penalty:
        """Return the same penalty with another `lam`."""
        raise NotImplementedError

    def over(self, reg: float) -> Penalty:
        """Return R / reg."""
        raise NotImplementedError

    def with_strength(self, least: float) -> Penalty:
        """Return the same penalty with a strength of at least this."""
        raise NotImplementedError

    @property
    def total(self) -> float:
        """`lam` as plans have it: what R charges in all."""
        raise NotImplementedError

    def value(self, w: Vector) -> float:
        """Return R(w)."""
        raise NotImplementedError

    def conjugate(self, s: Vector) -> float:
        """Return R*(s), which may be infinite."""
        raise NotImplementedError

    def brackets(self, w: Vector, s: Vector) -> float:
        """Return R(w) + R*(s) - s . w, summed column by column so that nothing cancels."""
        raise NotImplementedError

    def brackets_along(self, w: Vector, s: Vector) -> Callable[[float], float]:
        """Return theta -> brackets(w, theta s) for theta up to `most_scale`, to rounding."""
        return lambda theta: self.brackets(w, theta * s)

    def most_scale(self, s: Vector) -> float:
        """Return the largest theta in [0, 1] with finite R*(theta s)."""
        raise NotImplementedError

    def distance(self, w: Vector, g: Vector) -> Vector:
        """Return the element of least size of R's subdifferential at w, plus g: (d,)."""
        raise NotImplementedError

    def zero_for_certain(self, s: Vector, radius: Vector) -> NDArray[np.bool_]:
        """Return which weights are 0 at the optimum, whose s is within `radius` (d,) of this one.

        Source: Ndiaye, Fercoq, Gramfort and Salmon 2017, "Gap Safe Screening Rules for Sparsity
        Enforcing Penalties".
        """
        raise NotImplementedError

    # What a working set of columns asks of penalties that are not smooth; here of sizes |w_j|.

    @property
    def in_kernels(self) -> Penalty:
        """The penalty as kernels take it: numbers."""
        return self

    @property
    def widest(self) -> int:
        """Columns of the largest group."""
        return 1

    def size(self, w: Vector) -> float:
        """Return what l1 is charged for."""
        return float(np.abs(w).sum())

    def slopes(self, g: Vector) -> Vector:
        """Return for every column the least l1 that makes its weight 0 at the slopes g (d,)."""
        return np.abs(g)

    def whole(self, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return these columns (d,), with all others of their groups."""
        return some

    def complete(self, some: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return these columns (d,), without those of groups that are not all among them."""
        return some

    def among(self, columns: NDArray[np.bool_] | NDArray[np.int64]) -> Penalty:  # noqa: ARG002
        """Return the penalty of the weights of some columns."""
        return self
