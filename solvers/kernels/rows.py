"""Rows as kernels see them, and all operations on a row that an algorithm may use.

Weights come in pairs: `W` has shape (d, 2), a vector in column 0 and its running average in column
1.  For dense rows each is contiguous (`order="F"`), as they are read in lanes; for sparse rows the
two are side by side, in the same cache line (`order="C"`).  `paired_zeros` makes the right layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import FUSED, Function, Verb, by_type, reading_part
from fewpass.solvers.kernels.lanes import (
    Four,
    Sixteen,
    broadcast,
    fma,
    load,
    load_first,
    sum_lanes,
)
from fewpass.solvers.kernels.prefetch import prefetch_line, prefetch_span
from fewpass.solvers.kernels.shapes import (
    Array,
    Floats,
    Index,
    Number,
    Order,
    PerColumn,
    PerRow,
    Shrinks,
    SideBySide,
)


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
    """Return two zero vectors of length d as one (d, 2) array, laid out for rows of that kind."""
    return side_by_side(rows_kind, d, 2)


def side_by_side(rows_kind: type, d: int, k: int) -> NDArray[np.float64]:
    """Return k zero vectors of length d as one (d, k) array, laid out for rows of that kind."""
    return np.zeros((d, k), order="F" if rows_kind is DenseRows else "C")


def lies_for_sparse_rows(W: NDArray[np.float64]) -> bool:
    """Return whether vectors of W (d, k) are laid out for sparse rows; with d = 1 for all."""
    return bool(W.flags.c_contiguous and not W.flags.f_contiguous)


@by_type
def count(rows: Rows) -> int:
    """Return the number of rows."""


@by_type
def dot_shrunk(rows: Rows, i: int, W: SideBySide, penalty: Shrinks) -> float:
    """Return x_i . shrunk(W[:, 0])."""


@by_type
def dot_both_shrunk(rows: Rows, i: int, W: SideBySide, penalty: Shrinks) -> tuple[float, float]:
    """Return x_i . W[:, 0] and x_i . shrunk(W[:, 1])."""


@by_type
def shrunk(penalty: Shrinks, u: Number) -> Number:
    """Return argmin over v of (v - u)^2 / 2 + R(v), without R's quadratic part."""


@reading_part
def shrunk_by(penalty: Shrinks, u: Number) -> Number:
    """Return the same, or u where there is no penalty."""
    if penalty is None:
        return u
    return shrunk(penalty, u)


@reading_part
def dot(rows: Rows, i: int, W: SideBySide) -> float:
    """Return x_i . W[:, 0]."""
    return dot_shrunk(rows, i, W, None)  # type: ignore[no-any-return]


@reading_part
def dot_both(rows: Rows, i: int, W: SideBySide) -> tuple[float, float]:
    """Return x_i . W[:, 0] and x_i . W[:, 1]."""
    return dot_both_shrunk(rows, i, W, None)  # type: ignore[no-any-return]


@by_type
def add(rows: Rows, i: int, a: float, W: SideBySide) -> None:
    """W[:, 0] += a x_i."""


@by_type
def add_both(rows: Rows, i: int, a: float, b: float, W: SideBySide) -> None:
    """W[:, 0] += a x_i and W[:, 1] += b x_i."""


@by_type
def dot_vector(rows: Rows, i: int, v: PerColumn) -> float:
    """Return x_i . v for a plain vector v (d,)."""


@by_type
def add_vector(rows: Rows, i: int, a: float, v: PerColumn) -> None:
    """v += a x_i for a plain vector v (d,)."""


@by_type
def add_scaled(rows: Rows, i: int, a: float, W: SideBySide, v: PerColumn) -> None:
    """W[j, 0] += a v_j x_ij for a plain vector v (d,)."""


@by_type
def clear(rows: Rows, i: int, v: PerColumn) -> None:
    """v = 0 wherever row i has a value, for a plain vector v (d,)."""


@by_type
def norm2(rows: Rows, i: int) -> float:
    """Return ||x_i||^2."""


@by_type
def norm2_scaled(rows: Rows, i: int, v: PerColumn) -> float:
    """Return the sum over j of v_j x_ij^2 for a plain vector v (d,)."""


@by_type
def prefetch_row(rows: Rows, y: PerRow, weight: PerRow, order: Order, r: int) -> None:
    """Prefetch the data of the rows to be visited after order[r]."""


@by_type
def prefetch_columns(rows: Rows, i: int, A: Array, step: int) -> None:
    """Prefetch the entries of A for row i's columns, `step` numbers each."""


@count.register(DenseRows)
def _(rows: DenseRows) -> int:
    return rows.X.shape[0]  # type: ignore[no-any-return]


@count.register(SparseRows)
def _(rows: SparseRows) -> int:
    return rows.indptr.shape[0] - 1  # type: ignore[no-any-return]


