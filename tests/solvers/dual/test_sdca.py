"""Dual coordinate ascent: against the formulas, other programs, and its own certificate."""

import math
from bz2 import BZ2File
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_batches import curvatures
from fewpass.solvers.estimates.spectrum import SAMPLED_TOO_LOW, sigma_square
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.losses import LOSSES, Problem, conjugate, dual_step
from fewpass.solvers.papers.takac_2013 import aggressive_pass, sdca_pass
from fewpass.solvers.penalties import L2
from testing import oracles
from testing.dual_runs import (
    LAYOUTS,
    Data,
    Run,
    data,
    dual_objective,
    gen_clustered,
    gen_dense,
    nearer,
    primal_objective,
    weights_of,
)
from tests.conftest import ROUNDING

#: Optimal objectives of gen_dense(400, 20, 2, double=True), lam = 0.01, and passes to a gap of 1e-12.
KNOWN = {
    "hinge": (0.455707336413, 120),
    "smoothed_hinge": (0.218880094066, 30),
}


def rows(rng, n=60, d=7, loss="logistic"):
    X = oracles.single(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6))
    X[3] = 0.0  # an empty row
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    weight = rng.uniform(0.5, 1.5, n)
    return (
        X,
        y if LOSSES[loss].takes_numbers else np.where(y > 0.0, 1.0, -1.0),
        weight / weight.mean(),
    )


def serial(problem, of, order, a, centre):
    """One pass of serial steps, the intercept charged for leaving `centre`."""
    lam_p = nearer(problem, of) if problem.intercept else 1.0
    offset = (1.0 - problem.lam_b / lam_p) * centre
    rows = of.X, of.y, of.weight
    return sdca_pass(problem, *rows, order[:, None], a, lam_p, offset)


@pytest.mark.parametrize(("loss", "sparse"), LAYOUTS)
@pytest.mark.parametrize(("column", "lam_b"), [(0.0, 0.05), (1.0, 0.05), (1.0, 0.005)])
def test_a_pass_is_the_formula_and_its_certificate_the_gap(loss, column, lam_b, sparse, rng):
    problem = Problem(LOSSES[loss](), L2(0.05), column, lam_b)
    of = data(*rows(rng, loss=loss), sparse=sparse)
    run, a, centre = Run(Sdca(), problem, of), np.zeros(len(of.y)), 0.0
    seen, lower = [], -np.inf
    for k in range(4):
        before, order = a, rng.permutation(len(of.y))
        a = serial(problem, of, order, before, centre)
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
    assert run.certified().gap <= now + 1e-12


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
@pytest.mark.parametrize("streams", [4, 16])
def test_streams_never_lower_the_dual_objective(loss, streams):
    # Unit rows to the last bit: D rises where the intercept takes no proximal step, and it takes
    # one as soon as rows are shorter than the constant column.
    of = data(*gen_dense(600, 30, 3, noise=0.3, rho=0.5, double=True), streams=streams)
    problem = Problem(LOSSES[loss](), L2(1e-2), 1.0, 1e-2)
    run, D = Run(Sdca(), problem, of), 0.0
    for _ in range(40):
        run.one_pass()
        now = dual_objective(problem, of, run.dual_variables)
        assert now >= D - ROUNDING
        D = now
        w, b = weights_of(problem, of, run.dual_variables)
        np.testing.assert_allclose(run.state.W[:-1, 0], w, atol=1e-12)
        assert run.state.centre.unit * run.state.W[-1, 0] == pytest.approx(b, abs=1e-12)


