"""The first step, found on the first rows: real data, one pass, nothing tuned."""

import bz2
import lzma

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from fewpass.solvers.gradient import certificate
from fewpass.solvers.kernels.rows import DenseRows, SparseRows, paired_zeros
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.solvers.sgd.averaged_state import Schedule
from fewpass.solvers.sgd.first_step_size import (
    NEAR_TIE,
    POWERS,
    TRIAL_ROWS,
    calibrate,
    trial_objective,
)
from testing import oracles
from testing.oracles import block, dense_rows, sparse_rows, stats
from tests.conftest import STOCHASTIC

#: lam = 1/n: the optimum (L-BFGS, proved to a tenth of the excess by its certificate), and the
#: excess over it after one calibrated pass (section 2.6; another permutation, another rule of ties).
PUBLISHED = {
    "a9a/a9a.xz": {"logistic": (0.323380, 1.8e-3), "squared_hinge": (0.211068, 1.6e-3)},
    "w8a/w8a.xz": {"logistic": (0.126181, 5.0e-3), "squared_hinge": (0.079587, 8.7e-3)},
    "ijcnn1/ijcnn1.trn.bz2": {"logistic": (0.188120, 9.0e-4), "squared_hinge": (0.110453, 3.1e-3)},
    "phishing.svm.xz": {
        "logistic": (0.186829, 1.5e-3),
        "squared_hinge": (0.095071, 1.3e-3),
    },
    "reuters/reuters.trn.bz2": {
        "logistic": (0.136467, 2.9e-3),
        "squared_hinge": (0.030217, 5.8e-3),
    },
}


@pytest.fixture(
    scope="module",
    params=[
        name if "/" not in name else pytest.param(name, marks=pytest.mark.public_data)
        for name in PUBLISHED
    ],
)
def real(request, data_file):
    """One set as stored, its stats and its name."""
    path = data_file(request.param)
    with (lzma if path.suffix == ".xz" else bz2).open(path, "rb") as file:
        X, y = load_svmlight_file(file)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    known = ProblemStats(
        len(y), X.shape[1], SparseRows, squares.mean(), squares.max(), 1.0, len(y),
        shuffled=True, target_square=1.0, sigma_square=squares.max(), streams=1, seed=0,
    )  # fmt: skip
    return block(sparse_rows(X), np.where(y > 0, 1.0, -1.0)), known, request.param


def one_pass(solver, problem, known, all_rows):
    """One pass, started again as often as the guard asks for it."""
    state = solver.step(problem, known, solver.init(problem, known), all_rows)
    while state.monitor.diverged:
        state = solver.restarted(problem, known, state)
        state = solver.step(problem, known, state, all_rows)
    return solver.weights(state)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_one_pass_on_real_data_is_as_near_the_optimum_as_published(real, loss):
    stored, known, name = real
    optimum, published = PUBLISHED[name][loss]
    problem = Problem(LOSSES[loss](), L2(1.0 / known.n), 0.0, 1.0)
    reached = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(known.n)
        at = one_pass(Asgd(), problem, known, stored._replace(order=order))
        part = oracles.gradient_part(problem, at, stored)
        reached.append(certificate(problem, at, part).objective)
    assert -0.1 * published < np.mean(reached) - optimum <= STOCHASTIC * published


def trial(X, y, weight, problem, schedule, gamma0):
    """Objective of the last iterate of one pass, from the direct recursion."""
    ends = oracles.asgd("logistic", problem, X, y, weight, gamma0, *schedule, t0=len(y))
    return oracles.objective("logistic", problem, X, y, weight, ends.theta, ends.b)[0]


def some_rows(n, rng):
    X = oracles.single(rng.standard_normal((n, 4)))
    return X, np.where(X[:, 0] + rng.standard_normal(n) > 0.0, 1.0, -1.0), rng.uniform(0.5, 1.5, n)


def test_the_chosen_step_ends_near_the_best_of_its_grid(rng):
    X, y, weight = some_rows(300, rng)
    problem, schedule = Problem(LOSSES["logistic"](), L2(0.01), 1.0, 0.001), Schedule(0.01, 0.75)
    rows = block(dense_rows(X), y, weight)
    known = stats(X, DenseRows, weight)
    chosen = calibrate(problem, schedule, 40.0, known, rows)
    grid = [4.0**j / 40.01 for j in POWERS]
    grid = [g for g in grid if 0.01 * g < 0.9]
    mine = trial(X, y, weight, problem, schedule, chosen)
    best = min(trial(X, y, weight, problem, schedule, g) for g in grid)
    assert mine <= (1.0 + NEAR_TIE) * best
    assert trial(X, y, weight, problem, schedule, chosen / 4) > best
    W = paired_zeros(DenseRows, 4)
    kernels = trial_objective(W, chosen, schedule, problem, *rows[:4])
    assert kernels == pytest.approx(mine, rel=1e-10)


def test_only_the_first_rows_count_and_nothing_is_changed(rng):
    X, y, weight = some_rows(2 * TRIAL_ROWS, rng)
    problem, schedule = Problem(LOSSES["hinge"](), L2(1e-3), 0.0, 1.0), Schedule(1e-3, 0.75)
    known = stats(X, DenseRows)
    before = calibrate(problem, schedule, 20.0, known, block(dense_rows(X), y, weight))
    X[TRIAL_ROWS:], y[TRIAL_ROWS:] = 0.0, 1.0
    rows = block(dense_rows(X), y, weight)
    copies = [X.copy(), y.copy(), weight.copy()]
    assert calibrate(problem, schedule, 20.0, known, rows) == before
    for array, copy in zip((X, y, weight), copies, strict=True):
        assert (array == copy).all()


def test_candidates_that_explode_drop_out(rng):
    X, y, weight = some_rows(200, rng)
    problem, schedule = Problem(LOSSES["squared"](), L2(1e-9), 0.0, 1.0), Schedule(1e-9, 2 / 3)
    known = stats(X, DenseRows)
    chosen = calibrate(problem, schedule, 20.0, known, block(dense_rows(X), y, weight))
    assert np.isfinite(trial_objective(paired_zeros(DenseRows, 4), chosen, schedule, problem,
                                       *block(dense_rows(X), y, weight)[:4]))  # fmt: skip
    assert chosen < 1.0
    huge = block(dense_rows(1e200 * X), y, weight)  # every candidate explodes
    assert calibrate(problem, schedule, 20.0, known, huge) == pytest.approx(4.0**-2 / 20.0 / 2)


def test_a_strong_regulariser_leaves_candidates(rng):
    X, y, weight = some_rows(50, rng)
    problem, schedule = Problem(LOSSES["logistic"](), L2(1e6), 0.0, 1.0), Schedule(1e6, 0.75)
    chosen = calibrate(problem, schedule, 9.0, stats(X, DenseRows), block(dense_rows(X), y, weight))
    assert 0.0 < problem.lam * chosen < 0.9
