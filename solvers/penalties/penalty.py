"""The interface of penalties: what the objective charges for weights, the intercept left out.

    R(w) = sum_j R_j(w_j),      R*(s) = sup over w of s . w - R(w)

A penalty is one file next to this one, a class whose methods are the formulas (docs/methods.md,
section 2).  Its instances are NamedTuples of numbers, so that kernels can take them.  `strength`
and `shrunk` are compiled into kernels, one body per type, as the formulas of losses are; the others
go over whole vectors, between passes.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import by_type
from fewpass.solvers.kernels.shapes import Number

Vector = NDArray[np.float64]


@by_type
def strength(penalty: Penalty) -> Number:
    """Return the strong convexity of R: what the squares of weights are charged, twice."""


@by_type
def shrunk(penalty: Penalty, u: Number) -> Number:
    """Return argmin over v of (v - u)^2 / 2 + R(v), without R's quadratic part."""


FORMULAS = (strength, shrunk)


class Penalty:
    """Base class of penalties; methods, plans and certificates use these members only."""

    __slots__ = ()

    is_smooth: ClassVar[bool] = True
    """Whether R has a gradient; without one some weights are 0 at the optimum."""

    def __init_subclass__(cls) -> None:
        """Register the class's methods as bodies of the functions above."""
        for formula in FORMULAS:
            formula.register(cls)(getattr(cls, formula.__name__))

    @property
    def name(self) -> str:
        """Its name in commands, plans and flows."""
        raise NotImplementedError

    @classmethod
    def of(cls, lam: float, l1_ratio: float) -> Penalty:
        """Return the penalty of a plan's `lam` and `l1_ratio`."""
        raise NotImplementedError

    def at(self, lam: float) -> Penalty:
        """Return the same penalty with another `lam`."""
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

    def __eq__(self, other: object) -> bool:
        """Compare types, too."""
        return type(self) is type(other) and tuple.__eq__(self, other)  # type: ignore[operator]

    def __ne__(self, other: object) -> bool:
        """Negate `==`: otherwise the tuple's own method would be used."""
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), *self))  # type: ignore[misc]
