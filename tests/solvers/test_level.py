"""The level that the intercept is charged from: targets as far up, charged from 0, are the same.

And every method's answer beside SciPy's.
"""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.warm_start import SLOPES_AS_DUALS
from fewpass.solvers.losses import LOSSES, Problem, SoftmaxLoss, value
from fewpass.solvers.needs import takes_loss
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights
from fewpass.solvers.registry import METHODS, WIDE_METHODS, fit_for, method_class
from testing.blocks import stats_of
from testing.dual_runs import Run, data
from testing.oracles import block, dense_rows, problem_of, rows_of

LEVEL = 40.0
AT_ZERO = problem_of("squared", 0.3, "regularised")  # so heavy that the level decides
AT_LEVEL = AT_ZERO._replace(level=LEVEL)


def rows(up=0.0, **how):
    X, y, weight = rows_of(80, 5, "squared", seed=4)
    return data(X, y + up, weight, **how)


def same_but_up(found, expected, at, at_zero):
    """The same certificate, and weights that differ by the level alone."""
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.gap == pytest.approx(expected.gap, rel=1e-3, abs=1e-12)
    np.testing.assert_allclose(at.coef, at_zero.coef, rtol=1e-6, atol=1e-9)
    assert at.intercept == pytest.approx(at_zero.intercept + LEVEL, rel=1e-9)


@pytest.mark.parametrize(
    ("solver", "streams"),
    [(Sdca(), 1), (Psdca(), 1), (Sdca(), 2), (Psdca(), 2), (Psdca(columns="apart"), 1)],
)
def test_dual_steps(solver, streams):
    at, at_zero = (
        Run(solver, problem, rows(up, streams=streams, merges=2 * streams - 1))
        for problem, up in ((AT_LEVEL, LEVEL), (AT_ZERO, 0.0))
    )
    for _ in range(18):  # beyond the 16th, which adds the weights up afresh
        at.one_pass()
        at_zero.one_pass()
    np.testing.assert_allclose(at.dual_variables, at_zero.dual_variables, rtol=1e-6, atol=1e-9)
    same_but_up(at.certified(), at_zero.certified(), at.weights, at_zero.weights)


@pytest.mark.parametrize("solver", [Sdca(), Psdca()])
def test_dual_steps_from_another_model(solver):
    found = []
    for problem, up in ((AT_LEVEL, LEVEL), (AT_ZERO, 0.0)):
        run = Run(solver, problem, rows(up))
        given = Weights(np.linspace(-1.0, 1.0, 5), up + 1.5)
        start = solver.start_at(problem, run.of.stats, given, 0)
        warm, everything = solver.warm_start_pass, run.block(np.arange(len(run.of.y)))
        total = SLOPES_AS_DUALS.add(problem, warm.at(start), everything, warm.sum.zero(given))
        run.state = warm.absorb(problem, run.of.stats, start, total, 0)
        proven = solver.certificate(run.state)
        run.passes(3)
        found.append((proven, solver.certificate(run.state), run.weights))
    (proven, after, at), (proven_zero, after_zero, at_zero) = found
    assert proven.gap == pytest.approx(proven_zero.gap, rel=1e-9)
    assert proven.objective == pytest.approx(proven_zero.objective, rel=1e-9)
    same_but_up(after, after_zero, at, at_zero)


def test_newton():
    found = []
    for problem, up in ((AT_LEVEL, LEVEL), (AT_ZERO, 0.0)):
        of = rows(up)
        everything = block(dense_rows(of.X), of.y, of.weight)
        for moment in sweeps(Newton(), problem, of.stats, everything):
            if moment.passes >= 2:
                break
        whole = minimise(problem, of.stats, everything, 1e-10, 10.0)
        found.append((Newton().certificate(moment.state), Newton().weights(moment.state)))
        found.append((whole.certificate, whole.weights))
    for (certified, at), (expected, at_zero) in zip(found[:2], found[2:], strict=True):
        same_but_up(certified, expected, at, at_zero)


ROWS = np.random.default_rng(5).normal(size=(60, 3))
NOISE = np.random.default_rng(6).normal(size=60)


def targets_and_level(loss):
    if loss == "squared":
        return ROWS[:, 0] + LEVEL + NOISE, LEVEL
    if loss == "softmax":
        scores = ROWS @ np.ones((3, 3)) + ROWS * [2.0, 0.0, -2.0] + [2.0, 0.0, -1.0]
        return np.argmax(scores, axis=1).astype(float), (1.2, -0.1, -1.1)
    return np.where(ROWS[:, 0] + NOISE > 1.2, 1.0, -1.0), -2.0


def objective(problem, y, w):
    """Mean loss and charges of weights with the intercept last, of each class in turn."""
    K = problem.loss.width
    each = np.reshape(w, (K, 4))
    scores = ROWS @ each[:, :3].T + each[:, 3]
    loss = problem.loss.losses(scores, y) if K > 1 else value(problem.loss, scores[:, 0], y)
    up = each[:, 3] - problem.level
    charged = problem.lam * np.sum(each[:, :3] ** 2) + problem.lam_b * np.sum(up * up)
    return float(np.mean(loss) + 0.5 * charged)


EACH = [
    *((kind, loss) for kind in METHODS for loss in ("squared", "logistic")),
    *((kind, "softmax") for kind in WIDE_METHODS),
]


@pytest.mark.parametrize(("kind", "loss"), EACH)
def test_every_method_charges_the_intercept_from_the_level(kind, loss):
    y, level = targets_and_level(loss)
    wide = loss == "softmax"
    of = SoftmaxLoss(3) if wide else LOSSES[loss]()
    problem = Problem(of, L2(0.3), 1.0, 0.3, level)
    method = fit_for(method_class(kind)(), of.width, smooth=True)
    if not takes_loss(method.needs, problem):
        pytest.skip("another loss's method")
    about = y - level if loss == "squared" else np.ones(60)
    known = stats_of(ROWS, y)._replace(target_square=float(np.mean(np.square(about))))
    for moment in sweeps(method, problem, known, block(dense_rows(ROWS), y)):
        if moment.passes >= 15:
            break
    best = minimize(partial(objective, problem, y), np.zeros(4 * of.width), tol=1e-12).fun
    at, proven = method.weights(moment.state), method.certificate(moment.state)
    found = objective(problem, y, np.column_stack([*np.atleast_2d(at.coef).T, at.intercept]))
    if proven is None:
        assert found - best < 0.05
    else:
        assert proven.objective == pytest.approx(found, rel=1e-9)
        assert -1e-9 < found - best < proven.gap + 1e-9
        assert proven.gap < 1e-2
