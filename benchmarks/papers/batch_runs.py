"""Mini-batch methods of the hinge whose batches are drawn from all rows, as the paper's are.

The methods' own kernels, without passes: every batch is b distinct rows drawn anew.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import OneHotEncoder, normalize

from benchmarks.data_sets import public_data
from fewpass.solvers.dual.pegasos import ADDED, Pegasos, begin_tail, tail_mean
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_batches import curvatures, visit_batches
from fewpass.solvers.dual.sdca_state import RUNNING
from fewpass.solvers.dual.sdca_steps import StepInputs
from fewpass.solvers.kernels.rows import side_by_side
from fewpass.solvers.losses import Hinge, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block
from testing import oracles
from testing.dual_runs import Data, Run, data, gen_dense, unit_data
from testing.synthetic import text_rows

CHECK_EVERY = 0.03  # of the steps so far, between two looks at the objective
KDD_ROWS = 50_000  # of training and of testing rows each


class Case(NamedTuple):
    """The hinge on one set."""

    name: str
    of: Data
    problem: Problem
    lowest: float  # the minimum, to 1e-6
    sigma_square: float  # of unit rows
    test: tuple[Any, np.ndarray] | None

    @property
    def n(self) -> int:
        return len(self.of.y)

    def excess(self, w: np.ndarray) -> float:
        """f(w) - f*."""
        losses = np.maximum(0.0, 1.0 - self.of.y * (self.of.X @ w))
        return float(losses.mean() + 0.5 * self.problem.lam * w @ w - self.lowest)

    def error(self, w: np.ndarray) -> float:
        """Share of the test rows on the wrong side."""
        X, y = self.test or (self.of.X, self.of.y)
        return float(np.mean((X @ w > 0.0) != (y > 0.0)))

    def factor(self, b: int) -> float:
        """beta_b of batches of b out of all rows."""
        return 1.0 + (b - 1) * (self.n * self.sigma_square - 1.0) / (self.n - 1)


def case_of(name: str, of: Data, lam: float, test: Any = None) -> Case:
    """Find the minimum and the spectral norm."""
    problem = Problem(Hinge(), L2(lam), 0.0, lam)
    run, found = Run(Sdca(), problem, of), None
    while found is None or (found.gap > 1e-6 and run.state.passes < 400):
        found = run.passes(10).certified()
    spread = float(svds(of.X, k=1, return_singular_vectors=False, random_state=0)[0]) ** 2
    return Case(name, of, problem, found.objective - 0.5 * found.gap, spread / len(of.y), test)


class Ascent:
    """Mini-batch SDCA of one kind."""

    def __init__(self, case: Case, kind: str, b: int, seed: int) -> None:
        n, d = case.of.X.shape
        self.case, self.b, self.rng = case, b, np.random.default_rng(seed)
        self.W = side_by_side(case.of.stats.rows_kind, d + 1, 2)
        self.row_state, self.scratch, self.beta = np.zeros((n, 1)), np.zeros(d + 1), 0.0
        self.fresh = np.zeros(d + 1)
        self.known = curvatures(block_of(case, np.arange(n)), d, 0.0, kind, b)

    def advance(self, steps: int) -> None:
        """Step so many batches."""
        if steps:
            self.visit(drawn(self.rng, self.case.n, self.b, steps))

    def block(self, order: np.ndarray) -> Block:
        return block_of(self.case, order)

    def visit(self, order: np.ndarray) -> None:
        """Step these rows, batch by batch."""
        problem, n, block = self.case.problem, self.case.n, self.block(order)
        self.beta, *_ = visit_batches(
            self.W, self.W[:, RUNNING:], self.fresh,
            StepInputs(problem, 0.0, 0.0, 1.0 / (problem.lam * n)), np.ones(1), *block[:4],
            self.row_state, self.b, self.known, self.beta, self.scratch,
        )  # fmt: skip

    @property
    def weights(self) -> np.ndarray:
        return self.W[:-1, RUNNING].copy()

    @property
    def dual_excess(self) -> float:
        """f* - D(a)."""
        w = self.weights
        return float(self.case.lowest - self.row_state.mean() + 0.5 * self.case.problem.lam * w @ w)


class Descent:
    """Mini-batch Pegasos; `which` is the mean of the later half or the last iterate."""

    def __init__(self, case: Case, which: str, b: int, seed: int) -> None:
        self.case, self.which, self.b = case, which, b
        self.rng, self.solver = np.random.default_rng(seed), Pegasos(batch_size=b)
        self.state = self.solver.init(case.problem, case.of.stats)
        self.row_state, self.next_tail = np.zeros(case.n), case.n
        self.dual_excess = math.nan

    def advance(self, steps: int) -> None:
        """Step so many batches; a tail begins after 1, 2, 4, ... times n rows."""
        order = drawn(self.rng, self.case.n, self.b, steps)
        while len(order):
            left = -(-(self.next_tail - self.state.rows) // self.b) * self.b
            block = block_of(self.case, order[:left])._replace(row_state=self.row_state)
            case, order = self.case, order[left:]
            self.state = self.solver.step_rows(case.problem, case.of.stats, self.state, block)
            if self.state.rows >= self.next_tail:
                self.state, self.next_tail = begin_tail(self.state), 2 * self.next_tail

    @property
    def weights(self) -> np.ndarray:
        if self.which == "mean":
            return tail_mean(self.state)[:-1]
        return self.state.W[:-1, ADDED] / (self.case.problem.lam * self.state.rows)


def start(case: Case, method: str, b: int, seed: int) -> Any:
    """A method by its name in the tables."""
    if method.startswith("Pegasos"):
        return Descent(case, "last" if "last" in method else "mean", b, seed)
    return Ascent(case, method, b, seed)


def drawn(rng: np.random.Generator, n: int, b: int, steps: int) -> np.ndarray:
    """Batches of b distinct rows, one after the other."""
    if b == 1:
        return rng.integers(n, size=steps)
    return np.concatenate([rng.choice(n, b, replace=False, shuffle=False) for _ in range(steps)])


def block_of(case: Case, order: np.ndarray) -> Block:
    return oracles.block(case.of.rows, case.of.y, case.of.weight, order)


def looks(run: Any, most: int) -> Iterator[int]:
    """Advance a run, and yield the number of steps when it is time for a look."""
    done = 0
    while done < most:
        steps = max(1, int(CHECK_EVERY * done))
        run.advance(steps)
        done += steps
        yield done


def steps_to(case: Case, method: str, b: int, seed: int, eps: float, passes: float) -> float:
    """Steps until f - f* is at most eps at a look; infinite beyond so many passes."""
    run = start(case, method, b, seed)
    for done in looks(run, int(passes * case.n / b)):
        if case.excess(run.weights) <= eps:
            return done
    return math.inf


# -- data ------------------------------------------------------------------------------------------


def synthetic_case(name: str) -> Case:
    """One of the sets with published iteration counts."""
    if name == "text":
        X, y = text_rows(4000, 5000, 3, noise=0.05)
        return case_of(name, unit_data(X, y), 1e-3)
    d, seed, rho = (50, 20, 0.5) if name == "corr" else (200, 21, 0.0)
    return case_of(name, data(*gen_dense(2000, d, seed, noise=0.3, rho=rho)), 1e-3)


LIBSVM = {
    "reuters": ("reuters/reuters.trn.bz2", "reuters/reuters.tst.bz2"),
    "ijcnn1": ("ijcnn1/ijcnn1.trn.bz2", "ijcnn1/ijcnn1.tst.bz2"),
    "w8a": ("w8a/w8a.xz", "w8a/w8a.t.xz"),
    "imdb": ("imdb/imdb_bigram.train.svm.xz", "imdb/imdb_bigram.test.svm.xz"),
}


def real_case(name: str, most_rows: int | None = None) -> Case:
    """A public set, rows of unit length, lam = 1/n."""
    (X, y), (Z, t) = kdd() if name == "kddcup99" else libsvm(*LIBSVM[name])
    if most_rows is not None and len(y) > most_rows:
        chosen = np.random.default_rng(0).permutation(len(y))[:most_rows]
        X, y = X[chosen], y[chosen]
    return case_of(name, unit_data(X, y), 1.0 / len(y), (normalize(Z), t))


def libsvm(train: str, test: str) -> tuple[Any, Any]:
    """Training and testing rows of LIBSVM files."""
    X, y = read_libsvm(public_data(train))
    Z, t = read_libsvm(public_data(test), X.shape[1])
    return (X, y), (Z, t)


def read_libsvm(path: Path, d: int | None = None) -> tuple[Any, np.ndarray]:
    """Columns beyond d are left out."""
    with lzma.open(path) if path.suffix == ".xz" else bz2.open(path) as file:
        X, y = load_svmlight_file(file)
    if d is not None and X.shape[1] < d:
        X.resize(X.shape[0], d)
    return X[:, :d], np.where(y > y.mean(), 1.0, -1.0)


def kdd() -> tuple[Any, Any]:
    """Network connections: words one-hot, numbers log(1 + x), attack or not."""
    with gzip.open(public_data("kddcup99_10pct/kddcup.data_10_percent.gz"), "rt") as file:
        lines = file.read().splitlines()
    chosen = np.random.default_rng(0).permutation(len(lines))[: 2 * KDD_ROWS]
    table = np.array([lines[k].split(",") for k in chosen])
    words, y = [1, 2, 3], np.where(table[:, -1] == "normal.", -1.0, 1.0)
    numbers = np.log1p(np.delete(table[:, :-1], words, axis=1).astype(float))
    X = sparse.hstack([numbers, OneHotEncoder().fit_transform(table[:, words])], format="csr")
    return (X[:KDD_ROWS], y[:KDD_ROWS]), (X[KDD_ROWS:], y[KDD_ROWS:])
