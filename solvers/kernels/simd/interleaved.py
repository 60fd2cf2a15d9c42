"""Operations on several interleaved models: a cache line has the weights of eight of them.

Models are in groups of lanes (lanes.py), eight or, for few models, four, two or one; the last is
padded with copies of the last model.  W has shape (groups, d, C lanes): for each feature, column 0
of all models of a group, then column 1, ... .  It begins at a cache line boundary, so that a row's
value touches one line per group and column.  Each model's sums have the same order, and the same
bits, as without interleaving.

Lines are prefetched: while a row is added, both columns of the next one are requested.  The weights
of eight models rarely fit into the inner caches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import FUSED, by_type, kernel, part_of_kernels, reading_part
from fewpass.solvers.kernels.lanes import (
    Eight,
    Four,
    LaneWidth,
    One,
    Two,
    broadcast,
    fma,
    load,
    store,
    where,
)
from fewpass.solvers.kernels.prefetch import LINE, prefetch_line
from fewpass.solvers.kernels.rows import Rows, SparseRows, end_cell, first_cell, shrunk_by
from fewpass.solvers.kernels.shapes import (
    Index,
    LaneVector,
    Matrix,
    Shrinks,
    SideBySide,
    Vector,
)

GroupWeights = Matrix  # (d, C lanes): the weights of one group's models
AllGroups = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]  # (groups, d, C lanes)
EndToEnd = Vector  # AllGroups as one vector, or the result of `in_lanes`


def lanes_for(models: int) -> LaneWidth:
    """Return the number of lanes of a group."""
    return next((lanes for lanes in (One(), Two(), Four()) if models <= lanes.width), Eight())


def lanes_taken(models: int) -> int:
    """Return the number of models in whole groups, padding included."""
    width = lanes_for(models).width
    return -(-models // width) * width


def lanes_planned(models: int) -> int:
    """Return the number of lanes that memory is planned for.

    Windows, and so bits, follow of it: it stays what it was before there were groups of two.
    """
    return max(lanes_taken(models), Four().width)


def pack(weights: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Interleave the models' weights (d, C), see above."""
    (d, C), lanes = weights[0].shape, lanes_for(len(weights)).width
    shape = lanes_taken(len(weights)) // lanes, d, C * lanes
    W = from_line(math.prod(shape)).reshape(shape)
    for g, group in enumerate(groups(weights)):
        pack_models(W[g], group)
    return W


def unpacked(W: NDArray[np.float64], models: int) -> list[NDArray[np.float64]]:
    """Return the models' weights (d, C) in the memory of W, which is overwritten.

    The first group is copied out, each other one is written over the one before, and the first to
    the remaining place.
    """
    lanes, last = lanes_for(models).width, len(W) - 1
    each = W.reshape(len(W), lanes, W.shape[1], -1)
    # one array per model: the allocator can reuse arrays of that size
    first = tuple(np.empty(each.shape[2:]) for _ in range(lanes))
    unpack_models(W[0], first, lanes)
    for g in range(last):
        unpack_models(W[g + 1], tuple(each[g]), lanes)
    if last:
        for copy, model in zip(each[last], first, strict=True):
            copy[...] = model
        first = tuple(each[last])
    return [*first, *each[:last].reshape(-1, *each.shape[2:])][:models]


def groups(weights: Sequence[NDArray[np.float64]]) -> Iterator[tuple[NDArray[np.float64], ...]]:
    """Yield groups of models, the last group padded with the last model."""
    width, last = lanes_for(len(weights)).width, len(weights) - 1
    for first in range(0, len(weights), width):
        yield tuple(weights[min(first + lane, last)] for lane in range(width))


@kernel
def pack_models(W: GroupWeights, group: tuple[SideBySide, ...]) -> None:
    """Copy a group's weights into its W, feature by feature: each cache line is visited once."""
    L = len(group)
    for j in range(W.shape[0]):
        for lane in range(L):
            own = group[lane]
            for c in range(own.shape[1]):
                W[j, c * L + lane] = own[j, c]


@kernel
def unpack_models(W: GroupWeights, group: tuple[SideBySide, ...], models: int) -> None:
    """Copy the weights of a group's first models out of its W."""
    L = len(group)
    for j in range(W.shape[0]):
        for lane in range(models):
            own = group[lane]
            for c in range(own.shape[1]):
                own[j, c] = W[j, c * L + lane]


