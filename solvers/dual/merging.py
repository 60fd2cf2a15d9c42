"""Several streams of dual ascent, whose moves are added up m times a pass.

All streams begin a round at the same weights w and step rows of their own.  Each counts its own
moves s times, and s_V / rho times along the direction V that rows share, as the others go the same
way; what all moved along V is owed, and paid out over the next rho rounds.  These factors are
measured at every merge, as in rounds of rows (rounds.py).  There are as many merges as there are
windows for; with fewer than 16 a pass, passes are more.

A stream's steps are the best for its own objective, so what they gain is at least half of what it
counted, and D does not fall where all moves are shortened to t times the square that they have
together is no more than the streams counted:

    t = min(1, (s sum ||u_k||^2 + f sum g_k^2) / (||u||^2 - (1 - 1/rho) T^2)),    f = s_V / rho - s

u_k are the moves of stream k, g_k = V . u_k, u and T their sums.  The next pass reads t by the
round that a row was in.  An l1 penalty and several scores go without V.

A merge goes through the columns that rows of the round have, and no others.

Sources: Ma et al. 2015, "Adding vs. Averaging in Distributed Primal-Dual Optimization", for adding
and for s; docs/methods.md, section 7.14, for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import ALONG_ROW
from fewpass.solvers.dual.rounds_steps import BITES, next_factors
from fewpass.solvers.dual.sdca_state import EMPTY, FIRST_S, MOST_FIRST, RUNNING, Rounds, SdcaState
from fewpass.solvers.dual.sdca_steps import ALONE, Counted
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import (
    DenseRows,
    Rows,
    add_vector,
    cell,
    dot_vector,
    end_cell,
    first_cell,
)
from fewpass.solvers.kernels.shapes import Matrix, Order, PerColumn, RowState, WholeNumbers
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, ProblemStats, add_parts


@dataclass(frozen=True)
class Moves:
    """Distances that columns moved, constant column included; all others did not."""

    columns: NDArray[np.int64]  # (t,), rising
    by: NDArray[np.float64]  # (t, 1), or (t, wide)

    def __add__(self, other: Self) -> Moves:
        return Moves(*summed(self.columns, self.by, other.columns, other.by))


class StreamMoves(NamedTuple):
    """Sums that a stream adds to a merge; parts add."""

    moves: Moves
    added: NDArray[np.float64]  # (d + 1,) rows of its first window; (0,) once V is there
    rows: int  # of these, so far
    square: float  # ||u_k||^2
    along: float  # g_k
    along_square: float


class Lag(NamedTuple):
    """Over how many rounds moves along V are paid out."""

    curvature: float  # of the loss over reg n
    most_rho: float  # rounds, at most


AT_ONCE = Lag(0.0, 1.0)


def counted_by(state: SdcaState, stats: ProblemStats) -> Counted:
    """Return how a stream counts its own moves."""
    if stats.streams == 1:
        return ALONE
    at, merges = state.proximal.rounds, state.merges
    if at.across == 0.0:  # the first round
        return Counted(float(stats.streams), 0.0, 0.0, 0.0, float(merges.done))
    ratio = (at.along / at.rho / at.across - 1.0) if len(at.V) else 0.0
    return Counted(at.across, ratio, at.owed, merges.moved, float(merges.done))


def note_rows(
    state: SdcaState, stats: ProblemStats, block: Block, column: float, row_state: RowState
) -> SdcaState:
    """Note which columns a block's rows have, and what they have along V.

    Rows of the first block of all are added up.
    """
    at, merges = state.proximal.rounds, state.merges
    if stats.streams == 1:
        return state
    if stats.rows_kind is DenseRows:
        merges.touched[:] = True
    else:
        note_columns(merges.touched, block.rows, block.order)
    if not len(at.V):
        return state
    if at.across == 0.0:
        if merges.looked == 0:
            add_rows(at.V, column, block.rows, block.order)
            return state._replace(merges=merges._replace(looked=len(block.order)))
    elif state.passes <= at.since + 1:
        note_along(at.V, column, block.rows, block.order, row_state)
    return state


@kernel
def note_columns(touched: NDArray[np.bool_], rows: Rows, order: Order) -> None:
    """Note the columns that rows have."""
    for i in order:
        for n in range(first_cell(rows, i), end_cell(rows, i)):
            touched[cell(rows, i, n)[0]] = True


@kernel
def summed(
    left: WholeNumbers, by: Matrix, right: WholeNumbers, further: Matrix
) -> tuple[WholeNumbers, Matrix]:
    """Return all columns of two rising lists, and what they moved by together."""
    most = left.shape[0] + right.shape[0]
    columns, total = np.empty(most, np.int64), np.zeros((most, by.shape[1]))
    n, a, b = 0, 0, 0
    while a < left.shape[0] or b < right.shape[0]:
        first = b == right.shape[0] or (a < left.shape[0] and left[a] <= right[b])
        second = a == left.shape[0] or (b < right.shape[0] and right[b] <= left[a])
        columns[n] = left[a] if first else right[b]
        for k in range(by.shape[1]):
            total[n, k] = (by[a, k] if first else 0.0) + (further[b, k] if second else 0.0)
        n, a, b = n + 1, a + first, b + second
    return columns[:n], total[:n]


@kernel
def square_of_all(by: Matrix) -> float:
    """Return the sum of squares, column after column: columns of zeros change no bit."""
    total = 0.0
    for n in range(by.shape[0]):
        for k in range(by.shape[1]):
            total += by[n, k] * by[n, k]
    return total


@kernel
def add_rows(V: PerColumn, column: float, rows: Rows, order: Order) -> None:
    """Add rows to V, constant column included."""
    d = V.shape[0] - 1
    for i in order:
        add_vector(rows, i, 1.0, V)
        V[d] += column


@kernel
def note_along(V: PerColumn, column: float, rows: Rows, order: Order, row_state: RowState) -> None:
    """Note V . x_i of every row."""
    d = V.shape[0] - 1
    for i in order:
        row_state[i, ALONG_ROW] = dot_vector(rows, i, V) + column * V[d]


def moves_of(_problem: Problem, stats: ProblemStats, state: SdcaState) -> StreamMoves:
    """Return what a stream's state adds to a merge."""
    counted, at, merges = counted_by(state, stats), state.proximal.rounds, state.merges
    columns = np.flatnonzero(merges.touched)
    by = (state.W[columns, RUNNING] - merges.begin[columns]) / counted.sigma_prime
    moves, along = Moves(columns, by.reshape(len(columns), -1)), merges.moved / counted.sigma_prime
    added, rows = (at.V, merges.looked) if at.across == 0.0 else (EMPTY, 0)
    return StreamMoves(moves, added, rows, square_of_all(moves.by), along, along * along)


