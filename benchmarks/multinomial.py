"""Multinomial logistic regression in memory: CPU seconds to an accuracy, beside scikit-learn.

    FEWPASS_DATA=/path python -m benchmarks.multinomial [--rows 10000] [--sets sector mnist]

lam = 1/n, no intercept on any side, one thread.  Ours is `psdca` as it is shipped, run sweep by
sweep: seconds until its certificate is below 1e-2, 1e-4 and 1e-6 of the objective, everything
counted but compiling.  scikit-learn's `LogisticRegression(C=1)` minimises n times the objective;
each solver is fitted anew with more and more iterations until its objective is within 1e-4 of the
optimum, and that last fit alone is timed.  `-`: not within the seconds given to a solver.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder
from threadpoolctl import threadpool_limits

from benchmarks.data_sets import idx, public_data
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.wide_psdca import WidePsdca
from fewpass.solvers.losses import Problem, SoftmaxLoss
from fewpass.solvers.penalties import L2
from testing.blocks import block_of, stats_of

TARGETS = (1e-2, 1e-4, 1e-6)
PEERS = ("lbfgs", "newton-cholesky")
MOST_UNKNOWNS = 3_000  # of newton-cholesky, which keeps their square
MOST_ITERATIONS = 2_000


class Rows(NamedTuple):
    """A data set in memory; y are class numbers."""

    name: str
    X: Any
    y: NDArray[np.intp]
    K: int


def mnist() -> tuple[Any, Any]:
    """Pixels of 0 to 1."""
    images = idx(public_data("mnist/train-images-idx3-ubyte.xz"))
    labels = idx(public_data("mnist/train-labels-idx1-ubyte.xz"))
    return sparse.csr_matrix(images.reshape(len(images), -1) / 255.0), labels


def sector() -> tuple[Any, Any]:
    """Texts of 105 classes, rows of unit length."""
    with bz2.open(public_data("sector/sector.scale.bz2")) as file:
        X, y = load_svmlight_file(file)
    return X.tocsr(), y


def kddcup99() -> tuple[Any, Any]:
    """Connections: words as indicators, numbers divided by their largest."""
    with gzip.open(public_data("kddcup99_10pct/kddcup.data_10_percent.gz"), "rt") as file:
        table = np.array([line.rstrip("\n").split(",") for line in file], object)
    words, numbers = [1, 2, 3], [j for j in range(41) if j not in (1, 2, 3)]
    scaled = MaxAbsScaler().fit_transform(sparse.csr_matrix(table[:, numbers].astype(float)))
    return sparse.hstack([OneHotEncoder().fit_transform(table[:, words]), scaled]).tocsr(), table[
        :, 41
    ]


SETS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "sector": sector, "mnist": mnist, "kddcup99": kddcup99,
}  # fmt: skip


def rows_of(name: str, most: int) -> Rows:
    """Return at most so many rows of a set, in a random order."""
    X, labels = SETS[name]()
    order = np.random.default_rng(1).permutation(X.shape[0])[:most]
    classes, y = np.unique(np.asarray(labels)[order], return_inverse=True)
    return Rows(name, X[order], y, len(classes))


def objective(rows: Rows, coef: NDArray[np.float64]) -> float:
    """Return the mean loss + (lam/2) ||W||^2."""
    V = rows.X @ coef.T
    own = V[np.arange(len(rows.y)), rows.y]
    return float(np.mean(logsumexp(V, axis=1) - own) + 0.5 * np.sum(coef**2) / len(rows.y))


def ours(rows: Rows, seconds: float) -> tuple[dict[float, tuple[float, int]], float]:
    """Return CPU seconds and passes to each target, and a lower bound of the optimum."""
    n = len(rows.y)
    problem = Problem(SoftmaxLoss(rows.K), L2(1.0 / n), 0.0, 1.0 / n)
    block = block_of(rows.X, rows.y.astype(float))
    known = stats_of(rows.X, rows.y.astype(float))
    next(sweeps(WidePsdca(width=rows.K), problem, known, block))  # compiles
    began, reached, lower = time.process_time(), dict[float, tuple[float, int]](), 0.0
    for passes, after in enumerate(sweeps(WidePsdca(width=rows.K), problem, known, block), 1):
        proven = after.state.best.certificate
        if proven is not None:
            lower = max(lower, proven.objective - proven.gap)
            spent = time.process_time() - began
            for target in TARGETS:
                if proven.gap <= target * proven.objective:
                    reached.setdefault(target, (spent, passes))
            if len(reached) == len(TARGETS) or spent > seconds:
                break
    return reached, lower


def theirs(rows: Rows, solver: str, lower: float, seconds: float) -> tuple[float, int] | None:
    """Return CPU seconds and iterations of the shortest fit within 1e-4 of the optimum."""
    if solver == "newton-cholesky" and rows.K * rows.X.shape[1] > MOST_UNKNOWNS:
        return None
    for iterations in steps():
        model = LogisticRegression(
            C=1.0, fit_intercept=False, solver=solver, tol=1e-12, max_iter=iterations
        )
        began = time.process_time()
        model.fit(rows.X, rows.y)
        spent = time.process_time() - began
        if objective(rows, model.coef_) <= lower * (1.0 + 1e-4):
            return spent, iterations
        if spent > seconds:
            return None
    return None


def steps() -> Iterator[int]:
    """Yield numbers of iterations."""
    iterations = 2
    while iterations <= MOST_ITERATIONS:
        yield iterations
        iterations = int(1.5 * iterations) + 1


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each solver and fit")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| set (rows x columns, K) | psdca: passes | s to 1e-2, 1e-4, 1e-6 |", *PEERS, "|")
    with threadpool_limits(1):
        for name in given.sets:
            rows = rows_of(name, given.rows)
            reached, lower = ours(rows, given.seconds)
            shown = [reached.get(target) for target in TARGETS]
            peers = [theirs(rows, solver, lower, given.seconds) for solver in PEERS]
            print(
                f"| {name} ({len(rows.y)} x {rows.X.shape[1]}, {rows.K})",
                "/".join(str(one[1]) if one else "-" for one in shown),
                "/".join(f"{one[0]:.2f}" if one else "-" for one in shown),
                *(f"{one[0]:.2f} s, {one[1]} iterations" if one else "-" for one in peers),
                sep=" | ", end=" |\n", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
