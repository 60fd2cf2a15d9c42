"""The steps of SDCA over rows: for one model, and for several side by side, in lanes.

`row_sums` and `best_step` are the algorithm (sdca.py), for numbers and for lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import (
    ALONG_ROW,
    STREAM_NUMBERS,
    Gains,
    dual_variable,
    move_weights,
    prefetch_resident,
    square_of,
    store_step,
)
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels, reading_part
from fewpass.solvers.kernels.lanes import LaneWidth, any_lane, load, maximum, store
from fewpass.solvers.kernels.rows import Rows, dot_both_shrunk, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import (
    LaneVector,
    Matrix,
    Number,
    Order,
    PerColumn,
    PerRow,
    RowState,
    Shares,
    SideBySide,
    Vector,
    WholeNumbers,
)
from fewpass.solvers.kernels.simd.interleaved import (
    AllGroups,
    EndToEnd,
    add_lanes,
    dot_both_lanes_shrunk,
    lanes_for,
    out_of_lanes,
    targets_of,
)
from fewpass.solvers.kernels.simd.interleaved import in_lanes as to_lanes
from fewpass.solvers.loss_monitor import end_of
from fewpass.solvers.losses import Loss, Problem, bracket, conjugate, direction, dual_step, value
from fewpass.solvers.penalties import Penalty, in_lanes, scaled_dual
from fewpass.solvers.protocol import Block


class Counted(NamedTuple):
    """The weight of a stream's own moves, as others move the same way (merging.py)."""

    sigma_prime: float  # s: its moves are made so many times as long
    ratio: float  # f / s, by which more along V
    owed: float  # predictions are by w - owed V
    moved: float  # s times what it moved along V in this round
    in_round: float  # number of the round, kept with every row


ALONE = Counted(1.0, 0.0, 0.0, 0.0, 0.0)  # one stream


class StepInputs(NamedTuple):
    """Numbers that the steps of a block's rows have in common."""

    problem: Problem  # its penalty is that of RUNNING, which it shrinks
    column: float
    offset: float  # of the intercept
    scale: float  # column j is charged 1 / (g_j scale n), and w(a) goes by the scale alone
    counted: Counted = ALONE
    refresh: float = 0.0  # 1 where w(a) is added up
    theta: float = 1.0  # brackets are those of theta a
    g: Gains = None


#: Loss and bracket at START, the same at RUNNING before each step, summed over rows.
RowSums = tuple[float, float, float, float]


@kernel
def visit_rows(
    W: SideBySide, running: SideBySide, anew: PerColumn, given: StepInputs, shares: Shares,
    rows: Rows, y: PerRow, weight: PerRow, order: Order, row_state: RowState, ends: WholeNumbers,
    curve: Vector,
) -> tuple[RowSums, float]:  # fmt: skip
    """Take the best step for each row in turn; `running` sees W's column RUNNING.

    `anew` takes w(a) if it is added up.  After `ends` rows, which rise, `curve` gets their losses
    at RUNNING.  Returns their sums, and `moved`.
    """
    problem, column, offset, scale, counted, refresh, theta, g = given
    loss, penalty = problem.loss, problem.penalty
    d, shift = W.shape[0] - 1, problem.intercept * offset
    loss_start, gap_start, loss_running, gap_running = 0.0, 0.0, 0.0, 0.0
    noted, end, moved = 0, end_of(ends, 0), counted.moved
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        a, c, along = dual_variable(row_state, i, shares), weight[i], along_row(row_state, i)
        p_start, p = dot_both_shrunk(rows, i, W, penalty)
        p_start += column * W[d, 0] + shift
        p += column * W[d, 1] + shift + along * (counted.ratio * moved - counted.owed)
        scaled = scaled_dual(penalty, a, theta)
        first, second, third, fourth = row_sums(loss, scaled, y[i], c, p_start, p)
        loss_start += first
        gap_start += second
        loss_running += third
        gap_running += fourth

        square = counted_square(square_of(rows, i, column, g), counted, along)
        delta, step, fresh = best_step(loss, a, y[i], c, p, square, scale, counted.sigma_prime)
        store_step(row_state, i, a, delta, counted.in_round)
        moved += along * step
        move_weights(rows, i, step, refresh * fresh, column, running, anew, g)
        if r + 1 == end:
            curve[noted] = loss_running
            noted, end = noted + 1, end_of(ends, noted + 1)
    return (loss_start, gap_start, loss_running, gap_running), moved