def merged(stats: ProblemStats, state: SdcaState, total: StreamMoves, lag: Lag) -> SdcaState:
    """Return a stream's state, at the weights that all streams' moves make, in place."""
    at, merges, counted = state.proximal.rounds, state.merges, counted_by(state, stats)
    columns, u = total.moves.columns, total.moves.by
    s, begin = counted.sigma_prime, merges.begin
    square, T = square_of_all(u), total.along
    wanted = square - (1.0 - 1.0 / at.rho) * T * T
    allowed = s * (total.square + counted.ratio * total.along_square)
    t = 1.0 if allowed >= wanted else allowed / wanted
    if t < 1.0 and state.adding:
        own = state.W[columns, RUNNING] - begin[columns]
        state.fresh[columns] -= (1.0 - t) / s * own
    begin[columns] += t * u.reshape(len(u), *begin.shape[1:])
    state.W[columns, RUNNING] = begin[columns]
    merges.taken[merges.done] = t
    merges.touched[columns[:-1]] = False
    merges = merges._replace(done=merges.done + 1, moved=0.0)
    if at.across == 0.0 and len(at.V):
        rounds = first_factors(state, total, stats.streams)
    else:
        squares = square - T * T, total.square - total.along_square, T * T, total.along_square
        owed = (at.owed + t * T) * (1.0 - 1.0 / at.rho)
        late = min(1.0, lag.curvature * at.common / BITES)
        before = at._replace(across=s, along=max(s, at.along), owed=owed)
        rounds = next_factors(before, squares, t, stats.streams, late, lag.most_rho)
    return state._replace(merges=merges, proximal=state.proximal._replace(rounds=rounds))


def first_factors(state: SdcaState, total: StreamMoves, streams: int) -> Rounds:
    """Return V, and the factors that the second round begins with."""
    at, size = state.proximal.rounds, float(np.linalg.norm(total.added))
    at.V[:] = total.added / size if size > 0.0 else 0.0
    across, along = float(min(FIRST_S, streams)), float(min(MOST_FIRST, streams))
    common = (size / total.rows) ** 2 if total.rows else 0.0  # at least: of the mean row
    return at._replace(since=state.passes, common=common, across=across, along=along)


def merged_at_end(
    problem: Problem, stats: ProblemStats, states: list[SdcaState], lag: Lag
) -> SdcaState:
    """Make one state of the streams', whose moves since the last merge are added as in a merge."""
    parts = [moves_of(problem, stats, state) for state in states]
    total = reduce(add_parts, parts)
    ends = [merged(stats, state, total, lag) for state in states]
    if ends[0].adding:
        ends[0].fresh[:] = np.sum([end.fresh for end in ends], axis=0)
    return ends[0]._replace(sums=reduce(add_parts, (end.sums for end in ends)))
