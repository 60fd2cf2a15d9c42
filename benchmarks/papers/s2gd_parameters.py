"""Parameters of S2GD that the paper gives beside those that training takes (s2gd/theory.py).

Konecny and Richtarik 2013, problem (20), (27) and (28).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from fewpass.solvers.s2gd.inner_length import mean_inner_length
from fewpass.solvers.s2gd.theory import Curvature, Law, checked, rate

LONGEST = 1e3  # times n + kappa: far above any optimal inner loop
PRECISION = 1e-10  # of log m and log h


class Optimum(NamedTuple):
    """Parameters with the least expected work per digit."""

    m: int
    h: float
    c: float  # factor of f - f* per epoch, at most
    work: float  # expected gradients of single rows to reduce f - f* by the factor 1/e


def simple_length_for(kappa: float, delta: float, law: Law) -> float:
    """Return m of (27): simpler than (25) and larger, for kappa >= 2."""
    if law == "geometric":
        return 6.0 * kappa / delta * math.log(5.0 / delta)
    return 20.0 * kappa / delta**2


def best_uniform(of: Curvature, delta: float) -> tuple[float, float]:
    """Return (h, m) of (28), nu = 0: the smallest m, before rounding, with c <= delta."""
    L, mu = checked(of)
    h = 1.0 / (4.0 / delta * (L - mu) + 4.0 * L)
    return h, 8.0 * (of.kappa - 1.0) / delta**2 + 8.0 * of.kappa / delta


def best_parameters(of: Curvature, n: int, law: Law, gradients: int = 2) -> Optimum:
    """Minimise (n + gradients xi(m, h)) / log(1/c) over h and m: problem (20), numerically.

    Minimises minus its inverse, which is finite also for c >= 1.
    """
    L, mu = checked(of)
    nu = mu if law == "geometric" else 0.0

    def slowness(log_m: float, log_h: float) -> float:
        m, h = math.exp(log_m), math.exp(log_h)
        return math.log(rate(of, m, h, nu)) / (n + gradients * mean_inner_length(m, nu, h))

    def best_log_m(log_h: float) -> float:
        longest = math.log(LONGEST * (n + of.kappa))
        return _minimum(lambda log_m: slowness(log_m, log_h), (0.0, longest))

    largest = -math.log(4.0 * L - 2.0 * mu)  # log h at which c >= 1 for every m
    smallest = largest - math.log(LONGEST * (n + of.kappa))
    log_h = _minimum(lambda log_h: slowness(best_log_m(log_h), log_h), (smallest, largest))
    m, h = max(1, round(math.exp(best_log_m(log_h)))), math.exp(log_h)
    c = rate(of, m, h, nu)
    return Optimum(m, h, c, (n + gradients * mean_inner_length(m, nu, h)) / -math.log(c))


def _minimum(function: Callable[[float], float], bounds: tuple[float, float]) -> float:
    options = {"xatol": PRECISION, "maxiter": 500}
    result = minimize_scalar(function, bounds=bounds, method="bounded", options=options)
    return float(result.x)
