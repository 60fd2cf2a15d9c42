"""Common parts of losses of a logarithm's prediction: exp(p) is the mean of the target.

Their losses and brackets are m (e^u - 1 - u), which is never negative and does not cancel, and the
best step of a dual variable is the root t of

    t + q e^t = r        with u = t + log q:    u + e^u = r + log q = x,

where e^u is Wright's omega of x.  docs/methods.md, section 2.1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.lanes import any_lane, fma, maximum, minimum, where
from fewpass.solvers.kernels.shapes import Number
from fewpass.solvers.kernels.simd.exp_log import exp_below, log_below
from fewpass.solvers.losses.loss import Link, LossOfNumbers, NoParameters, slope

HIGHEST = 700.0  # exp of more is not far from infinity
LAST_STEP = 1e-6  # of Halley's, relative: what is left is its cube
MOST_STEPS = 20
NEAR = 0.5  # from 0, where e^u - 1 - u is a series
INFINITE = float("inf")
LOG_FAR = 3.0  # e^3 = 20: a row far off counts in AdaGrad's steps as one that is 20 times too high


def exponential(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(score), (n,)."""
    with np.errstate(over="ignore"):
        mean: NDArray[np.float64] = np.exp(scores)
    return mean


@part_of_kernels
def exp_capped(x: Number) -> Number:
    """Return exp(x), and exp(700) beyond."""
    return exp_below(minimum(x, HIGHEST))


@part_of_kernels
def within(p: Number, y: Number) -> Number:
    """Return a score not farther than LOG_FAR from that of 1 + y."""
    middle = log_below(1.0 + y)
    return minimum(maximum(p, middle - LOG_FAR), middle + LOG_FAR)


@part_of_kernels
def exp_or_inf(x: Number) -> Number:
    """Return exp(x), and infinity beyond 700."""
    return where(x > HIGHEST, INFINITE, exp_capped(x))


@part_of_kernels
def excess(u: Number) -> Number:
    """Return e^u - 1 - u, to a few units in the last place however small u is."""
    s = 1.0 / 87178291200.0  # 1 / 14!
    s = fma(s, u, 1.0 / 6227020800.0)
    s = fma(s, u, 1.0 / 479001600.0)
    s = fma(s, u, 1.0 / 39916800.0)
    s = fma(s, u, 1.0 / 3628800.0)
    s = fma(s, u, 1.0 / 362880.0)
    s = fma(s, u, 1.0 / 40320.0)
    s = fma(s, u, 1.0 / 5040.0)
    s = fma(s, u, 1.0 / 720.0)
    s = fma(s, u, 1.0 / 120.0)
    s = fma(s, u, 1.0 / 24.0)
    s = fma(s, u, 1.0 / 6.0)
    s = fma(s, u, 0.5)
    return where(abs(u) <= NEAR, u * u * s, exp_or_inf(u) - 1.0 - u)


@part_of_kernels
def log_or_zero(x: Number) -> Number:
    """Return log(x); 0 for x = 0, which it is multiplied by."""
    return where(x > 0.0, log_below(x), 0.0)


@part_of_kernels
def log_of_root(q: Number, r: Number) -> Number:
    """Return the root t of t + q e^t = r, q >= 0.

    u + e^u is increasing and convex, so that a step from anywhere is safe; Halley's is cubic.
    """
    log_q = log_below(q)
    x = r + log_q
    high = maximum(x, 1.0)
    far = log_below(high - log_below(high))
    u = where(x > 1.0, far, where(x < -2.0, x - exp_capped(minimum(x, 0.0)), 0.4 * (x - 1.0)))
    is_open = u <= INFINITE  # all but NaN
    for _step in range(MOST_STEPS):
        e = exp_capped(u)
        f, slant = u + e - x, 1.0 + e
        step = f / (slant - 0.5 * f * e / slant)
        u = where(is_open, u - step, u)
        is_open = is_open & (abs(step) > LAST_STEP * (1.0 + abs(u)))
        if not any_lane(is_open):
            break
    return where(q > 0.0, u - log_q, r)


class LogLink(LossOfNumbers, NoParameters):
    """Base class of losses whose prediction is the logarithm of a mean."""

    __slots__ = ()

    curvature = math.inf
    is_steep = True

    @property
    def response(self) -> Link:
        """exp(score)."""
        return exponential

    def best_constant(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """log(mean); 0 where all targets are 0."""
        log: NDArray[np.float64] = np.log(np.where(mean > 0.0, mean, 1.0))
        return log

    def counted_slope(self, p: Number, y: Number) -> Number:
        """Return the slope of a prediction that is at most FAR times, or a FARth, of 1 + y."""
        return slope(self, within(p, y), y)
