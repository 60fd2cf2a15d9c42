"""Gradient descent, SAG and L-BFGS against dense recursions, each other and SciPy."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fewpass.solvers.batch.gradient_descent import Agd, Gd, step_from
from fewpass.solvers.batch.lbfgs import FLATTENING, Lbfgs, direction
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.drive import permutations, sweeps
from fewpass.solvers.gradient import RISE, SUFFICIENT_DECREASE
from fewpass.solvers.intercept import column_length, with_column
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.loss_monitor import EXPLODED
from fewpass.solvers.protocol import Diverged, Reduce, Weights, copy_state
from fewpass.solvers.s2gd.s2gd import S2gd
from fewpass.solvers.sag import DRAWS, RENEW_EVERY, Sag, SagPlus, SagScalars, visit_rows
from testing import oracles
from testing.oracles import (
    INTERCEPTS,
    as_block,
    close,
    gradient_part,
    problem_of,
    rows_of,
    stats,
)
from tests.conftest import CONVERGED, ROUNDING

SMOOTH = [loss for loss, _ in oracles.SMOOTH_PAIRS]
KINDS = [DenseRows, SparseRows]
ALL = [Gd(), Agd(), Sag(), SagPlus(), Lbfgs(), Newton()]


def in_memory(solver, problem, kind, X, y, weight, **known):
    measured = stats(X, kind, weight, y)._replace(**known)
    return sweeps(solver, problem, measured, as_block(kind, X, y, weight))


# All of them


@pytest.mark.parametrize("solver", ALL, ids=lambda s: s.kind)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_reaches_the_optimum_and_certifies_no_more_than_is_true(loss, intercept, solver):
    X, y, weight = rows_of(200, 5, loss, seed=1)
    problem = problem_of(loss, 0.05, intercept)
    best = oracles.optimum(loss, problem, X, y, weight)
    for moment in in_memory(solver, problem, oracles.ROWS_OF[loss], X, y, weight):
        found = solver.certificate(moment.state)
        if found is None:
            continue
        at = solver.weights(moment.state)
        true = oracles.objective(loss, problem, X, y, weight, *at)[0]
        assert found.objective == pytest.approx(true, rel=ROUNDING)
        assert found.gap >= max(0.0, true - best - 1e-12)
        if found.gap < CONVERGED or moment.passes > 3000:
            break
    assert found.gap < CONVERGED


# Gradient descent


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_descent_is_s2gd_with_one_inner_step(kind, intercept):
    X, y, weight = rows_of(150, 6, "logistic", seed=2)
    problem, h = problem_of("logistic", 0.01, intercept), 0.4
    s2gd, gd = S2gd(m=1, step=h, subspace=0), Gd(step=h)
    inner = in_memory(s2gd, problem, kind, X, y, weight)
    for mine in islice(in_memory(gd, problem, kind, X, y, weight), 40):
        theirs = next(inner).state
        close(gd.weights(mine.state).coef, theirs.x.coef, ROUNDING)
        close(gd.weights(mine.state).intercept, theirs.x.intercept, ROUNDING)
        next(inner)


def test_a_step_that_raises_the_objective_is_undone_and_halved():
    X, y, weight = rows_of(150, 6, "squared", seed=3)
    problem = problem_of("squared", 0.01)
    moments = in_memory(Gd(), problem, DenseRows, X, y, weight, sigma_square=0.01)
    objective, x, rejected = np.inf, b"", 0
    for state in (m.state for m in islice(moments, 60)):
        assert state.bounds.objective <= objective * (1.0 + RISE)
        if state.rejected > rejected:
            assert (state.x.coef.tobytes(), state.bounds.objective) == (x, objective)
        objective, x = state.bounds.objective, state.x.coef.tobytes()
        rejected = state.rejected
    assert rejected >= 3
    with pytest.raises(Diverged, match="Leave the step out"):
        list(islice(in_memory(Gd(step=30.0), problem, DenseRows, X, y, weight), 10))


# Accelerated gradient descent


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_accelerated_gradient_descent_is_the_dense_recursion(kind, intercept):
    X, y, weight = rows_of(150, 6, "logistic", seed=2)
    problem, known = problem_of("logistic", 0.05, intercept), stats(X, kind, weight, y)
    L, square = 8.0, column_length(problem, known) ** 2
    mu = 0.05 if intercept == "none" else square * problem.lam_b
    beta = (1.0 - np.sqrt(mu / L)) / (1.0 + np.sqrt(mu / L))
    x = v = np.zeros(7)
    for moment in islice(in_memory(Agd(smoothness=L), problem, kind, X, y, weight), 7):
        found = Agd().weights(moment.state)
        close(np.append(found.coef, found.intercept), v, ROUNDING)
        _, g, g_b = oracles.objective("logistic", problem, X, y, weight, v[:6], v[6])
        step = v - np.append(g, square * g_b) / L
        x, v = step, step + beta * (step - x)
    assert moment.state.restarts == 0


def test_momentum_saves_most_gradients_and_what_raises_the_objective_is_undone():
    X, y, weight = rows_of(400, 30, "logistic", seed=7)
    X = oracles.single(X * 10.0 ** np.linspace(0, -2, 30))
    problem, passes = problem_of("logistic", 1e-4), {}
    for solver in (Gd(), Agd()):
        for moment in in_memory(solver, problem, SparseRows, X, y, weight):
            if solver.certificate(moment.state).gap < 1e-6:
                break
        passes[solver.kind] = moment.passes
    assert passes["agd"] < passes["gd"]
    moments = in_memory(Agd(), problem, SparseRows, X, y, weight, sigma_square=1e-3)
    before = copy_state(next(moments).state)
    for state in (m.state for m in islice(moments, 300)):
        assert state.bounds.objective <= before.bounds.objective * (1.0 + RISE)
        if state.restarts + state.doubled > before.restarts + before.doubled:
            assert state.v.coef.tobytes() == before.v.coef.tobytes()
            close(Agd().newest(state).coef, step_from(state).coef, ROUNDING)
        before = copy_state(state)
    assert min(state.restarts, state.doubled) >= 3
    with pytest.raises(Diverged, match=r"Leave solver\.smoothness out"):
        list(islice(in_memory(Agd(smoothness=1e-3), problem, SparseRows, X, y, weight), 20))


# SAG


def sag(loss, problem, X, y, weight, orders, h, length, *, counts_all):
    """The recursion of solvers/sag.py with dense vectors; yields after every order."""
    n = len(y)
    w, b, a, D, D_b, seen = np.zeros(X.shape[1]), 0.0, np.zeros(n), 0.0, 0.0, 0
    for order in orders:
        for i in order:
            seen = min(seen + (a[i] == 0.0), n)
            p = X[i] @ w + problem.intercept * b
            new = weight[i] * oracles.phi(loss, p, y[i])[1]
            D, D_b = D + (new - a[i]) * X[i], D_b + problem.intercept * (new - a[i])
            a[i] = new
            N = n if counts_all else seen
            w = w - h * (problem.lam * w + D / N)
            b = b - h * length**2 * (problem.lam_b * b + D_b / N)
        yield w, b, a, D


def drawn(order, t):
    """The rows that a block is visited in, drawn with replacement."""
    return order[np.random.default_rng([0, DRAWS, t]).integers(len(order), size=len(order))]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    pair=st.sampled_from([pair for pair in oracles.PAIRS if pair[0] in ("logistic", "squared")]),
    intercept=st.sampled_from(list(INTERCEPTS)),
    solver=st.sampled_from([Sag(), SagPlus(), Sag(step="safe")]),
    lam=st.floats(-6, 2).map(lambda e: 10.0**e),
)
def test_sag_is_the_dense_recursion(seed, pair, intercept, solver, lam):
    loss, kind = pair
    X, y, weight = rows_of(40, 5, loss, seed)
    problem, known = problem_of(loss, lam, intercept), stats(X, kind, weight, y)
    length, orders = column_length(problem, known), permutations(40)
    h = solver.init(problem, known).h
    visits = [drawn(orders(sweep, 0), 40 * sweep) for sweep in range(RENEW_EVERY)]
    dense = sag(loss, problem, X, y, weight, visits, h, length, counts_all=solver.kind == "sag")
    rows = as_block(kind, X, y, weight)
    slow, slopes = solver.init(problem, known), np.zeros(40)
    moments = sweeps(solver, problem, known, rows)
    for k, ((w, b, a, D), moment) in enumerate(zip(dense, moments, strict=False)):
        found = solver.weights(moment.state)
        close(found.coef, w, 1e-10)
        close(found.intercept, b, 1e-10)
        close(moment.state.W[:, 1], D, 1e-10)
        if k < 2:  # and so is the kernel's text in plain Python
            part = rows._replace(order=visits[k], row_state=slopes)
            b, D_b, P, S = slow.scale
            (b, D_b, P, S), t, seen, monitor = visit_rows.py_func(
                slow.W, SagScalars(b / length, D_b * length, P, S), slow.t, slow.seen, slow.monitor,
                with_column(problem, length), 1.0, h, 40, solver.kind == "sag", *part[:5],
            )  # fmt: skip
            scale = SagScalars(b * length, D_b / length, P, S)
            slow = slow._replace(scale=scale, t=t, seen=seen, monitor=monitor)
            close(solver.weights(slow).coef, w, 1e-10)
        if k == 1:
            close(slopes, a, 1e-10)
    renewed = next(moments).state  # the twentieth pass is followed by fresh slopes
    assert solver.certificate(renewed) is not None
    close(solver.weights(renewed).coef, w, 1e-10)
    part = gradient_part(problem, solver.weights(renewed), rows)
    close(renewed.W[:, 1], part.G, 1e-10)
    assert solver.certificate(next(moments).state) is None


MOVED = ("scale", "t", "seen", "monitor")  # by the kernel


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_of_a_sag_pass_gives_the_same_bits_across_folds(kind):
    X, y, weight = rows_of(300, 6, "logistic", seed=5)
    problem, solver = problem_of("logistic", 3.0, "free"), SagPlus(step=0.05)
    known, rows = stats(X, kind, weight, y), as_block(kind, X, y, weight)
    fold_at = int(np.log(1e-4) / np.log1p(-0.15)) + 1
    ends = set()
    for cuts in [[], [1], [fold_at - 1], [fold_at], [fold_at + 1], [8, 150, 299]]:
        state, slopes = solver.init(problem, known), np.zeros(300)
        for order in np.split(np.arange(300), cuts):
            part = rows._replace(order=order, row_state=slopes)
            moved = (state.scale, state.t, state.seen, state.monitor)
            moved = visit_rows(state.W, *moved, problem, 1.0, 0.05, 300, False, *part[:5])
            state = copy_state(state._replace(**dict(zip(MOVED, moved, strict=True))))
        ends.add((state.W.tobytes(), slopes.tobytes(), *moved))
    assert len(ends) == 1
    assert 1.0 > state.scale.P > 1e-4


@pytest.mark.parametrize("windows", [1, 20])
def test_sag_does_not_swing_however_little_is_in_memory_at_a_time(windows):
    """Every row once a pass, in any order, is an excess that grows (docs/methods.md)."""
    n = 4000
    X, y, weight = rows_of(n, 4, "squared", seed=11, density=1.0)
    problem, solver = problem_of("squared", 0.01), Sag()
    known, rows = stats(X, DenseRows, weight, y), as_block(DenseRows, X, y, weight)
    h = solver.init(problem, known).h
    assert h * n * (known.sigma_square + 0.01) > 2 * np.pi**2
    best = oracles.optimum("squared", problem, X, y, weight)
    state, slopes = solver.init(problem, known), np.zeros(n)
    orders, excess = permutations(n), []
    for epoch in range(40):
        for order in np.split(orders(epoch, 0), windows):
            part = rows._replace(order=order, row_state=slopes)
            state = solver.step_rows(problem, known, state, part)
        w = solver.weights(state).coef
        excess.append(oracles.objective("squared", problem, X, y, weight, w)[0] - best)
    assert excess[-1] < 1e-8 * excess[0]


def test_sag_refuses_streams_and_steps_that_flip_signs():
    known = stats(np.ones((3, 2)), DenseRows)
    with pytest.raises(ValueError, match=r"cannot walk 2 streams.*`streams=1`"):
        Sag().init(problem_of("logistic", 0.1), known._replace(streams=2))
    with pytest.raises(ValueError, match=r"step = 10 times lam = 0\.1"):
        Sag(step=10.0).init(problem_of("logistic", 0.1), known)


def test_an_absurd_step_of_sag_is_noticed_and_halved_until_it_holds():
    X, y, weight = rows_of(2000, 6, "squared", seed=6, density=1.0)
    problem = problem_of("squared", 1e-3)
    end = list(islice(in_memory(Sag(step=50.0), problem, DenseRows, X, y, weight), 40))[-1].state
    assert 50.0 / 2**20 < end.h < 50.0
    at_zero = oracles.objective("squared", problem, X, y, weight, np.zeros(6))[0]
    found = oracles.objective("squared", problem, X, y, weight, Sag().weights(end).coef)[0]
    assert found < EXPLODED * at_zero


# L-BFGS


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_lbfgs_needs_hardly_more_gradients_than_scipys(loss):
    X, y, weight = rows_of(400, 30, loss, seed=7)
    X = oracles.single(X * 10.0 ** np.linspace(0, -2, 30))
    problem = problem_of(loss, 1e-4)

    def f(w):
        return oracles.objective(loss, problem, X, y, weight, w)[:2]

    theirs = minimize(f, np.zeros(30), jac=True, method="L-BFGS-B",
                      options={"ftol": 0.0, "gtol": 1e-7, "maxiter": 1000})  # fmt: skip
    for evaluations, moment in enumerate(in_memory(Lbfgs(), problem, SparseRows, X, y, weight)):
        if moment.state.bounds.objective <= theirs.fun + 1e-12 and evaluations:
            break
    assert evaluations < 1.5 * theirs.nfev


@pytest.mark.parametrize("sigma_square", [1e-6, 1e6], ids=["too long", "too short"])
def test_every_search_ends_with_wolfes_conditions_wherever_it_begins(sigma_square):
    X, y, weight = rows_of(300, 8, "logistic", seed=8)
    problem, solver = problem_of("logistic", 1e-3), Lbfgs(memory=3)
    moments = in_memory(solver, problem, DenseRows, X, y, weight, sigma_square=sigma_square)
    before, searches, trials = copy_state(next(moments).state), 0, []
    for moment in islice(moments, 60):
        state = moment.state
        trials.append(state.search.trials)
        if state.x.tobytes() == before.x.tobytes():
            continue
        step, searches = state.x - before.x, searches + 1
        at_start, at_end = step @ before.g, step @ state.g
        assert at_start < 0.0
        assert at_end >= FLATTENING * at_start
        assert (
            state.bounds.objective
            <= before.bounds.objective + SUFFICIENT_DECREASE * at_start + RISE
        )
        before = copy_state(state)
        if state.bounds.gap < 1e-9:
            break
    assert 1 <= max(trials) < 15
    assert searches > 8
    assert state.bounds.gap < 1e-9


def test_the_two_loops_are_the_bfgs_matrix(rng):
    start = Lbfgs(memory=4).init(problem_of("logistic", 0.1), stats(rng.random((9, 5)), DenseRows))
    A = rng.standard_normal((6, 6))
    A = A @ A.T + np.eye(6)
    held, g, pairs = start.pairs, rng.standard_normal(6), []
    close(direction(held, g, start.L), -g / start.L, ROUNDING)
    for k in range(7):  # around the memory
        s = rng.standard_normal(6)
        pairs.append((s, A @ s))
        held.S[k % 4], held.Y[k % 4] = pairs[-1]
        held = held._replace(n_pairs=k + 1)
        s, y = pairs[-1]
        H = np.eye(6) * (s @ y) / (y @ y)
        for s, y in pairs[-4:]:
            V = np.eye(6) - np.outer(y, s) / (s @ y)
            H = V.T @ H @ V + np.outer(s, s) / (s @ y)
        close(direction(held, g, start.L), -H @ g, 1e-10)


def test_lbfgs_stays_where_nothing_can_be_gained():
    """Rows of zeros: zero weights are the optimum, and no division is by zero."""
    X, y = np.zeros((20, 3)), np.ones(20)
    problem = problem_of("logistic", 0.1)
    for moment in islice(in_memory(Lbfgs(), problem, SparseRows, X, y, np.ones(20)), 5):
        at = Lbfgs().weights(moment.state)
        assert (at.coef.tolist(), at.intercept, moment.state.bounds.gap) == ([0.0] * 3, 0.0, 0.0)


def test_lbfgs_goes_on_at_the_floor_of_rounding():
    X, y, weight = rows_of(300, 8, "logistic", seed=9)
    problem = problem_of("logistic", 1e-3)
    moments = list(islice(in_memory(Lbfgs(), problem, DenseRows, X, y, weight), 150))
    best = oracles.optimum("logistic", problem, X, y, weight)
    end = moments[-1].state
    assert abs(end.bounds.objective - best) < 1e-12
    assert 0.0 <= end.bounds.gap < 1e-12
    assert isinstance(moments[-1].sweep, Reduce)
    assert isinstance(Lbfgs().weights(end), Weights)
