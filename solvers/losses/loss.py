"""The interface of losses: functions of a prediction p and a target y, and the problem to solve.

    f(w) = (1/n) sum_i weight_i phi(x_i . w + b, y_i) + R(w) + (lam_b/2) (b - b_0)^2

with the penalty R (penalties/penalty.py), (lam/2) ||w||^2 unless something else is asked for.

Margin losses take y in {-1, +1} and depend on z = y p; others take any number y.  `slope` is the
derivative with respect to p.  `conjugate` and `dual_step` use the dual variable a of the
margin convention, w = (1/(lam n)) sum_i a_i y_i x_i (for numbers as targets: without y_i).

A loss is one file next to this one, a class whose methods are the formulas (docs/methods.md,
section 2, has their table), in forms that neither overflow nor cancel.  They use the functions of
`lanes.py`, named as in NumPy, so that the same code is compiled for one number and for several
models side by side, and also runs in plain Python.  Kernels call them as `value(loss, p, y)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import OfFormulas, Verb, by_type, kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import (
    Eight,
    broadcast,
    load,
    maximum,
    minimum,
    store,
    where,
)
from fewpass.solvers.kernels.shapes import Number, PerRow
from fewpass.solvers.penalties import Penalty, strength


@by_type
def value(loss: Loss, p: Number, y: Number) -> Number:
    """Return phi(p, y)."""


@by_type
def slope(loss: Loss, p: Number, y: Number) -> Number:
    """Return d phi / d p; 0 at a kink."""


@by_type
def counted_slope(loss: Loss, p: Number, y: Number) -> Number:
    """Return the slope as AdaGrad counts it: bounded where the loss's has no bound."""


@by_type
def curvature_at(loss: Loss, p: Number, y: Number) -> Number:
    """Return the curvature of a parabola above phi that touches it at p, or phi''(p)."""


@by_type
def conjugate(loss: Loss, a: Number, y: Number) -> Number:
    """Return phi*(-a), infinite outside the dual variable's domain."""


@by_type
def bracket(loss: Loss, a: Number, p: Number, y: Number, phi: Number, dual: Number) -> Number:
    """Return phi(p, y) + phi*(-a) + a s p >= 0; its first two terms are given, `phi` and `dual`."""


@by_type
def dual_step(loss: Loss, a: Number, p: Number, y: Number, q: Number) -> Number:
    """Return argmax over delta of -phi*(-(a + delta)) - delta z - (q/2) delta^2, q >= 0."""


@by_type
def direction(loss: Loss, y: Number) -> Number:
    """Return the factor of a x in w(a): y for margin losses, 1 for others."""


@by_type
def steps_exactly(loss: Loss) -> bool:
    """Return whether SGD takes exact steps, each row with its own size: if slopes are unbounded."""


@by_type
def from_level(loss: Loss, level: Number) -> Loss:
    """Return the loss of scores that count from a level, where targets cannot be moved instead."""


@by_type
def sgd_slope(loss: Loss, p: Number, y: Number, q: Number) -> Number:
    """Return the slope of a row's SGD step; q = gamma c (||x||^2 + column^2) if steps are exact."""


Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class WithoutOffset(NamedTuple):
    """Rows with offsets as a loss takes them: as other rows, without offsets."""

    y: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,) that the rows' own are multiplied by


