"""Fits of rows in memory to an accuracy: the l1 penalty, softmax and counts beside other libraries.

No intercept, so that all minimise the same, and one thread.  Ours proves that it is within the
accuracy of the optimum, relative to it; theirs are given the least effort of a ladder that arrives
there, each tried once in a process of its own, which ends after `LIMIT` seconds.  What is prepared
once (columns of rows, say) is no part of a fit.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from benchmarks.counts import bike
from benchmarks.multinomial import SETS, rows_of
from benchmarks.suite.linear_peers import ITERATIONS, NEVER, quiet
from benchmarks.suite.one_pass import Work
from benchmarks.suite.workloads import load
from fewpass.solvers.drive import sweeps
from fewpass.solvers.losses import LOSSES, Logistic, Problem, SoftmaxLoss, value
from fewpass.solvers.penalties import L2, ElasticNet
from fewpass.solvers.registry import fit_for, method_class
from testing.blocks import block_of, stats_of

#: How far from the optimum that is compared with is, relative.
EXACT = {"l1": 1e-9, "softmax": 1e-6, "counts": 1e-9}
MOST_PASSES = 200
SAMPLE = 1000  # rows
LIMIT = 60  # CPU seconds that a fit may take
SMALLER = tuple(10.0**-k for k in range(9))  # tolerances
STEPS = (*ITERATIONS, 200, 500, 1500)

Fit = Callable[[Any], np.ndarray]


class FitTask(NamedTuple):
    """What everybody minimises."""

    X: Any  # (n, d)
    y: np.ndarray  # (n,) -1 and 1, class numbers or counts
    problem: Problem

    def objective(self, w: np.ndarray) -> float:
        """Return mean loss + R(w), for weights (d,), or (K, d)."""
        charged = float(np.sum([self.problem.penalty.value(one) for one in np.atleast_2d(w)]))
        if w.ndim == 2:
            V = self.X @ w.T
            own = V[np.arange(len(self.y)), self.y.astype(int)]
            return float(np.mean(logsumexp(V, axis=1) - own)) + charged
        return float(np.mean(value(self.problem.loss, self.X @ w, self.y))) + charged


class FitPeer(NamedTuple):
    """A solver of some effort, made ready for a task, and the efforts to try, easiest first."""

    prepare: Callable[[FitTask], Fit]
    ladder: tuple[Any, ...]


class Tried(NamedTuple):
    """What came of an effort."""

    objective: float
    cpu_s: float
    wall_s: float


# -- tasks -----------------------------------------------------------------------------------------


def l1_task(place: str, share: float) -> FitTask:
    """Logistic loss and l1, a share of the least at which all weights are 0."""
    X, y = load(Path(place))
    most = float(np.abs(X.T @ (-0.5 * y)).max()) / len(y)
    return FitTask(X.astype(float), y, Problem(Logistic(), ElasticNet(share * most), 0.0, 1.0))


def softmax_task(name: str, rows: int) -> FitTask:
    """All classes at once, lam = 1/n."""
    if name not in SETS:
        X, y = load(Path(name))
        y, K = (y > 0.0) + 0.0 + 2.0 * (np.arange(len(y)) % 3 == 0), 4
    else:
        found = rows_of(name, rows)
        X, y, K = found.X, found.y.astype(float), found.K
    return FitTask(X, y, Problem(SoftmaxLoss(K), L2(1.0 / len(y)), 0.0, 1.0))


def counts_task(loss: str, lam: float) -> FitTask:
    """Counts of bike, columns divided by their root mean square, and a column of ones."""
    X, y = bike()
    X, y = np.column_stack([X, np.ones(len(y))]), y + (loss == "gamma")
    return FitTask(X, y, Problem(LOSSES[loss](), L2(lam), 0.0, 1.0))


TASKS: dict[str, Callable[..., FitTask]] = {
    "l1": l1_task, "softmax": softmax_task, "counts": counts_task,
}  # fmt: skip


# -- contestants -----------------------------------------------------------------------------------


def ours(word: str) -> FitPeer:
    """One of our methods; its effort is the certified gap, relative to the objective."""

    def prepare(of: FitTask) -> Fit:
        block = block_of(of.X, of.y)
        method = fit_for(
            method_class(word)(), of.problem.loss.width, smooth=of.problem.penalty.is_smooth
        )
        few = stats_of(of.X[:SAMPLE], of.y[:SAMPLE])  # as an ingest measures them
        known = few._replace(n=len(of.y), stream_rows=len(of.y), target_mean=float(of.y.mean()))

        def fit(tol: float) -> np.ndarray:
            for moment in sweeps(method, of.problem, known, block):
                found = method.certificate(moment.state)
                arrived = found is not None and found.gap <= tol * found.objective
                if arrived or moment.passes > MOST_PASSES:
                    break
            return np.asarray(method.weights(moment.state).coef)

        return fit

    return FitPeer(prepare, ())


def celer(of: FitTask) -> Fit:
    """Coordinate descent on working sets of columns, with extrapolated dual points."""
    from celer import LogisticRegression

    X, C = of.X.tocsc(), 1.0 / (of.problem.penalty.total * len(of.y))
    return lambda tol: (
        LogisticRegression(C=C, tol=tol, fit_intercept=False).fit(X, of.y).coef_.ravel()
    )


def skglm(of: FitTask) -> Fit:
    """Prox-Newton on working sets of columns."""
    from skglm import SparseLogisticRegression

    X, l1 = of.X.tocsc(), of.problem.penalty.total
    few, y = of.X[:SAMPLE].tocsc(), of.y[:SAMPLE]
    most = 0.5 * float(np.abs(few.T @ y).max()) / len(y)
    # Compiles: some weights have to move, and a fit that is ended would not have counted it.
    SparseLogisticRegression(alpha=0.3 * most, fit_intercept=False).fit(few, y)
    return lambda tol: (
        SparseLogisticRegression(alpha=l1, tol=tol, fit_intercept=False).fit(X, of.y).coef_.ravel()
    )


def liblinear(of: FitTask) -> Fit:
    """LIBLINEAR's own package, -s 6."""
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train

    rows, C = problem(of.y, of.X), 1.0 / (of.problem.penalty.total * len(of.y))

    def fit(tol: float) -> np.ndarray:
        model = train(rows, parameter(f"-s 6 -c {C:.17g} -B -1 -e {tol:g} -q"))
        w = np.array(model.w[: of.X.shape[1]])
        return w if model.label[0] == 1 else -w

    return fit


