"""The steps of rounds (rounds.py), by one thread or by several at the same time, to the same bits.

Every thread goes through all rounds.  First it steps its share of the rows, then it adds all rows'
moves to its own columns.  Sums over rows are made in `PARTS` parts, whoever makes them, and added
in order.  The square of what all moved, ||u||^2, is ||w + u||^2 - ||w||^2 - 2 w . u: the columns
tell the difference on the way, and the rows w . u, so that u is never there by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.solvers.dual.duality import dual_variable, prefetch_resident
from fewpass.solvers.dual.rounds_columns import SharedByThreads, add_round, cut_row
from fewpass.solvers.dual.sdca_state import RUNNING, START, Rounds
from fewpass.solvers.dual.sdca_steps import row_sums
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.meeting import meet
from fewpass.solvers.kernels.rows import Rows, dot_both, dot_vector, norm2, prefetch_row
from fewpass.solvers.kernels.shapes import (
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
#: predictions, along w, along V, of their squares, of those along V, of lengths, and of steps.
GAIN, LINE, AT_W, T, Q, H, LENGTH, STEPS = range(4, 12)
SUMS = 12
WHOLE = 2.0**61  # what the square of the weights changes by at most, in whole numbers
ALONG_V = 1  # of the numbers per row, after its dual variable: V . x_i
TINY = 1e-290
FORGETS = 0.2  # of the four squares, in every round
ACROSS, AFTER_SHARE, ALONG = 1.05, 1.1, 1.1  # margins of s, of s after t < 1, and of s_V
BITES = 0.125  # K along V and s_V together: where it is less, rows are not stepped much shorter
DENORMAL = 1e-300  # below, what is owed is nothing


class Given(NamedTuple):
    """Numbers that the steps of all rows have in common."""

    problem: Problem
    column: float
    shift: float  # of the intercept
    scale: float  # 1 / (reg n)
    first: bool  # whether V is new, and what rows have along it is to be noted
    batch: int
    late: float  # rho over s_V, ...
    most_rho: float  # ... and at most


@kernel
def visit_rounds(
    W: SideBySide, given: Given, shares: Shares, rows: Rows, y: PerRow, weight: PerRow,
    order: Order, row_state: RowState, at: Rounds, our: SharedByThreads, part: int, parts: int,
) -> tuple[float, ...]:  # fmt: skip
    """Step rounds of rows in turn, as thread `part` of `parts`.

    Returns the numbers of `Rounds`, and the four sums of `visit_rows`; every thread returns the
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

        whole = WHOLE / max(own[LENGTH] * (2.0 * np.sqrt(at.size) + 3.0 * own[LENGTH]), TINY)
        our.squares[part] = add_round(rows, chosen, 1.0, W, our, part, whole)
        constant = given.column * own[STEPS]  # what the constant column moves
        if part == 0:
            W[W.shape[0] - 1, RUNNING] += constant
        due = meet_all(our, due, parts)
        square = max(0.0, whole_sum(our.squares, parts) / whole - 2.0 * own[AT_W])
        t = share(at, given, own, square + constant * constant)
        if t < 1.0:
            add_round(rows, chosen, t - 1.0, W, our, part, whole)
            if part == 0:
                W[W.shape[0] - 1, RUNNING] += (t - 1.0) * constant
            shorten(given, chosen, row_state, our, part, parts, t)
            due = meet_all(our, due, parts)
        at_V = own[T] * own[T]
        total = (square + constant * constant - at_V, own[Q] - own[H], at_V, own[H])
        size = max(0.0, at.size + t * (2.0 * own[AT_W] + t * square))
        owed = (at.owed + t * own[T]) * (1.0 - 1.0 / at.rho)
        at = Rounds(
            at.V, at.since, at.common, size, owed, at.across, at.along, at.rho, at.U, at.R, at.G,
            at.S,
        )  # fmt: skip
        most = np.float64(given.batch)
        at = next_factors(at, total, t, most, given.late, given.most_rho)
    return (
        at.common, at.size, at.owed, at.across, at.along, at.rho, at.U, at.R, at.G, at.S,
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
        p_start, own = dot_both(rows, i, W)
        if given.first:
            row_state[i, ALONG_V] = dot_vector(rows, i, at.V) + column * at.V[d]
        along = row_state[i, ALONG_V]
        cut_row(rows, i, k, our)
        p_start += column * W[d, START] + given.shift
        p = own + column * W[d, RUNNING] + given.shift - at.owed * along
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
        our.sums[part, AT_W] += step * own
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
def next_factors(
    at: Rounds, squares: tuple[float, float, float, float], t: float, most: float, late: float,
    most_rho: float,
) -> Rounds:  # fmt: skip
    """Return what the next round is stepped with, after a round of which a share t was taken.

    `squares` are those of all moves together and of each's, across V and along it; size and what is
    owed are new in `at` already.
    """
    U = (1.0 - FORGETS) * at.U + FORGETS * squares[0]
    R = (1.0 - FORGETS) * at.R + FORGETS * squares[1]
    G = (1.0 - FORGETS) * at.G + FORGETS * squares[2]
    S = (1.0 - FORGETS) * at.S + FORGETS * squares[3]
    s, s_V = at.across, at.along
    if R > 0.0:
        s = (AFTER_SHARE if t < 1.0 else ACROSS) * U / R
    if S > 0.0:
        s_V = ALONG * G / S
    s = min(max(1.0, s), most)
    s_V = min(max(s, s_V), most)
    rho = max(1.0, min(late * s_V, most_rho))
    owed = 0.0 if abs(at.owed) < DENORMAL else at.owed
    return Rounds(at.V, at.since, at.common, at.size, owed, s, s_V, rho, U, R, G, S)
