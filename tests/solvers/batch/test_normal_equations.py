"""The squared loss by one reading: what it proves is true, rounding included, and no more."""

import numpy as np
import pytest

from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.batch.normal_equations import add_moments, least_squares, moments_of
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from testing.oracles import (
    as_block,
    objective,
    optimum,
    problem_of,
    rows_of,
    stats,
)


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("n", [3, 61, 700])
def test_one_reading_ends_at_the_optimum_and_proves_it(kind, intercept, n):
    X, y, weight = rows_of(n, 6, "squared", seed=1)
    X[:, 2] *= 1e4
    problem = problem_of("squared", 1e-3, intercept)
    found = minimise(problem, stats(X, kind, weight, y), as_block(kind, X, y, weight), 1e-4, 60)
    assert found.passes == 1.0
    assert found.certificate.relative <= 1e-4
    true, least = (
        objective("squared", problem, X, y, weight, *found.weights)[0],
        optimum("squared", problem, X, y, weight),
    )
    assert least <= true * (1.0 + 1e-12)
    assert true <= found.certificate.objective * (1.0 + 1e-12)
    assert found.certificate.objective - least <= found.certificate.gap + 1e-12 * true


def test_one_sum_of_rows_serves_all_lam():
    X, y, weight = rows_of(700, 6, "squared", seed=1)
    rows, known = as_block(SparseRows, X, y, weight), stats(X, SparseRows, weight, y)
    sums = moments_of(problem_of("squared", 1.0), 6, rows)
    for lam in (1e-1, 1e-3):
        problem = problem_of("squared", lam)
        alone, found = (
            minimise(problem, known, rows, 1e-4, 60, sums=given) for given in (None, sums)
        )
        assert found.passes == 0.0
        assert found.weights.coef.tolist() == alone.weights.coef.tolist()
        assert found.certificate == alone.certificate


def test_what_rounding_hides_is_not_proven():
    # Of y = 1e6 all but some 1e-6 is explained: sums of squares do not tell what is left.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    y = 1e6 * (X @ np.ones(4)) + 1e-6 * rng.standard_normal(500)
    problem = problem_of("squared", 1e-30)
    _, certified = least_squares(problem, moments_of(problem, 4, as_block(DenseRows, X, y)))
    assert not certified.relative <= 1e-4


def test_errors_of_sums_are_within_what_is_counted():
    # Single precision sums of numbers that it has exactly, beside those of double precision.
    X, y, _ = rows_of(400, 5, "squared", seed=3)
    X, y = np.round(X, 2), np.round(y, 2)
    problem = problem_of("squared", 1e-2)
    sums = moments_of(problem, 5, as_block(DenseRows, X, y))
    exact = X.astype(np.longdouble).T @ X.astype(np.longdouble)
    gamma = 450 * 2.0**-53
    bound = gamma * np.sqrt(np.outer(np.diagonal(exact), np.diagonal(exact)))
    assert (np.abs(sums.S[:5, :5] - exact) <= bound).all()
    assert np.array_equal(sums.S, sums.S.T)


def test_plain_python_adds_the_same():
    X, y, weight = rows_of(21, 5, "squared", seed=2)
    for kind in (DenseRows, SparseRows):
        rows = as_block(kind, X, y, weight)
        sums = []
        for add in (add_moments, add_moments.py_func):
            S, G = np.zeros((6, 6)), np.zeros(6)
            Q = add(S, G, 1.0, *rows[:4])
            sums.append(np.concatenate([np.tril(S).ravel(), G, [Q]]))
        np.testing.assert_allclose(sums[0], sums[1], rtol=1e-13)
