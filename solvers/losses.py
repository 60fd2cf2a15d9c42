"""The five losses as functions of a prediction p and a target y, and the problem they make.

    f(w) = (1/n) sum_i weight_i phi(x_i . w + b, y_i) + (lam/2) ||w||^2 + (lam_b/2) b^2

Margin losses take y in {-1, +1} and depend on z = y p; the squared loss takes any number y.
`slope` is the derivative with respect to p.  `conjugate` and `dual_step` speak of the dual
variable a of the margin convention, w = (1/(lam n)) sum_i a_i y_i x_i (squared loss: without y_i).
Formulas: the table in docs/methods.md, section 2, in forms that neither overflow nor cancel.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from solvers.dispatch import by_type, part_of_kernels
from solvers.exponential import exp_below, log_below, log_one_plus
from solvers.lanes import (
    any_above,
    at_least,
    at_most,
    choose_above,
    choose_at_most,
    everywhere,
    size,
)


class Hinge(NamedTuple):
    """max(0, 1 - z): the support vector machine; not smooth."""

    curvature: float = math.inf  # bound on the second derivative


class SquaredHinge(NamedTuple):
    """max(0, 1 - z)^2 / 2."""

    curvature: float = 1.0


class SmoothedHinge(NamedTuple):
    """The hinge with its kink rounded over `width`: below the hinge by at most width / 2."""

    width: float = 1.0

    @property
    def curvature(self) -> float:
        """Bound on the second derivative."""
        return 1.0 / self.width


class Logistic(NamedTuple):
    """log(1 + exp(-z))."""

    curvature: float = 0.25


class Squared(NamedTuple):
    """(p - y)^2 / 2: ridge regression."""

    curvature: float = 1.0


Loss = Hinge | SquaredHinge | SmoothedHinge | Logistic | Squared

#: Every loss by the word that commands, plans and flows use for it.
LOSSES: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "smoothed_hinge": SmoothedHinge,
    "logistic": Logistic,
    "squared": Squared,
}


class Problem(NamedTuple):
    """What is minimised; see the module's docstring."""

    loss: Loss
    lam: float
    intercept: float  # value of the constant column: 1.0, or 0.0 for no intercept
    lam_b: float  # what the intercept's square costs, in place of lam


@by_type
def value(loss: Loss, p: float, y: float) -> float:
    """phi(p, y)."""


@by_type
def slope(loss: Loss, p: float, y: float) -> float:
    """d phi / d p; 0 at the hinge's kink."""


@by_type
def curvature_at(loss: Loss, p: float, y: float) -> float:
    """Curvature of a parabola that touches phi at p: its second derivative, where that will do.

    Where the smoothed hinge is straight it has none, and takes the parabola above it instead.
    """


@by_type
def conjugate(loss: Loss, a: float, y: float) -> float:
    """phi*(-a), infinite outside the dual variable's domain."""


@by_type
def dual_step(loss: Loss, a: float, p: float, y: float, q: float) -> float:
    """argmax over delta of -phi*(-(a + delta)) - delta z - (q/2) delta^2, curvature q >= 0."""


@by_type
def direction(loss: Loss, y: float) -> float:
    """What multiplies a x in w(a): y, and 1 for the squared loss."""


# hinge


