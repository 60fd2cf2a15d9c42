"""Newton's method for the softmax loss: its matrix against differences, and the optimum."""

import numpy as np
import pytest

from fewpass.solvers.batch import wide_newton
from fewpass.solvers.batch.wide_newton import (
    WideNewton,
    add_wide_curvature,
    no_wide_curvature,
    whole,
)
from fewpass.solvers.drive import sweeps
from fewpass.solvers.losses import Problem, SoftmaxLoss
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights
from testing import oracles
from testing import softmax_oracles as oracle

K = 5
METHOD = WideNewton(kind="newton", width=K)


def problem_of(column=1.0):
    return Problem(SoftmaxLoss(K), L2(2e-3), column, 2e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_the_matrix_is_that_of_the_second_derivatives(sparse, column):
    problem, of = problem_of(column), oracle.rows(sparse=sparse)
    rng = np.random.default_rng(0)
    at = Weights(0.3 * rng.standard_normal((K, 7)), column * rng.standard_normal(K))
    part = add_wide_curvature(
        problem, at, oracles.block(of.rows, of.y, of.weight), no_wide_curvature(at)
    )
    H = whole(part.H, K) / len(of.y)

    def gradient(z):
        W = z.reshape(K, -1)
        _, g, g_b = oracle.objective(problem, of, W[:, :-1], W[:, -1])
        g, g_b = g - problem.lam * W[:, :-1], g_b - problem.lam_b * W[:, -1]
        return METHOD.flat(Weights(g, g_b))

    z, h = METHOD.flat(at), 1e-5
    for k in range(len(z)):
        step = np.zeros(len(z))
        step[k] = h
        np.testing.assert_allclose(
            H[k], (gradient(z + step) - gradient(z - step)) / (2.0 * h), atol=1e-8
        )


def test_few_passes_to_the_optimum_and_never_below_it():
    problem, of = problem_of(), oracle.rows(n=120)
    optimum = oracle.optimum(problem, of)[0]
    block = oracles.block(of.rows, of.y, of.weight)
    for passes, after in enumerate(sweeps(METHOD, problem, of.stats, block), 1):
        proven = METHOD.certificate(after.state)
        at = METHOD.weights(after.state)
        objective = oracle.objective(problem, of, at.coef, at.intercept)[0]
        assert proven.objective == pytest.approx(objective, rel=1e-12)
        assert proven.objective - proven.gap <= optimum + 1e-12
        assert optimum <= objective + 1e-12
        if proven.gap <= 1e-10 or passes == 20:
            break
    assert passes <= 12


def test_python_computes_what_kernels_do(monkeypatch):
    problem, of = problem_of(), oracle.rows(n=20)
    at = Weights(np.full((K, 7), 0.1) * np.arange(K)[:, None], np.arange(K) / 3.0)
    block = oracles.block(of.rows, of.y, of.weight)
    compiled = add_wide_curvature(problem, at, block, no_wide_curvature(at))
    for name in ("add_blocks", "add_block"):
        monkeypatch.setattr(wide_newton, name, getattr(wide_newton, name).py_func)
    plain = add_wide_curvature(problem, at, block, no_wide_curvature(at))
    np.testing.assert_allclose(plain.H, compiled.H, rtol=1e-11, atol=1e-13)


def test_too_many_weights_are_refused_with_what_does():
    stats = oracle.rows().stats._replace(d=300)
    with pytest.raises(ValueError, match=r"5 classes of 300 columns have 1505 weights.*psdca.*ovr"):
        METHOD.init(problem_of(), stats)
