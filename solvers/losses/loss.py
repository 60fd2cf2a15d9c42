"""What a loss is: functions of a prediction p and a target y, and the problem they make.

    f(w) = (1/n) sum_i weight_i phi(x_i . w + b, y_i) + (lam/2) ||w||^2 + (lam_b/2) b^2

Margin losses take y in {-1, +1} and depend on z = y p; others take any number y.  `slope` is the
derivative with respect to p.  `conjugate` and `dual_step` speak of the dual variable a of the
margin convention, w = (1/(lam n)) sum_i a_i y_i x_i (for numbers as targets: without y_i).

A loss is one file beside this one, a class whose methods are the formulas (docs/methods.md,
section 2, has their table), in forms that neither overflow nor cancel.  They are written with
NumPy's words from `lanes.py`, so that the same text is compiled for one number, for several models
side by side, and runs in plain Python.  Kernels call them as `value(loss, p, y)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import by_type, part_of_kernels
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.kernels.simd.lanes import maximum, minimum, where


@by_type
def value(loss: Loss, p: Number, y: Number) -> Number:
    """phi(p, y)."""


@by_type
def slope(loss: Loss, p: Number, y: Number) -> Number:
    """d phi / d p; 0 at a kink."""


@by_type
def curvature_at(loss: Loss, p: Number, y: Number) -> Number:
    """Curvature of a parabola that touches phi at p: its second derivative, where that will do."""


@by_type
def conjugate(loss: Loss, a: Number, y: Number) -> Number:
    """phi*(-a), infinite outside the dual variable's domain."""


@by_type
def dual_step(loss: Loss, a: Number, p: Number, y: Number, q: Number) -> Number:
    """argmax over delta of -phi*(-(a + delta)) - delta z - (q/2) delta^2, curvature q >= 0."""


@by_type
def direction(loss: Loss, y: Number) -> Number:
    """What multiplies a x in w(a): y for margin losses, 1 for others."""


@by_type
def steps_exactly(loss: Loss) -> bool:
    """Whether SGD takes the row's own exact step: where slopes grow faster than a line."""


@by_type
def sgd_slope(loss: Loss, p: Number, y: Number, q: Number) -> Number:
    """What a row's step of SGD goes by; q = gamma c (||x||^2 + column^2) where it is exact."""


Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]
FORMULAS = (
    value, slope, curvature_at, conjugate, dual_step, direction, steps_exactly, sgd_slope,
)  # fmt: skip


class Loss:
    """A loss; what it declares here is all that methods, plans and predictions ask of it.

    Instances are NamedTuples of the loss's parameters, so that kernels can take them.
    """

    __slots__ = ()

    name: ClassVar[str]
    """The word that commands, plans and flows use for it."""
    curvature: float
    """Bound on the second derivative; infinite where there is a kink."""
    liblinear: ClassVar[str | None] = None
    """LIBLINEAR's solver for it or for the loss nearest to it, the word in its model files; None:
    no model of this loss can be written as one of LIBLINEAR's."""
    takes_numbers: ClassVar[bool] = False
    """Whether targets are any numbers, instead of -1 and +1."""
    is_smooth: ClassVar[bool] = True
    """Whether the slope is continuous; a smooth loss has `curvature_at`."""
    is_quadratic: ClassVar[bool] = False
    """Whether the second derivative is the same everywhere."""

    def __init_subclass__(cls) -> None:
        """Make the class's methods the bodies of the functions above."""
        for formula in FORMULAS:
            body = getattr(cls, formula.__name__, None)
            if body is not None:
                formula.register(cls)(body)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of its parameters: settings of a plan."""
        return cls._fields  # type: ignore[attr-defined, no-any-return]

    def __eq__(self, other: object) -> bool:
        """Losses without parameters are empty tuples: their types tell them apart."""
        return type(self) is type(other) and tuple.__eq__(self, other)  # type: ignore[operator]

    def __ne__(self, other: object) -> bool:
        """Not `==`: the tuple's own would be found first."""
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), *self))  # type: ignore[misc]

    def direction(self, y: Number) -> Number:
        """Return y: margin losses."""
        return y

    def steps_exactly(self) -> bool:
        """Return False: slopes are bounded, or step sizes are found for all rows together."""
        return False

    def sgd_slope(self, p: Number, y: Number, _q: Number) -> Number:
        """Return the slope before the step."""
        return slope(self, p, y)

    @property
    def link(self) -> Link | None:
        """From scores (n,) to the probability of +1 (n,); None where the loss models none."""
        return None

    @property
    def below_hinge(self) -> float | None:
        """How far it lies below the hinge at most, and never above; None where that is not so."""
        return None


class NoParameters(NamedTuple):
    """The parameters of a loss that has none."""


class Smoothing(NamedTuple):
    """The parameter of a loss whose kink is rounded."""

    smoothing: float = 1.0  # width over which it is


class Problem(NamedTuple):
    """What is minimised; see the module's docstring."""

    loss: Loss
    lam: float
    intercept: float  # value of the constant column: 1.0, or 0.0 for no intercept
    lam_b: float  # what the intercept's square costs, in place of lam


#: A dual variable that is kept as a sum may leave its interval by rounding, at most so far.
ROUNDED = 1e-12


@part_of_kernels
def onto(a: Number, most: float) -> Number:
    """Return a dual variable, on the edge of [0, most] where rounding took it across."""
    a = where(abs(a) <= ROUNDED, maximum(a, 0.0), a)
    return where(a <= most + ROUNDED, minimum(a, most), a)


@part_of_kernels
def inside(a: Number, most: float, found: Number) -> Number:
    """Return `found` where 0 <= a <= most, else infinity."""
    return where((a >= 0.0) & (a <= most), found, float("inf"))
