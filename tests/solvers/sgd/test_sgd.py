"""SGD and averaged SGD against the direct dense recursion, and the laws of their state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.runs.packing import from_named_fields, named_fields
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.loss_monitor import EXPLODED, LEAST_NOTED
from fewpass.solvers.papers import xu_2011
from fewpass.solvers.protocol import copy_state
from fewpass.solvers.sgd.averaged_sgd import Asgd, Sgd
from fewpass.solvers.sgd.averaged_state import IN_PAIRS, Schedule, SgdState, read_out, step_size
from fewpass.solvers.sgd.steps import FLUSH_ABOVE, SgdModel, step_rows, visit_rows
from testing import oracles
from testing.oracles import (
    INTERCEPTS,
    block,
    close,
    dense_rows,
    problem_of,
    rows_of,
    stats,
    stored,
    visit,
)
from tests.conftest import ROUNDING

#: Read-outs subtract numbers up to FLUSH_ABOVE times larger than their result.
FLUSHED = 1e-9
NO_FACTS = None  # joining streams needs none


def average_of(state):
    return (state.bar.tau * state.W[:, 0] + state.W[:, 1]) / state.bar.beta


def matches(state, expected, tolerance):
    theta, bar = read_out(state)
    assert state.t0 == expected.t0
    close(theta.coef, expected.theta, tolerance)
    close(theta.intercept, expected.b, tolerance)
    close(bar.coef, expected.bar, tolerance)
    close(bar.intercept, expected.b_bar, tolerance)


# Algorithm 1 is the direct recursion


def test_a_long_pass_with_many_flushes():
    n, lam, gamma0, c = 100_000, 0.2, 1.0, 0.5
    X, y, weight = rows_of(n, 6, "logistic")
    log_alpha = -np.log1p(-lam * xu_2011.gamma(gamma0, lam, c, np.arange(1, n + 1))).sum()
    assert log_alpha > 15 * np.log(FLUSH_ABOVE)
    problem, solver = problem_of("logistic", lam, "free"), Asgd(gamma0=gamma0, c=c)
    expected = oracles.asgd("logistic", problem, X, y, weight, gamma0, lam, c, n // 10)
    for kind in (DenseRows, SparseRows):
        matches(visit(solver, problem, X, y, weight, kind), expected, FLUSHED)


@pytest.mark.parametrize("loss", oracles.ROWS_OF)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_every_loss_and_intercept(loss, intercept):
    X, y, weight = rows_of(1500, 9, loss, seed=1)
    problem = problem_of(loss, 0.01, intercept)
    for average_from, t0 in [(0, 0), (0.1, 150), (1499, 1499), (2000, 2000)]:
        solver = Asgd(gamma0=0.05, average_from=average_from)
        schedule = solver.schedule(problem)
        assert schedule == Schedule(0.01, 2 / 3 if loss == "squared" else 0.75)
        state = visit(solver, problem, X, y, weight, oracles.ROWS_OF[loss])
        expected = oracles.asgd(loss, problem, X, y, weight, 0.05, *schedule, t0)
        matches(state, expected, 1e-10)


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_averaging_starts_where_the_rule_says(kind, intercept):
    starts = set()
    for seed, gamma0 in [(0, 0.3), (1, 0.02), (2, 0.0005)]:
        X, y, weight = rows_of(1500, 9, "logistic", seed)
        problem = problem_of("logistic", 0.05, intercept)
        solver = Asgd(gamma0=gamma0, average_from="auto")
        state = visit(solver, problem, X, y, weight, kind)
        expected = oracles.asgd(
            "logistic", problem, X, y, weight, gamma0, 0.05, 0.75, None, latest=750
        )
        matches(state, expected, 1e-10)
        starts.add(state.t0)
    assert len(starts) > 1
    assert max(starts) == 750  # the cap


def test_decaying_average_survives_its_own_flush():
    # 0.99^-t passes 1e200 after 46,000 rows; so small a step never lets the average win
    n = 50_000
    X, y, weight = rows_of(n, 3, "logistic", seed=3)
    problem, solver = problem_of("logistic", 0.05), Asgd(gamma0=1e-6, average_from="auto")
    known = stats(X, DenseRows, weight)._replace(stream_rows=4 * n)
    start = solver.init(problem, known)
    state = solver.step(problem, known, start, block(dense_rows(X), y, weight))
    expected = oracles.asgd("logistic", problem, X, y, weight, 1e-6, 0.05, 0.75, None, 2 * n)
    assert (state.t0, expected.t0) == (-1, None)
    assert 1.0 < state.bar.beta < 1e50  # flushed once
    close(average_of(state), expected.ema, 1e-10)
    close(read_out(state)[0].coef, expected.theta, 1e-10)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    t0=st.sampled_from([0, 7, 1000, "auto"]),
    loss=st.sampled_from(["logistic", "squared", "squared_hinge"]),
)
def test_dense_sparse_and_python_agree(seed, density, t0, loss):
    X, y, weight = rows_of(150, 5, loss, seed, density)
    problem, solver = problem_of(loss, 0.1, "free"), Asgd(gamma0=0.2, average_from=t0)
    dense = visit(solver, problem, X, y, weight)
    sparse = visit(solver, problem, X, y, weight, SparseRows)
    assert (dense.t, dense.t0) == (sparse.t, sparse.t0)
    assert dense.monitor.n_monitored == sparse.monitor.n_monitored
    np.testing.assert_allclose(dense.W, sparse.W, rtol=1e-11, atol=ROUNDING)
    if t0 == "auto":
        return
    for kind, mine in [(DenseRows, dense), (SparseRows, sparse)]:
        rows = stored(kind, X)
        start = solver.init(problem, stats(X, kind, weight, y))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fewpass.solvers.sgd.steps.step_rows", step_rows.py_func)
            model = SgdModel(problem, solver.schedule(problem), start)
            ends = np.empty(0, np.int64)
            (slow,) = visit_rows([model], [start.W], 1.0, 0, block(rows, y, weight), ends, None)
        np.testing.assert_allclose(start.W, mine.W, rtol=1e-11, atol=ROUNDING)
        slow, fast = ((*s.theta, *s.bar, *s.monitor, s.t) for s in (slow, mine))
        np.testing.assert_allclose(slow, fast, rtol=1e-11, atol=ROUNDING)


def test_steps_decay_as_equation_3_says():
    t = np.arange(1, 2000)
    for c in (0.75, 1.0, 2 / 3, 0.5, 0.0):
        found = [step_size(Schedule(0.02, c), 0.3, k) for k in t]
        np.testing.assert_allclose(found, xu_2011.gamma(0.3, 0.02, c, t), rtol=ROUNDING)


# The laws of the state


def through_a_snapshot(state):
    """Arrays and numbers apart, as a snapshot keeps them, and together again."""
    fields = dict(named_fields(copy_state(state)))
    numbers = [value for value in fields.values() if not isinstance(value, np.ndarray)]
    assert all(type(value) in (int, float) for value in numbers), fields
    return from_named_fields(SgdState, fields)


def same_bits(left, right):
    for (name, a), (_, b) in zip(named_fields(left), named_fields(right), strict=True):
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, name
            assert a.flags.f_contiguous == b.flags.f_contiguous, name
            assert a.tobytes() == b.tobytes(), name
        else:
            assert a == b, name
            assert type(a) is type(b), name


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("average_from", [200, "auto"])
def test_any_cut_gives_the_same_bits(kind, average_from):
    X, y, weight = rows_of(900, 7, "logistic", seed=5)
    problem = problem_of("logistic", 0.2, "free")
    flushed = {"gamma0": 2.0, "c": 0.5}  # on the way
    solver = Asgd(**flushed, average_from=average_from)
    whole = visit(solver, problem, X, y, weight, kind)
    t0 = whole.t0
    assert 100 <= t0 < 800
    known = stats(X, kind, weight, y)
    rows = stored(kind, X)
    around = [[1], [50], [t0 - 1], [t0], [t0 + 1], [t0 + 2], [899], [t0, t0 + 1, t0 + 2]]
    for cuts in [*around, list(range(0, 900, 37)), [300, 300]]:
        state = solver.init(problem, known)
        for order in np.split(np.arange(900), cuts):
            state = through_a_snapshot(state)
            state = solver.step(problem, known, state, block(rows, y, weight, order))
        same_bits(state, whole)


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("average_from", [200, "auto"])
def test_whoever_is_told_of_losses_changes_no_bit(kind, average_from):
    X, y, weight = rows_of(900, 7, "logistic", seed=5)
    problem, solver = (
        problem_of("logistic", 0.2, "free"),
        Asgd(gamma0=2.0, average_from=average_from),
    )
    rows = stored(kind, X)
    known, told = stats(X, kind, weight, y), []
    heard = solver.step(
        problem, known, solver.init(problem, known), block(rows, y, weight),
        lambda row, so_far: told.append((row, so_far)),
    )  # fmt: skip
    same_bits(heard, visit(solver, problem, X, y, weight, kind))
    assert [row for row, _ in told] == [*range(LEAST_NOTED, 900, LEAST_NOTED), 900]
    for row, so_far in told:  # what is noted inside a kernel is what it would have ended with
        part = block(rows, y, weight, np.arange(row))
        ended = solver.step(problem, known, solver.init(problem, known), part)
        assert ended.monitor[:2] == so_far


def test_flushes_follow_the_schedule_not_the_data():
    problem, solver = problem_of("logistic", 0.2, "free"), Asgd(gamma0=2.0, c=0.5)
    ends = [visit(solver, problem, *rows_of(5000, 4, "logistic", seed)) for seed in (0, 1)]
    of_schedule = [(s.theta.alpha, s.bar.beta, s.bar.tau, s.t, s.t0) for s in ends]
    assert of_schedule[0] == of_schedule[1]
    assert ends[0].W.tobytes() != ends[1].W.tobytes()


def test_order_of_rows_is_the_blocks(rng):
    X, y, weight = rows_of(400, 7, "logistic")
    order = rng.permutation(400)
    problem, solver = problem_of("logistic", 0.1), Asgd(gamma0=0.3)
    known = stats(X, DenseRows, weight)
    shuffled = solver.step(
        problem, known, solver.init(problem, known), block(dense_rows(X), y, weight, order)
    )
    same_bits(shuffled, visit(solver, problem, X[order], y[order], weight[order]))


def test_streams_join_to_the_mean():
    problem, solver = problem_of("logistic", 0.1, "free"), Asgd(gamma0=0.3, average_from=100)
    # the second stream is too short to have begun averaging: its average is its iterate
    ends = [visit(solver, problem, *rows_of(n, 7, "logistic", n)) for n in (300, 90)]
    assert IN_PAIRS.join(problem, NO_FACTS, [ends[0]]) is ends[0]
    before = [solver.weights(copy_state(s)) for s in ends]
    joined = IN_PAIRS.join(problem, NO_FACTS, [copy_state(s) for s in ends])
    mean = solver.weights(joined)
    np.testing.assert_allclose(mean.coef, (before[0].coef + before[1].coef) / 2, rtol=ROUNDING)
    assert mean.intercept == pytest.approx((before[0].intercept + before[1].intercept) / 2)
    assert (joined.t, joined.t0, joined.gamma0) == (ends[0].t, ends[0].t0, ends[0].gamma0)
    # and what follows goes on from there
    same = visit(solver, problem, *rows_of(50, 7, "logistic", 9), state=joined)
    assert np.isfinite(solver.weights(same).coef).all()


def test_streams_that_still_seek_their_start_join():
    problem, solver = problem_of("logistic", 0.1), Asgd(gamma0=0.3, average_from="auto")
    ends = [visit(solver, problem, *rows_of(60, 7, "logistic", s)) for s in (0, 1)]
    joined = IN_PAIRS.join(problem, NO_FACTS, ends)
    theta = read_out(joined)[0].coef
    np.testing.assert_allclose(average_of(joined), theta, rtol=ROUNDING)


# The guard


@pytest.mark.parametrize("average_from", [0.1, "auto"])
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_an_absurd_step_is_noticed_and_halved_until_it_holds(loss, average_from):
    X, y, weight = rows_of(3000, 9, loss, seed=2, density=1.0)
    problem = problem_of(loss, 1e-6)
    solver = Asgd(gamma0=2.0**10, average_from=average_from)
    known, rows = stats(X, DenseRows, weight, y), dense_rows(X)
    walk = solver.program(0)[0]
    state = solver.init(problem, known)
    for halvings in range(30):
        state = walk.step(problem, known, state, block(rows, y, weight))
        if not walk.diverged(state):
            break
        assert state.t < 3000
        state = walk.recover(problem, known, state)
        assert state.t == 0
        assert not state.W.any()
        assert state.gamma0 == 2.0 ** (9 - halvings)
    assert 0 < halvings < 25
    at_zero = oracles.objective(loss, problem, X, y, weight, np.zeros(9))[0]
    found = oracles.objective(loss, problem, X, y, weight, solver.weights(state).coef)[0]
    # the hinge's slopes are bounded: a large step makes it bad, not divergent
    assert found < at_zero * (EXPLODED if loss == "hinge" else 1.0)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("solver", [Sgd, Asgd])
def test_no_step_is_too_long_for_the_squared_hinge(solver, intercept):
    """Rows a thousand times as long as others, and steps of up to 4^8 over the mean square.

    A step by the slope would multiply what such a row lacks by 1e3 and more, every time.
    """
    X, y, weight = rows_of(3000, 9, "squared_hinge", seed=2, density=1.0)
    X[::50] *= 1024.0
    problem, known = problem_of("squared_hinge", 1e-6, intercept), stats(X, DenseRows, weight, y)
    at_zero = oracles.objective("squared_hinge", problem, X, y, weight, np.zeros(9))[0]
    for power in (0, 4, 8):
        gamma0 = 4.0**power / known.mean_square
        state = visit(solver(gamma0=gamma0), problem, X, y, weight)
        assert state.t == 3000
        assert not state.monitor.diverged
        w = solver(gamma0=gamma0).weights(state)
        found = oracles.objective("squared_hinge", problem, X, y, weight, w.coef, w.intercept)
        assert found[0] < 1000.0 * at_zero


def test_rare_targets_do_not_look_like_an_explosion(rng):
    # nearly all targets are 0, where zero weights have no loss at all
    X = oracles.single(rng.standard_normal((4000, 5)))
    y = np.where(rng.random(4000) < 0.01, 100.0 * X[:, 0], 0.0)
    state = visit(Asgd(gamma0=0.02), problem_of("squared", 1e-3), X, y, np.ones(4000))
    assert (state.monitor.diverged, state.t) == (0, 4000)


def test_a_step_that_turns_the_decay_negative_is_refused():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match=r"gamma0 = 10 times lam = 0\.1 is not below 1.*Lower gam"):
        Sgd(gamma0=10.0).init(problem_of("logistic", 0.1), stats(X, DenseRows))
    for lam in (1e-9, 1.0, 1e9):
        Sgd(gamma0="curvature").init(problem_of("logistic", lam), stats(X, DenseRows))
    with pytest.raises(ValueError, match=r"gamma0 = 0\.5 times lam = 2 is not below 1"):
        Sgd(gamma0="paper").init(problem_of("logistic", 2.0), stats(X, DenseRows))


@pytest.mark.parametrize("setting", [{"average_from": -1}, {"average_from": 1.5}, {"c": -0.1}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        Asgd(**setting)


def test_first_steps_are_the_papers():
    X = np.array([[1.0, 1.0], [2.0, 0.0]])  # M = 4, with the constant column 5, with weight 3
    known = stats(X, DenseRows, weight=np.array([1.0, 3.0]))
    problem = problem_of("logistic", 0.5, "regularised")
    assert Sgd(gamma0="paper").init(problem, known).gamma0 == 1 / 15
    assert Sgd(gamma0="curvature").init(problem, known).gamma0 == 1 / (15 / 4 + 0.5)
    assert Sgd().init(problem, known).gamma0 == 0.0


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
def test_a_constant_step_is_c_0(kind):
    X, y, weight = rows_of(400, 6, "logistic", seed=8)
    problem, solver = problem_of("logistic", 0.05, "free"), Sgd(gamma0=0.3, c=0.0)
    assert solver.schedule(problem) == Schedule(0.05, 0.0)
    w, b = np.zeros(6), 0.0
    for x, target, v in zip(X, y, weight, strict=True):
        slope = v * oracles.phi("logistic", x @ w + b, target)[1]
        w, b = w - 0.3 * (0.05 * w + slope * x), b - 0.3 * (problem.lam_b * b + slope)
    found = solver.weights(visit(solver, problem, X, y, weight, kind))
    close(found.coef, w, 1e-10)
    close(found.intercept, b, 1e-10)


def test_plain_sgd_returns_its_last_iterate():
    X, y, weight = rows_of(500, 9, "hinge")
    problem = problem_of("hinge", 0.01)
    state = visit(Sgd(gamma0=0.1), problem, X, y, weight)
    expected = oracles.asgd("hinge", problem, X, y, weight, 0.1, 0.01, 1.0, 501)
    close(Sgd().weights(state).coef, expected.theta, 1e-10)
