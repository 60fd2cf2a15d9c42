"""Objective, gradient and certificate: against NumPy, and never below the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from fewpass.solvers.gradient import GradientPart, add_slopes, certificate
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights, add_parts
from testing import oracles
from testing.oracles import ROWS_OF, block, dense_rows, gradient_part, sparse_rows
from tests.conftest import CONVERGED, ROUNDING

SMOOTH = [name for name, kind in LOSSES.items() if kind.is_smooth and not kind.is_steep]


def rows_of(rng, n, d, loss):
    X = oracles.single(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    weight = rng.uniform(0.5, 1.5, n)
    return (
        X,
        y if LOSSES[loss].takes_numbers else np.where(y > 0.0, 1.0, -1.0),
        weight / weight.mean(),
    )


def at_point(problem, w, b, X, y, weight):
    """On the rows that the loss is tested on."""
    rows = sparse_rows(csr_matrix(X)) if ROWS_OF[problem.loss.name] is SparseRows else dense_rows(X)
    part = gradient_part(problem, Weights(w, b), block(rows, y, weight))
    return part, certificate(problem, Weights(w, b), part)


@pytest.mark.parametrize("loss", ROWS_OF)
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_sums_and_bound_are_the_formulas(loss, column, rng):
    X, y, weight = rows_of(rng, 200, 7, loss)
    problem = Problem(LOSSES[loss](), L2(0.1), column, 0.001)
    w, b = rng.standard_normal(7), 0.3 * column
    part, found = at_point(problem, w, b, X, y, weight)
    f, g, g_b = oracles.objective(loss, problem, X, y, weight, w, b)
    np.testing.assert_allclose(part.G / 200 + 0.1 * w, g, rtol=ROUNDING, atol=ROUNDING)
    assert found.objective == pytest.approx(f, rel=ROUNDING)
    gap = g @ g / 0.2 + (g_b**2 / 0.002 if column else 0.0)
    assert found.gap == pytest.approx(min(gap, f), rel=1e-10)  # no loss is below 0
    assert found.relative == found.gap / found.objective


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_certificate_is_never_below_the_true_gap(loss, column, rng):
    X, y, weight = rows_of(rng, 150, 6, loss)
    problem = Problem(LOSSES[loss](), L2(0.05), column, 0.0005)

    def objective(v):
        f, g, g_b = oracles.objective(loss, problem, X, y, weight, v[:6], v[6])
        return f, np.append(g, g_b)

    best = minimize(objective, np.zeros(7), jac=True, method="L-BFGS-B",
                    options={"maxiter": 5000, "ftol": 0.0, "gtol": 1e-10})  # fmt: skip
    assert at_point(problem, best.x[:6], best.x[6], X, y, weight)[1].gap <= CONVERGED
    for spread in (0.0, 1e-3, 0.1, 1.0, 30.0):
        v = best.x + spread * rng.standard_normal(7)
        v[6] *= column
        found = at_point(problem, v[:6], v[6], X, y, weight)[1]
        assert found.objective - best.fun <= found.gap + CONVERGED


def test_certificate_of_the_squared_loss_is_exact_where_the_data_are_zero():
    # f = lam/2 ||w||^2 + const, so f - f* is the bound itself
    problem = Problem(LOSSES["squared"](), L2(0.5), 0.0, 1.0)
    w = np.array([3.0, -4.0])
    found = at_point(problem, w, 0.0, np.zeros((4, 2)), np.ones(4), np.ones(4))[1]
    assert (found.objective, found.gap) == (0.5 + 6.25, 6.25)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 40), max_size=4))
def test_parts_of_any_cut_add_up_dense_or_sparse(seed, cuts):
    rng = np.random.default_rng(seed)
    X, y, weight = rows_of(rng, 40, 5, "logistic")
    problem, at = (
        Problem(LOSSES["logistic"](), L2(0.1), 1.0, 0.1),
        Weights(rng.standard_normal(5), 0.2),
    )
    whole = at_point(problem, at.coef, at.intercept, X, y, weight)[0]
    total = GradientPart(0.0, np.zeros(5), 0.0, 0)
    for order in np.split(np.arange(40), sorted(cuts)):
        sparse = block(sparse_rows(csr_matrix(X)), y, weight, order)
        total = add_parts(total, gradient_part(problem, at, sparse))
    assert total.rows == whole.rows == 40
    np.testing.assert_allclose(total.G, whole.G, rtol=0.0, atol=100 * ROUNDING)
    assert total[0] == pytest.approx(whole.loss, rel=ROUNDING)
    assert total.g_b == pytest.approx(whole.g_b, abs=100 * ROUNDING)
    G, inside = np.zeros(5), np.zeros(1)
    slow = add_slopes.py_func(G, *at, problem, *block(dense_rows(X), y, weight)[:5], 2, inside)
    first = at_point(problem, at.coef, at.intercept, X[:32], y[:32], weight[:32])[0]
    assert inside == pytest.approx(first.loss, rel=ROUNDING)
    np.testing.assert_allclose(G, whole.G, rtol=0.0, atol=100 * ROUNDING)
    assert slow == pytest.approx((whole.loss, whole.g_b), rel=ROUNDING, abs=100 * ROUNDING)