@reading_part
def along_row(row_state: RowState, i: int) -> float:
    """Return what a row has along V; 0 where that is not kept."""
    if row_state.shape[1] > ALONG_ROW:
        return row_state[i, ALONG_ROW]  # type: ignore[no-any-return]
    return 0.0


@part_of_kernels
def counted_square(square: float, counted: Counted, along: float) -> float:
    """Return a row's square, of which what lies along V counts `ratio` times more."""
    return max(0.0, square + counted.ratio * along * along)


@part_of_kernels
def row_sums(
    loss: Loss, a: Number, y: Number, c: float, p_start: Number, p: Number
) -> tuple[Number, Number, Number, Number]:
    """Return a row's weighted loss and bracket at START, and the same at RUNNING."""
    dual = conjugate(loss, a, y)
    phi_start, phi = value(loss, p_start, y), value(loss, p, y)
    at_start = c * phi_start, c * bracket(loss, a, p_start, y, phi_start, dual)
    return at_start[0], at_start[1], c * phi, c * bracket(loss, a, p, y, phi, dual)


@part_of_kernels
def best_step(
    loss: Loss, a: Number, y: Number, c: float, p: Number, square: Number, scale: Number,
    sigma_prime: Number,
) -> tuple[Number, Number, Number]:  # fmt: skip
    """Return the best step of a dual variable, and what RUNNING and w(a) gain of the row."""
    delta = dual_step(loss, a, p, y, sigma_prime * scale * c * square)
    unit = scale * c * direction(loss, y)
    return delta, sigma_prime * unit * delta, unit * (a + delta)


# -- several models side by side ------------------------------------------------------------------

NUMBERS = 9  # of each model, next to those of its penalty
SUMS = 5  # of each
ModelShares = Matrix  # (K, m): the Shares of every model
Places = WholeNumbers  # (K,): which of all models each one is, by its numbers per row


