"""The intercept's own step and start, where the first step is calibrated."""

import math

import numpy as np
import pytest

from fewpass.solvers.intercept import LENGTH_SHARE, column_length, with_column
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.sgd.averaged_sgd import Asgd
from testing import oracles
from testing.oracles import block, dense_rows, stats


def rows_of(n, scale, rng):
    X = oracles.single(scale * rng.standard_normal((n, 5)))
    return X, X @ rng.standard_normal(5) / scale + rng.standard_normal(n)


def trained(loss, X, y, lam=1e-3):
    problem, known = Problem(LOSSES[loss](), L2(lam), 1.0, 1e-5), stats(X, DenseRows, y=y)
    solver = Asgd()
    state = solver.step(problem, known, solver.init(problem, known), block(dense_rows(X), y))
    return problem, known, solver, state


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_it_is_the_direct_recursion_with_another_column(scale, rng):
    X, y = rows_of(2000, scale, rng)
    y = np.where(y > 0.5, 1.0, -1.0)
    problem, known, solver, state = trained("logistic", X, y)
    length = column_length(problem, known)
    assert math.frexp(length)[0] == 0.5  # a power of 2
    assert 0.7 <= length / (LENGTH_SHARE * math.sqrt(known.mean_square)) <= 1.42
    inner = with_column(problem, length)
    expected = oracles.asgd(
        "logistic", inner, X, y, np.ones(2000), state.gamma0, problem.lam, 0.75, 200
    )
    found = solver.weights(state)
    np.testing.assert_allclose(found.coef, expected.bar, rtol=1e-8)
    assert found.intercept == pytest.approx(length * expected.b_bar, rel=1e-8)


def test_units_of_the_features_do_not_matter(rng):
    X, y = rows_of(2000, 1.0, rng)
    y = np.where(y > 0.5, 1.0, -1.0)
    found = []
    for scale in (1.0, 2.0**-10, 2.0**12):
        _, _, solver, state = trained("logistic", scale * X, y, lam=1e-3 * scale**2)
        at = solver.weights(state)
        found.append(np.append(scale * at.coef, at.intercept))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9)


def test_no_rows_to_measure_and_no_intercept_leave_the_column_alone():
    problem = Problem(LOSSES["logistic"](), L2(1.0), 1.0, 1.0)
    assert column_length(problem, stats(np.zeros((3, 2)), DenseRows)) == 1.0
    assert column_length(problem._replace(intercept=0.0), stats(np.ones((3, 2)), DenseRows)) == 1.0
