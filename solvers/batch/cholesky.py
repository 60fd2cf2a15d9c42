"""H^-1 g by Cholesky factorisation, for steps of Newton's method.

`solved` is the plain one; the others are for where it is a part of a step's time, in memory or of a
large H.  Of that every number of the factor is a sum of thousands of products, which are added up
eight at a time, of four rows and two columns together: a number that is loaded takes part in
several.
"""

from __future__ import annotations

import math

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import LowerTriangle, PerColumn
from fewpass.solvers.kernels.simd.lanes import Eight, broadcast, fma, load, sum_lanes

EPSILON = 1e-15  # least pivot, relative: rounding may make it smaller
#: Columns that are factored together, and products that are added up before the next rows.
TILE, RUN = 32, 256


@kernel
def solved(H: LowerTriangle, g: PerColumn) -> PerColumn:
    """Return H^-1 g by Cholesky factorisation in place, the sums in a fixed order."""
    x = g.copy()
    for i in range(H.shape[0]):
        for j in range(i + 1):
            left = H[i, j]
            for k in range(j):
                left -= H[i, k] * H[j, k]
            H[i, j] = left / H[j, j] if j < i else math.sqrt(max(left, EPSILON * H[i, i]))
    substitute(H, x)
    return x


@kernel
def solved_in_lanes(H: LowerTriangle, g: PerColumn) -> PerColumn:
    """Return H^-1 g by Cholesky factorisation in place, eight products at a time."""
    x, width, how = g.copy(), H.shape[1], Eight()
    for i in range(H.shape[0]):
        for j in range(i + 1):
            sums, whole = broadcast(0.0, how), j - j % 8
            for k in range(0, whole, 8):
                sums = fma(load(H, i * width + k, how), load(H, j * width + k, how), sums)
            left = H[i, j] - sum_lanes(sums)
            for k in range(whole, j):
                left -= H[i, k] * H[j, k]
            H[i, j] = left / H[j, j] if j < i else math.sqrt(max(left, EPSILON * H[i, i]))
    substitute(H, x)
    return x


@kernel
def solved_in_tiles(H: LowerTriangle, g: PerColumn) -> PerColumn:
    """Return H^-1 g by Cholesky factorisation in place, of a large H; what is above is lost."""
    x, size = g.copy(), H.shape[0]
    for first in range(0, size, TILE):
        end = min(first + TILE, size)
        for start in range(0, first, RUN):
            subtract_run(H, first, end, start, min(start + RUN, first))
        factor_columns(H, first, end)
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
            subtract_product(H, i, j, start, stop)


@part_of_kernels
def factor_columns(H: LowerTriangle, first: int, end: int) -> None:
    """Factor columns of which all before them are subtracted."""
    for i in range(first, H.shape[0]):
        for j in range(first, min(i + 1, end)):
            left = H[i, j]
            for k in range(first, j):
                left -= H[i, k] * H[j, k]
            H[i, j] = left / H[j, j] if j < i else math.sqrt(max(left, EPSILON * H[i, i]))


@part_of_kernels
def subtract_products(
    H: LowerTriangle, i: int, first: int, end: int, start: int, stop: int
) -> None:
    """Subtract the products of four rows and of columns first ... end, from start to stop."""
    width, how = H.shape[1], Eight()
    a, b, c, d = i * width, (i + 1) * width, (i + 2) * width, (i + 3) * width
    whole = first + (end - first) // 2 * 2
    for j in range(first, whole, 2):
        one, other = j * width, (j + 1) * width
        a_one, b_one = broadcast(0.0, how), broadcast(0.0, how)
        c_one, d_one = broadcast(0.0, how), broadcast(0.0, how)
        a_other, b_other = broadcast(0.0, how), broadcast(0.0, how)
        c_other, d_other = broadcast(0.0, how), broadcast(0.0, how)
        for k in range(start, stop, 8):
            left, right = load(H, one + k, how), load(H, other + k, how)
            row = load(H, a + k, how)
            a_one, a_other = fma(row, left, a_one), fma(row, right, a_other)
            row = load(H, b + k, how)
            b_one, b_other = fma(row, left, b_one), fma(row, right, b_other)
            row = load(H, c + k, how)
            c_one, c_other = fma(row, left, c_one), fma(row, right, c_other)
            row = load(H, d + k, how)
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
            subtract_product(H, i + k, j, start, stop)


@part_of_kernels
def subtract_product(H: LowerTriangle, i: int, j: int, start: int, stop: int) -> None:
    """Subtract the product of row i and that of column j, from start to stop."""
    width, how = H.shape[1], Eight()
    sums = broadcast(0.0, how)
    for k in range(start, stop, 8):
        sums = fma(load(H, i * width + k, how), load(H, j * width + k, how), sums)
    H[i, j] -= sum_lanes(sums)
