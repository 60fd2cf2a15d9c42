"""Rows as kernels see them, and the verbs that are all an algorithm may do to a row.

Weights come in pairs: `W` has shape (d, 2), a vector in column 0 and its running average in
column 1.  Dense rows want each of them contiguous (`order="F"`), sparse rows want the two side by
side so that one cache line serves both (`order="C"`): `paired_zeros` knows, and the kernels'
text is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import FUSED, VECTORISED, by_type, called_by_kernels
from fewpass.solvers.kernels.prefetch import prefetch_line, prefetch_span
from fewpass.solvers.kernels.shapes import Array, Order, PerColumn, PerRow, SideBySide


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
def dot(rows: Rows, i: int, W: SideBySide) -> float:
    """x_i . W[:, 0]."""


@by_type
def dot_both(rows: Rows, i: int, W: SideBySide) -> tuple[float, float]:
    """x_i . W[:, 0] and x_i . W[:, 1]."""


@by_type
def add(rows: Rows, i: int, a: float, W: SideBySide) -> None:
    """W[:, 0] += a x_i."""


@by_type
def add_both(rows: Rows, i: int, a: float, b: float, W: SideBySide) -> None:
    """W[:, 0] += a x_i and W[:, 1] += b x_i."""


@by_type
def dot_vector(rows: Rows, i: int, v: PerColumn) -> float:
    """x_i . v for a plain vector v (d,)."""


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
    """||x_i||^2."""


@by_type
def norm2_scaled(rows: Rows, i: int, v: PerColumn) -> float:
    """Sum over j of v_j x_ij^2 for a plain vector v (d,)."""


@by_type
def count_values(rows: Rows, i: int, v: PerColumn) -> None:
    """v_j += 1 wherever row i has a value other than 0, for a plain vector v (d,)."""


@by_type
def prefetch_row(
    rows: Rows,
    y: PerRow,
    weight: PerRow,
    order: Order,
    r: int,
) -> None:
    """Ask the memory for what the visits after order[r] will need; changes nothing."""


@by_type
def prefetch_columns(rows: Rows, i: int, A: Array, step: int) -> None:
    """Ask the memory for what A holds of row i's columns, `step` numbers each; changes nothing."""


@count.register(DenseRows)
def _(rows: DenseRows) -> int:
    return rows.X.shape[0]  # type: ignore[no-any-return]


@count.register(SparseRows)
def _(rows: SparseRows) -> int:
    return rows.indptr.shape[0] - 1  # type: ignore[no-any-return]


@called_by_kernels
def positions(rows: SparseRows, i: int) -> range:
    """Where row i's pairs lie; unsigned like the indices, and for the same reason."""
    return range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1]))


# Dense bodies let LLVM reorder their sums: SIMD makes them 6 times faster.  Sparse bodies do not:
# reordered, they become AVX reductions, which take twice as long.


@dot.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, W: SideBySide) -> float:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += rows.X[i, j] * W[j, 0]
    return total


@dot.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, W: SideBySide) -> float:
    total = 0.0
    for k in positions(rows, i):
        total += rows.data[k] * W[rows.indices[k], 0]
    return total


@dot_both.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, W: SideBySide) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for j in range(rows.X.shape[1]):
        first += rows.X[i, j] * W[j, 0]
        second += rows.X[i, j] * W[j, 1]
    return first, second


@dot_both.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, W: SideBySide) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for k in positions(rows, i):
        j, x = rows.indices[k], np.float64(rows.data[k])
        first += x * W[j, 0]
        second += x * W[j, 1]
    return first, second


@add.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, a: float, W: SideBySide) -> None:
    for j in range(rows.X.shape[1]):
        W[j, 0] += a * np.float64(rows.X[i, j])


@add.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, a: float, W: SideBySide) -> None:
    for k in positions(rows, i):
        W[rows.indices[k], 0] += a * np.float64(rows.data[k])


