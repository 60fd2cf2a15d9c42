"""Rows as kernels see them, and the verbs that are all an algorithm may do to a row.

Weights come in pairs: `W` has shape (d, 2), a vector in column 0 and its running average in
column 1.  Dense rows want each of them contiguous (`order="F"`), sparse rows want the two side by
side so that one cache line serves both (`order="C"`): `paired_zeros` knows, and the kernels'
text is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from solvers.dispatch import FUSED, VECTORISED, by_type
from solvers.lanes import Eight, fused, keep_lanes, lanes_of, some_of, spread, total
from solvers.prefetch import touch_line


class DenseRows(NamedTuple):
    """n rows of d numbers."""

    X: NDArray[np.floating]  # (n, d)


class SparseRows(NamedTuple):
    """n rows of (index, value) pairs; indices are unsigned: no wrap-around test per access."""

    data: NDArray[np.floating]  # (nnz,)
    indices: NDArray[np.unsignedinteger]  # (nnz,)
    indptr: NDArray[np.int64]  # (n + 1,)


Rows = DenseRows | SparseRows


def paired_zeros(rows_kind: type, d: int) -> NDArray[np.float64]:
    """Two zero vectors of length d as one (d, 2) array, laid out for rows of that kind."""
    return side_by_side(rows_kind, d, 2)


def side_by_side(rows_kind: type, d: int, k: int) -> NDArray[np.float64]:
    """Return k zero vectors of length d as one (d, k) array, laid out for rows of that kind."""
    return np.zeros((d, k), order="F" if rows_kind is DenseRows else "C")


@by_type
def count(rows: Rows) -> int:
    """Count the rows held."""


@by_type
def dot(rows: Rows, i: int, W: NDArray[np.float64]) -> float:
    """x_i . W[:, 0]."""


@by_type
def dot_both(rows: Rows, i: int, W: NDArray[np.float64]) -> tuple[float, float]:
    """x_i . W[:, 0] and x_i . W[:, 1]."""


@by_type
def add(rows: Rows, i: int, a: float, W: NDArray[np.float64]) -> None:
    """W[:, 0] += a x_i."""


@by_type
def add_both(rows: Rows, i: int, a: float, b: float, W: NDArray[np.float64]) -> None:
    """W[:, 0] += a x_i and W[:, 1] += b x_i."""


@by_type
def dot_vector(rows: Rows, i: int, v: NDArray[np.float64]) -> float:
    """x_i . v for a plain vector v (d,)."""


@by_type
def add_vector(rows: Rows, i: int, a: float, v: NDArray[np.float64]) -> None:
    """v += a x_i for a plain vector v (d,)."""


@by_type
def add_four_squares(
    rows: Rows, order: NDArray[np.int64], r: int, a: NDArray[np.float64], H: NDArray[np.float64]
) -> None:
    """H += a[k] x_i x_i^T for the four rows i = order[r + k]; H is square, its lower triangle."""


@by_type
def dot_four(
    rows: Rows, order: NDArray[np.int64], r: int, v: NDArray[np.float64], p: NDArray[np.float64]
) -> None:
    """p[k] = x_i . v for the four rows i = order[r + k]."""


@by_type
def add_four(
    rows: Rows, order: NDArray[np.int64], r: int, a: NDArray[np.float64], v: NDArray[np.float64]
) -> None:
    """v += a[k] x_i for the four rows i = order[r + k]."""


@by_type
def clear(rows: Rows, i: int, v: NDArray[np.float64]) -> None:
    """v = 0 wherever row i has a value, for a plain vector v (d,)."""


@by_type
def norm2(rows: Rows, i: int) -> float:
    """||x_i||^2."""


@by_type
def norm2_scaled(rows: Rows, i: int, v: NDArray[np.float64]) -> float:
    """Sum over j of v_j x_ij^2 for a plain vector v (d,)."""


@by_type
def count_values(rows: Rows, i: int, v: NDArray[np.float64]) -> None:
    """v_j += 1 wherever row i has a value other than 0, for a plain vector v (d,)."""


@by_type
def look_ahead(
    rows: Rows,
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    order: NDArray[np.int64],
    r: int,
) -> None:
    """Ask the memory for what the visits after order[r] will need; changes nothing."""


@count.register(DenseRows)
def _(rows: Any) -> Any:
    return rows.X.shape[0]


@count.register(SparseRows)
def _(rows: Any) -> Any:
    return rows.indptr.shape[0] - 1


@register_jitable  # type: ignore[untyped-decorator]
def positions(rows: Any, i: Any) -> Any:
    """Where row i's pairs lie; unsigned like the indices, and for the same reason."""
    return range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1]))


