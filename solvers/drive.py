"""Running a method over blocks of rows, without storage, threads or Dask.

`visit` steps a state over some blocks; every walk of this project uses it.  `sweeps` runs whole
programs over rows in memory, for benchmarks and tests; `pipeline/training` does the same out of
core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    Block,
    ColumnMoments,
    Diverged,
    Part,
    ProblemStats,
    Reduce,
    Solver,
    State,
    Sum,
    Sweep,
    Walk,
    row_versions,
    rows_visited,
    with_row_version,
)

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


def block_of(X: Any, y: NDArray[np.float64]) -> Block:
    """Return an (n, d) NumPy array or SciPy CSR matrix as a block; every row has weight 1."""
    rows: Rows
    if isinstance(X, np.ndarray):
        rows = DenseRows(np.ascontiguousarray(X))
    else:
        rows = SparseRows(X.data, X.indices.astype(np.uint32), X.indptr.astype(np.int64))
    n = len(y)
    return Block(rows, np.asarray(y, float), np.ones(n), np.arange(n), NO_ROW_STATE)


def stats_of(X: Any, y: NDArray[np.float64], seed: int = 0) -> ProblemStats:
    """Return the statistics that ingest would measure on these rows, with the exact sigma^2."""
    from scipy.sparse.linalg import svds  # noqa: PLC0415 - a tenth of a second that trials need not

    dense = isinstance(X, np.ndarray)
    squares = (X**2).sum(axis=1) if dense else X.multiply(X).sum(axis=1).A1
    n, d = X.shape
    largest = float(svds(X, k=1, return_singular_vectors=False, random_state=0)[0])
    return ProblemStats(
        n=n, d=d, rows_kind=DenseRows if dense else SparseRows,
        mean_square=float(squares.mean()), max_square=float(squares.max()), max_weight=1.0,
        stream_rows=n, shuffled=True, target_square=float(np.mean(np.square(y))),
        sigma_square=largest**2 / n, streams=1, seed=seed, columns=cache(lambda: moments_of(X)),
    )  # fmt: skip


def moments_of(X: Any) -> ColumnMoments:
    """Return the column moments that ingest would measure on these rows."""
    n, d = X.shape
    if isinstance(X, np.ndarray):
        count, squares = (X != 0.0).sum(axis=0), (X**2).sum(axis=0)
    else:
        count = np.bincount(X.indices, X.data != 0.0, d)
        squares = np.bincount(X.indices, X.data**2, d)
    return ColumnMoments(count / n, squares / np.maximum(count, 1))


def permutations(n: int, seed: int = 0) -> Orders:
    """Return orders in which every turn through the rows is a new permutation."""
    return lambda sweep, turn: np.random.default_rng([seed, sweep, turn]).permutation(n)


def independent(n: int, seed: int = 0) -> Orders:
    """Return orders with every row drawn independently, as the theory assumes."""
    return lambda sweep, turn: np.random.default_rng([seed, sweep, turn]).integers(n, size=n)


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
        Whether to modify the given state instead of a copy.
    step
        Replaces the walk's own step.
    """
    state, step, rows = state if in_place else walk.enter(state), step or walk.step, 0
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
                several = hasattr(state, "models")  # interleaved as they are entered
                state, rows = visit(
                    sweep, self._problem, self._stats, state, [window], in_place=not several
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
