"""One pass of averaged SGD, and other single passes over rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.suite.workloads import load
from fewpass.pipeline.rows.windows import Window, WindowPlan, row_order
from fewpass.solvers.gradient import GRADIENT_AND_SLOPES
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import norm2, prefetch_row
from fewpass.solvers.kernels.simd.interleaved import (
    add_both_lanes,
    add_lanes,
    dot_both_lanes,
    dot_lanes,
    lanes_for,
    pack,
)
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, ProblemStats, Solver, Walk
from fewpass.solvers.s2gd.s2gd import S2gd
from fewpass.solvers.sgd.averaged_sgd import Asgd
from testing.blocks import block_of

LAM = 1e-5
LOSS_NAMES = {"hinge": "hinge", "squared_hinge": "squared_hinge", "logistic": "log_loss"}

Work = Callable[[], dict[str, Any] | None]


def problem_of(loss: str, lam: float = LAM) -> Problem:
    """The objective without an intercept."""
    return Problem(LOSSES[loss](), L2(lam), 0.0, lam)


def stats_of(X: Any) -> ProblemStats:
    """What the methods are told; steps are given, so that little of it matters."""
    kind = type(block_of(X[:1], np.ones(1)).rows)
    n, d = X.shape
    return ProblemStats(n, d, kind, 1.0, 1.0, 1.0, n, shuffled=True, target_square=1.0,
                 sigma_square=1.0, streams=1, seed=0)  # fmt: skip


def rows_of(place: str, order: str, columns: str = "source") -> tuple[Block, ProblemStats]:
    """Load a set as kernels see it, to be visited in "stored" or in "random" order.

    "few": the same 64 rows again and again, as often as there are rows.
    """
    X, y = load(Path(place))
    if columns == "frequency":  # as ingest stores it
        X = renumbered(X)
    block, known = block_of(X, y), stats_of(X)
    if order == "random":
        plan, window = WindowPlan(1, 1, 1, 0), Window((0,), "random", 0, 0)
        block = block._replace(order=row_order(plan, window, np.arange(known.n)))
    if order == "few":
        block = block._replace(order=np.arange(known.n) % 64)
    return block, known


def renumbered(X: Any) -> Any:
    """Columns in the order of how many rows have a value there, most first."""
    order = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")
    rank = np.empty(X.shape[1], np.int32)
    rank[order] = np.arange(X.shape[1], dtype=np.int32)
    X = csr_matrix((X.data, rank[X.indices], X.indptr), shape=X.shape)
    X.sort_indices()
    return X


def averaged_sgd(place: str, loss: str, order: str = "stored", columns: str = "source") -> Work:
    """Ours: the step is given, as scikit-learn's rule for it needs no search either."""
    block, known = rows_of(place, order, columns)
    solver, problem = Asgd(gamma0=0.1 if loss == "squared_hinge" else 1.0), problem_of(loss)

    def work() -> dict[str, Any]:
        state = solver.step(problem, known, solver.init(problem, known), block)
        return {"loss": state.monitor.loss_sum / state.monitor.n_monitored}

    return work


def scikit_learn(place: str, loss: str, *, shuffle: bool = False, average: bool = True) -> Work:
    """SGDClassifier on float32, one epoch without a stopping rule; input checks switched off."""
    from sklearn import config_context
    from sklearn.linear_model import SGDClassifier

    X, y = load(Path(place))
    model = SGDClassifier(loss=LOSS_NAMES[loss], alpha=LAM, average=average, shuffle=shuffle,
                          max_iter=1, tol=None, fit_intercept=False, random_state=0)  # fmt: skip

    def work() -> None:
        with config_context(assume_finite=True):
            model.fit(X, y)

    return work


def inner_step(place: str, order: str = "random", columns: str = "source") -> Work:
    """S2GD's inner loop, logistic loss: as many steps as there are rows."""
    block, known = rows_of(place, order, columns)
    problem, solver = problem_of("logistic"), S2gd(subspace=0)
    anchor, slopes = solver.init(problem, known), np.empty(known.n)
    at, what = solver.newest(anchor), GRADIENT_AND_SLOPES
    stored = block._replace(order=np.arange(known.n), row_state=slopes)
    total = what.add(problem, at, stored, what.zero(at))
    anchor = solver.absorb(problem, known, anchor, total, 0)._replace(left=known.n)
    walk = block._replace(row_state=slopes)

    def work() -> None:
        solver.step_rows(problem, known, anchor, walk)

    return work


