"""Running a method over blocks of rows, without storage, threads or Dask.

`visit` steps a state over some blocks; every walk of this project uses it.  `sweeps` runs whole
programs over rows in memory: of models that lam or a form is chosen by (`models_within`), of
SIMBA's pilot, in tests and benchmarks.  `pipeline/training` does the same out of core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import (
    Block,
    Diverged,
    Part,
    ProblemStats,
    Reduce,
    Solver,
    State,
    Sum,
    Sweep,
    Walk,
    Weights,
    row_versions,
    rows_visited,
    with_row_version,
)
from fewpass.solvers.tasks import States, Task

#: (sweep, turn) -> the rows to visit, in one array or in one per window.
Orders = Callable[[int, int], NDArray[np.int64] | list[NDArray[np.int64]]]
RowState = NDArray[np.float64]  # (n,), or (n, k) for k > 1 numbers a row; (0,) without them

Step = Callable[[Problem, ProblemStats, State, Block], State]

NO_ROW_STATE = np.empty(0)
ZEROS = -1  # the version of the numbers per row before any sweep wrote them
MOST_RESTARTS = 30  # on the same rows


class AfterSweep(NamedTuple):
    """The state of a run after a sweep."""

    passes: float  # rows visited / number of rows
    sweep: Sweep
    state: State


def permutations(n: int, seed: int = 0) -> Orders:
    """Return orders in which every turn through the rows is a new permutation."""
    return lambda sweep, turn: np.random.default_rng([seed, sweep, turn]).permutation(n)


def visit(
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    state: State,
    blocks: Iterable[Block],
    *,
    in_place: bool = False,
    step: Step | None = None,
) -> tuple[State, int]:
    """Return the state after these blocks, or after the first with divergence, and the row count.

    Parameters
    ----------
    in_place
        Whether to modify the given state instead of a copy, where its models stay apart.
    step
        Replaces the walk's own step.
    """
    if not (in_place and walk.only_copied(state)):
        state = walk.enter(state)
    step, rows = step or walk.step, 0
    for block in blocks:
        rows += rows_visited(walk, state, block)
        state = step(problem, stats, state, block)
        if walk.diverged(state):
            break
    return walk.leave(state), rows


def visit_again(
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    state: State,
    blocks: Sequence[Block],
    *,
    in_place: bool = False,
    step: Step | None = None,
    on_restart: Callable[[State], None] = lambda _: None,
) -> tuple[State, int]:
    """Do the same, restarting from the state that the walk recovers after divergence.

    `on_restart` is called with that state.  Raises Diverged after MOST_RESTARTS restarts.
    """
    for _attempt in range(MOST_RESTARTS):
        state, rows = visit(walk, problem, stats, state, blocks, in_place=in_place, step=step)
        if not walk.diverged(state):
            return state, rows
        state = walk.recover(problem, stats, state)
        on_restart(state)
    raise Diverged(
        f"The loss explodes on {rows} rows whatever the step. Scale the columns, or raise `lam`."
    )


def add_up(what: Sum, problem: Problem, at: Any, blocks: Sequence[Block]) -> Part:
    """Return the sum of a reduction over blocks, evaluated at `at`."""
    part = what.zero(at)
    for block in blocks:
        part = what.add(problem, at, block, part)
    return part


def sweeps(
    solver: Solver,
    problem: Problem,
    stats: ProblemStats,
    block: Block,
    orders: Orders | None = None,
) -> Iterator[AfterSweep]:
    """Yield the state after every sweep, without end.

    The next sweep may modify that state in place.  Every walk visits the rows of `block` in new
    permutations, unless `orders` is given.  After a walk that diverged, the method restarts from
    the state returned by `recover`.
    """
    numbers = solver.row_state_size(stats)
    drive = _Drive(problem, stats, block, orders or permutations(stats.n, stats.seed), numbers)
    state, epoch, number, visited = solver.init(problem, stats), 0, 0, 0
    while True:
        diverged = False
        for sweep in solver.program(epoch):
            if isinstance(sweep, Walk) and sweep.skips is not None and sweep.skips(state):
                continue
            if isinstance(sweep, Reduce):
                state, rows = drive.reduce(sweep, state, number), stats.n
            else:
                state, rows = drive.walk(sweep, state, number)
                diverged = sweep.diverged(state)
                state = sweep.recover(problem, stats, state) if diverged else state
            number, visited = number + 1, visited + rows
            drive.forget(state)
            yield AfterSweep(visited / stats.n, sweep, state)
            if diverged:
                break
        epoch = 0 if diverged else epoch + 1


def models_within(
    solver: Solver, tasks: Sequence[Task], problem: Problem, stats: ProblemStats, block: Block,
    tol: float, most_passes: float,
) -> list[Weights]:  # fmt: skip
    """Return every task's model, trained side by side to a relative gap, or to `most_passes`."""
    models = MultiModel(solver, tuple(tasks), tol)
    if len(tasks) == 1:  # as it is alone
        own = block._replace(y=tasks[0].targets(block.y))
        after = sweeps(solver, tasks[0].problem(problem), stats, own)
    else:
        after = sweeps(models, problem, stats, block)
    for passes, _, state in after:
        each = state.models if isinstance(state, States) else (state,)
        if passes >= most_passes or all(map(models.is_converged, range(len(each)), each)):
            return [solver.weights(one) for one in each]
    raise AssertionError("sweeps have no end")


class _Drive:
    """Rows in memory, and the versions of the numbers per row that states refer to."""

    def __init__(
        self, problem: Problem, stats: ProblemStats, block: Block, orders: Orders, numbers: int
    ) -> None:
        self._problem, self._stats, self._block = problem, stats, block
        self._orders = orders
        self._shape = (stats.n,) if numbers == 1 else (stats.n, numbers)
        self._kept: dict[int, RowState] = {ZEROS: np.zeros(self._shape)}

    def reduce(self, sweep: Reduce, state: State, number: int) -> State:
        """Sum over all rows in their order; return the state after `absorb`."""
        values, use = NO_ROW_STATE, sweep.sum.row_state
        if use == "write":
            values = self._kept[number] = np.empty(self._shape)
        elif use == "read":
            values = self._row_state(state)
        stored = self._block._replace(order=np.arange(self._stats.n), row_state=values)
        total = add_up(sweep.sum, self._problem, sweep.at(state), [stored])
        return sweep.absorb(self._problem, self._stats, state, total, number)

    def walk(self, sweep: Walk, state: State, number: int) -> tuple[State, int]:
        """Walk over the rows; return the state and the number of rows visited."""
        values = NO_ROW_STATE if sweep.row_state == "none" else self._row_state(state)
        if sweep.row_state == "update":
            values = self._kept[number] = values.copy()
        visited = turn = 0
        while turn == 0 if sweep.rows is None else sweep.rows(state) > 0:
            drawn = self._orders(number, turn)
            for order in drawn if isinstance(drawn, list) else [drawn]:
                window = self._block._replace(order=order, row_state=values)
                state, rows = visit(
                    sweep, self._problem, self._stats, state, [window], in_place=True
                )
                visited += rows
                if sweep.diverged(state):
                    return state, visited
            turn += 1
        state = sweep.join(self._problem, self._stats, [state])
        return with_row_version(state, number) if sweep.row_state == "update" else state, visited

    def forget(self, state: State) -> None:
        """Drop the versions of the numbers per row that no later state can refer to."""
        needed = (ZEROS, *row_versions(state))
        self._kept = {version: self._kept[version] for version in self._kept if version in needed}

    def _row_state(self, state: State) -> RowState:
        (version,) = set(row_versions(state))  # several models have the same one
        return self._kept[version]
