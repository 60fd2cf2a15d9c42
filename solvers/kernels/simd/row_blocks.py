"""Operations on several rows at a time, for reductions.

With eight dense rows at a time the weights are read an eighth as often, and rows are read in eight
streams, which are half as fast again as one.  They are processed in lanes, including the last few
values, for which LLVM's own code is slow.  While rows in the inner caches are added, the rows TILE
further are prefetched.  Sparse rows gain nothing, and are processed one by one.

The eight are written out one by one, as loops over them compile to slower code: 2 to 5 % for
`dot_eight` on float32 (sums in a tuple; none on float64), 18 to 74 % for `add_eight`, with numba
0.68, 28 to 1000 columns.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import FUSED, by_type
from fewpass.solvers.kernels.lanes import (
    Eight,
    broadcast,
    fma,
    load,
    load_first,
    store,
    store_first,
    sum_lanes,
)
from fewpass.solvers.kernels.prefetch import prefetch_line
from fewpass.solvers.kernels.rows import (
    DenseRows,
    Rows,
    SparseRows,
    add_vector,
    dot_vector,
    end_cell,
    first_cell,
    prefetch_row,
)
from fewpass.solvers.kernels.shapes import LowerTriangle, Order, PerColumn, PerRow, Vector

PerVisit = Vector  # (8,) or longer: of the eight rows order[r + k]; (4,) of four
TILE = 16  # rows between a call of add_eight and that for the same eight of the next tile


@by_type
def prefetch_eight(rows: Rows, y: PerRow, weight: PerRow, order: Order, r: int) -> None:
    """Prefetch eight rows, where add_eight does not."""


@by_type
def dot_eight(rows: Rows, order: Order, r: int, v: PerColumn, p: PerVisit) -> None:
    """p[k] = x_i . v for the eight rows i = order[r + k]."""


@by_type
def add_eight(rows: Rows, order: Order, r: int, a: PerVisit, v: PerColumn) -> None:
    """v += a[k] x_i for the eight rows i = order[r + k]."""


@by_type
def add_four_squares(rows: Rows, order: Order, r: int, a: PerVisit, H: LowerTriangle) -> None:
    """H += a[k] x_i x_i^T for the four rows i = order[r + k]; H is square, its lower triangle.

    Numbers above the diagonal are undefined afterwards.
    """


@prefetch_eight.register(DenseRows)
def _(rows: DenseRows, y: PerRow, weight: PerRow, order: Order, r: int) -> None:
    pass


@prefetch_eight.register(SparseRows)
def _(rows: SparseRows, y: PerRow, weight: PerRow, order: Order, r: int) -> None:
    for k in range(8):
        prefetch_row(rows, y, weight, order, r + k)


@dot_eight.register(DenseRows, fastmath=FUSED)
def _(rows: DenseRows, order: Order, r: int, v: PerColumn, p: PerVisit) -> None:
    X, d, lanes = rows.X, rows.X.shape[1], Eight()
    i0, i1, i2, i3 = order[r] * d, order[r + 1] * d, order[r + 2] * d, order[r + 3] * d
    i4, i5, i6, i7 = order[r + 4] * d, order[r + 5] * d, order[r + 6] * d, order[r + 7] * d
    nothing, rest = broadcast(0.0, lanes), d % 8
    s0, s1, s2, s3 = nothing, nothing, nothing, nothing
    s4, s5, s6, s7 = nothing, nothing, nothing, nothing
    for j in range(0, d - 7, 8):
        w = load(v, j, lanes)
        s0 = fma(load(X, i0 + j, lanes), w, s0)
        s1 = fma(load(X, i1 + j, lanes), w, s1)
        s2 = fma(load(X, i2 + j, lanes), w, s2)
        s3 = fma(load(X, i3 + j, lanes), w, s3)
        s4 = fma(load(X, i4 + j, lanes), w, s4)
        s5 = fma(load(X, i5 + j, lanes), w, s5)
        s6 = fma(load(X, i6 + j, lanes), w, s6)
        s7 = fma(load(X, i7 + j, lanes), w, s7)
    if rest > 0:
        j = d - rest
        w = load_first(v, j, rest, lanes)
        s0 = fma(load_first(X, i0 + j, rest, lanes), w, s0)
        s1 = fma(load_first(X, i1 + j, rest, lanes), w, s1)
        s2 = fma(load_first(X, i2 + j, rest, lanes), w, s2)
        s3 = fma(load_first(X, i3 + j, rest, lanes), w, s3)
        s4 = fma(load_first(X, i4 + j, rest, lanes), w, s4)
        s5 = fma(load_first(X, i5 + j, rest, lanes), w, s5)
        s6 = fma(load_first(X, i6 + j, rest, lanes), w, s6)
        s7 = fma(load_first(X, i7 + j, rest, lanes), w, s7)
    p[0], p[1], p[2], p[3] = sum_lanes(s0), sum_lanes(s1), sum_lanes(s2), sum_lanes(s3)
    p[4], p[5], p[6], p[7] = sum_lanes(s4), sum_lanes(s5), sum_lanes(s6), sum_lanes(s7)


@dot_eight.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, order: Order, r: int, v: PerColumn, p: PerVisit) -> None:
    for k in range(8):
        p[k] = dot_vector(rows, order[r + k], v)


@add_eight.register(DenseRows, fastmath=FUSED)
def _(rows: DenseRows, order: Order, r: int, a: PerVisit, v: PerColumn) -> None:
    X, d, lanes = rows.X, rows.X.shape[1], Eight()
    i0, i1, i2, i3 = order[r] * d, order[r + 1] * d, order[r + 2] * d, order[r + 3] * d
    i4, i5, i6, i7 = order[r + 4] * d, order[r + 5] * d, order[r + 6] * d, order[r + 7] * d
    a0, a1, a2, a3, a4, a5, a6, a7 = a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
    n = min(r + TILE, order.shape[0] - 8)
    n0, n1, n2, n3 = order[n] * d, order[n + 1] * d, order[n + 2] * d, order[n + 3] * d
    n4, n5, n6, n7 = order[n + 4] * d, order[n + 5] * d, order[n + 6] * d, order[n + 7] * d
    for j in range(0, d - 7, 8):
        prefetch_line(X, n0 + j)
        prefetch_line(X, n1 + j)
        prefetch_line(X, n2 + j)
        prefetch_line(X, n3 + j)
        prefetch_line(X, n4 + j)
        prefetch_line(X, n5 + j)
        prefetch_line(X, n6 + j)
        prefetch_line(X, n7 + j)
        first = fma(a0, load(X, i0 + j, lanes), load(v, j, lanes))
        first = fma(a1, load(X, i1 + j, lanes), first)
        first = fma(a2, load(X, i2 + j, lanes), first)
        first = fma(a3, load(X, i3 + j, lanes), first)
        second = a4 * load(X, i4 + j, lanes)
        second = fma(a5, load(X, i5 + j, lanes), second)
        second = fma(a6, load(X, i6 + j, lanes), second)
        second = fma(a7, load(X, i7 + j, lanes), second)
        store(v, j, first + second)
    rest = d % 8
    if rest > 0:
        j = d - rest
        first = fma(a0, load_first(X, i0 + j, rest, lanes), load_first(v, j, rest, lanes))
        first = fma(a1, load_first(X, i1 + j, rest, lanes), first)
        first = fma(a2, load_first(X, i2 + j, rest, lanes), first)
        first = fma(a3, load_first(X, i3 + j, rest, lanes), first)
        second = a4 * load_first(X, i4 + j, rest, lanes)
        second = fma(a5, load_first(X, i5 + j, rest, lanes), second)
        second = fma(a6, load_first(X, i6 + j, rest, lanes), second)
        second = fma(a7, load_first(X, i7 + j, rest, lanes), second)
        store_first(v, j, rest, first + second)


@add_eight.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, order: Order, r: int, a: PerVisit, v: PerColumn) -> None:
    for k in range(8):
        if a[k] != 0.0:
            add_vector(rows, order[r + k], a[k], v)


@add_four_squares.register(DenseRows, fastmath=FUSED)
def _(rows: DenseRows, order: Order, r: int, a: PerVisit, H: LowerTriangle) -> None:
    X, d, width, lanes = rows.X, rows.X.shape[1], H.shape[1], Eight()
    r0, r1, r2, r3 = order[r], order[r + 1], order[r + 2], order[r + 3]
    i0, i1, i2, i3 = r0 * d, r1 * d, r2 * d, r3 * d
    for j in range(0, d - 3, 4):
        b00, b01 = a[0] * np.float64(X[r0, j]), a[1] * np.float64(X[r1, j])
        b02, b03 = a[2] * np.float64(X[r2, j]), a[3] * np.float64(X[r3, j])
        b10, b11 = a[0] * np.float64(X[r0, j + 1]), a[1] * np.float64(X[r1, j + 1])
        b12, b13 = a[2] * np.float64(X[r2, j + 1]), a[3] * np.float64(X[r3, j + 1])
        b20, b21 = a[0] * np.float64(X[r0, j + 2]), a[1] * np.float64(X[r1, j + 2])
        b22, b23 = a[2] * np.float64(X[r2, j + 2]), a[3] * np.float64(X[r3, j + 2])
        b30, b31 = a[0] * np.float64(X[r0, j + 3]), a[1] * np.float64(X[r1, j + 3])
        b32, b33 = a[2] * np.float64(X[r2, j + 3]), a[3] * np.float64(X[r3, j + 3])
        h0, h1, h2, h3 = j * width, (j + 1) * width, (j + 2) * width, (j + 3) * width
        for k in range(0, j + 4, 8):
            n = min(8, j + 4 - k)  # or four: those after them are above the diagonal
            if n == 8:
                x0, x1 = load(X, i0 + k, lanes), load(X, i1 + k, lanes)
                x2, x3 = load(X, i2 + k, lanes), load(X, i3 + k, lanes)
                s0 = fma(b01, x1, fma(b00, x0, load(H, h0 + k, lanes)))
                s1 = fma(b11, x1, fma(b10, x0, load(H, h1 + k, lanes)))
                s2 = fma(b21, x1, fma(b20, x0, load(H, h2 + k, lanes)))
                s3 = fma(b31, x1, fma(b30, x0, load(H, h3 + k, lanes)))
                store(H, h0 + k, fma(b03, x3, fma(b02, x2, s0)))
                store(H, h1 + k, fma(b13, x3, fma(b12, x2, s1)))
                store(H, h2 + k, fma(b23, x3, fma(b22, x2, s2)))
                store(H, h3 + k, fma(b33, x3, fma(b32, x2, s3)))
            else:
                x0, x1 = load_first(X, i0 + k, n, lanes), load_first(X, i1 + k, n, lanes)
                x2, x3 = load_first(X, i2 + k, n, lanes), load_first(X, i3 + k, n, lanes)
                s0 = fma(b01, x1, fma(b00, x0, load_first(H, h0 + k, n, lanes)))
                s1 = fma(b11, x1, fma(b10, x0, load_first(H, h1 + k, n, lanes)))
                s2 = fma(b21, x1, fma(b20, x0, load_first(H, h2 + k, n, lanes)))
                s3 = fma(b31, x1, fma(b30, x0, load_first(H, h3 + k, n, lanes)))
                store_first(H, h0 + k, n, fma(b03, x3, fma(b02, x2, s0)))
                store_first(H, h1 + k, n, fma(b13, x3, fma(b12, x2, s1)))
                store_first(H, h2 + k, n, fma(b23, x3, fma(b22, x2, s2)))
                store_first(H, h3 + k, n, fma(b33, x3, fma(b32, x2, s3)))
    for j in range(d - d % 4, d):
        b0, b1 = a[0] * np.float64(X[r0, j]), a[1] * np.float64(X[r1, j])
        b2, b3 = a[2] * np.float64(X[r2, j]), a[3] * np.float64(X[r3, j])
        for k in range(j + 1):
            first = b0 * np.float64(X[r0, k]) + b1 * np.float64(X[r1, k])
            H[j, k] += first + b2 * np.float64(X[r2, k]) + b3 * np.float64(X[r3, k])


@add_four_squares.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, order: Order, r: int, a: PerVisit, H: LowerTriangle) -> None:
    for q in range(4):
        i = order[r + q]
        begin, last, ascending = first_cell(rows, i), np.uint64(0), True
        for n in range(first_cell(rows, i), end_cell(rows, i)):
            ascending &= rows.indices[n] >= last
            last = np.uint64(rows.indices[n])
        for n in range(first_cell(rows, i), end_cell(rows, i)):
            j, x = rows.indices[n], a[q] * np.float64(rows.data[n])
            if ascending:  # as rows usually are: without minima a third faster
                for m in range(begin, n + np.uint64(1)):
                    H[j, rows.indices[m]] += x * np.float64(rows.data[m])
            else:
                for m in range(begin, n + np.uint64(1)):
                    k = rows.indices[m]
                    H[max(j, k), min(j, k)] += x * np.float64(rows.data[m])