# Dense bodies let LLVM reorder their sums: SIMD makes them 6 times faster.  Sparse bodies do not:
# reordered, they become AVX gathers, which take twice as long.


@dot.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, W: Any) -> Any:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += rows.X[i, j] * W[j, 0]
    return total


@dot.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, W: Any) -> Any:
    total = 0.0
    for k in positions(rows, i):
        total += rows.data[k] * W[rows.indices[k], 0]
    return total


@dot_both.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, W: Any) -> Any:
    first, second = 0.0, 0.0
    for j in range(rows.X.shape[1]):
        first += rows.X[i, j] * W[j, 0]
        second += rows.X[i, j] * W[j, 1]
    return first, second


@dot_both.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, W: Any) -> Any:
    first, second = 0.0, 0.0
    for k in positions(rows, i):
        j, x = rows.indices[k], np.float64(rows.data[k])
        first += x * W[j, 0]
        second += x * W[j, 1]
    return first, second


@add.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, a: Any, W: Any) -> Any:
    for j in range(rows.X.shape[1]):
        W[j, 0] += a * np.float64(rows.X[i, j])


@add.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, a: Any, W: Any) -> Any:
    for k in positions(rows, i):
        W[rows.indices[k], 0] += a * np.float64(rows.data[k])


@add_both.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, a: Any, b: Any, W: Any) -> Any:
    for j in range(rows.X.shape[1]):
        x = np.float64(rows.X[i, j])
        W[j, 0] += a * x
        W[j, 1] += b * x


@add_both.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, a: Any, b: Any, W: Any) -> Any:
    for k in positions(rows, i):
        j, x = rows.indices[k], np.float64(rows.data[k])
        W[j, 0] += a * x
        W[j, 1] += b * x


@dot_vector.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, v: Any) -> Any:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += rows.X[i, j] * v[j]
    return total


@dot_vector.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, v: Any) -> Any:
    total = 0.0
    for k in positions(rows, i):
        total += rows.data[k] * v[rows.indices[k]]
    return total


@add_vector.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, a: Any, v: Any) -> Any:
    for j in range(rows.X.shape[1]):
        v[j] += a * np.float64(rows.X[i, j])


@add_vector.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, a: Any, v: Any) -> Any:
    for k in positions(rows, i):
        v[rows.indices[k]] += a * np.float64(rows.data[k])


# Four dense rows at a time read v a quarter as often: a third faster where v is long.  They go in
# lanes, the last few values too: what LLVM does with a rest of six is not quick.


@dot_four.register(DenseRows, fastmath=FUSED)
def _(rows: Any, order: Any, r: Any, v: Any, p: Any) -> Any:
    X, d, how = rows.X, rows.X.shape[1], Eight()
    a, b, c, e = order[r] * d, order[r + 1] * d, order[r + 2] * d, order[r + 3] * d
    first, second, third, fourth = (spread(0.0, how), spread(0.0, how), spread(0.0, how),
                                    spread(0.0, how))  # fmt: skip
    for j in range(0, d - 7, 8):
        w = lanes_of(v, j, how)
        first = fused(lanes_of(X, a + j, how), w, first)
        second = fused(lanes_of(X, b + j, how), w, second)
        third = fused(lanes_of(X, c + j, how), w, third)
        fourth = fused(lanes_of(X, e + j, how), w, fourth)
    rest = d % 8
    if rest > 0:
        j = d - rest
        w = some_of(v, j, rest, how)
        first = fused(some_of(X, a + j, rest, how), w, first)
        second = fused(some_of(X, b + j, rest, how), w, second)
        third = fused(some_of(X, c + j, rest, how), w, third)
        fourth = fused(some_of(X, e + j, rest, how), w, fourth)
    p[0], p[1], p[2], p[3] = total(first), total(second), total(third), total(fourth)


@dot_four.register(SparseRows, fastmath=FUSED)
def _(rows: Any, order: Any, r: Any, v: Any, p: Any) -> Any:
    for k in range(4):
        p[k] = dot_vector(rows, order[r + k], v)


@add_four.register(DenseRows, fastmath=FUSED)
def _(rows: Any, order: Any, r: Any, a: Any, v: Any) -> Any:
    X, d, how = rows.X, rows.X.shape[1], Eight()
    at, bt, ct, et = order[r] * d, order[r + 1] * d, order[r + 2] * d, order[r + 3] * d
    a0, a1, a2, a3 = a[0], a[1], a[2], a[3]
    for j in range(0, d - 7, 8):
        w = fused(a0, lanes_of(X, at + j, how), lanes_of(v, j, how))
        w = fused(a1, lanes_of(X, bt + j, how), w)
        w = fused(a2, lanes_of(X, ct + j, how), w)
        keep_lanes(v, j, fused(a3, lanes_of(X, et + j, how), w))
    for j in range(d - d % 8, d):
        first = a0 * np.float64(X[order[r], j]) + a1 * np.float64(X[order[r + 1], j])
        v[j] += first + a2 * np.float64(X[order[r + 2], j]) + a3 * np.float64(X[order[r + 3], j])


