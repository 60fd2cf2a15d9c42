"""Newton's method for penalties that set weights to 0: l1, elastic net and groups, any columns.

H is of a working set of columns only: working_set.py has the state and its steps,
working_set_sums.py what a pass sums.  The method begins at given weights, or at those of the first
rows: before the first pass a block's first rows are fitted in memory, to a rough gap, as the
working set of their weights is next to that of all rows, which saves passes.
docs/methods.md, section 8.1.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.batch.working_set import (
    MOST_SET,
    PATIENCE,
    SetState,
    Vector,
    absorbed,
    cut_to_set,
    has_every_column,
    l1_of,
    next_set,
    point_of,
    refuse_full,
)
from fewpass.solvers.batch.working_set_sums import SET_SUMS, SetPart, add_sums, no_sums
from fewpass.solvers.gradient import Bounds
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.penalties import Penalty
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    Method,
    ProblemStats,
    Reduce,
    Sweep,
    Walk,
    Weights,
)

FIRST_SHARE, FIRST_ROWS = 16, 500  # every sixteenth row, but so many
START_GAP, START_PASSES = 1e-2, 40


def first_set_state(problem: Problem, stats: ProblemStats) -> SetState:
    """Return zero weights, and all columns if they are few."""
    x = np.append(np.zeros(stats.d), problem.level)
    every = np.full(stats.d, has_every_column(stats.d))
    return SetState(x, np.zeros_like(x), every, Bounds(), rows_left=rows_of_start(stats.n))


def started_at(penalty: Penalty, state: SetState, x: Vector) -> SetState:
    """Return a first state at given weights (d + 1,), with no more of them than W has room for."""
    w = x[:-1]
    cut_to_set(penalty, w)
    return state._replace(x=x, chosen=next_set(penalty, w, w), rows_left=0)


def rows_of_start(n: int) -> int:
    """Return how many rows the start is made of; 0: too few for one."""
    m = max(FIRST_ROWS, n // FIRST_SHARE)
    return m if m <= n // 2 else 0


def started(problem: Problem, stats: ProblemStats, state: SetState, block: Block) -> SetState:
    """Return the state at weights of a block's first rows, with their working set.

    l1 is larger by the root of rows to all rows, as the noise of a gradient is.
    """
    if not state.rows_left:
        return state
    order = np.ascontiguousarray(block.order[: state.rows_left])
    few = stats._replace(n=order.shape[0], columns=None)
    noisier = math.sqrt(stats.n / order.shape[0])
    l1 = noisier * l1_of(problem.penalty)
    penalty = problem.penalty._replace(l1=l1)  # type: ignore[attr-defined]
    rough, rows = problem._replace(penalty=penalty), block._replace(order=order)
    sample = started(rough, few, first_set_state(rough, few), rows)
    for _ in range(START_PASSES):
        at = point_of(sample)
        sample = absorbed(rough, few, sample, add_sums(rough, at, rows, no_sums(at)))
        if sample.bounds.certificate.relative <= START_GAP or sample.n_full_passes > PATIENCE:
            break
    fresh = first_set_state(problem, stats)
    return fresh._replace(x=sample.x, chosen=sample.chosen | fresh.chosen, rows_left=0)


def first_of(_problem: Problem, _stats: ProblemStats, states: list[SetState]) -> SetState:
    """Return the first stream's start: one is enough."""
    return states[0]


def nothing_to_say(_state: SetState) -> dict[str, float]:
    """Return no metrics: a start is no progress to draw."""
    return {}


def rows_left(state: SetState) -> int:
    """Return how many rows the start is made of."""
    return state.rows_left


def needs_no_start(state: SetState) -> bool:
    """Return whether a state has weights to begin with, or begins at 0."""
    return state.rows_left == 0


#: Weights of the first rows, before the first pass with an l1 penalty.
WALK_OF_FIRST_ROWS = Walk(
    name="walk-first-rows",
    step=started,
    join=first_of,
    order="stored",
    metrics=nothing_to_say,
    rows=rows_left,
    skips=needs_no_start,
)


class WorkingSetNewton(Method):
    """Newton's method on a working set of columns."""

    needs: ClassVar[Needs] = Newton.needs._replace(most_columns=None)
    states: ClassVar[tuple[type, ...]] = (SetState,)
    scale_free: ClassVar[bool] = True
    kind: Literal["newton"] = "newton"

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        sums = Reduce(SET_SUMS, point_of, self.absorb)
        return (WALK_OF_FIRST_ROWS, sums) if epoch == 0 else (sums,)

    def first_state(self, problem: Problem, stats: ProblemStats) -> SetState:
        return first_set_state(problem, stats)

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, _rows_before: int
    ) -> SetState:
        return started_at(problem.penalty, self.init(problem, stats), np.append(*weights))

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of two vectors, and of the matrix of a reduction."""
        return super().state_bytes(problem, stats) + 8 * (min(stats.d, MOST_SET) + 1) ** 2

    def absorb(
        self, problem: Problem, stats: ProblemStats, state: SetState, total: SetPart, _sweep: int
    ) -> SetState:
        """Accept the point of a pass or not, and take the next step."""
        moved = absorbed(problem, stats, state, total)
        refuse_full(moved)
        return moved

    def certificate(self, state: SetState) -> Certificate | None:
        """Return the bounds, and of how many columns it is proven that their weight is 0."""
        if state.evaluations == 0:
            return None
        return state.bounds.certificate._replace(zeros=state.zeros)

    def weights(self, state: SetState) -> Weights:
        """Return the newest accepted point."""
        return Weights(state.x[:-1].copy(), float(state.x[-1]))
