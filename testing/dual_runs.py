"""Dual methods over rows in memory, with their dual variables in sight, in streams and cuts."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.preprocessing import normalize

from fewpass.solvers.dual.duality import LONGEST, MOVE, ROUND
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.losses import LOSSES, conjugate
from fewpass.solvers.protocol import ProblemStats, add_parts, copy_state
from testing import oracles

#: Losses, and whether their rows are sparse.
LAYOUTS = [(loss, kind is SparseRows) for loss, kind in oracles.PAIRS]
SMOOTH_LAYOUTS = [pair for pair in LAYOUTS if pair[0] != "hinge"]


def is_sparse(loss):
    """Say on what rows a loss is tested."""
    return oracles.ROWS_OF[loss] is SparseRows


def gen_dense(n, d, seed, noise=0.1, rho=0.0, *, double=False):
    """Unit rows, all of them near one direction where rho > 0, and noisy labels.

    `double`: with all bits of float64, as optima that were found elsewhere are for.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if rho > 0.0:
        c = rng.standard_normal(d)
        c /= np.linalg.norm(c)
        X = np.sqrt(rho) * c + np.sqrt(1.0 - rho) * X
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = X if double else oracles.single(X)
    s = X @ rng.standard_normal(d)
    s -= np.median(s)
    return X, np.where(s + noise * s.std() * rng.standard_normal(n) >= 0.0, 1.0, -1.0)


def gen_clustered():
    """Twenty clusters of a hundred rows, one behind the other; labels go by cluster, mostly."""
    rng = np.random.default_rng(5)
    X, y = [], []
    for k in range(20):
        c = rng.standard_normal(60)
        Z = rng.standard_normal((100, 60))
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        Z = np.sqrt(0.9) * c / np.linalg.norm(c) + np.sqrt(0.1) * Z
        X.append(Z / np.linalg.norm(Z, axis=1, keepdims=True))
        y.append(np.where(rng.random(100) < (0.9 if k % 2 else 0.1), 1.0, -1.0))
    return oracles.single(np.vstack(X)), np.concatenate(y)


class Data(NamedTuple):
    """Rows in memory with what a solver is told of them."""

    X: Any  # an array, or SciPy's CSR
    y: np.ndarray
    weight: np.ndarray
    rows: Rows
    stats: ProblemStats


def data(X, y, weight=None, *, sparse=False, streams=1, merges=1):
    weight = np.ones(len(y)) if weight is None else weight
    rows = oracles.sparse_rows(csr_matrix(X)) if sparse else oracles.dense_rows(X)
    kind = SparseRows if sparse else DenseRows
    stats = oracles.stats(X, kind, weight, y)._replace(streams=streams, merges=merges)
    return Data(X, y, weight, rows, stats)


def unit_data(X: Any, y: np.ndarray) -> Data:
    """Sparse rows of unit length."""
    X = normalize(X).tocsr()
    X.data = oracles.single(X.data)
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)[:, None]
    stats = oracles.stats(lengths, SparseRows)._replace(d=X.shape[1])
    return Data(X, y, np.ones(len(y)), oracles.sparse_rows(X), stats)


class Run:
    """A method stepped over all rows pass after pass; `row_state` is what it keeps per row."""

    def __init__(self, solver, problem, of, seed=0):
        self.solver, self.problem, self.of = solver, problem, of
        self.rng = np.random.default_rng(seed)
        self.state = solver.init(problem, of.stats)
        k = solver.row_state_size(of.stats)
        self.row_state = np.zeros((len(of.y), k)[: min(k, 2)])

    def block(self, order):
        return oracles.block(self.of.rows, self.of.y, self.of.weight, order)._replace(
            row_state=self.row_state
        )

    def one_pass(self, cuts=1, order=None):
        """Visit all rows once in a random order, each stream its share, in `cuts` blocks.

        Streams meet after as many rounds as the statistics say, each of so many blocks.
        """
        (walk,) = self.solver.program(1)
        stats, given = self.of.stats, (self.problem, self.of.stats)
        order = self.rng.permutation(len(self.of.y)) if order is None else order
        shares = [np.array_split(own, stats.merges) for own in np.array_split(order, stats.streams)]
        states = [copy_state(self.state) for _ in shares]
        for r in range(stats.merges):
            if r > 0:
                total = reduce(add_parts, [walk.merge.part(*given, state) for state in states])
                states = [walk.merge.end(*given, s, total, stats.streams) for s in states]
            for k, share in enumerate(shares):
                for part in np.array_split(share[r], cuts):
                    states[k] = walk.step(*given, states[k], self.block(part))
        self.state = walk.join(*given, states)._replace(row_version=0)
        return self

    def passes(self, count):
        for _ in range(count):
            self.one_pass()
        return self

    @property
    def weights(self):
        return self.solver.weights(self.state)

    @property
    def dual_variables(self):
        shares = getattr(self.state, "shares", np.ones(1))
        row_state = self.row_state.reshape(len(self.of.y), -1)
        if len(shares) == 1:
            return shares[0] * row_state[:, 0]
        taken = shares[1 + row_state[:, ROUND].astype(int)]
        return shares[0] * row_state[:, 0] + taken * row_state[:, MOVE]

    def certified(self):
        """The certificate after the reduction that ends a run."""
        certify_pass = self.solver.certify_pass
        at = certify_pass.at(self.state)
        everything = self.block(np.arange(len(self.of.y)))
        total = certify_pass.sum.add(self.problem, at, everything, certify_pass.sum.zero(at))
        state = certify_pass.absorb(self.problem, self.of.stats, self.state, total, 0)
        return self.solver.certificate(state)


def weights_of(problem, of, a, centre=None):
    """w(a) and b(a), straight from the formula; with a centre, charged lam_p for leaving it."""
    u = of.weight * a * (1.0 if problem.loss.takes_numbers else of.y)
    w, total = of.X.T @ u / (len(u) * problem.lam), problem.intercept * u.mean()
    if centre is None:
        return w, total / problem.lam_b if problem.intercept else 0.0
    lam_p = nearer(problem, of)
    return w, (total + (lam_p - problem.lam_b) * centre) / lam_p


def nearer(problem, of):
    """lam_p: what the intercept's distance from the centre is charged, lam_b included."""
    return max(
        problem.lam_b, problem.lam * problem.intercept**2 / min(of.stats.mean_square, LONGEST)
    )


def dual_objective(problem, of, a):
    """D(a), straight from the formula."""
    w, b = weights_of(problem, of, a)
    conjugates = [conjugate(problem.loss, v, t) for v, t in zip(a, of.y, strict=True)]
    return -np.mean(of.weight * conjugates) - 0.5 * (problem.lam * w @ w + problem.lam_b * b * b)


def primal_objective(problem, of, w, b):
    name = next(k for k, kind in LOSSES.items() if isinstance(problem.loss, kind))
    width = getattr(problem.loss, "smoothing", 1.0)
    values, _ = oracles.phi(name, of.X @ w + problem.intercept * b, of.y, width)
    return np.mean(of.weight * values) + 0.5 * (problem.lam * w @ w + problem.lam_b * b * b)
