"""exp for one number or for several side by side: a polynomial, so that it needs no call.

    exp(x) = 2^k exp(r),   k = the whole number nearest to x / log 2,   |r| <= log(2) / 2

with exp(r) by its Taylor series to r^13, whose remainder is below 1e-17: within two units in the
last place.  The same operations in the same order for a number as for lanes: the same bits.
"""

from __future__ import annotations

from typing import Any

from solvers.dispatch import part_of_kernels
from solvers.lanes import MAGIC, choose_at_most, fused, whole_power_of_two

LOWEST = -708.0  # below, the result is 0: no denormal numbers
_TO_TWO = 1.4426950408889634  # 1 / log 2
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log 2 = their sum


@part_of_kernels
def exp_below(x: Any) -> Any:
    """exp(x) for x <= 0."""
    shifted = fused(x, _TO_TWO, MAGIC)
    k = shifted - MAGIC
    r = fused(k, -_LOG_2_REST, fused(k, -_LOG_2, x))
    # Pairs first (Estrin): the processor works on several at once.
    r2 = r * r
    r4 = r2 * r2
    low = fused(fused(r, 1.0 / 6.0, 0.5), r2, 1.0 + r)
    middle = fused(fused(r, 1.0 / 5040.0, 1.0 / 720.0), r2, fused(r, 1.0 / 120.0, 1.0 / 24.0))
    high = fused(
        fused(r, 1.0 / 39916800.0, 1.0 / 3628800.0), r2, fused(r, 1.0 / 362880.0, 1.0 / 40320.0)
    )
    top = fused(r, 1.0 / 6227020800.0, 1.0 / 479001600.0)
    series = fused(fused(top, r4, high), r4 * r4, fused(middle, r4, low))
    return choose_at_most(x, LOWEST, 0.0, series * whole_power_of_two(shifted))
