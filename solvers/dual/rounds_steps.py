"""The steps of rounds (rounds.py), by one thread or by several at the same time, to the same bits.

Every thread goes through all rounds.  First it steps its share of the rows, then it adds up its
own columns of all rows' moves.  Sums over rows are made in `PARTS` parts, whoever makes them, and
added in order; the one sum over columns, ||u||^2, is made of whole numbers, which add up to the
same in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.solvers.dual.duality import dual_variable, prefetch_resident
from fewpass.solvers.dual.rounds_columns import add_round, end_round
from fewpass.solvers.dual.sdca_state import RUNNING, SHARED, START, Rounds
from fewpass.solvers.dual.sdca_steps import row_sums
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.meeting import meet
from fewpass.solvers.kernels.rows import Rows, dot_three, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import (
    Matrix,
    Order,
    PerRow,
    RowState,
    Shares,
    SideBySide,
    Vector,
    WholeNumbers,
)
from fewpass.solvers.losses import Problem, conjugate, direction, dual_step

PARTS = 16  # of a round's rows; more threads find no rows
#: Sums of a part: as `RowSums`, then of a's gain without squares, of the moves along their
#: predictions, along V, of their squares, of those along V, of lengths, and of steps.
GAIN, LINE, T, Q, H, LENGTH, STEPS = range(4, 11)
SUMS = 11
WHOLE = 2.0**61  # what ||u||^2 is at most, in whole numbers
TINY = 1e-290
FORGETS = 0.2  # of the four squares, in every round
ACROSS, AFTER_SHARE, ALONG = 1.05, 1.1, 1.1  # margins of s, of s after t < 1, and of s_V
DENORMAL = 1e-300  # below, what is owed is nothing


class Given(NamedTuple):
    """What the steps of all rows have in common."""

    problem: Problem
    column: float
    shift: float  # of the intercept
    scale: float  # 1 / (reg n)
    batch: int
    late: float  # rho over s_V, ...
    most_rho: float  # ... and at most


class SharedByThreads(NamedTuple):
    """What the threads of a step share."""

    first: WholeNumbers  # (parts + 1,) column that each thread's begin with
    before: Vector  # (B,) dual variables, ...
    delta: Vector  # (B,) their steps, ...
    step: Vector  # (B,) and by how much the row is added to the weights
    sums: Matrix  # (PARTS, SUMS)
    squares: WholeNumbers  # (parts,) of the columns' moves
    arrived: WholeNumbers  # (1,) see meeting.py


@kernel
def visit_rounds(
    W: SideBySide, given: Given, shares: Shares, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState, at: Rounds, our: SharedByThreads, part: int, parts: int,
) -> tuple[float, ...]:  # fmt: skip
    """Step rounds of rows in turn, as thread `part` of `parts`.

    Returns the fields of `Rounds`, and the four sums of `visit_rows`; every thread returns the
    same.
    """
    due, totals, own = 0, np.zeros(4), np.zeros(SUMS)
    for start in range(0, order.shape[0], given.batch):
        chosen = order[start : start + given.batch]
        for k in range(part, PARTS, parts):
            low, high = chosen.shape[0] * k // PARTS, chosen.shape[0] * (k + 1) // PARTS
            step_rows(W, given, shares, rows, y, weight, chosen, low, high, row_state, at, our, k)
        due = meet_all(our, due, parts)
        for n in range(SUMS):
            own[n] = 0.0
            for k in range(PARTS):
                own[n] += our.sums[k, n]
        for n in range(4):
            totals[n] += own[n]

        whole, low, high = WHOLE / max(own[LENGTH] ** 2, TINY), our.first[part], our.first[part + 1]
        our.squares[part] = add_round(rows, chosen, our.step, W, low, high, whole)
        constant = given.column * own[STEPS]  # what the constant column moves
        if part == 0:
            W[W.shape[0] - 1, RUNNING] += constant
        due = meet_all(our, due, parts)
        square = constant * constant + whole_sum(our.squares, parts) / whole
        t = share(at, given, own, square)
        end_round(rows, chosen, t - 1.0, W, low, high)
        if t < 1.0:
            if part == 0:
                W[W.shape[0] - 1, RUNNING] += (t - 1.0) * constant
            shorten(given, chosen, row_state, our, part, parts, t)
            due = meet_all(our, due, parts)
        at = measured(at, given, own, square, t)
    return (
        at.common, at.owed, at.across, at.along, at.rho, at.U, at.R, at.G, at.S,
        totals[0], totals[1], totals[2], totals[3],
    )  # fmt: skip


@part_of_kernels
def meet_all(our: SharedByThreads, due: int, parts: int) -> int:
    """Wait for the other threads, if there are any."""
    if parts > 1:
        due += parts
        meet(our.arrived, due)
    return due


@part_of_kernels
def step_rows(
    W: SideBySide, given: Given, shares: Shares, rows: Rows, y: PerRow, weight: PerRow,
    chosen: Order, low: int, high: int, row_state: RowState, at: Rounds, our: SharedByThreads,
    part: int,
) -> None:  # fmt: skip
    """Step low <= k < high of a round's rows, predicted by the weights that it began with."""
    loss, column, d = given.problem.loss, given.column, W.shape[0] - 1
    f = at.along / at.rho - at.across
    for n in range(SUMS):
        our.sums[part, n] = 0.0
    for k in range(low, high):
        i = chosen[k]
        prefetch_row(rows, y, weight, chosen, k)
        prefetch_resident(row_state, chosen, k)
        a, c, s = dual_variable(row_state, i, shares), weight[i], direction(loss, y[i])
        p_start, p, along = dot_three(rows, i, W)
        along += column * W[d, SHARED]
        p_start += column * W[d, START] + given.shift
        p += column * W[d, RUNNING] + given.shift - at.owed * along
        first, second, third, fourth = row_sums(loss, a, y[i], c, p_start, p)
        our.sums[part, 0] += first
        our.sums[part, 1] += second
        our.sums[part, 2] += third
        our.sums[part, 3] += fourth

        square, at_V = norm2(rows, i) + column * column, along * along
        q = given.scale * c * max(0.0, at.across * square + f * at_V)
        delta = dual_step(loss, a, p, y[i], q)
        step = given.scale * c * s * delta
        row_state[i, 0] = a + delta
        our.before[k], our.delta[k], our.step[k] = a, delta, step
        our.sums[part, GAIN] += c * (conjugate(loss, a, y[i]) - conjugate(loss, a + delta, y[i]))
        our.sums[part, LINE] += step * p
        our.sums[part, T] += step * along
        our.sums[part, Q] += step * step * square
        our.sums[part, H] += step * step * at_V
        our.sums[part, LENGTH] += abs(step) * np.sqrt(square)
        our.sums[part, STEPS] += step


