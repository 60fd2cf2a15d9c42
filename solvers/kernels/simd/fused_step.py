"""Adding a row and computing the next row's dot product in one sweep over dense weights.

A step depends on its row's dot product, which depends on the step before.  For dense rows one sweep
over the weights does both; two sweeps would read the weights twice and wait for their own stores.
The weights are copied to a cache line boundary, each vector padded with zeros to whole registers.
Sums are computed in lanes, in an order that is the same on every machine and independent of the
boundaries of blocks.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import by_type, part_of_kernels
from fewpass.solvers.kernels.lanes import (
    Eight,
    LaneWidth,
    broadcast,
    fma,
    load,
    load_first,
    store,
    sum_lanes,
)
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.kernels.shapes import LaneVector, Number, SideBySide, Vector
from fewpass.solvers.kernels.simd.interleaved import add_both_lanes, add_lanes, dot_lanes

AtHand = Vector  # sparse rows: W itself, end to end; dense: its columns end to end, (2 length,)
WIDTH = 8  # lanes
SHORT = 256  # values; adding so few costs less than a mispredicted branch
_LINE = 64  # bytes


@by_type
def at_hand(rows: Rows, W: SideBySide) -> AtHand:
    """Return weights W in the layout of `move_then_dot`: a copy, or a view.

    W is (d, 2), or (d, 2 lanes) of a group of models on sparse rows, as in interleaved.py.
    """


@by_type
def fetch(rows: Rows, V: AtHand, W: SideBySide) -> None:
    """Copy W into V, the result of `at_hand`."""


@by_type
def put_back(rows: Rows, V: AtHand, W: SideBySide) -> None:
    """Copy V into W."""


@by_type
def move_then_dot(
    rows: Rows, i: int, a: Number | None, b: Number | None, V: AtHand, to: int, lanes: LaneWidth
) -> Number:
    """W[:, 0] += a x_i and W[:, 1] += b x_i, unless None; returns x_to . W[:, 0], of every lane."""


@by_type
def skipping_pays(rows: Rows) -> bool:
    """Return whether skipping a row with a = 0 is faster than adding it."""


@skipping_pays.register(SparseRows)
def _(rows: SparseRows) -> bool:
    return True


@skipping_pays.register(DenseRows)
def _(rows: DenseRows) -> bool:
    return rows.X.shape[1] > SHORT  # type: ignore[no-any-return]


@at_hand.register(SparseRows, arrays=True)
def _(rows: SparseRows, W: SideBySide) -> AtHand:
    return W.reshape(-1)


@fetch.register(SparseRows)
@put_back.register(SparseRows)
def _(rows: SparseRows, V: AtHand, W: SideBySide) -> None:
    pass


@move_then_dot.register(SparseRows)
def _(
    rows: SparseRows, i: int, a: Number | None, b: Number | None, V: AtHand, to: int,
    lanes: LaneWidth,
) -> Number:  # fmt: skip
    width = 2 * lanes.width
    if a is not None:
        if b is not None:
            add_both_lanes(rows, i, a, b, V, width, 0, (to, 0), lanes)
        else:
            add_lanes(rows, i, a, V, width, 0, (to, 0), lanes)
    return dot_lanes(rows, to, V, width, 0, lanes)


@at_hand.register(DenseRows, arrays=True)
def _(rows: DenseRows, W: SideBySide) -> AtHand:
    length = -(-W.shape[0] // WIDTH) * WIDTH
    memory = np.zeros(2 * length + _LINE // 8)
    first = -memory.ctypes.data % _LINE // 8
    V = memory[first : first + 2 * length]
    fetch(rows, V, W)
    return V


@fetch.register(DenseRows)
def _(rows: DenseRows, V: AtHand, W: SideBySide) -> None:
    d, length = W.shape[0], V.shape[0] // 2
    for j in range(d):
        V[j], V[length + j] = W[j, 0], W[j, 1]


@put_back.register(DenseRows)
def _(rows: DenseRows, V: AtHand, W: SideBySide) -> None:
    d, length = W.shape[0], V.shape[0] // 2
    for j in range(d):
        W[j, 0], W[j, 1] = V[j], V[length + j]


@move_then_dot.register(DenseRows)
def _(
    rows: DenseRows, i: int, a: Number | None, b: Number | None, V: AtHand, to: int,
    lanes: LaneWidth,
) -> Number:  # fmt: skip
    X, d, eight = rows.X, rows.X.shape[1], Eight()
    at, next_at, whole = i * d, to * d, d - d % WIDTH
    first, second = broadcast(0.0, eight), broadcast(0.0, eight)
    for j in range(0, whole - WIDTH, 2 * WIDTH):
        k = j + WIDTH
        u = moved(load(X, at + j, eight), a, b, V, j)
        first = fma(load(X, next_at + j, eight), u, first)
        u = moved(load(X, at + k, eight), a, b, V, k)
        second = fma(load(X, next_at + k, eight), u, second)
    if whole % (2 * WIDTH) != 0:
        j = whole - WIDTH
        u = moved(load(X, at + j, eight), a, b, V, j)
        first = fma(load(X, next_at + j, eight), u, first)
    if whole < d:
        u = moved(load_first(X, at + whole, d - whole, eight), a, b, V, whole)
        second = fma(load_first(X, next_at + whole, d - whole, eight), u, second)
    return sum_lanes(first + second)


@part_of_kernels
def moved(x: LaneVector, a: float | None, b: float | None, V: AtHand, j: int) -> LaneVector:
    """Add values of a row to the weights from j on; return those of column 0."""
    lanes = Eight()
    u = load(V, j, lanes)
    if a is not None:
        u = fma(a, x, u)
        store(V, j, u)
    if b is not None:
        later = j + V.shape[0] // 2
        store(V, later, fma(b, x, load(V, later, lanes)))
    return u