@kernel
def visit_interleaved(
    sums: EndToEnd, W: AllGroups, lanes: LaneWidth, loss: Loss, charged: Penalty, numbers: EndToEnd,
    labels: EndToEnd, shares: ModelShares, places: Places, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState, ends: WholeNumbers, curve: Matrix,
) -> None:  # fmt: skip
    """visit_rows for K models in lanes, W (groups, d + 1, ..) as in interleaved.py.

    For every group of lanes `sums` has 5 numbers of each, added to in place: what visit_rows
    returns; `numbers` 9: the constant column's value, what it adds to predictions next to its
    weight, scale, theta, and those of `Counted`, then those of each model's penalty, which is of
    the kind of `charged`; `labels` 1, as in protocol.py: Interleaved.  Numbers per row are as many
    of each model, those of model k the places[k]-th.  After `ends` rows, which rise, `curve` gets
    the losses of each lane.
    """
    L, models = lanes.width, shares.shape[0]
    V, last = W.reshape(-1), order.shape[0] - 1
    groups, length, width = W.shape
    size, streams = numbers_per_row(shares), shares.shape[1] > 1
    scratch, noted, end = np.empty(3 * L), 0, end_of(ends, 0)
    for r in range(order.shape[0]):
        i, next_row, c = order[r], order[min(r + 1, last)], weight[order[r]]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        square = norm2(rows, i)
        for g in range(groups):
            place, first = g * length * width, L * g
            five = SUMS * L * g  # where this group's sums stand
            at = (NUMBERS + len(charged)) * L * g  # type: ignore[arg-type]
            column, shift = load(numbers, at, lanes), load(numbers, at + L, lanes)
            scale, theta = load(numbers, at + 2 * L, lanes), load(numbers, at + 3 * L, lanes)
            sigma_prime, ratio = load(numbers, at + 4 * L, lanes), load(numbers, at + 5 * L, lanes)
            owed = load(numbers, at + 6 * L, lanes)
            in_round = numbers[at + 8 * L]
            penalty = in_lanes(charged, numbers, at + NUMBERS * L, lanes)
            target = targets_of(load(labels, L * g, lanes), y[i])
            for lane in range(L):
                k = min(first + lane, models - 1)
                own = rows_of_model(row_state, places[k], size)
                scratch[lane] = dual_variable(own, i, shares[k])
                scratch[2 * L + lane] = along_row(own, i)
            a, along, at = (
                load(scratch, 0, lanes),
                load(scratch, 2 * L, lanes),
                place + (length - 1) * width,
            )
            p_start, p = dot_both_lanes_shrunk(rows, i, V, width, place, lanes, penalty)
            p_start = p_start + (column * load(V, at, lanes) + shift)
            constant, counts = column * load(V, at + L, lanes) + shift, square + column * column
            if streams:
                constant = constant + along * (ratio * load(sums, five + 4 * L, lanes) - owed)
                counts = maximum(counts + ratio * along * along, 0.0)
            p = p + constant
            row = row_sums(loss, scaled_dual(penalty, a, theta), target, c, p_start, p)
            add_to(sums, five, row[0], lanes)
            add_to(sums, five + L, row[1], lanes)
            add_to(sums, five + 2 * L, row[2], lanes)
            add_to(sums, five + 3 * L, row[3], lanes)
            delta, step, _ = best_step(loss, a, target, c, p, counts, scale, sigma_prime)
            add_to(sums, five + 4 * L, along * step, lanes)
            store(scratch, L, delta)
            for k in range(first, min(first + L, models)):
                own = rows_of_model(row_state, places[k], size)
                store_step(own, i, scratch[k - first], scratch[L + k - first], in_round)
            if any_lane(abs(step) > 0.0):
                upcoming = (i, place + length * width) if g + 1 < groups else (next_row, 0)
                add_lanes(rows, i, step, V, width, place + L, upcoming, lanes)
                add_to(V, at + L, step * column, lanes)
        if r + 1 == end:
            for k in range(groups * L):
                curve[noted, k] = sums[k // L * SUMS * L + 2 * L + k % L]
            noted, end = noted + 1, end_of(ends, noted + 1)


@part_of_kernels
def numbers_per_row(shares: ModelShares) -> int:
    """Return how many numbers are kept of a row for every model."""
    return 1 if shares.shape[1] == 1 else STREAM_NUMBERS


@part_of_kernels
def rows_of_model(row_state: RowState, place: int, size: int) -> RowState:
    """See the numbers per row of a model."""
    return row_state[:, place * size : (place + 1) * size]


@part_of_kernels
def add_to(V: EndToEnd, place: int, v: LaneVector, lanes: LaneWidth) -> None:
    """V[place : place + width] += v."""
    store(V, place, load(V, place, lanes) + v)


def numbers_of(given: StepInputs) -> tuple[float, ...]:
    """Return the numbers of a model that stay, as visit_interleaved takes them."""
    penalty: Any = given.problem.penalty  # a tuple of numbers
    shift = given.problem.intercept * given.offset
    return given.column, shift, given.scale, given.theta, *given.counted, *penalty


def walk_interleaved(
    givens: Sequence[StepInputs], shares: NDArray[np.float64], labels: list[int],
    places: tuple[int, ...], W: NDArray[np.float64], block: Block, row_state: NDArray[np.float64],
    ends: WholeNumbers, report: Callable[[int, float], None],
) -> list[list[float]]:  # fmt: skip
    """Visit the rows of a block with several models; W and the numbers per row change.

    `report` hears the losses of all models after `ends` of its rows.  Returns what visit_rows
    returns, model after model.
    """
    lanes = lanes_for(len(labels))
    sums = to_lanes([(0.0,) * 4 + (given.counted.moved,) for given in givens], lanes)
    numbers = to_lanes([numbers_of(given) for given in givens], lanes)
    given = (numbers, to_lanes([(k,) for k in labels], lanes), shares)
    curve, problem = np.zeros((len(ends), len(given[1]))), givens[0].problem
    visit_interleaved(
        sums, W, lanes, problem.loss, problem.penalty, *given, np.array(places), block.rows,
        block.y, block.weight, block.order, row_state, ends, curve,
    )  # fmt: skip
    for end, lost in zip(ends.tolist(), curve[:, : len(labels)].sum(axis=1).tolist(), strict=True):
        report(end, lost)
    return out_of_lanes(sums, len(labels), lanes)
