"""SIMBA against plain Python, against what its certificate proves, and against published numbers."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import Hinge, Problem
from fewpass.solvers.papers.hazan_2011 import simba
from fewpass.solvers.penalties import L2
from fewpass.solvers.simba.lazy import SparseCopies, first_lazy_state, lazy_mean_of, lazy_slice
from fewpass.solvers.simba.simba import (
    SLICE_STEPS,
    DenseCopies,
    Simba,
    dense_slice,
    first_state,
    mean_of,
    uniforms,
)
from fewpass.solvers.simba.soft_margin import (
    Mean,
    SoftMargin,
    best_margin,
    certified_margin,
    margin_bound,
)
from testing import dual_runs as dual
from testing import oracles
from tests.conftest import ROUNDING

LOG_ROUNDING = 1e-9  # of log q after hundreds of steps


def sparse_copies(X):
    by_row = sparse.csr_matrix(X)
    return SparseCopies(oracles.sparse_rows(by_row), oracles.sparse_rows(by_row.T.tocsr()))


def dense_copies(X):
    return DenseCopies(oracles.as_stored(X), oracles.as_stored(X.T))


def text_like(n, d, seed, density=0.1):
    """Unit rows with few values, labels of a noisy linear rule; no row empty."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < density)
    X[np.arange(n), rng.integers(d, size=n)] += 0.5
    X = oracles.single(X / np.linalg.norm(X, axis=1, keepdims=True))
    score = X @ rng.standard_normal(d)
    y = np.where(score + 0.1 * rng.standard_normal(n) > np.median(score), 1.0, -1.0)
    return X, y


class Watched:
    """A matrix that counts what is read out of it, and nothing else can be done to it."""

    def __init__(self, X):
        self._X, self.accesses = X, 0

    def row(self, i):
        """Yield (j, value) of the values that row i has."""
        for j in np.flatnonzero(self._X[i]):
            self.accesses += 1
            yield j, self._X[i, j]

    def column(self, j):
        for i in np.flatnonzero(self._X[:, j]):
            self.accesses += 1
            yield i, self._X[i, j]