@value.register(Hinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    m = 1.0 - y * p
    return choose_above(m, 0.0, m, 0.0)


@slope.register(Hinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    return choose_above(1.0 - y * p, 0.0, -y, 0.0)


#: A dual variable that is kept as a sum may leave its interval by rounding, at most so far.
OUTSIDE = 1e-12


@part_of_kernels
def brought_in(a: Any, most: Any) -> Any:
    """Return a dual variable, on the edge of [0, most] where rounding took it across."""
    a = choose_at_most(size(a), OUTSIDE, at_least(a, 0.0), a)
    return choose_at_most(a, most + OUTSIDE, at_most(a, most), a)


@part_of_kernels
def where_inside(a: Any, most: Any, inside: Any) -> Any:
    """Return `inside` where 0 <= a <= most, else infinity."""
    return choose_at_most(-a, 0.0, choose_at_most(a, most, inside, math.inf), math.inf)


@conjugate.register(Hinge)
def _(loss: Any, a: Any, y: Any) -> Any:
    a = brought_in(a, 1.0)
    return where_inside(a, 1.0, -a)


@dual_step.register(Hinge)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    m = 1.0 - y * p
    wish = a + m / choose_above(q, 0.0, q, 1.0)
    flat = choose_above(m, 0.0, 1.0, choose_above(-m, 0.0, 0.0, a))  # a row of zeros
    return at_most(at_least(choose_above(q, 0.0, wish, flat), 0.0), 1.0) - a


# squared hinge


@value.register(SquaredHinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    m = 1.0 - y * p
    return choose_above(m, 0.0, 0.5 * m * m, 0.0)


@slope.register(SquaredHinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    m = 1.0 - y * p
    return choose_above(m, 0.0, -y * m, 0.0)


@curvature_at.register(SquaredHinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    return 1.0 if y * p < 1.0 else 0.0


@conjugate.register(SquaredHinge)
def _(loss: Any, a: Any, y: Any) -> Any:
    a = brought_in(a, math.inf)
    return where_inside(a, math.inf, 0.5 * a * a - a)


@dual_step.register(SquaredHinge)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    return at_least(a + (1.0 - y * p - a) / (q + 1.0), 0.0) - a


# smoothed hinge


@value.register(SmoothedHinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    m = 1.0 - y * p
    most = choose_above(m, loss.width, loss.width, m)
    return choose_above(m, 0.0, most * most / (2.0 * loss.width) + (m - most), 0.0)


@slope.register(SmoothedHinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    share = (1.0 - y * p) / loss.width
    return -y * choose_above(share, 1.0, 1.0, choose_above(share, 0.0, share, 0.0))


@curvature_at.register(SmoothedHinge)
def _(loss: Any, p: Any, y: Any) -> Any:
    m = 1.0 - y * p
    return 1.0 / max(m, loss.width) if m > 0.0 else 0.0


@conjugate.register(SmoothedHinge)
def _(loss: Any, a: Any, y: Any) -> Any:
    a = brought_in(a, 1.0)
    return where_inside(a, 1.0, 0.5 * loss.width * a * a - a)


@dual_step.register(SmoothedHinge)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    wish = a + (1.0 - y * p - loss.width * a) / (q + loss.width)
    return at_most(at_least(wish, 0.0), 1.0) - a


# logistic


@value.register(Logistic)
def _(loss: Any, p: Any, y: Any) -> Any:
    z = y * p
    return choose_above(z, 0.0, 0.0, -z) + log_one_plus(exp_below(-size(z)))


@slope.register(Logistic)
def _(loss: Any, p: Any, y: Any) -> Any:
    z = y * p
    e = exp_below(-size(z))
    return -y * choose_above(z, 0.0, e, 1.0) / (1.0 + e)


@curvature_at.register(Logistic)
def _(loss: Any, p: Any, y: Any) -> Any:
    e = math.exp(-abs(p))
    return e / ((1.0 + e) * (1.0 + e))


@part_of_kernels
def logs(a: Any) -> Any:
    """Return the smaller one of a and 1 - a, and the logarithms of the smaller and the larger."""
    a = brought_in(a, 1.0)
    small = choose_above(a, 0.5, 1.0 - a, a)
    return small, log_below(small), log_one_plus(-small)


@conjugate.register(Logistic)
def _(loss: Any, a: Any, y: Any) -> Any:
    small, log_small, log_large = logs(a)
    return where_inside(brought_in(a, 1.0), 1.0, small * log_small + (1.0 - small) * log_large)


@part_of_kernels
def sigmoid(s: Any) -> Any:
    """1 / (1 + exp(-s)) without overflow."""
    e = exp_below(-size(s))
    return choose_above(s, 0.0, 1.0, e) / (1.0 + e)


#: A step of Halley's this short leaves an error of its cube, and D lacks the square of that.
LAST_STEP = 4e-3
FAR, LEAST_BEND = 8.0, 0.02  # for a first guess that is good wherever a is, and whatever q


@dual_step.register(Logistic)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    # a + delta = sigmoid(s) with s the root of F(s) = s + z + q (sigmoid(s) - a), which increases:
    # a step of Newton's from where sigmoid(s) is a, then Halley's, or halves where these are slow.
    # What waits for p is short: a model's next row waits for this step.
    z = y * p
    low, high = -z - q * (1.0 - a), -z + q * a
    _, log_small, log_large = logs(a)
    s = choose_above(a, 0.5, log_large - log_small, log_small - log_large)
    s, bend = at_most(at_least(s, -FAR), FAR), q * at_least(a * (1.0 - a), LEAST_BEND)
    s = at_most(at_least((bend * s - z) * (1.0 / (1.0 + bend)), low), high)
    g, found, is_open, most = sigmoid(s), a, everywhere(a, 1.0), high - low
    for _step in range(60):
        bend = g * (1.0 - g)
        F, slant = s + z + q * (g - a), 1.0 + q * bend
        low, high = choose_above(F, 0.0, low, s), choose_above(F, 0.0, s, high)
        half = 0.5 * (low + high) - s
        step = -F * slant / (slant * slant - 0.5 * F * q * bend * (1.0 - 2.0 * g))
        step = choose_at_most(low - s, step, choose_at_most(step, high - s, step, half), half)
        step = choose_above(size(step), most, half, step)
        found = choose_above(is_open, 0.0, g + bend * step * (1.0 + (0.5 - g) * step), found)
        is_open = choose_above(size(step), LAST_STEP, is_open, 0.0)
        if not any_above(is_open, 0.0):
            break
        s, most = s + step, 0.5 * size(step)
        g = sigmoid(s)
    return at_most(at_least(found, 0.0), 1.0) - a


# squared


@value.register(Squared)
def _(loss: Any, p: Any, y: Any) -> Any:
    return 0.5 * (p - y) * (p - y)


@slope.register(Squared)
def _(loss: Any, p: Any, y: Any) -> Any:
    return p - y


@curvature_at.register(Squared)
def _(loss: Any, p: Any, y: Any) -> Any:
    return 1.0


@conjugate.register(Squared)
def _(loss: Any, a: Any, y: Any) -> Any:
    return 0.5 * a * a - a * y


@dual_step.register(Squared)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    return (y - p - a) / (1.0 + q)


# directions of the dual variables


@direction.register(Hinge)
@direction.register(SquaredHinge)
@direction.register(SmoothedHinge)
@direction.register(Logistic)
def _(loss: Any, y: Any) -> Any:
    return y


@direction.register(Squared)
def _(loss: Any, y: Any) -> Any:
    return 1.0
