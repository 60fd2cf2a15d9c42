"""The steps of SDCA over rows for one model; sdca_interleaved.py has them for several side by side.

`row_sums` and `best_step` are the algorithm (sdca.py), for numbers and for lanes.
"""

from __future__ import annotations

from typing import NamedTuple

from fewpass.solvers.dual.duality import (
    ALONG_ROW,
    Gains,
    dual_variable,
    move_weights,
    prefetch_resident,
    square_of,
    store_step,
)
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels, reading_part
from fewpass.solvers.kernels.rows import Rows, prefetch_row
from fewpass.solvers.kernels.shapes import (
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
from fewpass.solvers.loss_monitor import end_of
from fewpass.solvers.losses import Loss, Problem, bracket, conjugate, direction, dual_step, value
from fewpass.solvers.penalties import predict_both, scaled_dual


class Counted(NamedTuple):
    """How a stream counts its own moves, as others move the same way (merging.py)."""

    stretch: float  # s: its moves are made so many times as long
    ratio: float  # f / s, by which more along V
    owed: float  # predictions are by w - owed V
    moved: float  # s times what it moved along V in this round
    in_round: float  # number of the round, kept with every row


ALONE = Counted(1.0, 0.0, 0.0, 0.0, 0.0)  # one stream
#: Loss and bracket at START, the same at RUNNING before each step, summed over rows.
RowSums = tuple[float, float, float, float]


@kernel
def visit_rows(
    W: SideBySide, running: SideBySide, anew: PerColumn, problem: Problem, column: float,
    offset: float, scale: float, counted: Counted, refresh: float, shares: Shares, rows: Rows,
    y: PerRow, weight: PerRow, order: Order, row_state: RowState, theta: float, g: Gains,
    ends: WholeNumbers, curve: Vector,
) -> tuple[RowSums, float]:  # fmt: skip
    """Take the best step for each row in turn; `running` sees W's column RUNNING.

    `refresh` is 1 where w(a) is added up in `anew`, else 0.  Column j is charged 1 / (g_j scale n),
    or all of them 1 / (scale n) if g is None; `anew` goes by the scale alone.  The problem's
    penalty is that of RUNNING, which it shrinks, and brackets are those of theta a.  After `ends`
    rows, which rise, `curve` gets their losses at RUNNING.  Returns their sums, and `moved`.
    """
    loss, penalty = problem.loss, problem.penalty
    d, shift = W.shape[0] - 1, problem.intercept * offset
    loss_start, gap_start, loss_running, gap_running = 0.0, 0.0, 0.0, 0.0
    noted, end, moved = 0, end_of(ends, 0), counted.moved
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        prefetch_resident(row_state, order, r)
        a, c, along = dual_variable(row_state, i, shares), weight[i], along_row(row_state, i)
        p_start, p = predict_both(penalty, rows, i, W)
        p_start += column * W[d, 0] + shift
        p += column * W[d, 1] + shift + along * (counted.ratio * moved - counted.owed)
        first, second, third, fourth = row_sums(
            loss, scaled_dual(penalty, a, theta), y[i], c, p_start, p
        )
        loss_start += first
        gap_start += second
        loss_running += third
        gap_running += fourth

        square = counted_square(square_of(rows, i, column, g), counted, along)
        delta, step, fresh = best_step(loss, a, y[i], c, p, square, scale, counted.stretch)
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
    stretch: Number,
) -> tuple[Number, Number, Number]:  # fmt: skip
    """Return the best step of a dual variable, and what RUNNING and w(a) gain of the row."""
    delta = dual_step(loss, a, p, y, stretch * scale * c * square)
    unit = scale * c * direction(loss, y)
    return delta, stretch * unit * delta, unit * (a + delta)
