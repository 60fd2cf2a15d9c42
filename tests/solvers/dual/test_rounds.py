"""Rounds of psdca: against their page in NumPy, in threads, and by their own certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.rounds import LAG
from fewpass.solvers.dual.rounds_steps import BITES, visit_rounds
from fewpass.solvers.dual.sdca_state import RUNNING
from fewpass.solvers.losses import LOSSES, Problem, conjugate
from fewpass.solvers.papers.rounds_of_lanes import Along, dealt, mean_direction, take_round
from fewpass.solvers.penalties import L2, ElasticNet
from testing import oracles
from testing.dual_runs import LAYOUTS, Run, data, dual_objective, gen_dense, primal_objective
from tests.conftest import ROUNDING

LAM = 2e-3


def rows(loss, n=300, d=9, seed=0, **how):
    """Rows that are alike, of very different length and weight, some of them empty."""
    rng = np.random.default_rng(seed)
    X = (0.3 + rng.random((n, d))) * (rng.random((n, d)) < 0.5)
    X = oracles.single(X * rng.lognormal(0.0, 0.5, n)[:, None])
    X[::50] = 0.0
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    y = y / y.std() if LOSSES[loss].takes_numbers else np.where(y > 0.1, 1.0, -1.0)
    weight = rng.uniform(0.5, 1.5, n)
    return data(X, y, weight / weight.mean(), **how)


def dual_of_steps(problem, of, X, a, w):
    """D(a) of the steps' problem; w is w(a)."""
    conjugates = [conjugate(problem.loss, v, t) for v, t in zip(a, of.y, strict=True)]
    return -np.mean(of.weight * conjugates) - 0.5 * problem.lam * w @ w


@pytest.fixture
def in_python(monkeypatch):
    """Kernels of rounds as plain Python: nothing is compiled for each loss."""
    monkeypatch.setattr("fewpass.solvers.dual.rounds.visit_rounds", visit_rounds.py_func)


def the_page(problem, of, run, order, B):
    """A first pass by the page, r = 1 and the intercept's centre 0."""
    X = np.column_stack([of.X, np.full(len(of.y), problem.intercept * run.state.centre.unit)])
    a, w, most = np.zeros(len(of.y)), np.zeros(X.shape[1]), max(1.0, len(of.y) / (LAG * B))
    at, shares = Along(run.state.proximal.rounds.V, along=min(16.0, B)), []
    K = problem.loss.rate(of.stats.target_mean) / (problem.lam * len(of.y))
    late = min(1.0, K * np.mean(of.weight * (X @ at.V) ** 2) / BITES)
    assert at.V @ mean_direction(of.weight[:, None] * X) > 0.9
    for start in range(0, len(order), B):
        lanes = order[start : start + B, None]
        a, w, at, t = take_round(problem, X, of.y, of.weight, lanes, B, a, w, at, late, most)
        shares.append(t)
    return a, w, at, shares