def logistic_regression(solver: str, **words: Any) -> Callable[[FitTask], Fit]:
    """Return what prepares scikit-learn's, with one of its solvers."""

    def prepare(of: FitTask) -> Fit:
        from sklearn.linear_model import LogisticRegression

        C = 1.0 / (of.problem.penalty.total * len(of.y))

        def fit(steps: int) -> np.ndarray:
            model = LogisticRegression(
                C=C, fit_intercept=False, solver=solver, tol=NEVER, max_iter=steps,
                random_state=0, **words,
            )  # fmt: skip
            w = np.asarray(model.fit(of.X, of.y).coef_)
            return w if len(w) > 1 else w[0]

        return fit

    return prepare


def generalised(solver: str) -> Callable[[FitTask], Fit]:
    """Return what prepares scikit-learn's regressor of the loss."""

    def prepare(of: FitTask) -> Fit:
        from sklearn import linear_model

        kinds = {"poisson": linear_model.PoissonRegressor, "gamma": linear_model.GammaRegressor}
        kind, lam = kinds[of.problem.loss.name], of.problem.penalty.total

        def fit(steps: int) -> np.ndarray:
            words = {"solver": solver, "max_iter": steps, "tol": NEVER}
            return kind(alpha=lam, fit_intercept=False, **words).fit(of.X, of.y).coef_

        return fit

    return prepare


