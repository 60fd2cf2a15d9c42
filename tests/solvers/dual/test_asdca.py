"""Accelerated dual coordinate ascent: against the paper's procedure, its theorem, and SDCA."""

import math
from functools import partial

import numpy as np
import pytest

from fewpass.solvers.batch.gradient_descent import Agd
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.asdca import (
    LAG,
    NEXT,
    RUNNING,
    W_START,
    X_START,
    Asdca,
    certificate_of,
    sums_at,
)
from fewpass.solvers.dual.asdca_batches import LOSS_W, LOSS_X, visit_batches
from fewpass.solvers.dual.asdca_theta import (
    Scale,
    estimated_sigma_share,
    largest_theta,
    scale_of,
    short_column,
    theta_of_paper,
    usual_batch,
)
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.papers.shalev_shwartz_zhang_2013 import AsdcaProcedure
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Diverged, Weights, copy_state
from testing import oracles
from testing.blocks import block_of, stats_of
from testing.drawn_batches import DrawnAsdca, DrawnSdca
from testing.drawn_batches import dual_objective as dual_without_weights
from testing.dual_runs import (
    SMOOTH_LAYOUTS,
    Run,
    data,
    dual_objective,
    gen_clustered,
    gen_dense,
    is_sparse,
    primal_objective,
)
from testing.synthetic import text_rows
from tests.conftest import ROUNDING, STOCHASTIC
from tests.solvers.dual.test_sdca import KNOWN, rows

SMOOTH = [loss for loss, _ in oracles.SMOOTH_PAIRS]


# -- against the formulas --------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "sparse"), SMOOTH_LAYOUTS)
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_two_moving_vectors_are_the_papers_procedure(loss, column, sparse, rng):
    problem = Problem(LOSSES[loss](), L2(0.05), column, 0.05)
    of = data(*rows(rng, loss=loss), sparse=sparse)
    assert short_column(problem, of.stats).value == column
    run = Run(Asdca(batch_size=7, theta=0.3), problem, of)
    Z = np.column_stack([of.X, np.full(len(of.y), column)])
    phi = partial(oracles.phi, loss)
    literal = AsdcaProcedure(phi, 0.05, Z, of.y, of.weight, 0.3)
    for _ in range(4):
        order = rng.permutation(len(of.y))
        run.one_pass(cuts=3, order=order)
        for part in np.array_split(order, 3):
            batches = math.ceil(len(part) / 7)
            for k in range(batches):
                first, last = k * len(part) // batches, (k + 1) * len(part) // batches
                literal.step(part[first:last])
        found, size = run.state.W, np.abs(literal.x).max()
        np.testing.assert_allclose(found[:, X_START], literal.x, rtol=0.0, atol=1e-13 * size)
        np.testing.assert_allclose(found[:, W_START], literal.w, rtol=0.0, atol=1e-13 * size)