@pytest.mark.parametrize(("loss", "sparse"), LAYOUTS)
@pytest.mark.parametrize(("column", "B"), [(0.0, 16), (1.0, 48)])
def test_the_first_pass_is_the_page(loss, column, B, sparse, in_python):
    problem, of = Problem(LOSSES[loss](), L2(LAM), column, LAM), rows(loss, sparse=sparse)
    run = Run(Psdca(batch="rounds", batch_size=B, grow_to=1), problem, of)
    order = np.random.default_rng(1).permutation(len(of.y))
    run.state = run.solver.step_rows(problem, of.stats, run.state, run.block(order))
    a, w, at, shares = the_page(problem, of, run, order, B)
    assert min(shares) < 1.0, "no round was shortened"
    np.testing.assert_allclose(run.dual_variables, a, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(run.state.W[:, RUNNING], w, rtol=1e-7, atol=1e-9)
    rounds = run.state.proximal.rounds
    assert rounds.size == pytest.approx(w[:-1] @ w[:-1], rel=1e-9)
    np.testing.assert_allclose(rounds[4:], at[1:], rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_and_python_give_the_same(sparse, monkeypatch):
    """1, 2, 3, 16 threads the same bits; plain Python the same but for the rounding."""
    problem = Problem(LOSSES["squared_hinge"](), L2(1e-4), 1.0, 1e-6)
    of, found = rows("squared_hinge", n=700, d=40, sparse=sparse), []
    for threads in (1, 2, 3, 16, 0):
        run, rng = (
            Run(Psdca(batch="rounds", shrink_rounds=2), problem, of),
            np.random.default_rng(2),
        )
        if not threads:
            monkeypatch.setattr("fewpass.solvers.dual.rounds.visit_rounds", visit_rounds.py_func)
        for _ in range(4):
            for part in np.array_split(rng.permutation(700), 2):
                block = run.block(part)._replace(threads=max(1, threads))
                run.state = run.solver.step_rows(problem, of.stats, run.state, block)
            run.state = run.solver.end_pass(problem, of.stats, [run.state])
        found.append((run.row_state, run.state.W, np.array(run.state.proximal.rounds[1:])))
    for other in found[1:-1]:
        for mine, first in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(mine, first)
    for mine, first in zip(found[-1], found[0], strict=True):
        np.testing.assert_allclose(mine, first, rtol=1e-6, atol=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.floats(1.0, 64.0), st.floats(1.0, 64.0), st.floats(1.0, 16.0),
       st.sampled_from(["hinge", "logistic", "squared", "squared_hinge"]))  # fmt: skip
def test_no_round_lowers_the_dual_objective(seed, s, s_V, rho, loss):
    """Whatever s is; with (rho - 1) reg / 2 (V . (w - w_round))^2 on top, and what is owed."""
    rng = np.random.default_rng(seed)
    of, problem = rows(loss, n=40, d=5, seed=seed), Problem(LOSSES[loss](), L2(0.01), 0.0, 0.01)
    a, w = np.zeros(40), np.zeros(5)
    at = Along(mean_direction(of.X), owed=rng.normal(), across=s, along=max(s, s_V), rho=rho)
    for order in (rng.permutation(40) for _ in range(2)):
        for lanes in dealt(order, rng.integers(1, 20), rng.integers(1, 4)):
            before = dual_of_steps(problem, of, of.X, a, w)
            a, after, so_far, _ = take_round(
                problem, of.X, of.y, of.weight, lanes, 20, a, w, at, rng.random(), 20.0
            )
            T = at.V @ (after - w)
            extra = problem.lam * (at.owed * T + 0.5 * (1.0 - 1.0 / at.rho) * T**2)
            now = dual_of_steps(problem, of, of.X, a, after)
            assert now + extra >= before - ROUNDING * max(1.0, abs(now), abs(extra), abs(before))
            w, at = after, so_far._replace(across=at.across, along=at.along, rho=at.rho)


def test_the_page_takes_the_passes_of_one_chain():
    """Rounds of rows, and 16 lanes merged 64 times, on rows near one direction."""
    X, y = gen_dense(2048, 30, 3, noise=0.3, rho=0.5)
    of, problem = data(X, y), Problem(LOSSES["squared_hinge"](), L2(1.0 / 2048), 0.0, 1.0 / 2048)
    ways = {"chain": (1, 1), "rows": (32, 64), "lanes": (16, 64)}
    passes = {way: passes_of(problem, of, *dealing) for way, dealing in ways.items()}
    assert passes["chain"] >= 3, "it shows nothing"
    assert passes["rows"] <= 1.3 * passes["chain"] + 1
    assert passes["lanes"] <= 1.3 * passes["chain"] + 1


def passes_of(problem, of, K, m):
    """Passes to a gap of 1 % of the objective, without a proximal centre."""
    a, w, rng = np.zeros(len(of.y)), np.zeros(of.X.shape[1]), np.random.default_rng(0)
    V = mean_direction(of.X) * (K > 1)
    at, most = Along(V, across=min(2.0, K), along=min(16.0, K)), max(1.0, m / LAG)
    for k in range(1, 41):
        for lanes in dealt(rng.permutation(len(of.y)), K, m):
            a, w, at, _ = take_round(problem, of.X, of.y, of.weight, lanes, K, a, w, at, 1.0, most)
        P = primal_objective(problem, of, w - at.owed * V, 0.0)
        if P - dual_objective(problem, of, a) <= 0.01 * P:
            return k
    raise AssertionError("40 passes are not enough")


@pytest.mark.parametrize(("column", "lam"), [(0.0, 1.0), (1.0, 1.0), (1.0, 100.0)])
def test_rounds_of_128_rows_take_the_passes_of_one_chain(column, lam):
    """Where all rows lie near one direction, and every move along it adds up."""
    X, y = gen_dense(16_000, 30, 3, noise=0.3, rho=0.5)
    of, lam, passes = data(X, y), lam / 16_000, []
    problem = Problem(LOSSES["squared_hinge"](), L2(lam), column, 0.01 * lam)
    for solver in (Psdca(), Psdca(batch="rounds")):
        run, found = Run(solver, problem, of), None
        while found is None or found.gap > 1e-3 * found.objective:
            found = solver.certificate(run.one_pass(cuts=2).state)
        passes.append(run.state.passes)
    assert passes[1] <= 1.3 * passes[0] + 1


def test_rounds_arrive_at_the_rounding():
    """Though ||u||^2 is the difference of numbers that are far larger by then."""
    problem, of = Problem(LOSSES["logistic"](), L2(LAM), 1.0, 0.01 * LAM), rows("logistic")
    run = Run(Psdca(batch="rounds", batch_size=16), problem, of).passes(60)
    assert run.certified().gap < 1e-12
    run.state = run.solver.step_rows(problem, of.stats, run.state, run.block(np.arange(99)))
    w = run.state.W[:-1, RUNNING]
    assert run.state.proximal.rounds.size == pytest.approx(w @ w, rel=1e-12)


def test_what_rounds_do_not_go_with_is_refused():
    of = rows("hinge")
    with pytest.raises(ValueError, match="not stepped in rounds"):
        Psdca(batch="rounds").init(
            Problem(LOSSES["hinge"](), ElasticNet(LAM, LAM), 0.0, LAM), of.stats
        )
    with pytest.raises(ValueError, match="which threads share, and streams is 3"):
        stats = of.stats._replace(streams=3)
        Psdca(batch="rounds").init(Problem(LOSSES["hinge"](), L2(LAM), 0.0, LAM), stats)