# A row's cells: columns of dense rows, places of the pairs of sparse ones.  Operations are written
# in cells once, and compiled for both.


@by_type
def first_cell(rows: Rows, i: int) -> Index:
    """Return the number of row i's first cell; unsigned for sparse rows, as their indices are."""


@by_type
def end_cell(rows: Rows, i: int) -> Index:
    """Return one more than the number of its last cell."""


@by_type
def cell(rows: Rows, i: int, n: Index) -> tuple[Index, float]:
    """Return column and value of cell n of row i."""


@first_cell.register(DenseRows)
def _(rows: DenseRows, i: int) -> Index:
    return 0


@first_cell.register(SparseRows)
def _(rows: SparseRows, i: int) -> Index:
    return np.uint64(rows.indptr[i])


@end_cell.register(DenseRows)
def _(rows: DenseRows, i: int) -> Index:
    return rows.X.shape[1]  # type: ignore[no-any-return]


@end_cell.register(SparseRows)
def _(rows: SparseRows, i: int) -> Index:
    return np.uint64(rows.indptr[i + 1])


@cell.register(DenseRows)
def _(rows: DenseRows, i: int, n: Index) -> tuple[Index, float]:
    return n, np.float64(rows.X[i, n])


@cell.register(SparseRows)
def _(rows: SparseRows, i: int, n: Index) -> tuple[Index, float]:
    return rows.indices[n], np.float64(rows.data[n])


def in_cells(verb: Verb) -> Callable[[Function], Function]:
    """Register the decorated function as the body of a verb for dense and for sparse rows."""

    def register(body: Function) -> Function:
        verb.register(DenseRows, fastmath=FUSED)(body)
        return verb.register(SparseRows, fastmath=FUSED)(body)

    return register


@dot_shrunk.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, W: SideBySide, penalty: Shrinks) -> float:
    total = 0.0
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        total += x * shrunk_by(penalty, W[j, 0])
    return total


@dot_both_shrunk.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, W: SideBySide, penalty: Shrinks) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        first += x * W[j, 0]
        second += x * shrunk_by(penalty, W[j, 1])
    return first, second


@in_cells(add)
def _(rows: Rows, i: int, a: float, W: SideBySide) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        W[j, 0] += a * x


@in_cells(add_both)
def _(rows: Rows, i: int, a: float, b: float, W: SideBySide) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        W[j, 0] += a * x
        W[j, 1] += b * x


@dot_vector.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, v: PerColumn) -> float:
    total = 0.0
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        total += x * v[j]
    return total


@in_cells(add_vector)
def _(rows: Rows, i: int, a: float, v: PerColumn) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        v[j] += a * x


@in_cells(add_scaled)
def _(rows: Rows, i: int, a: float, W: SideBySide, v: PerColumn) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        W[j, 0] += a * v[j] * x


@in_cells(clear)
def _(rows: Rows, i: int, v: PerColumn) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        v[cell(rows, i, n)[0]] = 0.0


@norm2_scaled.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, v: PerColumn) -> float:
    total = 0.0
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        total += v[j] * x * x
    return total


# Sums over dense rows, and over values alone, are made in lanes: their order, and so every bit, is
# the same whatever vectors a processor has.  Sums over sparse rows and weights are made one by
# one, as in lanes they take twice as long.


LONG = 32  # so many go into sixteen lanes, the rest into four: .8 of the time for rows of 28


@reading_part
def dot_in_lanes(X: Floats, at: Index, v: Floats, start: Index, n: int, penalty: Shrinks) -> float:
    """Return X[at : at + n] . shrunk(v[start : start + n]), both indexed as flat."""
    long, rest, wide, lanes = n - n % LONG, n % 4, Sixteen(), Four()
    total, last = broadcast(0.0, wide), broadcast(0.0, lanes)
    for j in range(0, long, 16):
        u = shrunk_by(penalty, load(v, start + j, wide))
        total = fma(load(X, at + j, wide), u, total)
    for j in range(long, n - 3, 4):
        u = shrunk_by(penalty, load(v, start + j, lanes))
        last = fma(load(X, at + j, lanes), u, last)
    if rest > 0:
        j = n - rest
        u = shrunk_by(penalty, load_first(v, start + j, rest, lanes))
        last = fma(load_first(X, at + j, rest, lanes), u, last)
    return sum_lanes(total) + sum_lanes(last) if long > 0 else sum_lanes(last)


@dot_shrunk.register(DenseRows)
def _(rows: DenseRows, i: int, W: SideBySide, penalty: Shrinks) -> float:
    d = rows.X.shape[1]
    return dot_in_lanes(rows.X, i * d, W.T, 0, d, penalty)


@dot_vector.register(DenseRows)
def _(rows: DenseRows, i: int, v: PerColumn) -> float:
    d = rows.X.shape[1]
    return dot_in_lanes(rows.X, i * d, v, 0, d, None)