@add_four.register(SparseRows, fastmath=FUSED)
def _(rows: Any, order: Any, r: Any, a: Any, v: Any) -> Any:
    for k in range(4):
        if a[k] != 0.0:
            add_vector(rows, order[r + k], a[k], v)


@add_four_squares.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, order: Any, r: Any, a: Any, H: Any) -> Any:
    X, i0, i1, i2, i3 = rows.X, order[r], order[r + 1], order[r + 2], order[r + 3]
    for j in range(X.shape[1]):
        h, a0, a1 = H[j], a[0] * np.float64(X[i0, j]), a[1] * np.float64(X[i1, j])
        a2, a3 = a[2] * np.float64(X[i2, j]), a[3] * np.float64(X[i3, j])
        for k in range(j + 1):
            first = a0 * np.float64(X[i0, k]) + a1 * np.float64(X[i1, k])
            h[k] += first + a2 * np.float64(X[i2, k]) + a3 * np.float64(X[i3, k])


@add_four_squares.register(SparseRows, fastmath=FUSED)
def _(rows: Any, order: Any, r: Any, a: Any, H: Any) -> Any:
    for q in range(4):
        i = order[r + q]
        for n in positions(rows, i):
            j, x = rows.indices[n], a[q] * np.float64(rows.data[n])
            for m in positions(rows, i):
                if rows.indices[m] <= j:
                    H[j, rows.indices[m]] += x * np.float64(rows.data[m])


@clear.register(DenseRows)
def _(rows: Any, i: Any, v: Any) -> Any:
    for j in range(rows.X.shape[1]):
        v[j] = 0.0


@clear.register(SparseRows)
def _(rows: Any, i: Any, v: Any) -> Any:
    for k in positions(rows, i):
        v[rows.indices[k]] = 0.0


@norm2.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any) -> Any:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += np.float64(rows.X[i, j]) * rows.X[i, j]
    return total


@norm2.register(SparseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any) -> Any:
    total = 0.0
    for k in positions(rows, i):
        total += np.float64(rows.data[k]) * rows.data[k]
    return total


@norm2_scaled.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, v: Any) -> Any:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += v[j] * np.float64(rows.X[i, j]) * rows.X[i, j]
    return total


@norm2_scaled.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, v: Any) -> Any:
    total = 0.0
    for k in positions(rows, i):
        total += v[rows.indices[k]] * np.float64(rows.data[k]) * rows.data[k]
    return total


@count_values.register(DenseRows)
def _(rows: Any, i: Any, v: Any) -> Any:
    for j in range(rows.X.shape[1]):
        v[j] += rows.X[i, j] != 0.0


@count_values.register(SparseRows)
def _(rows: Any, i: Any, v: Any) -> Any:
    for k in positions(rows, i):
        v[rows.indices[k]] += rows.data[k] != 0.0


LOOK_AHEAD = 4  # rows between asking for a row and using it
_LINE = 64  # bytes that one request brings


@look_ahead.register(DenseRows)
def _(rows: Any, y: Any, weight: Any, order: Any, r: Any) -> Any:
    ahead = order[min(r + LOOK_AHEAD, order.shape[0] - 1)]
    if ahead == order[r] + LOOK_AHEAD:
        return  # in stored order the memory sees it coming: asking would cost a tenth
    start = ahead * rows.X.shape[1]
    end = start + rows.X.shape[1] - 1
    for k in range(start, end, _LINE // rows.X.itemsize):
        touch_line(rows.X, k)
    touch_line(rows.X, end)
    touch_line(y, ahead)
    touch_line(weight, ahead)


@look_ahead.register(SparseRows)
def _(rows: Any, y: Any, weight: Any, order: Any, r: Any) -> Any:
    # In stored order too: among the weights' traffic the memory foresees less; a tenth is gained.
    last = order.shape[0] - 1
    touch_line(rows.indptr, order[min(r + 2 * LOOK_AHEAD, last)])
    ahead = order[min(r + LOOK_AHEAD, last)]
    start, end = rows.indptr[ahead], rows.indptr[ahead + 1] - 1
    for k in range(start, end, _LINE // rows.data.itemsize):
        touch_line(rows.data, k)
        touch_line(rows.indices, k)
    touch_line(rows.data, end)
    touch_line(rows.indices, end)
    touch_line(y, ahead)
    touch_line(weight, ahead)
