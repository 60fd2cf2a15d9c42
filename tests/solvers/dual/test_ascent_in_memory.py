"""Dual ascent on rows in memory: its proof against independent optima, its steps against NumPy."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fewpass import LinearClassifier
from fewpass.pipeline.training import in_memory
from fewpass.solvers.certified_minimum import Sizes
from fewpass.solvers.dual import rounds_in_memory
from fewpass.solvers.dual.ascent_in_memory import _beginning, _given, ascend
from fewpass.solvers.dual.rounds_in_memory import step_far
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import conjugate
from testing import oracles
from tests.conftest import ROUNDING

PAIRS = [("hinge", DenseRows), ("logistic", SparseRows), ("squared", DenseRows)]
N, D, LAM, TOL = 60, 30, 1e-2, 1e-8


def given_rows(loss, kind, n=N, d=D):
    X, y, weight = oracles.rows_of(n, d, loss, seed=3)
    held = oracles.dense_rows(X) if kind is DenseRows else oracles.sparse_rows(csr_matrix(X))
    return (X, y, weight), oracles.block(held, y, weight)


def ascended(loss, kind, intercept="none", tol=TOL, most=3000, lam=LAM, **known):
    rows, block = given_rows(loss, kind)
    problem = oracles.problem_of(loss, lam, intercept)
    return problem, rows, ascend(problem, Sizes(N, D, (0.5,)), block, tol, most, **known)


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize(("loss", "kind"), PAIRS)
def test_it_ends_where_it_says_and_proves_it(loss, kind, intercept):
    problem, rows, found = ascended(loss, kind, intercept)
    true = oracles.objective(loss, problem, *rows, *found.weights)[0]
    assert found.certificate.objective == pytest.approx(true, rel=1e-10)
    assert found.certificate.relative <= TOL
    least = true if loss == "hinge" else oracles.optimum(loss, problem, *rows)
    assert true - found.certificate.gap <= least + 1e-12 <= true + 2e-12


def test_the_gap_is_that_of_the_dual_variables():
    """P - D, with D from its definition, and the weights those of the dual variables."""
    (X, y, weight), block = given_rows("hinge", DenseRows)
    problem = oracles.problem_of("hinge", LAM)
    given = _given(problem, Sizes(N, D, (1.0,)), block, 1e-3)
    at, here = _beginning(given, D, 0), rounds_in_memory.Round()
    rounds_in_memory.ascend_until(at, given, here, 40 * N, 40 * N)
    a, w = at.duals[:, 0], at.w[:-1]
    assert np.allclose(w, (weight * a * y) @ X / (LAM * N), rtol=0.0, atol=1e-13)
    P = np.mean(weight * np.maximum(0.0, 1.0 - y * (X @ w))) + 0.5 * LAM * w @ w
    D_a = np.mean(weight * a) - 0.5 * LAM * w @ w
    assert ((a >= 0.0) & (a <= 1.0)).all()
    found = ascend(problem, Sizes(N, D, (1.0,)), block, 1e-3, 40)
    assert found.certificate.objective == pytest.approx(P, rel=1e-12)
    assert found.certificate.gap == pytest.approx(P - D_a, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_a_round_is_sdcas_steps_one_after_the_other(loss):
    (_X, _y, _weight), block = given_rows(loss, DenseRows)
    problem = oracles.problem_of(loss, LAM, "free")
    given = _given(problem, Sizes(N, D, (1.0,)), block, 1e-3)
    compiled, plain = _beginning(given, D, 5), _beginning(given, D, 5)
    with np.errstate(over="ignore"):
        for m in (N, N, N // 2):
            told = rounds_in_memory.visit_round(compiled, given, m, 0.0)
            again = rounds_in_memory.visit_round.py_func(plain, given, m, 0.0)
            assert told == pytest.approx(again, rel=1e-9)
    assert np.array_equal(compiled.order, plain.order)
    assert sorted(plain.order) == list(range(N))
    assert np.allclose(compiled.duals, plain.duals, rtol=0.0, atol=1e-12)
    assert np.allclose(compiled.w, plain.w, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_long_step_raises_the_dual_or_is_taken_back(loss):
    (X, y, weight), block = given_rows(loss, DenseRows)
    problem = oracles.problem_of(loss, 1e-4)
    given = _given(problem, Sizes(N, D, (1.0,)), block, 1e-3)
    at, moved, formula = _beginning(given, D, 1), 0, problem.loss

    def dual():
        own = sum(c * conjugate(formula, a, s) for c, a, s in zip(weight, at.duals[:, 0], y))
        return -own / N - 0.5 * problem.lam * at.w[:-1] @ at.w[:-1]

    for _ in range(12):
        rounds_in_memory.note_begin(at, N)
        for _ in range(3):
            rounds_in_memory.visit_round(at, given, N, 0.0)
        before, w = dual(), at.w.copy()
        step_far(at, given, N)
        moved += not np.array_equal(w, at.w)
        assert dual() >= before - ROUNDING
        assert np.allclose(at.w[:-1], (weight * at.duals[:, 0] * y) @ X / (problem.lam * N))
    assert moved > 3


def test_the_same_seed_has_the_same_bits():
    first, same, other = (ascended("hinge", DenseRows, seed=seed)[2] for seed in (1, 1, 2))
    assert np.array_equal(first.weights.coef, same.weights.coef)
    assert first.passes == same.passes
    assert not np.array_equal(first.weights.coef, other.weights.coef)


def test_what_would_take_too_long_ends_with_what_it_has_proven():
    problem, rows, found = ascended("squared", DenseRows, tol=1e-12, most=50, lam=1e-9)
    assert found.passes <= 60
    assert found.certificate.relative > 1e-12
    true = oracles.objective("squared", problem, *rows, *found.weights)[0]
    gap = found.certificate.gap
    assert true - gap <= oracles.optimum("squared", problem, *rows) + 1e-12


def test_estimators_train_many_columns_at_once_and_others_by_the_engine(monkeypatch):
    (X, y, _), _ = given_rows("hinge", DenseRows)
    asked = []

    def counted(*given):
        asked.append(given)
        return ascend(*given)

    monkeypatch.setattr(in_memory, "ascend", counted)
    words = {"loss": "hinge", "lam": LAM, "tol": 1e-6}
    for rows, solver, times in (
        (X, "auto", 1), (csr_matrix(X), "psdca", 1), (X, {"kind": "psdca", "grow_to": 8}, 0),
        (X[:, :5], "psdca", 0), (X, "sdca", 0),
    ):  # fmt: skip
        asked.clear()
        model = LinearClassifier(solver=solver, **words).fit(rows, y)
        assert len(asked) == times, solver
        assert model.certificate_ <= 1e-6 * max(model.objective_, 1e-3)
        assert model.solver_ in ("psdca", "sdca")


def test_what_is_not_proven_at_once_is_trained_by_the_engine(monkeypatch):
    (X, y, _), _ = given_rows("hinge", DenseRows)
    monkeypatch.setattr(in_memory, "MOST_VISITS", 2)
    model = LinearClassifier(loss="hinge", lam=LAM, tol=1e-6).fit(X, y)
    assert model.certificate_ <= 1e-6 * model.objective_
