"""Rounds of `psdca`: a few hundred rows, all predicted by the same weights, in threads or not.

Their moves are added up.  Where many of them point the same way each must count on the others':
by a factor s of its square, measured from round to round.  One direction V, about the mean row, has
nearly all that rows have in common, and would make every s as large as that.  So moves along V have
a factor s_V of their own, and are paid out over the next rho rounds: rows are predicted by
w - owed V, which stands for the weights where a pass is evaluated.  What a row has along V is kept
next to its dual variable.  A round that might lower D is shortened, as far as is best by concavity.

How many threads step a round is in no bit of the result.

Source: docs/methods.md, section 7.14; papers/rounds_of_lanes.py has it in plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import per_row
from fewpass.solvers.dual.rounds_columns import SharedByThreads
from fewpass.solvers.dual.rounds_steps import PARTS, SUMS, Given, visit_rounds
from fewpass.solvers.dual.sdca_state import (
    FIRST_S,
    MOST_FIRST,
    RUNNING,
    Rounds,
    SdcaState,
    count_rows,
)
from fewpass.solvers.dual.shrinking import visit_moving_rows
from fewpass.solvers.estimates.spectrum import largest_eigenvector
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.meeting import GIVEN_UP
from fewpass.solvers.kernels.rows import Rows, SparseRows, add_vector
from fewpass.solvers.kernels.shapes import Order, PerColumn, PerRow, RowState, Shares
from fewpass.solvers.losses import Loss, direction
from fewpass.solvers.protocol import Block

LAG = 4.0  # passes' rounds over the largest rho: rows answer a move only when they are visited
SAMPLED = 1 << 14  # of the rows' values, whose columns tell how to share columns


def begin_rounds(state: SdcaState, block: Block, column: float, batch: int) -> SdcaState:
    """Find V, from the first rows of the first window, and where s begins."""
    d = state.W.shape[0] - 1
    common, V = largest_eigenvector(block.rows, block.weight, d, block.order, column)
    first = Rounds(
        V, state.passes, common, across=min(FIRST_S, float(batch)),
        along=min(MOST_FIRST, float(batch)),
    )  # fmt: skip
    return state._replace(proximal=state.proximal._replace(rounds=first))


def step_in_rounds(
    state: SdcaState, given: Given, block: Block, most_again: int, key: list[int], threads: int
) -> SdcaState:
    """Step the rows of a block, and those that moved up to `most_again` times again."""
    row_state, at = per_row(block), state.proximal.rounds
    if state.sums.rows == 0:  # the centre has moved
        w = state.W[:-1, RUNNING]
        at = at._replace(size=float(w @ w))
    duals, more = row_state[:, 0], state.sums.extra_visits
    before = state.shares[0] * duals
    with StepThreads(block.rows, state.W.shape[0] - 1, given.batch, threads) as together:
        at, sums = _stepped(state, given, state.shares, block, at, together)
        state = count_rows(state, len(block.order), *sums)

        def visit(order: NDArray[np.int64]) -> float:
            nonlocal at
            again = block._replace(order=order)
            at, (*_, brackets) = _stepped(state, given, np.ones(1), again, at, together)
            return brackets

        if most_again:
            active = block._replace(row_state=duals)
            more += visit_moving_rows(visit, active, before, most_again, state.passes, key)
    if state.adding:
        add_duals(state.fresh, given.problem.loss, given.column, given.scale, *block[:4], row_state)
    return state._replace(
        proximal=state.proximal._replace(rounds=at), sums=state.sums._replace(extra_visits=more)
    )


def _stepped(
    state: SdcaState, given: Given, shares: Shares, block: Block, at: Rounds, together: StepThreads
) -> tuple[Rounds, tuple[float, ...]]:
    """Step the rows of a block once."""
    inputs = (state.W, given, shares, *block[:4], per_row(block), at)
    numbers = together.call(partial(visit_rounds, *inputs))
    return Rounds(at.V, at.since, *numbers[:-4]), numbers[-4:]


class StepThreads:
    """The threads that step a block together, once or again and again."""

    def __init__(self, rows: Rows, d: int, batch: int, threads: int) -> None:
        self._threads = max(1, min(threads, PARTS))
        self._our = shared_memory(rows, d, batch, self._threads)
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown()

    def call(self, go: Callable[[SharedByThreads, int, int], Any]) -> Any:
        """Call a kernel once in each thread, all of which meet inside it."""
        self._our.arrived[0] = 0
        if self._pool is None:
            return go(self._our, 0, 1)
        try:
            every = range(self._threads)
            calls = [self._pool.submit(go, self._our, part, self._threads) for part in every]
            done, _ = wait(calls, return_when=FIRST_EXCEPTION)
            first, *_ = [call.result() for call in done]
        except BaseException:
            self._our.arrived[0] = GIVEN_UP
            raise
        return first


def shared_memory(rows: Rows, d: int, batch: int, threads: int) -> SharedByThreads:
    """Return memory for a step, and each thread's columns: of about as many values each."""
    sparse, first = isinstance(rows, SparseRows), d * np.arange(threads + 1) // threads
    if isinstance(rows, SparseRows) and threads > 1 and len(rows.indices):
        sampled = np.sort(rows.indices[:: 1 + len(rows.indices) // SAMPLED])
        first[1:-1] = sampled[len(sampled) * np.arange(1, threads) // threads]
    return SharedByThreads(
        first=first, cuts=np.empty((batch * sparse, threads + 1), np.int64),
        move=np.empty(0 if sparse else d), before=np.empty(batch), delta=np.empty(batch),
        step=np.empty(batch), sums=np.empty((PARTS, SUMS)), squares=np.empty(threads, np.int64),
        arrived=np.zeros(1, np.int64),
    )  # fmt: skip


def owed_after(state: SdcaState, z: NDArray[np.float64], before: Any, after: Any) -> float:
    """Return what is owed along V once reg is another, so that predictions along V stay."""
    rounds = state.proximal.rounds  # columns are pulled alike
    if not len(rounds.V) or rounds.across == 0.0 or before == after:
        return rounds.owed
    moved = (1.0 - before / after) * (z - state.W[:, RUNNING])
    return rounds.owed + float(rounds.V @ moved)


@kernel
def add_duals(
    fresh: PerColumn, loss: Loss, column: float, scale: float, rows: Rows, y: PerRow,
    weight: PerRow, order: Order, row_state: RowState,
) -> None:  # fmt: skip
    """Add rows to w(a), constant column included."""
    d = fresh.shape[0] - 1
    for i in order:
        step = scale * weight[i] * direction(loss, y[i]) * row_state[i, 0]
        add_vector(rows, i, step, fresh)
        fresh[d] += step * column
