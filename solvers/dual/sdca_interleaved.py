"""The steps of SDCA over rows, for several models side by side: sdca_steps.py in lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import dual_variable, prefetch_resident, store_step
from fewpass.solvers.dual.sdca_steps import best_step, row_sums
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.rows import Rows, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import LaneVector, Matrix, Order, PerRow, RowState, WholeNumbers
from fewpass.solvers.kernels.simd.interleaved import (
    AllGroups,
    EndToEnd,
    add_lanes,
    lanes_for,
    out_of_lanes,
    targets_of,
)
from fewpass.solvers.kernels.simd.interleaved import in_lanes as to_lanes
from fewpass.solvers.kernels.simd.lanes import LaneWidth, any_lane, load, store
from fewpass.solvers.loss_monitor import end_of
from fewpass.solvers.losses import Loss
from fewpass.solvers.penalties import Penalty, in_lanes, predict_both_lanes, scaled_dual
from fewpass.solvers.protocol import Block

NUMBERS = 5  # of each model, next to those of its penalty
ModelShares = Matrix  # (K, m): the Shares of every model
Places = WholeNumbers  # (K,): which of all models each one is, by its numbers per row


@kernel
def visit_interleaved(
    sums: EndToEnd, W: AllGroups, how: LaneWidth, loss: Loss, charged: Penalty, numbers: EndToEnd,
    labels: EndToEnd, shares: ModelShares, places: Places, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState, ends: WholeNumbers, curve: Matrix,
) -> None:  # fmt: skip
    """visit_rows for K models in lanes, W (groups, d + 1, ..) as in interleaved.py.

    For every group of lanes `sums` has 4 numbers of each, added to in place: what visit_rows
    returns; `numbers` 5: the constant column's value, what it adds to predictions next to its
    weight, scale, stretch and theta, then those of each model's penalty, which is of the kind of
    `charged`; `labels` 1, as in protocol.py: Interleaved.  `shares` is (K, m), and
    the numbers per row of model k are columns places[k] m and on of `row_state`.  After `ends`
    rows, which rise, `curve` gets the losses of each lane.
    """
    L, models = how.width, shares.shape[0]
    V, last = W.reshape(-1), order.shape[0] - 1
    groups, length, width = W.shape
    lanes, noted, end = np.empty(2 * L), 0, end_of(ends, 0)
    for r in range(order.shape[0]):
        i, next_row, c = order[r], order[min(r + 1, last)], weight[order[r]]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        square = norm2(rows, i)
        for g in range(groups):
            place, first = g * length * width, L * g
            four = 4 * L * g  # where this group's four sums stand
            at = (NUMBERS + len(charged)) * L * g  # type: ignore[arg-type]
            column, shift = load(numbers, at, how), load(numbers, at + L, how)
            scale, stretch = load(numbers, at + 2 * L, how), load(numbers, at + 3 * L, how)
            theta = load(numbers, at + 4 * L, how)
            penalty = in_lanes(charged, numbers, at + NUMBERS * L, how)
            target = targets_of(load(labels, L * g, how), y[i])
            for lane in range(L):
                k = min(first + lane, models - 1)
                lanes[lane] = dual_variable(mine(row_state, shares, places, k), i, shares[k])
            a, at = load(lanes, 0, how), place + (length - 1) * width
            p_start, p = predict_both_lanes(penalty, rows, i, V, width, place, how)
            p_start = p_start + (column * load(V, at, how) + shift)
            p = p + (column * load(V, at + L, how) + shift)
            row = row_sums(loss, scaled_dual(penalty, a, theta), target, c, p_start, p)
            add_to(sums, four, row[0], how)
            add_to(sums, four + L, row[1], how)
            add_to(sums, four + 2 * L, row[2], how)
            add_to(sums, four + 3 * L, row[3], how)
            delta, step, _ = best_step(
                loss, a, target, c, p, square + column * column, scale, stretch
            )
            store(lanes, L, delta)
            for k in range(first, min(first + L, models)):
                own = mine(row_state, shares, places, k)
                store_step(own, i, lanes[k - first], lanes[L + k - first])
            if any_lane(abs(step) > 0.0):
                upcoming = (i, place + length * width) if g + 1 < groups else (next_row, 0)
                add_lanes(rows, i, step, V, width, place + L, upcoming, how)
                add_to(V, at + L, step * column, how)
        if r + 1 == end:
            for k in range(groups * L):
                curve[noted, k] = sums[k // L * 4 * L + 2 * L + k % L]
            noted, end = noted + 1, end_of(ends, noted + 1)


@part_of_kernels
def mine(row_state: RowState, shares: ModelShares, places: Places, k: int) -> RowState:
    """See the numbers per row of a model."""
    m = shares.shape[1]
    return row_state[:, places[k] * m : (places[k] + 1) * m]


@part_of_kernels
def add_to(V: EndToEnd, place: int, v: LaneVector, how: LaneWidth) -> None:
    """V[place : place + width] += v."""
    store(V, place, load(V, place, how) + v)


def walk_interleaved(
    loss: Loss,
    penalties: Sequence[Penalty],
    numbers: Sequence[Sequence[float]],
    shares: NDArray[np.float64],
    labels: list[int],
    places: tuple[int, ...],
    W: NDArray[np.float64],
    block: Block,
    row_state: NDArray[np.float64],
    ends: WholeNumbers,
    tell: Callable[[int, float], None],
) -> list[list[float]]:
    """Visit the rows of a block with several models; W and the numbers per row change.

    `tell` hears the losses of all models after `ends` of its rows.  Returns what visit_rows
    returns, model after model.
    """
    how = lanes_for(len(labels))
    sums = to_lanes([(0.0,) * 4] * len(labels), how)
    charged: list[Any] = list(penalties)  # tuples of numbers
    each = [(*own, *penalty) for own, penalty in zip(numbers, charged, strict=True)]
    given = (to_lanes(each, how), to_lanes([(k,) for k in labels], how), shares)
    curve = np.zeros((len(ends), len(given[1])))
    visit_interleaved(
        sums, W, how, loss, penalties[0], *given, np.array(places), block.rows, block.y,
        block.weight, block.order, row_state, ends, curve,
    )  # fmt: skip
    for end, lost in zip(ends.tolist(), curve[:, : len(labels)].sum(axis=1).tolist(), strict=True):
        tell(end, lost)
    return out_of_lanes(sums, len(labels), how)
