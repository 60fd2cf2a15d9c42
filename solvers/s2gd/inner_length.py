"""The random length of inner loops (Konecny and Richtarik 2013, equations 4 and 5).

    P(t) = rho^(m - t) / beta,   t = 1 .. m,   rho = 1 - nu h,   beta = 1 + rho + ... + rho^(m - 1)

Long loops are more likely than short ones; with nu = 0 all lengths are equally likely.  With r = m
- t, P(r <= k) = (1 - rho^(k + 1)) / (1 - rho^m), which has a closed inverse: the cost of a draw and
of the mean does not depend on m.
"""

from __future__ import annotations

import math
import sys

SERIES_BELOW = 0.1  # where both forms of `_bend` are accurate to 1e-14


def inner_length(m: int, nu: float, h: float, U: float) -> int:
    """Return t in 1 .. m, drawn from the law with a uniform random number U in (0, 1].

    `m` is the largest length, `nu` a lower bound on the strong convexity (0: none), `h` the step
    size.  With a generator of numbers in [0, 1), U is 1 minus such a number.

    Raises
    ------
    ValueError
        When m < 1, when nu h is not in [0, 1), or when U is not in (0, 1].
    """
    decay = -_log_rho(m, nu, h)
    if not 0.0 < U <= 1.0:
        raise ValueError(f"U is {U}. Draw it uniformly from (0, 1].")
    if U == 1.0:  # where log1p below could be called with -1
        return 1
    if m * decay < sys.float_info.epsilon:  # rho^m rounds to 1
        behind = math.ceil(U * m) - 1
    else:
        behind = math.ceil(math.log1p(U * math.expm1(-m * decay)) / -decay) - 1
    return m - min(max(behind, 0), m - 1)


def mean_inner_length(m: float, nu: float, h: float) -> float:
    """Return xi = sum t P(t) = m / (1 - rho^m) - rho / (nu h), to 1e-14 also for small nu h.

    The two terms grow like 1 / (nu h) while their difference stays near m/2; with
    B(x) = 1 / (exp(x) - 1) - 1/x + 1/2 and x = -log(rho) it is (m + 1)/2 + m B(m x) - B(x).
    m may be real.

    Raises
    ------
    ValueError
        When m < 1 or nu h is not in [0, 1).
    """
    decay = -_log_rho(m, nu, h)
    return 0.5 * (m + 1.0) + m * _bend(m * decay) - _bend(decay)


def _log_rho(m: float, nu: float, h: float) -> float:
    if not m >= 1:
        raise ValueError(f"m is {m}. An inner loop has at least one step.")
    if not 0.0 <= nu * h < 1.0:
        raise ValueError(f"nu h is {nu * h}. Take a step h below 1/nu.")
    return math.log1p(-nu * h)


def _bend(x: float) -> float:
    """B(x): 0 at 0, 1/2 at infinity."""
    if x < SERIES_BELOW:
        square = x * x
        return x / 12.0 * (1.0 - square / 60.0 * (1.0 - square / 42.0 * (1.0 - square / 40.0)))
    return 0.5 / math.tanh(0.5 * x) - 1.0 / x