@pytest.mark.parametrize("theta", [0.9, 1.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_kernels_are_their_own_text_in_plain_python_across_folds(theta, sparse, rng):
    of = data(*rows(rng), sparse=sparse)
    problem = Problem(LOSSES["logistic"](), L2(0.05), 1.0, 0.005)
    ends = []
    for visit in (visit_batches, visit_batches.py_func):
        state, kept = Asdca().init(problem, of.stats), np.zeros(60)
        part = oracles.block(of.rows, of.y, of.weight)._replace(row_state=kept)
        s = visit(
            state.W, state.W[:, RUNNING:], state.W[:, NEXT:], 1.0, theta, problem, 0.5, 0.1,
            1.0 / 3.0, 1.0, *part[:5], 12, state.sums,
        )  # fmt: skip
        ends.append((state.W[:, RUNNING] + s * state.W[:, LAG], state.W[:, NEXT], kept, state.sums))
    for kernels, plain in zip(*ends, strict=True):
        np.testing.assert_allclose(kernels, plain, rtol=1e-12, atol=1e-14)


# -- what is proven --------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "sparse"), SMOOTH_LAYOUTS)
@pytest.mark.parametrize(("column", "lam_b"), [(0.0, 0.05), (1.0, 0.05), (1.0, 0.0005)])
def test_the_free_certificates_are_the_true_gaps(loss, column, lam_b, sparse, rng):
    problem = Problem(LOSSES[loss](), L2(0.05), column, lam_b)
    of = data(*rows(rng, loss=loss), sparse=sparse)
    run, solver, lower = Run(Asdca(), problem, of), Asdca(), -np.inf
    for k in range(6):
        began, a = copy_state(run.state), run.dual_variables.copy()
        D = dual_objective(problem, of, a)
        state = copy_state(run.state)
        (walk,) = solver.program(1)
        for part in np.array_split(rng.permutation(len(of.y)), 3):
            state = walk.step(problem, of.stats, state, run.block(part))
        gaps = []
        for column_of, first in ((X_START, LOSS_X), (W_START, LOSS_W)):
            v = began.W[:, column_of]
            P = primal_objective(problem, of, v[:-1], began.centre.intercept(v[-1]))
            found = certificate_of(problem, of.stats, state, column_of, sums_at(state, first))
            assert found.objective == pytest.approx(P, abs=1e-12)
            assert found.gap == pytest.approx(P - D, abs=1e-12)
            gaps.append(found.gap)
        run.state, lower = walk.join(problem, of.stats, [state]), max(lower, D)
        if k > 0:
            best, at = solver.certificate(run.state), run.weights
            assert best.gap <= min(gaps)
            assert best.objective == pytest.approx(primal_objective(problem, of, *at), abs=1e-12)
            assert best.objective - best.gap <= lower + 1e-12
    x = run.state.W[:, X_START]
    P = primal_objective(problem, of, x[:-1], run.state.centre.intercept(x[-1]))
    assert run.certified().gap <= P - dual_objective(problem, of, run.dual_variables) + 1e-12


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_given_model_is_gone_on_from_with_a_true_certificate(loss, rng):
    problem = Problem(LOSSES[loss](), L2(0.05), 1.0, 0.0005)
    of, solver, given = (
        data(*rows(rng, loss=loss), sparse=is_sparse(loss)),
        Asdca(),
        Weights(rng.standard_normal(7), 0.3),
    )
    run = Run(solver, problem, of)
    state = solver.start_at(problem, of.stats, given, 60)
    warm_start_pass = solver.warm_start_pass
    total = warm_start_pass.sum.zero(warm_start_pass.at(state))
    total = warm_start_pass.sum.add(problem, given, run.block(np.arange(60)), total)
    state = warm_start_pass.absorb(problem, of.stats, state, total, 0)
    P = primal_objective(problem, of, *given)
    D = dual_objective(problem, of, state.share * run.row_state)
    assert solver.certificate(state).objective == pytest.approx(P, abs=1e-12)
    state = solver.step_rows(problem, of.stats, state, run.block(np.arange(60)))
    found = certificate_of(problem, of.stats, state, X_START, sums_at(state, LOSS_X))
    assert (found.objective, found.gap) == pytest.approx((P, P - D), abs=1e-11)
    run.state = solver.end_pass(problem, of.stats, [state])
    assert run.state.momentum.doubled == 0
    assert run.passes(120).certified().gap < 1e-4


@pytest.mark.parametrize("loss", [loss for loss in KNOWN if loss != "hinge"])
@pytest.mark.parametrize("batch_size", [1, 20, 400])
def test_known_optima_are_reached_and_proven(loss, batch_size):
    of = data(*gen_dense(400, 20, 2, double=True))
    run = Run(Asdca(batch_size=batch_size), Problem(LOSSES[loss](), L2(0.01), 0.0, 0.01), of)
    for _ in range(300):
        run.one_pass()
        found = run.solver.certificate(run.state)
        if found and found.gap <= 1e-12:
            break
    assert found.gap <= 1e-12
    assert found.objective == pytest.approx(KNOWN[loss][0], abs=1e-11)
    assert run.state.momentum.doubled == 0


# -- theta -----------------------------------------------------------------------------------------


def test_theta_is_the_largest_that_meets_both_conditions(rng):
    for n, k, share in zip(
        rng.integers(2, 10**6, 200), 10.0 ** rng.uniform(-4, 4, 200), rng.random(200), strict=True
    ):
        m = int(n**share)
        S, V = float(n ** -rng.random()), (n - m) / (n - 1)

        def meets(t, n=n, k=k, m=m, S=S, V=V):
            first = m * t**2 * S / k <= 1.0 - m * t / n
            return first and V * (S * m * t**3 / k**2 + t * (1.0 + m * t / n) / k) <= 1.0 - t

        of = Scale(int(n), float(k), 1.0)
        theta = largest_theta(of, m, S, V)
        assert 0.0 < theta <= 1.0
        assert meets(theta * (1.0 - 1e-9))
        assert theta > 1.0 - 1e-9 or not meets(theta * (1.0 + 1e-9))
        assert theta_of_paper(of, m) <= largest_theta(of, m, 1.0, V) <= theta * (1.0 + 1e-9)
        of_one = largest_theta(of, 1, S, 1.0)
        few = min(int(n), int(1.0 / S))
        assert largest_theta(of, few, S, (n - few) / (n - 1)) > 0.89 * of_one


@pytest.mark.parametrize("kind", ["paper", "exact", "sigma"])
@pytest.mark.parametrize("m", [1, 10, 100, 1000])
@pytest.mark.parametrize("k", [0.1, 1.0, 100.0])
def test_the_theorem_holds_for_batches_drawn_as_it_says(k, m, kind):
    n = 1000
    X, y = gen_dense(n, 40, 5)
    problem = Problem(LOSSES["smoothed_hinge"](), L2(k / n), 0.0, k / n)
    stats, block, of = stats_of(X, y), block_of(X, y), data(X, y)
    best = Run(Sdca(), problem, of).passes(150).certified()
    assert best.gap < 1e-9
    scale = scale_of(problem, stats)
    S = estimated_sigma_share(problem, stats) if kind == "sigma" else 1.0
    V = (n - m) / (n - 1)
    theta = theta_of_paper(scale, m) if kind == "paper" else largest_theta(scale, m, S, V)
    steps = min(math.ceil(2.0 * n / (m * theta)), 60 * n // m)
    at_zero = 0.5 - best.objective  # the loss of zero weights; D is 0 there
    bound = (1.0 - theta * m / n) ** steps * (m * at_zero + n * best.objective)
    found = []
    for seed in range(2):
        run = DrawnAsdca(problem, stats, block, m, theta, seed)
        run.step(steps)
        P = primal_objective(problem, of, run.x, 0.0)
        D = dual_without_weights(problem, block, run.a, run.w)
        found.append(m * (P - best.objective) + n * (best.objective - D))
    assert 0.0 <= np.mean(found) <= bound


@pytest.fixture(scope="module")
def text():
    """Text, squared hinge, lam = 1/n, and its optimum."""
    X, y = text_rows(2000, 3000, 3)
    X = X.astype(np.float32)
    problem = Problem(LOSSES["squared_hinge"](), L2(1.0 / 2000), 0.0, 1.0)
    stats, block = stats_of(X, y), block_of(X, y)
    for moment in sweeps(Sdca(), problem, stats, block):
        found = Sdca().certificate(moment.state)
        if found and found.gap < 1e-13:
            return problem, stats, block, found.objective
    raise AssertionError


def passes_to(excess, run, rows, text):
    """Passes until P(x) is that near to the optimum, looked at every `rows` rows."""
    problem, stats, block, best = text
    visited = 0
    while oracles.objective_at(problem, run.x, block) - best > excess:
        run.step(rows // getattr(run, "m", 1))
        visited += rows
        assert visited < 300 * stats.n
    return visited / stats.n


def test_batches_of_a_hundred_rows_of_text_cost_what_single_rows_do(text):
    problem, stats, block, _ = text
    scale, S = scale_of(problem, stats), estimated_sigma_share(problem, stats)
    theta = largest_theta(scale, 100, S, 1900 / 1999)
    assert usual_batch(problem, stats) == int(1.0 / S)
    for excess in (1e-3, 1e-6):
        mine = passes_to(excess, DrawnAsdca(problem, stats, block, 100, theta), 200, text)
        theirs = passes_to(excess, DrawnSdca(problem, stats, block), 200, text)
        assert mine <= STOCHASTIC * theirs


def test_one_batch_of_all_rows_is_as_fast_as_accelerated_gradient_descent(text):
    problem, stats, block, best = text
    for excess in (1e-3, 1e-6):
        found = []
        for solver in (Asdca(batch_size=stats.n), Agd()):
            for moment in sweeps(solver, problem, stats, block):
                state = moment.state
                at = state.W[:-1, X_START] if solver.kind == "asdca" else state.v.coef
                if oracles.objective_at(problem, at, block) - best <= excess:
                    break
            found.append(moment.passes)
        assert found[0] <= STOCHASTIC * found[1]


# -- windows ---------------------------------------------------------------------------------------


def in_windows(of, problem, solver, chunks, windows, passes):
    """Passes whose batches are drawn inside windows, chunks being dealt to them anew each time."""
    run, stored = Run(solver, problem, of), np.split(np.arange(len(of.y)), chunks)
    for _ in range(passes):
        dealt = np.split(run.rng.permutation(chunks), windows)
        together = [np.concatenate([stored[k] for k in part]) for part in dealt]
        order = np.concatenate([run.rng.permutation(rows) for rows in together])
        run.one_pass(cuts=windows, order=order)
    return run.certified().gap


def test_windows_of_a_shuffled_set_are_as_good_as_the_whole():
    X, y = gen_dense(2000, 30, 7, noise=0.3, rho=0.3)
    of, problem = data(X, y), Problem(LOSSES["smoothed_hinge"](), L2(5e-3), 0.0, 5e-3)
    gaps = [in_windows(of, problem, Asdca(batch_size=50), 80, k, 12) for k in (1, 20)]
    assert gaps[1] < 10.0 * gaps[0] < 1e-4


def test_windows_of_like_rows_need_their_own_spectrum():
    """Rows stored cluster by cluster, every cluster a window of its own."""
    of, lam = data(*gen_clustered()), 1.0 / 2000
    problem = Problem(LOSSES["smoothed_hinge"](), L2(lam), 0.0, lam)
    sorted_rows = of._replace(stats=of.stats._replace(shuffled=False))
    known = {"as if shuffled": of, "as stored": sorted_rows}
    solver = Asdca(batch_size=50)
    gaps = {name: in_windows(x, problem, solver, 20, 20, 120) for name, x in known.items()}
    assert gaps["as stored"] < gaps["as if shuffled"]
    assert usual_batch(problem, sorted_rows.stats) == 1 < usual_batch(problem, of.stats)


# -- what may go wrong -----------------------------------------------------------------------------


def test_an_estimate_of_sigma_that_is_too_small_is_noticed_and_doubled():
    X, y = gen_dense(1000, 40, 6, rho=0.5)
    of, problem = data(X, y), Problem(LOSSES["smoothed_hinge"](), L2(1e-3), 0.0, 1e-3)
    blind = of._replace(stats=of.stats._replace(sigma_square=0.02 * of.stats.sigma_square))
    run = Run(Asdca(batch_size=500), problem, blind).passes(400)
    said = run.solver.program(1)[0].metrics(run.state)
    assert said["doubled"] == run.state.momentum.doubled >= 1
    assert run.certified().gap < 1e-6


@pytest.mark.parametrize("loss", SMOOTH)
def test_rows_of_zeros_divide_by_nothing(loss):
    of = data(np.zeros((20, 3)), np.ones(20), sparse=is_sparse(loss))
    run = Run(Asdca(), Problem(LOSSES[loss](), L2(0.1), 0.0, 0.1), of).passes(3)
    assert run.certified().gap == pytest.approx(0.0, abs=ROUNDING)
    assert run.weights.coef.tolist() == [0.0] * 3


def test_a_theta_that_is_far_too_large_ends_with_advice():
    X, y = gen_dense(200, 20, 6, rho=0.5)
    of, problem = data(30.0 * X, y), Problem(LOSSES["squared"](), L2(1e-6), 0.0, 1e-6)
    with pytest.raises(Diverged, match=r"Leave solver\.theta out"), np.errstate(all="ignore"):
        Run(Asdca(batch_size=200, theta=1.0), problem, of).passes(200)