def from_line(
    size: int, make: Callable[[int], NDArray[np.float64]] = np.empty
) -> NDArray[np.float64]:
    """Return an array that begins at a cache line boundary, uninitialised or as `make` makes it."""
    memory = make(size + LINE // 8)
    first = -memory.ctypes.data % LINE // 8
    return memory[first : first + size]


def in_lanes(numbers: Sequence[Sequence[float]], lanes: LaneWidth) -> NDArray[np.float64]:
    """Return the models' numbers in lanes: group by group, number by number."""
    each, width = np.array(numbers, dtype=np.float64), lanes.width
    groups = -(-len(each) // width)
    each = np.concatenate([each, np.repeat(each[-1:], groups * width - len(each), axis=0)])
    return each.reshape(groups, width, -1).transpose(0, 2, 1).ravel()


def out_of_lanes(V: NDArray[np.float64], models: int, lanes: LaneWidth) -> list[list[float]]:
    """Return the numbers of every model."""
    groups = -(-models // lanes.width)
    each = V.reshape(groups, -1, lanes.width).transpose(0, 2, 1)
    numbers: list[list[float]] = each.reshape(groups * lanes.width, -1)[:models].tolist()
    return numbers


@part_of_kernels
def targets_of(labels: LaneVector, y: float) -> LaneVector:
    """Return each model's target: y itself, or +1 for its own class and -1 for others."""
    side = where(abs(y - labels) > 0.0, -1.0, 1.0)
    return where(labels < 0.0, y, side)


@by_type
def dot_lanes(
    rows: Rows, i: int, V: EndToEnd, width: int, place: int, lanes: LaneWidth
) -> LaneVector:
    """Return x_i . W for every lane, W a column of a group.

    V is all groups as one vector; features lie `width` numbers apart, the first one at `place`.
    """


@by_type
def dot_both_lanes_shrunk(  # type: ignore[empty-body]
    rows: Rows, i: int, V: EndToEnd, width: int, place: int, lanes: LaneWidth,
    penalty: Shrinks,
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    """Return dot_lanes for two adjacent columns, the second shrunk by the penalty, in lanes."""


@reading_part
def dot_both_lanes(
    rows: Rows, i: int, V: EndToEnd, width: int, place: int, lanes: LaneWidth
) -> tuple[LaneVector, LaneVector]:
    """Return dot_lanes for two adjacent columns."""
    return dot_both_lanes_shrunk(rows, i, V, width, place, lanes, None)  # type: ignore[no-any-return]


@by_type
def add_lanes(
    rows: Rows, i: int, a: LaneVector, V: EndToEnd, width: int, place: int,
    upcoming: tuple[int, int], lanes: LaneWidth,
) -> None:  # fmt: skip
    """Add a[lane] x_i to a column; `upcoming` are the next row and place, to be prefetched."""


@by_type
def add_both_lanes(
    rows: Rows, i: int, a: LaneVector, b: LaneVector, V: EndToEnd, width: int,
    place: int, upcoming: tuple[int, int], lanes: LaneWidth,
) -> None:  # fmt: skip
    """Add a[lane] x_i to a column and b[lane] x_i to the next one."""


@dot_lanes.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, i: int, V: EndToEnd, width: int, place: int, lanes: LaneWidth
) -> LaneVector:
    total = broadcast(0.0, lanes)
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        at = np.int64(rows.indices[n]) * width + place
        total = fma(np.float64(rows.data[n]), load(V, at, lanes), total)
    return total


@dot_both_lanes_shrunk.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, i: int, V: EndToEnd, width: int, place: int, lanes: LaneWidth,
    penalty: Shrinks,
) -> tuple[LaneVector, LaneVector]:  # fmt: skip
    L = lanes.width
    first, second = broadcast(0.0, lanes), broadcast(0.0, lanes)
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        at, x = np.int64(rows.indices[n]) * width + place, np.float64(rows.data[n])
        first = fma(x, load(V, at, lanes), first)
        second = fma(x, shrunk_by(penalty, load(V, at + L, lanes)), second)
    return first, second


@add_lanes.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, i: int, a: LaneVector, V: EndToEnd, width: int, place: int,
    upcoming: tuple[int, int], lanes: LaneWidth,
) -> None:  # fmt: skip
    ahead, last = pairs_of(rows, upcoming[0])
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        prefetch_both(lanes, V, np.int64(rows.indices[ahead]) * width + upcoming[1])
        ahead = min(ahead + 1, last)
        at = np.int64(rows.indices[n]) * width + place
        store(V, at, fma(np.float64(rows.data[n]), a, load(V, at, lanes)))


@add_both_lanes.register(SparseRows, fastmath=FUSED)
def _(
    rows: SparseRows, i: int, a: LaneVector, b: LaneVector, V: EndToEnd, width: int, place: int,
    upcoming: tuple[int, int], lanes: LaneWidth,
) -> None:  # fmt: skip
    L = lanes.width
    ahead, last = pairs_of(rows, upcoming[0])
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        prefetch_both(lanes, V, np.int64(rows.indices[ahead]) * width + upcoming[1])
        ahead = min(ahead + 1, last)
        at, x = np.int64(rows.indices[n]) * width + place, np.float64(rows.data[n])
        store(V, at, fma(x, a, load(V, at, lanes)))
        store(V, at + L, fma(x, b, load(V, at + L, lanes)))


@part_of_kernels
def pairs_of(rows: SparseRows, i: int) -> tuple[int, int]:
    """Return the cells of a row's first and last pair; any pair if it has none."""
    last = max(rows.indptr[i + 1] - 1, 0)
    return min(rows.indptr[i], last), last


@by_type
def prefetch_both(lanes: LaneWidth, V: EndToEnd, at: Index) -> None:
    """Prefetch a feature's two columns."""


def _prefetch_lines(lanes: LaneWidth, V: EndToEnd, at: Index) -> None:
    prefetch_line(V, at)
    prefetch_line(V, at + lanes.width)


def _prefetch_nothing(lanes: LaneWidth, V: EndToEnd, at: Index) -> None:
    pass  # the row is read next, and is short of nothing


for _how in (Two, Four, Eight):
    prefetch_both.register(_how)(_prefetch_lines)
prefetch_both.register(One)(_prefetch_nothing)