def test_naive_batches_are_the_papers(rng):
    problem, of = hinge(0.05), data(*rows(rng))
    order = rng.permutation(len(of.y))
    run = Run(Sdca(batch="naive", batch_size=4), problem, of).one_pass(order=order)
    a = sdca_pass(problem, of.X, of.y, of.weight, order.reshape(-1, 4), np.zeros(len(order)))
    np.testing.assert_allclose(run.dual_variables, a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_aggressive_batches_are_the_papers(rho, rng):
    of = data(*gen_dense(240, 20, 3, rho=rho, noise=0.3, double=True))
    problem, a, beta = hinge(0.01), np.zeros(240), 0.0
    run = Run(Sdca(batch="aggressive", batch_size=16), problem, of)
    for _ in range(4):
        order = rng.permutation(240)
        beta_b = curvatures(run.block(order), 20, 0.0, "aggressive", 16).largest
        batches = order.reshape(-1, 16)
        a, beta = aggressive_pass(problem, of.X, of.y, batches, a, beta or beta_b, beta_b)
        run.one_pass(order=order)
        np.testing.assert_allclose(run.dual_variables, a, rtol=1e-9, atol=1e-12)
        assert run.state.beta == pytest.approx(beta, rel=1e-9)
        assert 1.0 <= run.state.beta <= beta_b


def test_identical_rows_circle_where_steps_are_naive():
    """Two equal rows, both stepped at once: too far, and back, for ever."""
    of, problem = data(np.ones((2, 1)), np.ones(2)), Problem(LOSSES["hinge"](), L2(0.5), 0.0, 0.5)
    naive = Run(Sdca(batch="naive", batch_size=2), problem, of)
    for expected in ([1.0, 1.0], [0.0, 0.0], [1.0, 1.0]):
        assert naive.one_pass().dual_variables.tolist() == expected
    for kind in ("safe", "aggressive"):
        run = Run(Sdca(batch=kind, batch_size=2), problem, of).one_pass()
        np.testing.assert_allclose(run.dual_variables, 0.5, atol=1e-12)
        assert dual_objective(problem, of, run.dual_variables) == pytest.approx(0.25, abs=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_batches_of_one_row_are_the_serial_steps(loss, rng):
    of = data(*rows(rng, loss=loss), sparse=True)
    problem = Problem(LOSSES[loss](), L2(0.05), 1.0, 0.005)
    serial = Run(Sdca(), problem, of).passes(3)
    for kind in ("naive", "safe", "aggressive"):
        run = Run(Sdca(batch=kind, batch_size=1), problem, of).passes(3)
        np.testing.assert_allclose(run.dual_variables, serial.dual_variables, atol=1e-12)


@pytest.mark.parametrize(("loss", "sparse"), [("hinge", False), ("logistic", True)])
def test_aggressive_batches_never_lower_the_dual_objective(loss, sparse, rng):
    of = data(*rows(rng, n=200, loss=loss), sparse=sparse)
    problem, D = Problem(LOSSES[loss](), L2(0.01), 0.0, 0.01), -np.inf
    run = Run(Sdca(batch="aggressive", batch_size=32), problem, of)
    for _ in range(30):
        run.one_pass()
        now = dual_objective(problem, of, run.dual_variables)
        assert now >= D - ROUNDING
        D = now
    np.testing.assert_allclose(run.state.W[:-1, 0], weights_of(problem, of, run.dual_variables)[0])
    assert run.certified().gap < 1e-3


@pytest.mark.parametrize(("loss", "sparse"), [("hinge", False), ("logistic", True)])
def test_batches_gain_on_average_what_lemma_3_says(loss, sparse, rng):
    """Mean over every batch of 3 of 7 rows: E D(a + delta_A) >= (1 - b/n) D(a) + (b/n) H."""
    n, b, column = 7, 3, 0.5
    of = data(*rows(rng, n=n, d=5), sparse=sparse)
    problem = Problem(LOSSES[loss](), L2(0.05), column, 0.05)
    known = curvatures(Run(Sdca(), problem, of).block(np.arange(n)), 5, column, "safe", b)
    c, y = of.weight, of.y
    square = c * ((of.X**2).sum(axis=1) + column**2)
    v = known.own * square + known.shared
    for a in rng.uniform(0.05, 0.95, (20, n)):
        w, b_of_a = weights_of(problem, of, a)
        p = of.X @ w + column * b_of_a
        q = v / (problem.lam * n)
        delta = np.array([dual_step(problem.loss, *each) for each in zip(a, p, y, q, strict=True)])
        before, gain = dual_objective(problem, of, a), []
        for batch in combinations(range(n), b):
            chosen = np.isin(np.arange(n), batch)
            gain.append(dual_objective(problem, of, a + chosen * delta) - before)
        moved = [conjugate(problem.loss, s, t) - conjugate(problem.loss, r, t)
                 for r, s, t in zip(a, a + delta, y, strict=True)]  # fmt: skip
        promised = -np.mean(c * (moved + delta * y * p + 0.5 * q * delta**2))
        assert promised >= 0.0
        assert np.mean(gain) >= b / n * promised - ROUNDING


@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["safe", "aggressive"])
@pytest.mark.parametrize("b", [4, 64, 250])
def test_a_gap_is_reached_in_the_steps_of_theorem_2(kind, rho, b):
    """Its mean of a over the last steps has no larger gap than a typical one of them."""
    of, problem, eps = data(*gen_dense(500, 30, 11, rho=rho)), hinge(0.01), 0.05
    n, lam = 500, problem.lam
    beta = 1.0 + (b - 1) * (n * of.stats.sigma_square - 1.0) / (n - 1)
    t0 = max(0, math.ceil(n / b * math.log(2.0 * lam * n / beta)))
    first = t0 + beta / b * max(0.0, 4.0 / (lam * eps) - 2.0 * n / beta)
    steps = first + max(math.ceil(n / b), beta / b / (lam * eps))
    run = Run(Sdca(batch=kind, batch_size=b), problem, of).passes(math.ceil(steps * b / n))
    a = run.dual_variables
    w, _ = weights_of(problem, of, a)
    gap = primal_objective(problem, of, w, 0.0) - dual_objective(problem, of, a)
    assert gap <= eps


def hinge(lam):
    return Problem(LOSSES["hinge"](), L2(lam), 0.0, lam)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_spectral_norm_is_found_from_below_and_sampled_about_right(sparse, rng):
    X = oracles.single(np.abs(rng.standard_normal((4000, 40))) * (rng.random((4000, 40)) < 0.2))
    of = data(X, np.ones(4000), rng.uniform(0.5, 1.5, 4000), sparse=sparse)
    exact = [np.linalg.norm(np.sqrt(of.weight[:m, None]) * X[:m], 2) ** 2 / m for m in (1000, 4000)]
    found = sigma_square(of.rows, of.weight, 40, np.arange(4000))  # of the first thousand
    assert 0.998 * exact[0] <= found <= exact[0] * (1.0 + 1e-12)
    assert SAMPLED_TOO_LOW * found == pytest.approx(exact[1], rel=0.1)


def test_batches_of_like_rows_fail_only_where_they_are_naive():
    of = data(*gen_dense(2000, 50, 20, noise=0.3, rho=0.5))
    problem = Problem(LOSSES["hinge"](), L2(1e-3), 0.0, 1e-3)
    gaps = {}
    for kind in ("naive", "safe", "aggressive"):
        run = Run(Sdca(batch=kind, batch_size=128), problem, of).passes(60)
        a = run.dual_variables
        D = dual_objective(problem, of, a)
        gaps[kind] = primal_objective(problem, of, *weights_of(problem, of, a)) - D
    assert gaps["naive"] > 1.0
    assert gaps["aggressive"] < gaps["safe"] < 0.02


def test_windows_of_like_rows_need_their_own_spectrum():
    """Rows stored cluster by cluster, every cluster a window of its own."""
    of, lam = data(*gen_clustered()), 1.0 / 2000
    run = Run(Sdca(batch="safe", batch_size=50), Problem(LOSSES["hinge"](), L2(lam), 0.0, lam), of)
    for _ in range(40):
        clusters = run.rng.permutation(20)
        order = np.concatenate([100 * k + run.rng.permutation(100) for k in clusters])
        run.one_pass(cuts=20, order=order)
    assert run.certified().gap < 0.1


@pytest.mark.public_data
def test_reuters_is_proven_to_four_digits_in_a_dozen_passes(data_file):
    X, y = load_svmlight_file(BZ2File(data_file("reuters/reuters.trn.bz2")))
    squares = X.multiply(X).sum(axis=1).A1
    stats = oracles.stats(np.sqrt(squares)[:, None], SparseRows)._replace(d=X.shape[1])
    of, lam = Data(X, y, np.ones(len(y)), oracles.sparse_rows(X), stats), 1.0 / len(y)
    run = Run(Sdca(), Problem(LOSSES["hinge"](), L2(lam), 0.0, lam), of).passes(15)
    found = run.solver.certificate(run.state)  # of the weights after 14 passes, or some before
    assert found.gap <= 1e-4
    assert found.objective == pytest.approx(0.04896, abs=1e-4)


def test_whoever_is_told_of_losses_changes_no_bit(rng):
    problem, of = (
        Problem(LOSSES["hinge"](), L2(0.01), 1.0, 1e-4),
        data(*rows(rng, 5000, loss="hinge")),
    )
    told, order = [], rng.permutation(5000)
    runs = [Run(Sdca(), problem, of) for _ in range(2)]
    tells = {}, {"report": lambda rows, so_far: told.append((rows, so_far.n_monitored))}
    for run, tell in zip(runs, tells, strict=True):
        (walk,) = run.solver.program(1)
        run.state = walk.step(problem, of.stats, run.state, run.block(order), **tell)
    assert [rows for rows, _ in told] == [heard for _, heard in told] == [*range(40, 5001, 40)]
    unheard, heard = (run.state for run in runs)
    assert (unheard.sums, unheard.monitor) == (heard.sums, heard.monitor)
    np.testing.assert_array_equal(unheard.W, heard.W)
    np.testing.assert_array_equal(runs[0].row_state, runs[1].row_state)