def run(X, y, of, seed=0, *, lazy=False, at_once=SLICE_STEPS, **settings):
    """Make all steps; return the state and everything drawn."""
    solver = Simba(**settings)
    data = sparse_copies(X) if lazy else dense_copies(X)
    step = lazy_slice if lazy else dense_slice
    state = first_lazy_state(of, y) if lazy else first_state(of)
    drawn = []
    while state.t < of.iterations:
        u = uniforms(seed, state.t // SLICE_STEPS, SLICE_STEPS)[state.t % SLICE_STEPS :]
        u = u[: min(at_once, of.iterations - state.t)]
        state, pairs = step(solver, of, data, y, state, u)
        drawn.append(pairs)
    return state, np.concatenate(drawn)


def log_q_of(state):
    return state.r + state.offsets[state.group]


CASES = [(biased, rates) for biased in (False, True) for rates in ("adaptive", "constant")]


@pytest.mark.parametrize(("biased", "rates"), CASES)
def test_dense_steps_are_those_of_plain_python_and_count_every_access(biased, rates):
    X, y = dual.gen_dense(40, 7, 3)
    X *= 3.0  # R is not 1
    of = SoftMargin(40, 7, 0.37, 1.0 / 3.0, biased, 300)
    state, drawn = run(X, y, of, rates=rates)
    watched = Watched(X)
    expected, log_q = simba(watched, y, of, drawn, adaptive=rates == "adaptive")
    oracles.close(mean_of(state).w, expected.w, ROUNDING)
    assert mean_of(state).b == expected.b
    oracles.close(mean_of(state).p, expected.p, LOG_ROUNDING)
    oracles.close(state.log_q, log_q, ROUNDING)
    assert state.accesses == watched.accesses == 300 * (40 + 7)
    assert state.draws.sum() == 300


def apart(of, y, seed=0):
    """A lazy state in which no two rows are equal: of equals, either may have the slack."""
    start = np.random.default_rng(seed).standard_normal(of.n) * 1e-3
    state = first_lazy_state(of, y)
    state.r[:] = start
    state.group[:] = (y > 0.0) if of.biased else 0
    state.group[np.argsort(-start)[: of.k]] += 2
    return start, state


@pytest.mark.parametrize(("biased", "rates"), CASES)
@pytest.mark.parametrize(("steps", "tolerance"), [(1, ROUNDING), (300, LOG_ROUNDING)])
def test_lazy_steps_are_those_of_plain_python_and_count_every_access(
    biased, rates, steps, tolerance
):
    X, y = text_like(50, 30, 4)
    of = SoftMargin(50, 30, 0.4, 1.0, biased, 300)  # all slack of 10 rows and nothing over
    start, state = apart(of, y)
    solver = Simba(rates=rates, hysteresis=0.0)
    state, drawn = lazy_slice(solver, of, sparse_copies(X), y, state, uniforms(0, 0, steps))
    watched = Watched(X)
    expected, log_q = simba(watched, y, of, drawn, adaptive=rates == "adaptive", log_q=start)
    oracles.close(lazy_mean_of(state).w, expected.w, tolerance)
    assert lazy_mean_of(state).b == pytest.approx(expected.b, abs=ROUNDING)
    found = log_q_of(state)
    oracles.close(found - found.max(), log_q - log_q.max(), tolerance)
    assert state.accesses == watched.accesses
    assert state.draws.sum() == state.t == steps


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_are_drawn_by_weight_and_columns_by_their_squares(lazy):
    X, y = text_like(16, 12, 1, density=0.5)
    of = SoftMargin(16, 12, 0.25, 1.0, biased=True, iterations=1)
    log_q = np.linspace(-2.0, 2.0, 16)
    p = np.exp(log_q) / np.exp(log_q).sum()
    u = np.random.default_rng(5).random((4000, 2))
    data, seen = sparse_copies(X) if lazy else dense_copies(X), []
    for pair in u:
        state = first_lazy_state(of, y) if lazy else first_state(of)
        (state.r if lazy else state.log_q)[:] = log_q
        step = lazy_slice if lazy else dense_slice
        seen.append(step(Simba(), of, data, y, state, pair[None])[1][0])
    rows, columns = np.transpose(seen)
    for counts, expected in (
        (np.bincount(rows, minlength=16), 4000 * p),
        (np.bincount(columns, minlength=12), 4000 * p @ X**2),
    ):
        assert ((counts - expected) ** 2 / expected).sum() < 45.0  # 15 and 11 degrees of freedom


# -- margins and certificates ---------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.0, 0.01, 0.3, 1.0, 1.9])
def test_best_margin_is_that_of_a_linear_program(nu, rng):
    m = rng.standard_normal(30)
    # variables xi (30) and gamma; m_i + xi_i >= gamma, sum xi <= n nu
    A = np.block([[-np.eye(30), np.ones((30, 1))], [np.ones((1, 30)), np.zeros((1, 1))]])
    found = linprog(
        np.append(np.zeros(30), -1.0), A, np.append(m, 30 * nu),
        bounds=[(0.0, 2.0)] * 30 + [(None, None)],
    )  # fmt: skip
    assert best_margin(m, nu) == pytest.approx(-found.fun, abs=1e-9)


@pytest.fixture(scope="module")
def acceptance():
    """gen_dense(200, 10, seed 1) at nu = 0.2 without a bias: the SVM of that nu and its dual."""
    X, y = dual.gen_dense(200, 10, 1)
    of = dual.data(X, y)
    low, high = 1e-4, 1.0
    for _ in range(36):
        lam = math.sqrt(low * high)
        found = dual.Run(Sdca(), Problem(Hinge(), L2(lam), 0.0, lam), of).passes(60)
        w = dual.weights_of(found.problem, of, found.dual_variables)[0]
        nu = np.maximum(0.0, 1.0 - y * (X @ w)).mean() / np.linalg.norm(w)
        low, high = (low, lam) if nu > 0.2 else (lam, high)
    return X, y, w, found.dual_variables


def test_an_svm_is_the_largest_margin_of_its_slack(acceptance):
    """Lemma 2.1: what its weights reach and what its dual variables allow are both 1 / ||w||."""
    X, y, w, a = acceptance
    of = SoftMargin(200, 10, 0.2, 1.0, biased=False, iterations=1)
    length, p = np.linalg.norm(w), a / a.sum()
    assert best_margin(y * (X @ w) / length, 0.2) == pytest.approx(1.0 / length, abs=1e-6)
    assert margin_bound(of, y, p, X.T @ (p * y)) == pytest.approx(1.0 / length, abs=1e-6)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("rates", "steps"), [("adaptive", 10_000), ("constant", 100_000)])
def test_margin_comes_as_near_the_best_as_published(acceptance, lazy, rates, steps):
    X, y, w, _ = acceptance
    best, of = 1.0 / np.linalg.norm(w), SoftMargin(200, 10, 0.2, 1.0, False, steps)
    for seed in range(3 if rates == "adaptive" else 1):
        state, _ = run(X, y, of, seed, lazy=lazy, rates=rates)
        mean = lazy_mean_of(state) if lazy else mean_of(state)
        found = best_margin(y * (X @ mean.w), 0.2)
        assert best - 0.003 <= found <= best + 1e-6
        assert found <= best <= margin_bound(of, y, mean.p, X.T @ (mean.p * y)) + 1e-9