PEERS: dict[str, dict[str, FitPeer]] = {
    "l1": {
        "fewpass, newton": ours("newton"),
        "celer": FitPeer(celer, SMALLER),
        "skglm": FitPeer(skglm, SMALLER),
        "LIBLINEAR -s 6": FitPeer(liblinear, (10.0, *SMALLER)),
        "scikit-learn saga": FitPeer(logistic_regression("saga", l1_ratio=1.0), STEPS),
    },
    "softmax": {
        "fewpass, psdca": ours("psdca"),
        "scikit-learn lbfgs": FitPeer(logistic_regression("lbfgs"), STEPS),
        "scikit-learn newton-cholesky": FitPeer(logistic_regression("newton-cholesky"), STEPS),
    },
    "counts": {
        "fewpass, newton": ours("newton"),
        "fewpass, psdca": ours("psdca"),
        "scikit-learn lbfgs": FitPeer(generalised("lbfgs"), STEPS),
        "scikit-learn newton-cholesky": FitPeer(generalised("newton-cholesky"), STEPS),
    },
}


# -- the work --------------------------------------------------------------------------------------


def optimum(kind: str, folder: Path, words: dict[str, Any], of: FitTask) -> float:
    """Return the least objective of a task, worked out once and kept below a folder."""
    key = "-".join(str(word).replace("/", "_") for word in (kind, *words.values()))
    path, mine = folder / f"optimum-{key}.json", next(iter(PEERS[kind]))
    with path.with_suffix(".lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(of.objective(PEERS[kind][mine].prepare(of)(EXACT[kind]))))
    return float(json.loads(path.read_text()))


def fit(kind: str, peer: str, words: dict[str, Any], accuracy: float, folder: str) -> Work:
    """Fit with the effort that is enough; one that takes too long is told as it was tried."""
    of, (prepare, ladder) = TASKS[kind](**words), PEERS[kind][peer]
    least = optimum(kind, Path(folder), words, of)
    with quiet():
        made = prepare(of)
    effort, tried = (
        enough(of, made, ladder, least * (1.0 + accuracy)) if ladder else (accuracy, None)
    )
    if ladder and (tried is None or tried.objective > least * (1.0 + accuracy)):
        seconds = (
            {"wall_s": float(LIMIT), "cpu_s": float(LIMIT)} if tried is None else tried._asdict()
        )
        above = None if tried is None else tried.objective / least - 1.0
        told = {"wall_s": seconds["wall_s"], "cpu_s": seconds["cpu_s"], "effort": effort}
        return lambda: {"above": above, "arrived": False} | told

    def work() -> dict[str, Any]:
        with quiet():
            w = made(effort)
        return {"above": of.objective(w) / least - 1.0, "arrived": True, "effort": effort}

    return work


def enough(
    of: FitTask, made: Fit, ladder: tuple[Any, ...], most: float, limit: int = LIMIT
) -> tuple[Any, Tried | None]:
    """Return the least effort that arrives, or the last one that ends in time, and its outcome."""
    best: tuple[Any, Tried | None] = (ladder[0], None)
    for effort in ladder:
        tried = in_time(of, made, effort, limit)
        if tried is None:
            break
        best = effort, tried
        if tried.objective <= most:
            break
    return best


def in_time(of: FitTask, made: Fit, effort: Any, limit: int = LIMIT) -> Tried | None:
    """Try an effort in a process of its own; None where that has to be ended."""
    here, there = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        wall, cpu = time.perf_counter(), time.process_time()
        with quiet():
            w = made(effort)
        seconds = time.process_time() - cpu, time.perf_counter() - wall
        there.send(Tried(of.objective(w), *seconds))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    there.close()  # so that the end of the process is the end of what it says
    try:
        found = here.recv()
    except EOFError:
        found = None
    process.join()
    return found
