"""Mini-batch Pegasos: against its recursion written out, its guarantee, and its own certificate."""

import numpy as np
import pytest

from fewpass.solvers.dual.pegasos import ADDED, LAST, MEAN, Pegasos
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.papers.takac_2013 import BatchIterate, pegasos
from fewpass.solvers.penalties import L2
from testing import oracles
from testing.dual_runs import (
    Run,
    data,
    dual_objective,
    gen_dense,
    nearer,
    primal_objective,
    unit_data,
    weights_of,
)
from testing.synthetic import text_rows


def hinge(lam, column=0.0, share=1.0):
    return Problem(LOSSES["hinge"](), L2(lam), column, share * lam)


def rows(rng, n=60, d=7):
    X = oracles.single(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6))
    X[3] = 0.0  # an empty row
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    weight = rng.uniform(0.5, 1.5, n)
    return X, y, weight / weight.mean()


def iterates_of(problem, of, orders, batch, cuts, centres=()):
    """What Algorithm 1 predicts by, and where it ends.

    After pass k the intercept's distance from centres[k] is what is charged.
    """
    found, lam_p = [], nearer(problem, of) if problem.intercept else 1.0
    end, centre = BatchIterate(0, 0, np.zeros(of.X.shape[1]), 0.0), 0.0
    for k, order in enumerate(orders):
        parts = np.array_split(order, cuts)
        batches = [A for part in parts for A in np.split(part, range(batch, len(part), batch))]
        offset = (1.0 - problem.lam_b / lam_p) * centre
        more, end = pegasos(problem, of.X, of.y, of.weight, batches, end, lam_p, offset)
        found, centre = found + more, centres[k] if k < len(centres) else centre
    return found, end.w, end.b


