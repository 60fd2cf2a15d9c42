"""The level that the intercept is charged from: targets as far up, charged from 0, are the same."""

import numpy as np
import pytest

from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.warm_start import SLOPES_AS_DUALS
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.protocol import Weights
from fewpass.solvers.sgd.averaged_sgd import Asgd
from testing.dual_runs import Run, data
from testing.oracles import block, dense_rows, problem_of, rows_of, stats

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


@pytest.mark.parametrize("solver", [Sdca(), Psdca(), Psdca(columns="apart")])
@pytest.mark.parametrize("streams", [1, 2])
def test_dual_steps(solver, streams):
    if streams > 1 and solver.kind == "sdca":
        solver = Sdca(combine="add")
    at, at_zero = (
        Run(solver, problem, rows(up, streams=streams))
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


def test_a_method_that_charges_from_zero_refuses():
    with pytest.raises(ValueError, match=r"from 0, and this problem for that from 40. Use `solver"):
        Asgd().init(AT_LEVEL, stats(np.ones((3, 2)), DenseRows))