@add_both.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, a: float, b: float, W: SideBySide) -> None:
    for j in range(rows.X.shape[1]):
        x = np.float64(rows.X[i, j])
        W[j, 0] += a * x
        W[j, 1] += b * x


@add_both.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, a: float, b: float, W: SideBySide) -> None:
    for k in positions(rows, i):
        j, x = rows.indices[k], np.float64(rows.data[k])
        W[j, 0] += a * x
        W[j, 1] += b * x


@dot_vector.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, v: PerColumn) -> float:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += rows.X[i, j] * v[j]
    return total


@dot_vector.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, v: PerColumn) -> float:
    total = 0.0
    for k in positions(rows, i):
        total += rows.data[k] * v[rows.indices[k]]
    return total


@add_vector.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, a: float, v: PerColumn) -> None:
    for j in range(rows.X.shape[1]):
        v[j] += a * np.float64(rows.X[i, j])


@add_vector.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, a: float, v: PerColumn) -> None:
    for k in positions(rows, i):
        v[rows.indices[k]] += a * np.float64(rows.data[k])


@add_scaled.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, a: float, W: SideBySide, v: PerColumn) -> None:
    for j in range(rows.X.shape[1]):
        W[j, 0] += a * v[j] * np.float64(rows.X[i, j])


@add_scaled.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, a: float, W: SideBySide, v: PerColumn) -> None:
    for k in positions(rows, i):
        j = rows.indices[k]
        W[j, 0] += a * v[j] * np.float64(rows.data[k])


@clear.register(DenseRows)
def _(rows: DenseRows, i: int, v: PerColumn) -> None:
    for j in range(rows.X.shape[1]):
        v[j] = 0.0


@clear.register(SparseRows)
def _(rows: SparseRows, i: int, v: PerColumn) -> None:
    for k in positions(rows, i):
        v[rows.indices[k]] = 0.0


@norm2.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int) -> float:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += np.float64(rows.X[i, j]) * rows.X[i, j]
    return total


@norm2.register(SparseRows, fastmath=VECTORISED)
def _(rows: SparseRows, i: int) -> float:
    total = 0.0
    for k in positions(rows, i):
        total += np.float64(rows.data[k]) * rows.data[k]
    return total


@norm2_scaled.register(DenseRows, fastmath=VECTORISED)
def _(rows: DenseRows, i: int, v: PerColumn) -> float:
    total = 0.0
    for j in range(rows.X.shape[1]):
        total += v[j] * np.float64(rows.X[i, j]) * rows.X[i, j]
    return total


@norm2_scaled.register(SparseRows, fastmath=FUSED)
def _(rows: SparseRows, i: int, v: PerColumn) -> float:
    total = 0.0
    for k in positions(rows, i):
        total += v[rows.indices[k]] * np.float64(rows.data[k]) * rows.data[k]
    return total


@count_values.register(DenseRows)
def _(rows: DenseRows, i: int, v: PerColumn) -> None:
    for j in range(rows.X.shape[1]):
        v[j] += rows.X[i, j] != 0.0


@count_values.register(SparseRows)
def _(rows: SparseRows, i: int, v: PerColumn) -> None:
    for k in positions(rows, i):
        v[rows.indices[k]] += rows.data[k] != 0.0


PREFETCH_ROWS = 4  # rows between asking for a sparse row, or numbers kept per row, and using it
SHORT_ROW = 16  # values of a sparse row, two lines of memory
MOST_AHEAD = 16  # the same for dense rows in random order, where they are short
_PAGE = 4096  # bytes: in stored order the memory sees rows coming, but not the next page


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
    # In stored order too: among the weights' traffic the memory foresees less; a tenth is gained.
    # Not of short rows, of which it foresees more than asking for them costs: half of a gradient.
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
    for k in positions(rows, i):
        prefetch_line(A, step * np.int64(rows.indices[k]))
