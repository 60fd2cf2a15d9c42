"""exp and log for numbers and for lanes, as polynomials, so that they need no function call.

    exp(x) = 2^k exp(r),   k = the whole number nearest to x / log 2,   |r| <= log(2) / 2

with exp(r) by its Taylor series to r^13, whose remainder is below 1e-17: within two units in the
last place.  And

    log(1 + e) = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...),   s = e / (2 + e)

to s^35 for |s| <= 1/3, that is -1/2 <= e <= 1.  Any number's logarithm follows from its exponent
and its mantissa.  Numbers and lanes use the same operations in
the same order, and get the same bits.
"""

from __future__ import annotations

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.lanes import (
    MAGIC,
    exponent,
    fma,
    mantissa,
    where,
    whole_power_of_two,
)
from fewpass.solvers.kernels.shapes import Number

LOWEST = -708.0  # below, the result is 0: no denormal numbers
_TO_TWO = 1.4426950408889634  # 1 / log 2
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log 2 = their sum


@part_of_kernels
def exp_below(x: Number) -> Number:
    """Return exp(x) for x <= 0."""
    shifted = fma(x, _TO_TWO, MAGIC)
    k = shifted - MAGIC
    r = fma(k, -_LOG_2_REST, fma(k, -_LOG_2, x))
    # Pairs first (Estrin): independent operations.
    r2 = r * r
    r4 = r2 * r2
    low = fma(fma(r, 1.0 / 6.0, 0.5), r2, 1.0 + r)
    middle = fma(fma(r, 1.0 / 5040.0, 1.0 / 720.0), r2, fma(r, 1.0 / 120.0, 1.0 / 24.0))
    high = fma(fma(r, 1.0 / 39916800.0, 1.0 / 3628800.0), r2, fma(r, 1.0 / 362880.0, 1.0 / 40320.0))
    top = fma(r, 1.0 / 6227020800.0, 1.0 / 479001600.0)
    series = fma(fma(top, r4, high), r4 * r4, fma(middle, r4, low))
    return where(x <= LOWEST, 0.0, series * whole_power_of_two(shifted))


@part_of_kernels
def log_one_plus(e: Number) -> Number:
    """Return log(1 + e) for -1/2 <= e <= 1."""
    s = e / (2.0 + e)
    q = s * s
    q2 = q * q
    even = fma(q2, 1.0 / 33.0, 1.0 / 29.0)
    odd = fma(q2, 1.0 / 35.0, 1.0 / 31.0)
    even, odd = fma(even, q2, 1.0 / 25.0), fma(odd, q2, 1.0 / 27.0)
    even, odd = fma(even, q2, 1.0 / 21.0), fma(odd, q2, 1.0 / 23.0)
    even, odd = fma(even, q2, 1.0 / 17.0), fma(odd, q2, 1.0 / 19.0)
    even, odd = fma(even, q2, 1.0 / 13.0), fma(odd, q2, 1.0 / 15.0)
    even, odd = fma(even, q2, 1.0 / 9.0), fma(odd, q2, 1.0 / 11.0)
    even, odd = fma(even, q2, 1.0 / 5.0), fma(odd, q2, 1.0 / 7.0)
    rest = fma(fma(odd, q, even), q, 1.0 / 3.0)
    twice = s + s
    return fma(twice * q, rest, twice)


@part_of_kernels
def log_below(x: Number) -> Number:
    """Return log(x) for 0 < x <= 1/2; for 0 about the logarithm of the least positive number."""
    k, fraction = exponent(x), log_one_plus(mantissa(x) - 1.0)
    return where(x <= 0.0, LOWEST, fma(k, _LOG_2, fma(k, _LOG_2_REST, fraction)))