def several(place: str, models: int, method: str, *, interleaved: bool = True,
            columns: str = "frequency") -> Work:  # fmt: skip
    """One pass of logistic models side by side, lam falling by two from one to the next."""
    from fewpass.solvers.dual.sdca import Sdca
    from fewpass.solvers.multi_model import MultiModel
    from fewpass.solvers.tasks import Task

    block, known = rows_of(place, "random", columns)
    solver: Solver = Asgd(gamma0=1.0) if method == "asgd" else Sdca()
    if models > 1:
        solver = MultiModel(solver, tuple(Task(lam=LAM * 2.0**-k) for k in range(models)))
    problem, walk = problem_of("logistic"), solver.program(0)[0]
    assert isinstance(walk, Walk)
    if not interleaved:
        walk = walk._replace(enter=lambda state: state)
    numbers = solver.row_state_size(known) if walk.row_state != "none" else 0
    kept = np.zeros((known.n, numbers)[: min(numbers, 2)]) if numbers else block.row_state

    def work() -> None:
        kept[:] = 0.0
        state = walk.enter(solver.init(problem, known))
        walk.leave(walk.step(problem, known, state, block._replace(row_state=kept)))

    return work


def lines_of_weights(place: str, models: int, method: str) -> Work:
    """Limit: the lines of memory that several models' steps touch, read and written."""
    block, known = rows_of(place, "random", "frequency")
    W, how = pack([np.zeros((known.d, 2))] * models), lanes_for(models)
    dual = method == "sdca"
    return lambda: prefetch_lines(W, how, dual, *block[:4])


@kernel
def prefetch_lines(W: Any, how: Any, dual: Any, rows: Any, y: Any, weight: Any, order: Any) -> None:
    """Read column 0 of every value's weights and add to both; dual: read both, add to column 1."""
    V, width, last = W.reshape(-1), W.shape[2], order.shape[0] - 1
    for r in range(order.shape[0]):
        i, upcoming = order[r], (order[min(r + 1, last)], 0)
        prefetch_row(rows, y, weight, order, r)
        if dual:
            first, second = dot_both_lanes(rows, i, V, width, 0, how)
            add_lanes(rows, i, (first - second) * 1e-3, V, width, how.width, upcoming, how)
        else:
            s = dot_lanes(rows, i, V, width, 0, how) * 1e-3
            add_both_lanes(rows, i, s, s, V, width, 0, upcoming, how)


def memory_read_at_random(place: str) -> Work:
    """Limit: the rows read once in the order of later passes, asked for ahead as kernels do."""
    block, _ = rows_of(place, "random")
    return lambda: {"sum": float(sum_squares(*block[:4]))}


@kernel
def sum_squares(rows: Any, y: Any, weight: Any, order: Any) -> Any:
    """Add up every row's squares: about the least that can be done with what was read."""
    total = 0.0
    for r in range(order.shape[0]):
        prefetch_row(rows, y, weight, order, r)
        total += norm2(rows, order[r])
    return total


def memory_read(place: str, threads: int = 1) -> Work:
    """Limit: every byte of the values, and of their columns, read once, in eight streams."""
    X, _ = load(Path(place))
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices]
    words = [part.reshape(-1) for part in parts]
    words = [w[: w.size // 2 * 2].view(np.int64) for w in words]
    shares = [share for w in words for share in np.array_split(w, threads)]
    pool = ThreadPoolExecutor(threads)
    return lambda: {"sum": sum(pool.map(sum_in_streams, shares))}


@kernel
def sum_in_streams(words: Any) -> Any:
    """Add up integers, an eighth of them beside the others: memory serves one stream less well."""
    m, total = words.shape[0] // 8, 0
    a, b, c, d = words[:m], words[m : 2 * m], words[2 * m : 3 * m], words[3 * m : 4 * m]
    e, f, g, h = words[4 * m : 5 * m], words[5 * m : 6 * m], words[6 * m : 7 * m], words[7 * m :]
    for j in range(m):
        total += (a[j] + b[j]) + (c[j] + d[j]) + ((e[j] + f[j]) + (g[j] + h[j]))
    for j in range(m, h.shape[0]):
        total += h[j]
    return total
