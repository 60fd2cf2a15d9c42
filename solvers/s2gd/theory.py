"""S2GD's theory: number of epochs, number of inner steps, step size.

Konecny and Richtarik 2013, Theorems 4 and 6, equations 20 to 28.  An epoch is one full gradient
and t steps at random rows, t by the law of `inner_length` with nu = mu ("geometric") or nu = 0
("uniform", without knowing mu).  After j epochs

    E (f(x_j) - f*)  <=  c^j (f(x_0) - f*)

Work is counted in gradients of single rows: n for a full gradient, and 2 per inner step, or 1 with
stored slopes at the anchor.

Theorem 4 asks for h < 1/(2L); its c is below 1 only where h < 1/(4L - 2 mu) (docs/methods.md).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

Law = Literal["geometric", "uniform"]

MOST_DIGITS = (
    100  # most digits per epoch; lengths are proportional to 1/delta^2, which must be finite
)


class Curvature(NamedTuple):
    """The constants of a problem in the theory."""

    L: float  # every row's loss is L-smooth, regularisation included
    mu: float  # the mean loss is mu-strongly convex

    @property
    def kappa(self) -> float:
        """L / mu."""
        return self.L / self.mu


class Epochs(NamedTuple):
    """Parameters that reach an accuracy, and their cost."""

    j: int  # epochs
    m: int  # largest number of inner steps
    h: float  # step size
    work: float  # gradients of single rows, at most


def rate(of: Curvature, m: float, h: float, nu: float) -> float:
    """Return c of Theorem 4 for 0 <= nu <= mu; infinite where h >= 1/(2L)."""
    L, mu = of
    if not 2.0 * L * h < 1.0:
        return math.inf
    first = 1.0 / (m * h)  # rho^m / (beta h)
    if nu > 0.0:
        log_left = m * math.log1p(-nu * h)
        first = nu * math.exp(log_left) / -math.expm1(log_left)
    return (first / mu + 2.0 * (L - mu) * h) / (1.0 - 2.0 * L * h)


def step_for(of: Curvature, delta: float) -> float:
    """Return h of (24), with which an epoch can reduce f - f* by the factor delta."""
    L, mu = checked(of)
    return 1.0 / (4.0 / delta * (L - mu) + 2.0 * L)


def length_for(kappa: float, delta: float, law: Law) -> float:
    """Return m of (25), before it is rounded up: c <= delta with the h of (24)."""
    if law == "geometric":
        logarithm = math.log(2.0 / delta + (2.0 * kappa - 1.0) / (kappa - 1.0))
        return (4.0 * (kappa - 1.0) / delta + 2.0 * kappa) * logarithm
    uniform = 8.0 * (kappa - 1.0) / delta**2 + 8.0 * kappa / delta
    return uniform + 2.0 * kappa * kappa / (kappa - 1.0)


def plan_with_epochs(
    of: Curvature, n: int, eps: float, j: int, law: Law, gradients: int = 2
) -> Epochs:
    """Return Theorem 6's parameters for j epochs and their work, (23)."""
    delta = eps ** (1.0 / j)
    h, length = step_for(of, delta), length_for(of.kappa, delta, law)
    if not math.isfinite(length):
        raise ValueError(
            f"No epoch is long enough for a condition number of {of.kappa:g}. Choose a larger "
            "`lam`, or ingest with `scale`."
        )
    m = math.ceil(length)
    return Epochs(j, m, h, j * (n + gradients * m))


def plan_epochs(of: Curvature, n: int, eps: float, law: Law, gradients: int = 2) -> Epochs:
    """Return the number of epochs with the least work such that E f - f* <= eps (f0 - f*).

    Larger j than those searched cannot win: j epochs cost at least j (n + gradients m(delta = 1)).
    """
    if not 0.0 < eps < 1.0:
        raise ValueError(f"eps is {eps}. Ask for a share between 0 and 1.")
    least = n + gradients * length_for(checked(of).kappa, 1.0, law)
    j = 1 + int(-math.log10(eps) / MOST_DIGITS)
    best, j = plan_with_epochs(of, n, eps, j, law, gradients), j + 1
    while j * least < best.work:
        best = min(best, plan_with_epochs(of, n, eps, j, law, gradients), key=_work)
        j += 1
    return best


def checked(of: Curvature) -> Curvature:
    """Return the constants; ValueError where the theory does not hold."""
    if not 0.0 < of.mu < of.L < math.inf:
        raise ValueError(f"L is {of.L} and mu {of.mu}. The theory needs 0 < mu < L.")
    return of


def _work(plan: Epochs) -> float:
    return plan.work