def mean_of(found, begin):
    """The mean of the iterates from row `begin` on."""
    tail = [i for i in found if i.begin >= begin] or found[:1]
    m = np.array([i.rows for i in tail])
    w, b = (sum(c * v for c, v in zip(m, values, strict=True)) / m.sum()
            for values in ([i.w for i in tail], [i.b for i in tail]))  # fmt: skip
    return w, b


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("batch", "cuts"), [(1, 1), (4, 3), (60, 1)])
@pytest.mark.parametrize(("column", "share"), [(0.0, 1.0), (1.0, 1.0), (1.0, 0.01)])
def test_passes_are_the_recursion_and_the_mean_that_of_its_later_half(
    sparse, batch, cuts, column, share, rng
):
    problem, of = hinge(0.05, column, share), data(*rows(rng), sparse=sparse)
    n = len(of.y)
    run, orders, centres = Run(Pegasos(batch_size=batch), problem, of), [], []
    begins = {1: n // 2, 2: n, 3: n, 4: 2 * n, 5: 2 * n, 6: 2 * n, 7: 2 * n, 8: 4 * n}
    for passes, begin in begins.items():
        orders.append(rng.permutation(n))
        run.one_pass(cuts=cuts, order=orders[-1])
        found, w, v = iterates_of(problem, of, orders, batch, cuts, centres)
        scale = np.abs(w).max()
        np.testing.assert_allclose(run.state.W[:-1, LAST], w, atol=1e-12 * scale)
        at, b = mean_of(found, begin)
        np.testing.assert_allclose(run.state.W[:-1, MEAN], at, atol=1e-12 * scale)
        ours = run.state.centre.intercept(run.state.W[-1, MEAN])
        assert ours == pytest.approx(b, rel=1e-11, abs=1e-11)
        assert run.state.b_dual == pytest.approx(v * nearer(problem, of) / problem.lam_b)
        doubled = passes in (1, 2, 4, 8)
        centres.append(b if doubled and column else centres[-1] if centres else 0.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize(("column", "share"), [(0.0, 1.0), (1.0, 0.01)])
def test_violations_are_dual_variables_and_certify(sparse, streams, column, share, rng):
    problem, of = hinge(0.05, column, share), data(*rows(rng), sparse=sparse, streams=streams)
    lowest = Run(Sdca(), problem, of._replace(stats=of.stats._replace(streams=1))).passes(3000)
    lowest = lowest.certified()
    run, lower = Run(Pegasos(batch_size=3), problem, of), -np.inf
    gaps, earlier, begin = {}, np.zeros(len(of.y)), 0
    for passes in range(1, 65):
        run.one_pass(cuts=2)
        a = run.dual_variables
        assert a.min() >= 0.0
        assert a.max() <= 1.0
        w, b = weights_of(problem, of, a)
        assert np.abs(run.state.W[:-1, LAST] - w).max() <= 1e-12 * np.abs(w).max()
        assert run.state.b_dual == pytest.approx(b, rel=1e-12, abs=1e-12)
        later = (run.row_state.ravel() - earlier) / (passes - begin)  # the violations of one tail
        assert 0.0 <= later.min() <= later.max() <= 1.0
        lower = max(lower, dual_objective(problem, of, later))
        if passes & (passes - 1) == 0:
            earlier, begin = run.row_state.ravel().copy(), passes
        found = run.solver.certificate(run.state)
        assert (found is None) == (passes == 1)
        if found:
            check(problem, of, run, found, lower, lowest)
        lower = max(lower, dual_objective(problem, of, a))
        gaps[passes] = found.gap if found else np.inf
    check(problem, of, run, run.certified(), lower, lowest)
    assert gaps[64] < gaps[4]


def check(problem, of, run, found, lower, lowest):
    """A certificate is the objective at the weights less the best dual objective so far."""
    at = primal_objective(problem, of, run.weights.coef, run.weights.intercept)
    assert found.objective == pytest.approx(at, rel=1e-12)
    assert found.gap == pytest.approx(at - lower, rel=1e-9, abs=1e-12)
    assert found.gap >= at - lowest.objective - 1e-12
    assert at >= lowest.objective - lowest.gap - 1e-12


def test_the_later_violations_prove_nearly_all_that_is_true():
    """Those of all passes alone prove less: they remember the first."""
    of, problem = unit_data(*text_rows(1500, 2000, 3, noise=0.05)), hinge(10.0 / 1500)
    lowest = Run(Sdca(), problem, of).passes(60).certified()
    run = Run(Pegasos(), problem, of).passes(32)
    found = run.certified()
    excess = found.objective - lowest.objective
    of_all = found.objective - dual_objective(problem, of, run.dual_variables)
    assert lowest.gap < excess <= found.gap < of_all


def test_two_equal_rows_by_hand():
    """lam = 1/2: both violate at first, w = 2; then none does until w has shrunk to 1."""
    of, problem = data(np.ones((2, 1)), np.ones(2)), hinge(0.5)
    run = Run(Pegasos(batch_size=2), problem, of)
    expected = [(2.0, 1.0), (1.0, 0.5), (2 / 3, 1 / 3), (1.0, 0.5)]
    for passes, (w, a) in enumerate(expected, start=1):
        run.one_pass()
        np.testing.assert_allclose(run.state.W[0, LAST], w, atol=1e-15)
        np.testing.assert_allclose(run.dual_variables, a, atol=1e-15)
        assert run.state.rows == 2 * passes
    found = run.solver.certificate(run.state)
    assert (found.objective, found.gap) == pytest.approx((0.25, 0.0), abs=1e-12)


@pytest.mark.parametrize("batch", [1, 16, 256])
def test_the_mean_is_as_near_as_theorem_1_says(batch):
    """E f(mean) - f* <= (beta_b / b) 30 / (lam T), rows of unit length."""
    of, problem, passes = data(*gen_dense(1000, 50, 10, noise=0.3)), hinge(0.01), 4
    lowest = Run(Sdca(), problem, of).passes(100).certified().objective
    n = len(of.y)
    beta = 1.0 + (batch - 1) * (n * of.stats.sigma_square - 1.0) / (n - 1)
    excess = []
    for seed in range(5):
        run = Run(Pegasos(batch_size=batch), problem, of, seed).passes(passes)
        excess.append(primal_objective(problem, of, run.state.W[:-1, MEAN], 0.0) - lowest)
    assert np.mean(excess) <= beta / batch * 30.0 / (problem.lam * n * passes / batch)


def test_many_passes_leave_no_rounding(rng):
    problem, of = hinge(0.01), data(*rows(rng))
    run = Run(Pegasos(), problem, of).passes(300)
    w = weights_of(problem, of, run.dual_variables)[0]
    assert np.abs(run.state.W[:-1, ADDED] / (problem.lam * run.state.rows) - w).max() <= 1e-12
