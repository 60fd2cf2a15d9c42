"""Poisson and gamma losses in one pass: near the optimum, from any level, dense, sparse and in lanes."""

import numpy as np
import pytest

from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.drive import sweeps
from fewpass.solvers.intercept import from_level
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import LOSSES, Problem, slope, value
from fewpass.solvers.onepass.adagrad import implicit_slope
from fewpass.solvers.onepass.onepass import Onepass
from fewpass.solvers.onepass.onepass_state import late_losses
from fewpass.solvers.onepass.visit import ASGD, visit_rows
from fewpass.solvers.penalties import L2
from testing import oracles
from testing.oracles import block, stats

LAM = 1e-3


def rows(loss, n=4000, d=5, mean=30.0, seed=0):
    rng = np.random.default_rng(seed)
    X = oracles.single(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6))
    mu = mean * np.exp(X @ rng.normal(0.0, 0.4, d))
    y = rng.poisson(mu).astype(float) if loss == "poisson" else mu * rng.gamma(3.0, 1 / 3, n)
    return X, y, rng.uniform(0.5, 1.5, n)


def problem_for(loss, y):
    kind = LOSSES[loss]()
    return Problem(kind, L2(LAM), 1.0, LAM / 100, float(kind.best_constant(y.mean())))


def as_block(kind, X, y, weight, order=None):
    stored = oracles.stored(kind, X)
    return block(stored, y, weight, order)


def known_of(kind, X, y, weight):
    return stats(X, kind, weight, y)._replace(target_mean=y.mean())


def visited(solver, problem, kind, X, y, weight, cuts=()):
    known = known_of(kind, X, y, weight)
    state = solver.init(problem, known)
    for order in np.split(np.arange(len(y)), cuts):
        state = solver.step(problem, known, state, as_block(kind, X, y, weight, order))
    return state


def objective(problem, weights, X, y, weight):
    p, up = X @ weights.coef + weights.intercept, weights.intercept - problem.level
    charged = 0.5 * problem.lam * weights.coef @ weights.coef + 0.5 * problem.lam_b * up**2
    return weight @ value(problem.loss, p, y) / len(y) + charged


@pytest.mark.parametrize("mean", [30.0, 1e5])
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_one_pass_is_near_the_optimum_whatever_the_level(loss, mean):
    X, y, weight = rows(loss, mean=mean)
    problem, newton = problem_for(loss, y), Newton()
    for moment in sweeps(
        newton, problem, known_of(DenseRows, X, y, weight), as_block(DenseRows, X, y, weight)
    ):
        certified = newton.certificate(moment.state)
        if certified.gap <= 1e-9 * certified.objective or moment.passes > 30:
            break
    least = certified.objective
    none = objective(problem, newton.weights(moment.state)._replace(coef=np.zeros(5), intercept=problem.level), X, y, weight)  # fmt: skip
    for columns, share in ((512, 1e-3), (0, 0.05)):
        solver = Onepass(newton_columns=columns)
        state = visited(solver, problem, SparseRows, X, y, weight)
        excess = objective(problem, solver.weights(state), X, y, weight) - least
        assert -1e-9 * least <= excess <= share * (none - least), columns
        assert np.isinf(late_losses(state)[ASGD])


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_rows_counted_from_a_level_have_the_same_losses_and_slopes(loss):
    X, y, weight = rows(loss, n=50)
    problem = problem_for(loss, y)._replace(level=2.7)
    at_zero, of = from_level(problem, as_block(DenseRows, X, y, weight))
    assert at_zero.level == 0.0
    p = np.linspace(-3.0, 3.0, 50)
    for f in (value, slope):
        np.testing.assert_allclose(
            of.weight * f(problem.loss, p, of.y), weight * f(problem.loss, p + 2.7, y), rtol=1e-9
        )
    same = as_block(DenseRows, X, y, weight)
    assert from_level(at_zero, same) == (at_zero, same)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_a_step_is_implicit(loss):
    """z + q c phi'(z, y) = a, of any count, however long the step."""
    kind = LOSSES[loss]()
    for a, q, y in ((0.3, 2.0, 4.0), (-5.0, 1e3, 1e6), (20.0, 1e-3, 0.5), (40.0, 10.0, 3.0)):
        g = implicit_slope(kind, 1.5, a, q, y)
        z = a - q * g
        away = z - a + q * 1.5 * slope(kind, z, y)
        curved = 1.0 + q * 1.5 * (np.exp(z) if loss == "poisson" else y * np.exp(-z))
        assert abs(away / curved) < 1e-5 * (1.0 + abs(a))


def test_dense_sparse_and_plain_python_agree_and_a_resumed_pass_has_the_same_bits():
    X, y, weight = rows("poisson", n=200)
    problem, solver = problem_for("poisson", y), Onepass(newton_columns=0)
    dense = visited(solver, problem, DenseRows, X, y, weight, (99,))
    whole, cut = (
        visited(solver, problem, SparseRows, X, y, weight, c) for c in ((99,), (99, 100, 180))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewpass.solvers.onepass.onepass.visit_rows", visit_rows.py_func)
        slow = visited(solver, problem, SparseRows, X, y, weight, (99,))
    for other in (whole, slow):
        np.testing.assert_allclose(dense.columns, other.columns, rtol=1e-7, atol=1e-10)
    assert np.array_equal(whole.columns, cut.columns)
    start = solver.start_at(problem, known_of(SparseRows, X, y, weight), solver.weights(whole), 200)
    assert solver.weights(start).intercept == pytest.approx(solver.weights(whole).intercept)