@part_of_kernels
def shorten(
    given: Given, chosen: Order, row_state: RowState, our: SharedByThreads, part: int, parts: int,
    t: float,
) -> None:  # fmt: skip
    """Take a share t of a round's steps: of a thread's own rows."""
    for r in range(part, PARTS, parts):
        for k in range(chosen.shape[0] * r // PARTS, chosen.shape[0] * (r + 1) // PARTS):
            row_state[chosen[k], 0] = our.before[k] + t * our.delta[k]


@part_of_kernels
def whole_sum(numbers: WholeNumbers, count: int) -> np.int64:
    """Return the sum of the first numbers."""
    total = np.int64(0)
    for k in range(count):
        total += numbers[k]
    return total


@part_of_kernels
def share(at: Rounds, given: Given, own: Vector, square: float) -> float:
    """Return the share of a round's moves in [0, 1] that is best for D, as far as is known."""
    gain = given.scale * own[GAIN] - own[LINE]
    square -= (1.0 - 1.0 / at.rho) * own[T] * own[T]
    if gain >= square:
        return 1.0
    return max(0.0, gain / square)  # type: ignore[no-any-return]


@part_of_kernels
def measured(at: Rounds, given: Given, own: Vector, square: float, t: float) -> Rounds:
    """Return what the next round is stepped with."""
    at_V, most = own[T] * own[T], np.float64(given.batch)
    U = (1.0 - FORGETS) * at.U + FORGETS * (square - at_V)
    R = (1.0 - FORGETS) * at.R + FORGETS * (own[Q] - own[H])
    G = (1.0 - FORGETS) * at.G + FORGETS * at_V
    S = (1.0 - FORGETS) * at.S + FORGETS * own[H]
    s, s_V = at.across, at.along
    if R > 0.0:
        s = (AFTER_SHARE if t < 1.0 else ACROSS) * U / R
    if S > 0.0:
        s_V = ALONG * G / S
    s = min(max(1.0, s), most)
    s_V = min(max(s, s_V), most)
    rho = max(1.0, min(given.late * s_V, given.most_rho))
    owed = (at.owed + t * own[T]) * (1.0 - 1.0 / at.rho)
    if abs(owed) < DENORMAL:
        owed = 0.0
    return Rounds(at.common, owed, s, s_V, rho, U, R, G, S)
