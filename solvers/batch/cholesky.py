"""H^-1 g by Cholesky factorisation, for steps of Newton's method.

Of a large H every number of the factor is a sum of thousands of products, which are added up eight
at a time, of four rows and two columns together: a number that is loaded takes part in several.
"""

from __future__ import annotations

import math

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.lanes import Eight, broadcast, fma, load, sum_lanes
from fewpass.solvers.kernels.shapes import LowerTriangle, PerColumn

EPSILON = 1e-15  # least pivot, relative: rounding may make it smaller
#: Columns that are factored together, and products that are added up before the next rows.
TILE, RUN = 32, 256


@kernel
def solved(H: LowerTriangle, g: PerColumn) -> PerColumn:
    """Return H^-1 g by Cholesky factorisation in place, the sums in a fixed order.

    Numbers above the diagonal are neither read nor kept.
    """
    x, size = g.copy(), H.shape[0]
    least = np.empty(size)
    for i in range(size):
        least[i] = EPSILON * H[i, i]
    for first in range(0, size, TILE):
        end = min(first + TILE, size)
        for start in range(0, first, RUN):
            subtract_run(H, first, end, start, min(start + RUN, first))
        factor_columns(H, first, end, least)
    substitute(H, x)
    return x


@part_of_kernels
def substitute(H: LowerTriangle, x: PerColumn) -> None:
    """Make of x the solution of H H' z = x, H being a factor."""
    for i in range(H.shape[0]):
        for j in range(i):
            x[i] -= H[i, j] * x[j]
        x[i] /= H[i, i]
    for i in range(H.shape[0] - 1, -1, -1):
        x[i] /= H[i, i]
        for j in range(i):
            x[j] -= H[i, j] * x[i]


@part_of_kernels
def subtract_run(H: LowerTriangle, first: int, end: int, start: int, stop: int) -> None:
    """Subtract from columns first ... end what columns start ... stop have of them, all rows."""
    whole = first + (H.shape[0] - first) // 4 * 4
    for i in range(first, whole, 4):
        subtract_products(H, i, first, end, start, stop)
    for i in range(whole, H.shape[0]):
        for j in range(first, end):
            H[i, j] -= sum_of_products(H, i, j, start, stop)


@part_of_kernels
def factor_columns(H: LowerTriangle, first: int, end: int, least: PerColumn) -> None:
    """Factor columns of which all before them are subtracted, the pivots not below `least`."""
    for i in range(first, H.shape[0]):
        for j in range(first, min(i + 1, end)):
            whole = first + (j - first) // 8 * 8
            left = H[i, j] - sum_of_products(H, i, j, first, whole)
            for k in range(whole, j):
                left -= H[i, k] * H[j, k]
            H[i, j] = left / H[j, j] if j < i else math.sqrt(max(left, least[i]))


@part_of_kernels
def subtract_products(
    H: LowerTriangle, i: int, first: int, end: int, start: int, stop: int
) -> None:
    """Subtract the products of four rows and of columns first ... end, from start to stop."""
    width, lanes = H.shape[1], Eight()
    a, b, c, d = i * width, (i + 1) * width, (i + 2) * width, (i + 3) * width
    whole = first + (end - first) // 2 * 2
    for j in range(first, whole, 2):
        one, other = j * width, (j + 1) * width
        a_one, b_one = broadcast(0.0, lanes), broadcast(0.0, lanes)
        c_one, d_one = broadcast(0.0, lanes), broadcast(0.0, lanes)
        a_other, b_other = broadcast(0.0, lanes), broadcast(0.0, lanes)
        c_other, d_other = broadcast(0.0, lanes), broadcast(0.0, lanes)
        for k in range(start, stop, 8):
            left, right = load(H, one + k, lanes), load(H, other + k, lanes)
            row = load(H, a + k, lanes)
            a_one, a_other = fma(row, left, a_one), fma(row, right, a_other)
            row = load(H, b + k, lanes)
            b_one, b_other = fma(row, left, b_one), fma(row, right, b_other)
            row = load(H, c + k, lanes)
            c_one, c_other = fma(row, left, c_one), fma(row, right, c_other)
            row = load(H, d + k, lanes)
            d_one, d_other = fma(row, left, d_one), fma(row, right, d_other)
        H[i, j] -= sum_lanes(a_one)
        H[i, j + 1] -= sum_lanes(a_other)
        H[i + 1, j] -= sum_lanes(b_one)
        H[i + 1, j + 1] -= sum_lanes(b_other)
        H[i + 2, j] -= sum_lanes(c_one)
        H[i + 2, j + 1] -= sum_lanes(c_other)
        H[i + 3, j] -= sum_lanes(d_one)
        H[i + 3, j + 1] -= sum_lanes(d_other)
    for j in range(whole, end):
        for k in range(4):
            H[i + k, j] -= sum_of_products(H, i + k, j, start, stop)


@part_of_kernels
def sum_of_products(H: LowerTriangle, i: int, j: int, start: int, stop: int) -> float:
    """Return the sum of the products of rows i and j, from column start to stop, eights of them."""
    width, lanes = H.shape[1], Eight()
    sums = broadcast(0.0, lanes)
    for k in range(start, stop, 8):
        sums = fma(load(H, i * width + k, lanes), load(H, j * width + k, lanes), sums)
    return sum_lanes(sums)
