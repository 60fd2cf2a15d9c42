"""L-BFGS for the softmax loss: never below the optimum, and at it."""

import numpy as np
import pytest

from fewpass.solvers.batch.lbfgs import WideLbfgs
from fewpass.solvers.drive import sweeps
from fewpass.solvers.losses import Problem, SoftmaxLoss
from fewpass.solvers.penalties import L2, ElasticNet
from fewpass.solvers.protocol import Weights
from testing import oracles
from testing import softmax_oracles as oracle

K = 5
LBFGS, TOL, PASSES = WideLbfgs(width=K), 1e-10, 60


def problem_of(column=1.0):
    return Problem(SoftmaxLoss(K), L2(2e-2), column, 2e-4)


@pytest.mark.parametrize("column", [0.0, 1.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_comes_to_the_optimum_and_never_below(column, sparse):
    problem, of = problem_of(column), oracle.rows(n=120, sparse=sparse)
    optimum, coef, _ = oracle.optimum(problem, of)
    block = oracles.block(of.rows, of.y, of.weight)
    for passes, after in enumerate(sweeps(LBFGS, problem, of.stats, block), 1):
        proven, at = LBFGS.certificate(after.state), LBFGS.weights(after.state)
        objective = oracle.objective(problem, of, at.coef, at.intercept)[0]
        assert proven.objective == pytest.approx(objective, rel=1e-12)
        assert proven.objective - proven.gap <= optimum + 1e-12
        assert optimum <= objective + 1e-12
        if proven.gap <= TOL or passes == PASSES:
            break
    assert proven.gap <= TOL
    assert np.linalg.norm(at.coef - coef) <= np.sqrt(2.0 * proven.gap / problem.lam) + 1e-9


def test_given_weights_are_where_it_begins():
    method, problem, of = LBFGS, problem_of(), oracle.rows()
    given = Weights(np.arange(7.0 * K).reshape(K, 7), np.arange(5.0))
    at = method.newest(method.start_at(problem, of.stats, given, 0))
    np.testing.assert_array_equal(at.coef, given.coef)
    np.testing.assert_array_equal(at.intercept, given.intercept)
    with pytest.raises(ValueError, match="No method takes softmax with an l1"):
        method.init(problem._replace(penalty=ElasticNet(0.1)), of.stats)
