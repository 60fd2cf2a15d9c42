"""A method run on rows in memory, sweep by sweep, without storage or Dask.

What `pipeline` does out of core in a few lines of Python: for benchmarks of the methods themselves
and for tests, which compare it with the pipeline's own runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from pipeline.streaming.mixing import mixed
from solvers.losses import Problem
from solvers.protocol import Block, Facts, Gather, Solver, Walk
from solvers.rows import DenseRows, SparseRows

Orders = Callable[[int, int], np.ndarray]  # sweep and turn -> the rows to visit


def block_of(X, y: np.ndarray) -> Block:
    """Rows of a NumPy array or a SciPy CSR matrix, all of weight 1."""
    if isinstance(X, np.ndarray):
        rows: Any = DenseRows(np.ascontiguousarray(X))
    else:
        rows = SparseRows(X.data, X.indices.astype(np.uint32), X.indptr.astype(np.int64))
    return Block(rows, np.asarray(y, float), np.ones(len(y)), np.arange(len(y)), np.empty(0))


def facts_of(X, y: np.ndarray, seed: int = 0) -> Facts:
    """What ingest would measure of these rows, sigma^2 exactly."""
    squares = (X**2).sum(axis=1) if isinstance(X, np.ndarray) else X.multiply(X).sum(axis=1).A1
    n, d = X.shape
    spread = float(svds(X, k=1, return_singular_vectors=False, random_state=0)[0]) ** 2 / n
    return Facts(
        n=n, d=d, rows_kind=DenseRows if isinstance(X, np.ndarray) else SparseRows,
        mean_square=float(squares.mean()), max_square=float(squares.max()), max_weight=1.0,
        stream_rows=n, shuffled=True, target_square=float(np.mean(np.square(y))),
        sigma_square=spread, streams=1, seed=seed,
    )  # fmt: skip


class Moment(NamedTuple):
    """Where a run stands after a sweep."""

    passes: float  # rows visited over rows
    sweep: Walk | Gather
    state: Any


def permutations(n: int, seed: int = 0) -> Orders:
    """Every turn through the rows is a new permutation."""
    return lambda sweep, turn: np.random.default_rng([seed, sweep, turn]).permutation(n)


def mixtures(n: int, seed: int = 0) -> Orders:
    """Every turn through the rows is an order as later passes of a training draw it."""
    return lambda sweep, turn: mixed(np.arange(n), np.random.default_rng([seed, sweep, turn]))


def independent(n: int, seed: int = 0) -> Orders:
    """Every row is drawn anew from all, as the theory assumes."""
    return lambda sweep, turn: np.random.default_rng([seed, sweep, turn]).integers(n, size=n)


def sweeps(
    solver: Solver, problem: Problem, facts: Facts, block: Block, orders: Orders | None = None
) -> Iterator[Moment]:
    """Yield the state after every sweep; it is worked on in place when the next is asked for.

    Where a walk says that it diverged, the method begins again from the state that it gives.
    """
    n, epoch, number, passes = facts.n, 0, 0, 0.0
    orders = orders or permutations(n, facts.seed)
    state = solver.init(problem, facts)
    kept = {-1: np.zeros(n)}  # versions of the numbers kept per row
    while True:
        for sweep in solver.program(epoch):
            if isinstance(sweep, Gather):
                state, visited = _gather(sweep, problem, facts, state, block, kept, number), n
            else:
                state, visited = _walk(sweep, problem, facts, state, block, kept, number, orders)
            number, passes = number + 1, passes + visited / n
            if not isinstance(sweep, Gather) and sweep.diverged(state):
                state, epoch = sweep.recover(problem, facts, state), -1
            needed = (-1, getattr(state, "row_version", -1))
            kept = {version: values for version, values in kept.items() if version in needed}
            yield Moment(passes, sweep, state)
            if epoch == -1:
                break
        epoch += 1


def _gather(sweep, problem, facts, state, block, kept, number):
    values = np.empty(0)
    if sweep.sum.row_state == "write":
        values = kept[number] = np.empty(facts.n)
    elif sweep.sum.row_state == "read":
        values = kept[state.row_version]
    at = sweep.at(state)
    stored = block._replace(order=np.arange(facts.n), row_state=values)
    total = sweep.sum.add(problem, at, stored, sweep.sum.zero(at))
    return sweep.absorb(problem, facts, state, total, number)


def _walk(sweep, problem, facts, state, block, kept, number, orders):
    values = np.empty(0)
    if sweep.row_state != "none":
        values = kept[state.row_version]
    if sweep.row_state == "update":
        values = kept[number] = values.copy()
    visited = turn = 0
    while turn == 0 if sweep.rows is None else sweep.rows(state) > 0:
        wanted = facts.n if sweep.rows is None else sweep.rows(state)
        order = orders(number, turn)
        state = sweep.step(problem, facts, state, block._replace(order=order, row_state=values))
        visited, turn = visited + min(wanted, facts.n), turn + 1
        if sweep.diverged(state):
            return state, visited
    state = sweep.join(problem, facts, [state])
    return (state._replace(row_version=number) if sweep.row_state == "update" else state), visited
