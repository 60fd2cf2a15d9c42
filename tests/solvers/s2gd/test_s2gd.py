"""S2GD and its kin against Algorithm 1 with dense vectors, and what they prove of themselves."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.solvers.drive import permutations, sweeps
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.gradient import RISE
from fewpass.solvers.intercept import column_length, with_column
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import LOSSES, Problem, conjugate
from fewpass.solvers.papers.konecny_richtarik_2013 import s2gd_epoch
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Diverged, Reduce, Weights, copy_state
from fewpass.solvers.s2gd.inner_loop import FOLD_BELOW, inner_steps
from fewpass.solvers.s2gd.s2gd import S2gd, S2gdPlus, Svrg
from testing import oracles
from testing.blocks import block_of, independent, stats_of
from testing.oracles import (
    INTERCEPTS,
    as_block,
    block,
    close,
    dense_rows,
    gradient_part,
    problem_of,
    rows_of,
    sparse_rows,
    stats,
)
from testing.synthetic import least_squares, sparse_logistic
from tests.conftest import ROUNDING

SMOOTH = [loss for loss, _ in oracles.SMOOTH_PAIRS]
KINDS = [DenseRows, SparseRows]
FOLDED = 1e-11  # z and B G may be 1/FOLD_BELOW times larger than y


def in_memory(solver, problem, kind, X, y, weight, orders=None):
    known = stats(X, kind, weight, y)
    return sweeps(solver, problem, known, as_block(kind, X, y, weight), orders)


# Algorithm 1


def follow(solver, loss, problem, kind, X, y, weight, epochs):
    """Run beside the dense recursion, compare after every sweep; return what was undone."""
    known, orders, n = stats(X, kind, weight, y), permutations(len(y)), len(y)
    length = column_length(problem, known)
    objective = lambda w, b: oracles.objective(loss, problem, X, y, weight, w, b)[0]  # noqa: E731
    w, b, anchor, h, undone, before = np.zeros(X.shape[1]), 0.0, None, None, 0, None
    moments = in_memory(solver, problem, kind, X, y, weight, orders)
    for number, (_, sweep, state) in enumerate(islice(moments, 2 * epochs)):
        if isinstance(sweep, Reduce):
            if anchor is None or objective(w, b) <= objective(*anchor) * (1.0 + RISE):
                anchor = w, b
            else:
                undone, h = undone + 1, 0.5 * h
                assert state.x.coef.tobytes() == before.x.coef.tobytes()
                assert state.W[:, 0].tobytes() == before.x.coef.tobytes()
                assert state.x.intercept == before.x.intercept
                assert state.y == (state.x.intercept, 1.0, 0.0)
                assert (state.bounds.objective, state.row_version) == (
                    before.bounds.objective,
                    before.row_version,
                )
            h = state.h if h is None else h
            close(state.x.coef, anchor[0], FOLDED)
            close(state.x.intercept, anchor[1], FOLDED)
            assert (state.h, state.rejected) == (h, undone)
            assert state.bounds.objective == pytest.approx(objective(*anchor), rel=ROUNDING)
            before = copy_state(state)
            continue
        left = before.left
        visits = [orders(number, k)[: left - k * n] for k in range(-(-left // n))]
        step = solver._batch_step(problem, known, before.h)
        phi = partial(oracles.phi, loss)
        w, b = s2gd_epoch(
            phi, problem, X, y, weight, anchor, visits, step, solver.batch_size, length
        )
        found = solver.newest(state)
        close(found.coef, w, FOLDED)
        close(found.intercept, b, FOLDED)
        assert state.left == 0
    return undone, before, visits, step, found


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    pair=st.sampled_from(oracles.SMOOTH_PAIRS),
    intercept=st.sampled_from(list(INTERCEPTS)),
    batch=st.sampled_from([1, 2, 7]),
    lam=st.floats(-6, 2).map(lambda e: 10.0**e),
    step=st.sampled_from(["mean", "largest", "conservative"]),
)
def test_every_epoch_is_algorithm_1(seed, pair, intercept, batch, lam, step):
    loss, kind = pair
    X, y, weight = rows_of(60, 5, loss, seed)
    problem = problem_of(loss, lam, intercept)
    solver = S2gd(step=step, batch_size=batch, subspace=0)
    _, before, visits, h, found = follow(solver, loss, problem, kind, X, y, weight, 3)

    # and so is the kernel's text in plain Python
    length = column_length(problem, stats(X, kind, weight, y))
    rows, A, B, b = as_block(kind, X, y, weight), 1.0, 0.0, before.x.intercept / length
    slopes = np.empty(len(y))
    gradient_part(problem, before.x, rows._replace(row_state=slopes))
    for order in visits:
        A, B, b = inner_steps.py_func(
            before.W, A, B, b, before.G_b * length, with_column(problem, length), h, batch,
            *rows._replace(order=order, row_state=slopes)[:5],
        )  # fmt: skip
    close(A * before.W[:, 0] - B * before.W[:, 1], found.coef, FOLDED)
    close(b * length, found.intercept, FOLDED)


def test_an_epoch_that_raises_the_objective_is_undone_exactly_and_the_step_halved():
    # heavy rows: the mean of their curvatures says little of the largest
    X, y, weight = rows_of(300, 8, "squared", seed=4)
    X[::30] *= 32.0
    y[::30] *= 30.0
    undone, *_ = follow(
        S2gd(subspace=0),
        "squared",
        problem_of("squared", 1e-3, "free"),
        DenseRows,
        X,
        y,
        weight,
        12,
    )
    assert undone >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_gives_the_same_bits_across_folds(kind):
    X, y, weight = rows_of(400, 6, "logistic", seed=5)
    problem, solver = problem_of("logistic", 0.5, "free"), S2gd(subspace=0)
    known, rows = stats(X, kind, weight, y), as_block(kind, X, y, weight)
    start = next(in_memory(solver, problem, kind, X, y, weight)).state._replace(left=400)
    steps_to_fold = int(np.log(FOLD_BELOW) / np.log1p(-start.h * problem.lam)) + 1
    assert steps_to_fold < 150  # folds twice
    slopes = np.empty(400)
    gradient_part(problem, Weights(np.zeros(6), 0.0), rows._replace(row_state=slopes))
    ends = set()
    for cuts in [[], [1], [steps_to_fold - 1], [steps_to_fold], [steps_to_fold + 1], [7, 150, 399]]:
        state = copy_state(start)
        for order in np.split(np.arange(400), cuts):
            part = rows._replace(order=order, row_state=slopes)
            state = solver.step_rows(problem, known, state, part)
        ends.add((state.W.tobytes(), state.y, state.left))
    assert len(ends) == 1


# Special cases


def test_one_inner_step_is_gradient_descent():
    X, y, weight = rows_of(200, 6, "logistic", seed=1)
    problem, h = problem_of("logistic", 0.01), 0.3
    w = np.zeros(6)
    for moment in islice(
        in_memory(S2gd(m=1, step=h, subspace=0), problem, SparseRows, X, y, weight), 1, 60, 2
    ):
        w = w - h * oracles.objective("logistic", problem, X, y, weight, w)[1]
        close(S2gd().newest(moment.state).coef, w, ROUNDING)


def test_inner_lengths_follow_their_laws():
    X, y, weight = rows_of(100, 3, "logistic", seed=2)
    problem = problem_of("logistic", 0.1)

    def lengths(solver, reductions=400):
        found = in_memory(solver, problem, DenseRows, X, y, weight)
        return [m.state.left for m in islice(found, 3 * reductions) if isinstance(m.sweep, Reduce)]

    uniform = lengths(Svrg(m=50, batch_size=2))
    assert set(uniform) == set(range(2, 101, 2))
    assert np.mean(uniform) == pytest.approx(51.0, abs=4.0)
    assert Svrg(m=50).nu == S2gd(m=50, nu=0.0).nu == 0.0
    assert min(lengths(S2gd(m=50, step=0.01, nu=99.0), 50)) >= 45  # nearly always the longest
    assert set(lengths(S2gdPlus(), 20)) == {100}
    assert set(lengths(S2gdPlus(m=30, batch_size=3), 20)) == {90}
    assert max(lengths(S2gd(), 40)) > 100  # two turns through the rows


def test_s2gd_plus_begins_with_the_averaged_pass():
    X, y, weight = rows_of(500, 6, "logistic", seed=3)
    problem, solver = problem_of("logistic", 0.01, "free"), S2gdPlus()
    moments = in_memory(solver, problem, DenseRows, X, y, weight)
    first = solver.newest(next(moments).state)
    assert solver.certificate(solver.init(problem, stats(X, DenseRows, weight, y))) is None
    anchored = next(moments).state
    np.testing.assert_array_equal(anchored.x.coef, first.coef)
    assert anchored.x.intercept == first.intercept
    f = oracles.objective("logistic", problem, X, y, weight, first.coef, first.intercept)[0]
    assert solver.certificate(anchored).objective == pytest.approx(f, rel=ROUNDING)


def test_three_anchors_tell_the_minimum_of_a_quadratic_in_their_plane():
    X, y, weight = rows_of(80, 3, "squared", seed=7, density=1.0)
    X[:, 2] = 0.0
    problem = problem_of("squared", 1e-3)
    H = (X.T * weight) @ X / 80 + 1e-3 * np.eye(3)
    best = np.linalg.solve(H, X.T @ (weight * y) / 80)
    moments = in_memory(S2gd(m=2), problem, DenseRows, X, y, weight)
    third = [m.state for m in islice(moments, 5)][-1]
    assert (third.n_anchors, third.rejected) == (2, 0)
    # an objective that is known to rounding tells its minimum so well, and no better
    known = np.finfo(float).eps * 0.5 * float(weight @ (y * y)) / 80
    close(S2gd().newest(third).coef, best, np.sqrt(2.0 * known / np.linalg.eigvalsh(H)[0]))
    assert np.abs(third.x.coef - best).max() > 1e-3  # the model stays the anchor until f is known


# What is proven


@pytest.mark.parametrize("solver", [S2gd(), S2gdPlus(), Svrg(batch_size=4)], ids=lambda s: s.kind)
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_certificates_bound_the_truth_down_to_rounding(loss, solver, lam):
    X, y, weight = rows_of(300, 6, loss, seed=6)
    problem = problem_of(loss, lam, "free")
    best, objectives, lower = oracles.optimum(loss, problem, X, y, weight), [np.inf], 0.0
    for moment in in_memory(solver, problem, oracles.ROWS_OF[loss], X, y, weight):
        if not isinstance(moment.sweep, Reduce):
            continue
        state, found = moment.state, solver.certificate(moment.state)
        at = solver.weights(state)
        true = oracles.objective(loss, problem, X, y, weight, *at)[0]
        assert found.objective == pytest.approx(true, rel=ROUNDING)
        assert found.objective <= objectives[-1] * (1.0 + RISE)
        assert found.gap >= max(0.0, true - best - 1e-12)
        assert lower <= state.bounds.lower <= best + 1e-12
        lower = state.bounds.lower
        objectives.append(found.objective)
        if moment.passes > 60 and (found.gap < 1e-11 or moment.passes > 2000):
            break
    assert found.gap < 1e-11


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_certificate_is_the_duality_gap_of_the_slopes(loss, rng):
    X, y, weight = rows_of(150, 5, loss)
    lam, w = 0.05, rng.standard_normal(5)
    problem, margin = problem_of(loss, lam), 1.0 if LOSSES[loss].takes_numbers else y
    f, g, _ = oracles.objective(loss, problem, X, y, weight, w)
    a = -margin * oracles.phi(loss, X @ w, y)[1]
    v = X.T @ (weight * margin * a) / (lam * len(y))
    costs = [conjugate(problem.loss, *pair) for pair in zip(a, y, strict=True)]
    dual = -np.mean(weight * costs) - 0.5 * lam * v @ v
    assert f - dual == pytest.approx(g @ g / (2.0 * lam), rel=1e-9)


# What is refused, and what is caught


def test_steps_that_cannot_be_are_refused_at_once():
    known = stats(np.ones((3, 2)), DenseRows)
    with pytest.raises(ValueError, match=r"step = 10 times lam = 0\.1"):
        S2gd(step=10.0).init(problem_of("logistic", 0.1), known)
    with pytest.raises(ValueError, match="nu = 100 times a step"):
        S2gd(nu=100.0).init(problem_of("logistic", 0.1), known)


def test_rows_of_zeros_are_no_trouble():
    X, y = np.zeros((20, 3)), np.ones(20)
    for batch in (1, 16):
        moments = in_memory(
            S2gd(batch_size=batch), problem_of("logistic", 0.1), SparseRows, X, y, np.ones(20)
        )
        state = list(islice(moments, 5))[-1].state
        assert (state.x.coef.tolist(), state.bounds.gap) == ([0.0] * 3, 0.0)


def test_a_step_that_is_far_too_long(monkeypatch):
    """Of the user's it ends the training at the last good anchor; of the rule's it is halved."""
    X, y = sparse_logistic(2000, 200)
    X = X.astype(np.float32)
    problem = Problem(LOSSES["squared_hinge"](), L2(1.0 / 2000), 0.0, 1.0)
    known, rows = stats(X.toarray(), SparseRows), block(sparse_rows(X), y)
    h = 4.0 / smoothness(problem, known, known.max_square)
    moments = sweeps(S2gd(step=h, m=50_000, subspace=0), problem, known, rows)
    with pytest.raises(Diverged, match="Leave the step out"):
        for moment in islice(moments, 40):
            last = copy_state(moment.state)
    assert last.bounds.objective <= 0.5
    assert np.isfinite(last.x.coef).all()
    monkeypatch.setattr(S2gd, "_first_step", lambda *_: h)
    for end in islice(sweeps(S2gd(), problem, known, rows), 61):
        pass
    assert 1 <= end.state.rejected < 8
    assert end.state.bounds.gap < 1e-3


# The papers' numbers, short; the full ones: benchmarks/papers/acceptance_primal.py


def test_section_7_1_reaches_machine_precision_in_forty_passes():
    X, y = least_squares(100_000, 20, seed=0)
    X, lam = X.astype(np.float32).astype(float), 1e-4  # stored as float32 without loss
    problem = Problem(LOSSES["squared"](), L2(lam), 0.0, 1.0)
    hessian = X.T @ X / len(y) + lam * np.eye(20)
    best = np.linalg.solve(hessian, X.T @ y / len(y))
    start = 0.5 * best @ hessian @ best
    solver = S2gd(m=261_063, step=1.0 / 11.4, subspace=0)  # as printed
    known = stats(X, DenseRows)
    reached = []
    for moment in sweeps(solver, problem, known, block(dense_rows(X), y), independent(len(y))):
        error = solver.newest(moment.state).coef - best
        reached.append((moment.passes, 0.5 * error @ hessian @ error / start))
        if moment.passes > 40:
            break
    assert reached[-2][1] <= 1e-13


def test_section_9_sparse_logistic():
    """h = 1/(4 L), rows drawn independently; S2GD+ has inner loops of one pass."""
    X, y = sparse_logistic()
    problem, known = Problem(LOSSES["logistic"](), L2(1.0 / len(y)), 0.0, 1.0), stats_of(X, y)
    assert smoothness(problem, known, known.max_square) / problem.lam == pytest.approx(5001)
    for solver, at_20 in [
        (S2gdPlus(step="largest", subspace=0), 1e-10),
        (S2gd(step="largest", subspace=0), 1e-8),
        (S2gd(), 1e-9),
    ]:
        excess = []
        for moment in sweeps(solver, problem, known, block_of(X, y), independent(len(y))):
            if isinstance(moment.sweep, Reduce) and moment.passes <= 20:
                excess.append(moment.state.bounds.objective - 0.4221829267)
            if moment.passes >= 20:
                break
        assert excess[-1] <= at_20 + 5e-11  # the digits of the optimum
