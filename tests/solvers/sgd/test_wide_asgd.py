"""Averaged SGD for the softmax loss: against its recursion in NumPy, and against itself."""

import numpy as np
import pytest
from scipy.special import softmax

from fewpass.solvers.losses import Problem, SoftmaxLoss
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights, copy_state
from fewpass.solvers.sgd import wide_asgd
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.solvers.sgd.first_step_size import TRIAL_ROWS
from fewpass.solvers.sgd.wide_asgd import WideAsgd
from fewpass.solvers.wide_gradient import loss_at_zero
from testing import oracles
from testing import softmax_oracles as oracle

K = 5


def problem_of(lam=2e-3):
    return Problem(SoftmaxLoss(K), L2(lam), 1.0, 0.01 * lam)


def recursion(problem, of, order, gamma0, t0):
    """Equations (2), (3) and (6) with dense matrices, from the steps of averaged_sgd.py."""
    W, b = np.zeros((K, of.X.shape[1])), np.zeros(K)
    bar, b_bar = W, b
    for t, i in enumerate(order, start=1):
        gamma = gamma0 * (1.0 + problem.lam * gamma0 * t) ** -0.75
        g = of.weight[i] * (softmax(W @ of.X[i] + b) - np.eye(K)[int(of.y[i])])
        W = (1.0 - problem.lam * gamma) * W - gamma * np.outer(g, of.X[i])
        b = b - gamma * (problem.lam_b * b + g)
        eta = 1.0 / max(1, t - t0)
        bar, b_bar = (1.0 - eta) * bar + eta * W, (1.0 - eta) * b_bar + eta * b
    return bar, b_bar


def stepped(solver, problem, of, order, cuts=1):
    (walk,) = solver.program(0)
    state = solver.init(problem, of.stats)
    for part in np.array_split(order, cuts):
        block = oracles.block(of.rows, of.y, of.weight, part)
        state = walk.step(problem, of.stats, state, block)
    return state


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lam", [2e-3, 0.2])
def test_the_steps_are_those_of_the_recursion(sparse, lam):
    problem, of = problem_of(lam), oracle.rows(n=300, sparse=sparse)
    order = np.random.default_rng(1).permutation(300)
    for cuts in (1, 4):
        solver = WideAsgd(width=K, gamma0=0.05)
        at = solver.weights(stepped(solver, problem, of, order, cuts))
        coef, b = recursion(problem, of, order, 0.05, 30)
        np.testing.assert_allclose(at.coef, coef, atol=1e-12)
        np.testing.assert_allclose(at.intercept, b, atol=1e-12)


def test_python_computes_what_kernels_do(monkeypatch):
    problem, of, order = problem_of(), oracle.rows(n=40), np.arange(40)
    solver = WideAsgd(width=K)
    compiled = stepped(solver, problem, of, order)
    for name in ("step_wide_rows", "wide_trial_objective"):
        monkeypatch.setattr(wide_asgd, name, getattr(wide_asgd, name).py_func)
    plain = stepped(solver, problem, of, order)
    assert plain.gamma0 == compiled.gamma0
    np.testing.assert_allclose(plain.W, compiled.W, rtol=1e-9, atol=1e-12)
    assert plain.monitor == pytest.approx(compiled.monitor)


def test_a_step_that_is_too_long_is_seen():
    problem, of = problem_of(), oracle.rows(n=400)
    solver = WideAsgd(width=K, gamma0=100.0)
    (walk,) = solver.program(0)
    state = stepped(solver, problem, of, np.arange(400))
    assert walk.diverged(state)
    assert walk.recover(problem, of.stats, state).gamma0 == 50.0
    assert loss_at_zero(problem.loss) == pytest.approx(np.log(K))


def test_one_pass_comes_near_the_optimum():
    problem, of = problem_of(0.01), oracle.rows(n=2 * TRIAL_ROWS)
    optimum = oracle.optimum(problem, of)[0]
    solver = WideAsgd(width=K)
    at = solver.weights(stepped(solver, problem, of, np.random.default_rng(0).permutation(2000)))
    assert oracle.objective(problem, of, at.coef, at.intercept)[0] < optimum + 0.05


def test_more_columns_and_a_start_elsewhere():
    problem, of = problem_of(), oracle.rows(n=60)
    solver = WideAsgd(width=K, gamma0=0.05)
    state = stepped(solver, problem, of, np.arange(60))
    wider = solver.resized(problem, copy_state(state), 12)
    before, after = solver.weights(state), solver.weights(wider)
    np.testing.assert_array_equal(after.coef[:, :7], before.coef)
    assert not after.coef[:, 7:].any()
    begun = solver.start_at(problem, of.stats, Weights(before.coef, before.intercept), 1000)
    assert begun.t == 1000
    np.testing.assert_array_equal(solver.weights(begun).coef, before.coef)
    np.testing.assert_array_equal(solver.weights(begun).intercept, before.intercept)


def test_streams_are_averaged():
    problem, of = problem_of(), oracle.rows(n=60)
    solver = WideAsgd(width=K, gamma0=0.05)
    (walk,) = solver.program(0)
    states = [stepped(solver, problem, of, part) for part in np.array_split(np.arange(60), 2)]
    each = [solver.weights(state) for state in states]
    joined = solver.weights(walk.join(problem, of.stats, states)._replace(t=10**6))
    np.testing.assert_allclose(joined.coef, np.mean([w.coef for w in each], axis=0), atol=1e-15)
    np.testing.assert_allclose(
        joined.intercept, np.mean([w.intercept for w in each], axis=0), atol=1e-15
    )


def test_a_start_that_is_sought_is_refused():
    assert Asgd(average_from="auto").for_one_score == "average_from"
    with pytest.raises(ValueError, match="average_from = auto is for losses of one score"):
        WideAsgd(width=K, average_from="auto").init(problem_of(), oracle.rows().stats)