@norm2.register(DenseRows)
def _(rows: DenseRows, i: int) -> float:
    d = rows.X.shape[1]
    return dot_in_lanes(rows.X, i * d, rows.X, i * d, d, None)


@norm2.register(SparseRows)
def _(rows: SparseRows, i: int) -> float:
    start = rows.indptr[i]
    return dot_in_lanes(rows.data, start, rows.data, start, rows.indptr[i + 1] - start, None)


@dot_both_shrunk.register(DenseRows)
def _(rows: DenseRows, i: int, W: SideBySide, penalty: Shrinks) -> tuple[float, float]:
    X, V, d, later, wide, lanes = rows.X, W.T, rows.X.shape[1], W.shape[0], Sixteen(), Four()
    at, long, rest = i * d, d - d % LONG, d % 4
    first, second = broadcast(0.0, wide), broadcast(0.0, wide)
    last, last_shrunk = broadcast(0.0, lanes), broadcast(0.0, lanes)
    for j in range(0, long, 16):
        x, u = load(X, at + j, wide), shrunk_by(penalty, load(V, later + j, wide))
        first, second = fma(x, load(V, j, wide), first), fma(x, u, second)
    for j in range(long, d - 3, 4):
        x, u = load(X, at + j, lanes), shrunk_by(penalty, load(V, later + j, lanes))
        last, last_shrunk = fma(x, load(V, j, lanes), last), fma(x, u, last_shrunk)
    if rest > 0:
        j = d - rest
        x, u = load_first(X, at + j, rest, lanes), load_first(V, later + j, rest, lanes)
        last = fma(x, load_first(V, j, rest, lanes), last)
        last_shrunk = fma(x, shrunk_by(penalty, u), last_shrunk)
    if long == 0:
        return sum_lanes(last), sum_lanes(last_shrunk)
    return sum_lanes(first) + sum_lanes(last), sum_lanes(second) + sum_lanes(last_shrunk)


@norm2_scaled.register(DenseRows)
def _(rows: DenseRows, i: int, v: PerColumn) -> float:
    X, d, lanes = rows.X, rows.X.shape[1], Sixteen()
    at, rest, total = i * d, d % 16, broadcast(0.0, lanes)
    for j in range(0, d - 15, 16):
        x = load(X, at + j, lanes)
        total = fma(load(v, j, lanes) * x, x, total)
    if rest > 0:
        j = d - rest
        x = load_first(X, at + j, rest, lanes)
        total = fma(load_first(v, j, rest, lanes) * x, x, total)
    return sum_lanes(total)


PREFETCH_ROWS = 4  # rows between prefetching a sparse row, or numbers per row, and using it
SHORT_ROW = 16  # values of a sparse row: two cache lines
MOST_AHEAD = 16  # the same for short dense rows in random order
_PAGE = 4096  # bytes: in stored order the processor prefetches rows itself, but not the next page


@prefetch_row.register(DenseRows)
def _(rows: DenseRows, y: PerRow, weight: PerRow, order: Order, r: int) -> None:
    d = rows.X.shape[1]
    distance = min(1 + int(_PAGE / (d * rows.X.itemsize)), MOST_AHEAD)  # no `//`: once, not per row
    i, ahead = order[r], order[min(r + distance, order.shape[0] - 1)]
    in_stored_order = ahead == i + distance
    start, beyond = (i * d, _PAGE) if in_stored_order else (ahead * d, 0)
    prefetch_span(rows.X, start, start + d, beyond)
    prefetch_line(y, ahead)
    prefetch_line(weight, ahead)


@prefetch_row.register(SparseRows)
def _(rows: SparseRows, y: PerRow, weight: PerRow, order: Order, r: int) -> None:
    # In stored order, too, as access to weights disturbs the processor's own prefetching: 10 %
    # gained. Not for short rows, where requests cost more than they gain: half the time of a
    # gradient.
    last = order.shape[0] - 1
    ahead = order[min(r + PREFETCH_ROWS, last)]
    start, stop = rows.indptr[ahead], rows.indptr[ahead + 1]
    if stop - start <= SHORT_ROW and ahead == order[r] + PREFETCH_ROWS:
        return
    prefetch_line(rows.indptr, order[min(r + 2 * PREFETCH_ROWS, last)])
    prefetch_span(rows.data, start, stop, 0)
    prefetch_span(rows.indices, start, stop, 0)
    prefetch_line(y, ahead)
    prefetch_line(weight, ahead)


@prefetch_columns.register(DenseRows)
def _(rows: DenseRows, i: int, A: Array, step: int) -> None:
    pass  # a row has all columns, in their order


@prefetch_columns.register(SparseRows)
def _(rows: SparseRows, i: int, A: Array, step: int) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        prefetch_line(A, step * np.int64(rows.indices[n]))
