"""Dual coordinate ascent: against the formulas, other programs, and its own certificate."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from solvers.losses import LOSSES, Problem, dual_step
from solvers.sdca import Sdca
from tests.dual import Run, data, dual_objective, gen_dense, nearer, primal_objective, weights_of

#: Optimal objectives of gen_dense(400, 20, 2), lam = 0.01, and passes to a gap of 1e-12.
KNOWN = {
    "hinge": (0.455707336413, 120),
    "smoothed_hinge": (0.218880094066, 30),
    "squared_hinge": (0.219052156482, 30),
    "logistic": (0.507541232981, 30),
    "squared": (0.232897493144, 30),
}


def rows(rng, n=60, d=7, loss="logistic"):
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[3] = 0.0  # an empty row
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    weight = rng.uniform(0.5, 1.5, n)
    return X, y if loss == "squared" else np.where(y > 0.0, 1.0, -1.0), weight / weight.mean()


def plain(problem, of, order, a, centre):
    """One pass in NumPy: w is computed from the dual variables anew for every row."""
    n, a = len(of.y), a.copy()
    for i in order:
        w, b = weights_of(problem, of, a, centre)
        square = of.X[i] @ of.X[i] / problem.lam + problem.intercept**2 / nearer(problem, of)
        p = of.X[i] @ w + problem.intercept * b
        a[i] += dual_step(problem.loss, a[i], p, of.y[i], of.weight[i] * square / n)
    return a


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("column", "lam_b"), [(0.0, 0.05), (1.0, 0.05), (1.0, 0.005)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_pass_is_the_formula_and_its_certificate_the_gap(loss, column, lam_b, sparse, rng):
    problem = Problem(LOSSES[loss](), 0.05, column, lam_b)
    of = data(*rows(rng, loss=loss), sparse=sparse)
    run, a, centre = Run(Sdca(), problem, of), np.zeros(len(of.y)), 0.0
    seen, lower = [], -np.inf
    for k in range(4):
        before, order = a, rng.permutation(len(of.y))
        a = plain(problem, of, order, before, centre)
        run.one_pass(cuts=3, order=order)
        np.testing.assert_allclose(run.dual_variables, a, rtol=1e-8, atol=1e-10)
        if k > 0:  # the free certificate: of the best weights that a pass began with
            at = weights_of(problem, of, before, centre)
            seen.append((primal_objective(problem, of, *at), *at))
            lower = max(lower, dual_objective(problem, of, before))
            found = run.solver.certificate(run.state)
            f, w, b = min(seen, key=lambda s: abs(s[0] - found.objective))
            assert found.objective == pytest.approx(f, rel=1e-9)
            np.testing.assert_allclose(run.weights.coef, w, rtol=1e-8, atol=1e-10)
            assert run.weights.intercept == pytest.approx(b, rel=1e-8, abs=1e-10)
            assert found.objective - found.gap <= lower + 1e-9
            if lam_b == nearer(problem, of):  # no proximal step: D rises, and all is exact
                assert dual_objective(problem, of, a) >= lower
                assert found.objective == pytest.approx(min(seen)[0], rel=1e-9)
                assert found.gap == pytest.approx(found.objective - lower, abs=1e-9)
        centre = weights_of(problem, of, a, centre)[1]
    at = weights_of(problem, of, a, centre)
    now = primal_objective(problem, of, *at) - dual_objective(problem, of, a)
    assert run.audited().gap <= now + 1e-12


@pytest.mark.parametrize("loss", KNOWN)
def test_known_optima_are_reached_and_proven(loss):
    of = data(*gen_dense(400, 20, 2))
    optimum, passes = KNOWN[loss]
    run = Run(Sdca(), Problem(LOSSES[loss](), 0.01, 0.0, 0.01), of).passes(passes + 1)
    found = run.solver.certificate(run.state)
    assert found.gap <= 1e-12
    assert found.objective == pytest.approx(optimum, abs=1e-11)


def test_other_programs_find_the_same_within_the_gap():
    X, y = gen_dense(300, 10, 5, noise=0.3)
    of, lam = data(X, y), 0.01
    C = 1.0 / (lam * len(y))
    settings = {"C": C, "fit_intercept": False, "tol": 1e-10, "max_iter": 1_000_000}
    peers = {
        "hinge": LinearSVC(loss="hinge", **settings),
        "squared_hinge": LinearSVC(loss="squared_hinge", **(settings | {"C": C / 2.0})),
        "logistic": LogisticRegression(**settings),
    }
    for loss, peer in peers.items():
        problem = Problem(LOSSES[loss](), lam, 0.0, lam)
        run = Run(Sdca(), problem, of).passes(60)
        found = run.solver.certificate(run.state)
        theirs = primal_objective(problem, of, peer.fit(X, y).coef_[0], 0.0)
        assert -1e-9 <= found.objective - theirs <= found.gap + 1e-12, loss
        assert found.gap < 1e-4


@pytest.mark.parametrize("column", [0.0, 1.0])
def test_ridge_is_the_closed_form(column, rng):
    X, y, weight = rows(rng, n=200, d=5, loss="squared")
    of, problem = data(X, y, weight), Problem(LOSSES["squared"](), 0.1, column, 0.05)
    run = Run(Sdca(), problem, of).passes(200)
    Z = np.column_stack([X, np.full(200, column)])
    charge = np.diag([*[0.1] * 5, 0.05])
    exact = np.linalg.solve(Z.T @ (weight[:, None] * Z) / 200 + charge, Z.T @ (weight * y) / 200)
    np.testing.assert_allclose(run.weights.coef, exact[:5], atol=1e-6)
    assert run.weights.intercept == pytest.approx(exact[5], abs=1e-6)
    assert run.audited().gap < 1e-11


def test_a_row_of_weight_two_counts_like_the_row_twice(rng):
    X, y, _ = rows(rng, n=40)
    twice = np.arange(40) % 3 == 0
    weight = np.where(twice, 2.0, 1.0)
    problem = Problem(LOSSES["hinge"](), 0.05, 1.0, 0.01)
    heavy = data(X, y, weight / weight.mean())
    double = data(np.vstack([X, X[twice]]), np.append(y, y[twice]))
    a = Run(Sdca(), problem, heavy).passes(400).audited()
    b = Run(Sdca(), problem, double).passes(400).audited()
    assert a.objective == pytest.approx(b.objective, abs=a.gap + b.gap + 1e-12)
    assert a.gap + b.gap < 1e-5


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
@pytest.mark.parametrize("streams", [4, 16])
def test_streams_never_lower_the_dual_objective(loss, streams):
    of = data(*gen_dense(600, 30, 3, noise=0.3, rho=0.5), streams=streams)
    problem = Problem(LOSSES[loss](), 1e-2, 1.0, 1e-2)
    gaps = {}
    for combine in ("damped", "average", "add"):
        run, D = Run(Sdca(combine=combine), problem, of), 0.0
        for _ in range(40):
            run.one_pass()
            now = dual_objective(problem, of, run.dual_variables)
            assert now >= D - 1e-14
            D = now
            w, b = weights_of(problem, of, run.dual_variables)
            np.testing.assert_allclose(run.state.W[:-1, 0], w, atol=1e-12)
            assert run.state.unit * run.state.W[-1, 0] == pytest.approx(b, abs=1e-12)
        gaps[combine] = run.audited().gap
    assert gaps["damped"] <= min(gaps["average"], gaps["add"])
