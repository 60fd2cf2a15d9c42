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
from solvers.exponential import exp_below, log_one_plus
from solvers.lanes import choose_above, size


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
    if a < 0.0:
        return 0.0 if a >= -OUTSIDE else a
    return most if most < a <= most + OUTSIDE else a


@conjugate.register(Hinge)
def _(loss: Any, a: Any, y: Any) -> Any:
    a = brought_in(a, 1.0)
    return -a if 0.0 <= a <= 1.0 else math.inf


@dual_step.register(Hinge)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    m = 1.0 - y * p
    if q > 0.0:
        return min(max(a + m / q, 0.0), 1.0) - a
    if m == 0.0:
        return 0.0
    return (1.0 if m > 0.0 else 0.0) - a


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
    return 0.5 * a * a - a if a >= 0.0 else math.inf


@dual_step.register(SquaredHinge)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    return max(0.0, a + (1.0 - y * p - a) / (q + 1.0)) - a


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
    return 0.5 * loss.width * a * a - a if 0.0 <= a <= 1.0 else math.inf


@dual_step.register(SmoothedHinge)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    wish = a + (1.0 - y * p - loss.width * a) / (q + loss.width)
    return min(max(wish, 0.0), 1.0) - a


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


@conjugate.register(Logistic)
def _(loss: Any, a: Any, y: Any) -> Any:
    a = brought_in(a, 1.0)
    if not 0.0 <= a <= 1.0:
        return math.inf
    total = 0.0
    if a > 0.0:
        total += a * math.log(a)
    if a < 1.0:
        total += (1.0 - a) * math.log1p(-a)
    return total


@part_of_kernels
def sigmoid(s: Any) -> Any:
    """1 / (1 + exp(-s)) without overflow."""
    e = math.exp(-abs(s))
    return (1.0 if s >= 0.0 else e) / (1.0 + e)


#: A step of Halley's this short leaves an error of its cube: below what rounding leaves.
LAST_STEP = 1e-5


@dual_step.register(Logistic)
def _(loss: Any, a: Any, p: Any, y: Any, q: Any) -> Any:
    # a + delta = sigmoid(s) with s the root of F(s) = s + z + q (sigmoid(s) - a), which increases.
    # sigmoid(s) is a to begin with, and follows from its derivatives after the last step.
    z = y * p
    low, high = -z - q * (1.0 - a), -z + q * a
    s, g = math.log(a / (1.0 - a)) if 0.0 < a < 1.0 else math.inf, a
    if not low <= s <= high:
        s = low if s < low else 0.5 * (low + high) if s == math.inf else high
        g = sigmoid(s)
    for _step in range(60):
        bend = g * (1.0 - g)
        F, slant = s + z + q * (g - a), 1.0 + q * bend
        if F > 0.0:
            high = s
        else:
            low = s
        new = s - F * slant / (slant * slant - 0.5 * F * q * bend * (1.0 - 2.0 * g))
        if not low <= new <= high:
            new = 0.5 * (low + high)
        step, s = new - s, new
        if abs(step) <= LAST_STEP:
            g += bend * step * (1.0 + (0.5 - g) * step)
            return min(max(g, 0.0), 1.0) - a
        g = sigmoid(s)
    return g - a


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
