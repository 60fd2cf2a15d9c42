"""Dual methods without the pipeline: whole passes over rows in memory."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from solvers.losses import LOSSES, conjugate
from solvers.protocol import copy_state
from solvers.rows import DenseRows, SparseRows
from tests import oracles


def gen_dense(n, d, seed, noise=0.1, rho=0.0):
    """Unit rows, all of them near one direction where rho > 0, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if rho > 0.0:
        c = rng.standard_normal(d)
        c /= np.linalg.norm(c)
        X = np.sqrt(rho) * c + np.sqrt(1.0 - rho) * X
        X /= np.linalg.norm(X, axis=1, keepdims=True)
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
    return np.vstack(X), np.concatenate(y)


class Data(NamedTuple):
    """Rows in memory with what a solver is told of them."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    rows: object
    facts: object


def data(X, y, weight=None, *, sparse=False, streams=1):
    weight = np.ones(len(y)) if weight is None else weight
    rows = oracles.sparse_rows(csr_matrix(X)) if sparse else oracles.dense_rows(X)
    kind = SparseRows if sparse else DenseRows
    facts = oracles.facts(X, kind, weight, y)._replace(streams=streams)
    return Data(X, y, weight, rows, facts)


class Run:
    """A method stepped over all rows pass after pass; `kept` is what it keeps per row."""

    def __init__(self, solver, problem, of, seed=0):
        self.solver, self.problem, self.of = solver, problem, of
        self.rng = np.random.default_rng(seed)
        self.state = solver.init(problem, of.facts)
        k = solver.row_numbers(of.facts)
        self.kept = np.zeros((len(of.y), k)[: min(k, 2)])

    def block(self, order):
        return oracles.block(self.of.rows, self.of.y, self.of.weight, order)._replace(
            row_state=self.kept
        )

    def one_pass(self, cuts=1, order=None):
        """Visit all rows once in a random order, each stream its share, in `cuts` blocks."""
        (walk,) = self.solver.program(1)
        ends = []
        order = self.rng.permutation(len(self.of.y)) if order is None else order
        for share in np.array_split(order, self.of.facts.streams):
            state = copy_state(self.state)
            for part in np.array_split(share, cuts):
                state = walk.step(self.problem, self.of.facts, state, self.block(part))
            ends.append(state)
        self.state = walk.join(self.problem, self.of.facts, ends)._replace(row_version=0)
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
        return self.kept.reshape(len(self.of.y), -1) @ shares

    def audited(self):
        """The certificate after the gather that ends a run."""
        audit = self.solver.audit
        at = audit.at(self.state)
        everything = self.block(np.arange(len(self.of.y)))
        total = audit.sum.add(self.problem, at, everything, audit.sum.zero(at))
        state = audit.absorb(self.problem, self.of.facts, self.state, total, 0)
        return self.solver.certificate(state)


def weights_of(problem, of, a, centre=None):
    """w(a) and b(a), straight from the formula; with a centre, charged lam_p for leaving it."""
    u = of.weight * a * (1.0 if isinstance(problem.loss, LOSSES["squared"]) else of.y)
    w, total = of.X.T @ u / (len(u) * problem.lam), problem.intercept * u.mean()
    if centre is None:
        return w, total / problem.lam_b if problem.intercept else 0.0
    lam_p = nearer(problem, of)
    return w, (total + (lam_p - problem.lam_b) * centre) / lam_p


def nearer(problem, of):
    """lam_p: what the intercept's distance from the centre is charged, lam_b included."""
    return max(problem.lam_b, problem.lam * problem.intercept**2 / of.facts.mean_square)


def dual_objective(problem, of, a):
    """D(a), straight from the formula."""
    w, b = weights_of(problem, of, a)
    conjugates = [conjugate(problem.loss, v, t) for v, t in zip(a, of.y, strict=True)]
    return -np.mean(of.weight * conjugates) - 0.5 * (problem.lam * w @ w + problem.lam_b * b * b)


def primal_objective(problem, of, w, b):
    name = next(k for k, kind in LOSSES.items() if isinstance(problem.loss, kind))
    width = getattr(problem.loss, "width", 1.0)
    values, _ = oracles.phi(name, of.X @ w + problem.intercept * b, of.y, width)
    return np.mean(of.weight * values) + 0.5 * (problem.lam * w @ w + problem.lam_b * b * b)