@pytest.mark.parametrize("biased", [False, True])
def test_certificate_is_true_of_any_mean(biased, rng):
    """Whatever w and p: no margin beats the bound, and the optimum lies above objective - gap."""
    X, y = text_like(120, 25, 2)
    of = SoftMargin(120, 25, 0.15, 1.0, biased, 1)
    problem = Problem(Hinge(), L2(0.02), 1.0 if biased else 0.0, 0.0002 if biased else 0.02)
    solved = dual.Run(Sdca(), problem, dual.data(X, y)).passes(400)
    w, b = dual.weights_of(problem, solved.of, solved.dual_variables)
    least = dual.dual_objective(problem, solved.of, solved.dual_variables)
    for _ in range(5):
        p = rng.random(120) ** 8
        at = Mean(w / np.linalg.norm(w) * rng.random(), biased * b * 0.01, p / p.sum())
        found = certified_margin(of, problem, DenseRows(oracles.as_stored(X)), y, at)
        assert found.gamma <= found.bound
        assert found.certificate.objective - found.certificate.gap <= least + 1e-9
        coef, intercept = found.weights
        expected = dual.primal_objective(problem, solved.of, coef, intercept)
        assert found.certificate.objective == pytest.approx(expected, abs=1e-12)
        if found.gamma > 0.0:
            assert best_margin(y * (X @ coef + intercept) * found.gamma, 0.15) == pytest.approx(
                found.gamma
            )


def test_without_a_positive_margin_nothing_is_divided():
    X, y = np.ones((4, 1)), np.array([1.0, -1.0, 1.0, -1.0])
    of = SoftMargin(4, 1, 0.0, 1.0, biased=False, iterations=1)
    at = Mean(np.array([0.5]), 0.0, np.full(4, 0.25))
    found = certified_margin(
        of, Problem(Hinge(), L2(0.1), 0.0, 0.1), DenseRows(oracles.as_stored(X)), y, at
    )
    assert (found.gamma, found.weights.coef[0]) == (-0.5, 0.5)


# -- the lazy scheme's own laws ---------------------------------------------------------------------


@pytest.mark.parametrize("rates", ["adaptive", "constant"])
def test_hysteresis_saves_moves_and_costs_no_margin(rates):
    X, y = text_like(1500, 300, 6, density=0.05)
    of = SoftMargin(1500, 300, 0.2, 1.0, biased=False, iterations=8000)
    moves, margins = [], []
    for hysteresis in (0.0, 16.0):
        state, _ = run(X, y, of, lazy=True, rates=rates, hysteresis=hysteresis)
        moves.append(state.moves)
        margins.append(best_margin(y * (X @ lazy_mean_of(state).w), 0.2))
    assert moves[0] >= 7 * moves[1]
    assert abs(margins[0] - margins[1]) < 0.002


@pytest.mark.parametrize("lazy", [False, True])
def test_stretches_of_any_length_come_to_the_same_bits(lazy):
    X, y = text_like(90, 40, 8)
    of = SoftMargin(90, 40, 0.1, 1.0, biased=True, iterations=1500)
    whole, drawn = run(X, y, of, lazy=lazy)
    parts, drawn_in_parts = run(X, y, of, lazy=lazy, at_once=7)
    assert (drawn == drawn_in_parts).all()
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)


def test_far_from_the_start_the_slack_is_still_with_the_largest_weights():
    X, y = text_like(64, 20, 9, density=0.4)
    of = SoftMargin(64, 20, 0.3, 1.0, biased=True, iterations=20_000)
    state, _ = run(X, y, of, lazy=True, hysteresis=0.0)
    log_q = log_q_of(state)
    assert state.rebases > 0
    assert (state.group >= 2).sum() == of.k
    assert log_q[state.group >= 2].min() >= log_q[state.group < 2].max() - 1e-9
    assert ((state.group % 2 == 1) == (y > 0)).all()


def test_empty_rows_and_columns_are_no_trouble():
    X = np.zeros((6, 5))
    X[0, 1], X[3, 1] = 1.0, 0.5
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    of = SoftMargin(6, 5, 0.5, 1.0, biased=True, iterations=200)
    for lazy in (False, True):
        state, drawn = run(X, y, of, lazy=lazy)
        mean = lazy_mean_of(state) if lazy else mean_of(state)
        assert set(drawn[:, 1].tolist()) <= {-1, 1}
        assert np.isfinite(mean.w).all()
        assert np.isfinite(mean.p).all()