class Loss(OfFormulas):
    """Base class of losses; methods, plans and predictions use these members only.

    Instances are NamedTuples of the loss's parameters, so that kernels can take them.
    """

    __slots__ = ()

    formulas: ClassVar[tuple[Verb, ...]] = (
        value, slope, counted_slope, curvature_at, conjugate, bracket, dual_step, direction,
        steps_exactly, sgd_slope, from_level,
    )  # fmt: skip
    name: ClassVar[str]
    """Name in commands, plans and flows."""
    curvature: float
    """Bound on the second derivative; infinite where there is a kink."""
    liblinear: ClassVar[str | None] = None
    """LIBLINEAR's solver for it or for a similar loss, as in its model files; None: models of this
    loss cannot be written in LIBLINEAR's format."""
    liblinear_l1: ClassVar[str | None] = None
    """The same with an l1 penalty; None: LIBLINEAR has none."""
    takes_numbers: ClassVar[bool] = False
    """True where targets are numbers instead of labels -1 and +1."""
    is_smooth: ClassVar[bool] = True
    """True where the slope is continuous; a smooth loss has `curvature_at`."""
    is_quadratic: ClassVar[bool] = False
    """True where the second derivative is constant."""
    is_wide: ClassVar[bool] = False
    """True where it is of all classes' scores at once (wide_loss.py), which one model makes."""
    is_steep: ClassVar[bool] = False
    """True where neither slope nor curvature has a bound: no step size is safe."""
    least_target: ClassVar[float] = -math.inf
    """The smallest target that it is defined for."""

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of its parameters, which are settings of a plan."""
        return cls._fields  # type: ignore[attr-defined, no-any-return]

    def direction(self, y: Number) -> Number:
        """Return y: margin losses."""
        return y

    def bracket(self, a: Number, p: Number, y: Number, phi: Number, dual: Number) -> Number:
        """Add the terms up."""
        return phi + dual + a * direction(self, y) * p

    def counted_slope(self, p: Number, y: Number) -> Number:
        """Return the slope."""
        return slope(self, p, y)

    def steps_exactly(self) -> bool:
        """Return False: slopes are bounded, or step sizes are found for all rows together."""
        return False

    def sgd_slope(self, p: Number, y: Number, _q: Number) -> Number:
        """Return the slope before the step."""
        return slope(self, p, y)

    @property
    def link(self) -> Link | None:
        """Function from scores (n,) to probabilities of +1 (n,); None if the loss models none."""
        return None

    def best_constant(self, mean: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the constants of least mean loss for targets of these means, or None.

        None where that depends on more than the mean: the constant is searched for then.
        """
        return None

    @property
    def has_level(self) -> bool:
        """Return whether the intercept is charged from the best constant, and not from 0.

        That of a hinge is between -1 and 1; other losses of labels have a field `level`.
        """
        return self.takes_numbers or self.is_wide or hasattr(self, "level")

    def from_level(self, _level: Number) -> Self:
        """Return the loss itself: `at_offset` has numbers count from a level."""
        return self

    @property
    def width(self) -> int:
        """Number of scores of a row that it is a function of."""
        return 1

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return p of +1 (n,) for scores (n,); of each class (n, K) for (n, K), where it has any.

        Those of several classes are each one's against the rest, divided by their sum.
        """
        assert self.link is not None, "asked of losses that have probabilities"
        p = self.link(scores)
        return p if p.ndim == 1 else normalised(p)

    @property
    def response(self) -> Link | None:
        """Function from scores (n,) to predictions (n,); None if scores are predictions."""
        return None

    def rate(self, mean: float) -> float:
        """Return about the second derivative at good predictions; 1 where there is a kink."""
        return self.curvature if math.isfinite(self.curvature) else 1.0

    def at_offset(self, y: NDArray[np.float64], offset: NDArray[np.float64]) -> WithoutOffset:
        """Return targets and weights for which the loss at p is that of y at p + offset.

        Losses of p - y: the offset is taken off the target.
        """
        return WithoutOffset(y - offset, np.ones(len(y)))

    @property
    def below_hinge(self) -> float | None:
        """Most that it is below the hinge, if never above it; None otherwise."""
        return None


def normalised(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each class's probability against the rest divided by their sum, (n, K).

    The order is that of the scores, but they are not calibrated.
    """
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), 1.0 / p.shape[1])


class LossOfNumbers(Loss):
    """Base class of losses whose targets are numbers."""

    __slots__ = ()

    takes_numbers: ClassVar[bool] = True

    def direction(self, y: Number) -> Number:
        """Return 1."""
        return 1.0


class NoParameters(NamedTuple):
    """The parameters of a loss that has none."""


class Smoothing(NamedTuple):
    """The parameter of a loss with a smoothed kink."""

    smoothing: float = 1.0  # width of the smoothed part


class Problem(NamedTuple):
    """The objective to minimise; see the module's docstring, where `level` is b_0."""

    loss: Loss
    penalty: Penalty
    intercept: float  # value of the constant column: 1.0, or 0.0 for no intercept
    lam_b: float  # in place of lam for the intercept's distance from `level`
    level: Any = 0.0  # a number; of several models, or scores, a tuple of each one's

    @property
    def target_level(self) -> float:
        """The level of numbers as targets: that of the scores, but of logarithms and labels 0."""
        moves = self.loss.takes_numbers and not self.loss.is_steep
        return float(self.level) if moves else 0.0

    @property
    def lam(self) -> float:
        """The strength of the penalty: lam of the l2 penalty.  Kernels ask the penalty itself."""
        return float(strength(self.penalty))


#: Most that a dual variable stored as a sum leaves its interval by rounding.
ROUNDED = 1e-12


@part_of_kernels
def onto(a: Number, most: float) -> Number:
    """Return a dual variable, moved to the edge of [0, most] if it is outside by rounding."""
    a = where(abs(a) <= ROUNDED, maximum(a, 0.0), a)
    return where(a <= most + ROUNDED, minimum(a, most), a)


@part_of_kernels
def inside(a: Number, most: float, number: Number) -> Number:
    """Return `number` if 0 <= a <= most, else infinity."""
    return where((a >= 0.0) & (a <= most), number, float("inf"))


# -- of given predictions --------------------------------------------------------------------------


def at_scores(loss: Loss, p: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return losses, slopes and curvatures (3, n) of predictions (n,)."""
    out = np.empty((3, len(p)))
    _put_at_scores(loss, np.ascontiguousarray(p), np.ascontiguousarray(y), out.reshape(-1))
    return out


@kernel
def _put_at_scores(loss: Loss, p: PerRow, y: PerRow, out: PerRow) -> None:
    n, lanes = p.shape[0], Eight()
    whole, one = n - n % 8, broadcast(1.0, lanes)  # some losses' curvature is a constant
    for k in range(0, whole, 8):
        here, t = load(p, k, lanes), load(y, k, lanes)
        store(out, k, value(loss, here, t))
        store(out, n + k, slope(loss, here, t))
        store(out, 2 * n + k, one * curvature_at(loss, here, t))
    for k in range(whole, n):
        out[k], out[n + k] = value(loss, p[k], y[k]), slope(loss, p[k], y[k])
        out[2 * n + k] = curvature_at(loss, p[k], y[k])


@kernel
def losses_by_row(loss: Loss, p: PerRow, y: PerRow) -> PerRow:
    """Return the losses of predictions p, (n,)."""
    losses = np.empty(p.shape[0])
    for i in range(p.shape[0]):
        losses[i] = value(loss, p[i], y[i])
    return losses
