"""One pass of several learners: the recursion as it is written down, and the laws of its state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from fewpass.pipeline.runs.packing import from_named_fields, named_fields
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.loss_monitor import EXPLODED
from fewpass.solvers.losses import LOSSES
from fewpass.solvers.multi_model import MultiModel, one_by_one
from fewpass.solvers.onepass.onepass import Onepass
from fewpass.solvers.onepass.onepass_state import (
    charges,
    join,
    late_losses,
    output_weights,
    squares_of_weights,
)
from fewpass.solvers.onepass.visit import ASGD, LAST, OUTPUTS, POLY, visit_rows
from fewpass.solvers.protocol import copy_state
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.solvers.sgd.averaged_state import read_out
from fewpass.solvers.tasks import Task
from testing import oracles
from testing.oracles import (
    INTERCEPTS,
    block,
    close,
    problem_of,
    rows_of,
    sparse_rows,
    stats,
    stored,
)
from tests.conftest import ROUNDING

#: The dual step of the logistic loss is exact to about 1e-7.
ROOT = 1e-6


def visit(problem, *rows, solver=None, **how):
    return oracles.visit(solver or Onepass(newton_columns=0), problem, *rows, **how)


def with_constant(weights):
    return np.append(*weights)


@pytest.mark.parametrize(("loss", "kind"), oracles.PAIRS)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_learners_are_the_recursion(loss, kind, intercept):
    X, y, weight = rows_of(700, 6, loss, seed=1)
    X[:, 2] *= 1024.0
    y = 50.0 * y + 20.0 if LOSSES[loss].takes_numbers else y
    problem = problem_of(loss, 0.01, intercept)
    free = problem.intercept != 0.0 and LOSSES[loss].takes_numbers
    start = float(np.average(y, weights=weight)) if free else 0.0
    problem = problem._replace(level=start)
    slopes = weight * oracles.phi(loss, start, y)[1]
    pull = np.mean(slopes**2) if LOSSES[loss].takes_numbers else 1.0
    unit = np.sqrt(np.mean((y - start) ** 2)) if LOSSES[loss].takes_numbers else 1.0
    state = visit(problem, X, y, weight, kind)
    for k, eta in enumerate((1.0, 4.0)):
        expected = oracles.adagrad(loss, problem, X, y, weight, eta, unit, start, pull)
        progressive = state.progressive.sums[0, [LAST + k, POLY + k]]
        np.testing.assert_allclose(progressive, expected.losses, rtol=ROOT)
        np.testing.assert_allclose(state.weight, expected.weight, rtol=ROUNDING)
        for output, found in ((LAST + k, expected.last), (POLY + k, expected.poly)):
            own = with_constant(output_weights(state, output))  # the intercept counts from b_0
            own[-1] += state.level
            close(own, found, ROOT)


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
def test_averaged_sgd_is_among_them_as_it_is_alone(kind):
    X, y, weight = rows_of(1500, 9, "logistic", seed=2)
    problem, known = problem_of("logistic", 0.2, "free"), stats(X, kind, weight, y)
    rows = stored(kind, X)
    alone = Asgd().init(problem, known)
    alone = Asgd().step(problem, known, alone, block(rows, y, weight))
    state = visit(problem, X, y, weight, kind)
    assert (state.sgd.t, state.sgd.t0, state.sgd.gamma0) == (alone.t, alone.t0, alone.gamma0)
    np.testing.assert_allclose(state.sgd.W, alone.W, rtol=1e-9, atol=ROUNDING)
    close(with_constant(output_weights(state, ASGD)), with_constant(read_out(alone)[1]), 1e-10)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    density=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_dense_sparse_and_python_agree(seed, density):
    X, y, weight = rows_of(150, 5, "logistic", seed, density)
    problem = problem_of("logistic", 0.1, "free")
    dense, sparse = (visit(problem, X, y, weight, kind) for kind in (DenseRows, SparseRows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewpass.solvers.onepass.onepass.visit_rows", visit_rows.py_func)
        slow = visit(problem, X, y, weight, SparseRows)
    for other in (sparse, slow):
        np.testing.assert_allclose(dense.columns, other.columns, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(dense.progressive.sums, other.progressive.sums, rtol=1e-8)


@pytest.mark.parametrize("newton_columns", [0, 512])
def test_a_resumed_pass_has_the_same_bits_at_any_row(newton_columns):
    X, y, weight = rows_of(2500, 7, "logistic", seed=4)
    problem = problem_of("logistic", 0.01, "free")
    for kind in (DenseRows, SparseRows):
        cuts = [1200, 1201, 2222]
        whole = visit(
            problem, X, y, weight, kind, [1200], solver=Onepass(newton_columns=newton_columns)
        )
        known, solver = stats(X, kind, weight, y), Onepass(newton_columns=newton_columns)
        rows = stored(kind, X)
        state = solver.init(problem, known)
        for order in np.split(np.arange(len(y)), cuts):
            fields = dict(named_fields(copy_state(state)))
            state = from_named_fields(type(state), fields)
            state = solver.step(problem, known, state, block(rows, y, weight, order))
        for (name, mine), (_, other) in zip(named_fields(whole), named_fields(state), strict=True):
            if not name.startswith("progressive.reported"):  # by blocks
                assert np.array_equal(mine, other), name


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    pair=st.sampled_from(oracles.PAIRS),
    what=st.sampled_from(["rows", "columns", "all"]),
    span=st.sampled_from([1, 5, 20]),
    exponent=st.floats(-6.0, 2.0),
    n=st.sampled_from([60, 1300]),
)
def test_nothing_explodes_whatever_the_norms(seed, pair, what, span, exponent, n):
    """Norms of rows and columns from 1e-20 to 1e20, and targets likewise."""
    loss, kind = pair
    X, y, weight = rows_of(n, 5, loss, seed)
    rng = np.random.default_rng(seed)
    shape = {"rows": (n, 1), "columns": (1, 5), "all": ()}[what]
    X = oracles.single(X * 10.0 ** rng.uniform(-span, span, shape))
    if LOSSES[loss].takes_numbers:
        y = y * 10.0 ** rng.uniform(-span, span)
    problem = problem_of(loss, 10.0**exponent, "free")
    known, solver = stats(X, kind, weight, y), Onepass()
    state = join(problem, known, [visit(problem, X, y, weight, kind, known=known, solver=solver)])
    assert all(np.isfinite(value).all() for _, value in named_fields(state))
    at_zero = oracles.objective(loss, problem, X, y, weight, np.zeros(5))[0]
    for w in (solver.weights(state), *(output_weights(state, k) for k in range(ASGD))):
        assert oracles.objective(loss, problem, X, y, weight, *w)[0] <= EXPLODED * at_zero + 1e-300


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), span=st.sampled_from([1, 5, 20]), exponent=st.floats(-6.0, 2.0))
def test_nothing_explodes_of_several_classes_side_by_side(seed, span, exponent):
    """Sparse rows of norms from 1e-20 to 1e20, weighted from 1e-3 to 1e3, of five classes."""
    n, rng = 1100, np.random.default_rng(seed)
    X, _, weight = rows_of(n, 5, "squared_hinge", seed, 0.6)
    X = oracles.single(X * 10.0 ** rng.uniform(-span, span, (n, 1)))
    weight *= 10.0 ** rng.uniform(-3.0, 3.0, n)
    weight, label = weight / weight.mean(), rng.integers(0, 5, n).astype(float)
    problem, known = (
        problem_of("squared_hinge", 10.0**exponent, "free"),
        stats(X, SparseRows, weight),
    )
    solver = MultiModel(Onepass(), tuple(Task(label=k) for k in range(5)))
    (walk,) = solver.program(0)
    state = walk.enter(solver.init(problem, known))
    assert len(state.interleaved) == 5
    state = walk.step(problem, known, state, block(sparse_rows(csr_matrix(X)), label, weight))
    state = walk.join(problem, known, [walk.leave(state)])
    for model in state.models:
        assert all(np.isfinite(value).all() for _, value in named_fields(model))
    assert not walk.diverged(state)
    for k, w in enumerate(one_by_one(solver.weights(state))):
        y = np.where(label == k, 1.0, -1.0)
        at, at_zero = (
            oracles.objective("squared_hinge", problem, X, y, weight, *one)[0]
            for one in (w, (np.zeros(5), 0.0))
        )
        assert at <= EXPLODED * at_zero


def test_averaged_sgd_that_explodes_leaves_the_choice_and_the_others_alone():
    X, y, weight = rows_of(1200, 5, "squared", seed=3)
    X[1100:] *= 100.0  # after its step was found
    problem = problem_of("squared", 1e-3)
    state = visit(problem, X, y, weight)
    assert state.sgd.monitor.diverged
    assert np.isinf(late_losses(state)[ASGD])
    assert state.chosen != ASGD
    unit, pull = np.sqrt(np.mean(y[:1000] ** 2)), np.mean((weight[:1000] * y[:1000]) ** 2)
    expected = oracles.adagrad("squared", problem, X, y, weight, 1.0, unit, 0.0, pull)
    close(with_constant(output_weights(state, LAST)), expected.last, ROOT)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_model_that_has_learnt_from_rows_before_is_not_thrown_away(loss):
    """From the optimum of many rows, a few new ones move averages less than they do from zero.

    Last weights have the noise of a step's size, wherever they begin.
    """
    X, y, weight = rows_of(40_000, 6, loss, seed=9)
    problem = problem_of(loss, 1e-3, "free")
    best = oracles.optimum(loss, problem, X, y, weight)
    known = stats(X, DenseRows, weight, y)
    before = visit(problem, X, y, weight, known=known, solver=Onepass())
    at = Onepass().weights(join(problem, known, [before]))
    new = slice(0, 400)
    own = stats(X[new], DenseRows, weight[new], y[new])
    solver = Onepass(newton_columns=0)
    started = solver.start_at(problem, own, at, 40_000)
    assert with_constant(solver.weights(started)) == pytest.approx(with_constant(at))
    on = visit(problem, X[new], y[new], weight[new], state=started, known=own, solver=solver)
    anew = visit(problem, X[new], y[new], weight[new], known=own, solver=solver)
    for k in (POLY, POLY + 1):
        excess = [
            oracles.objective(loss, problem, X, y, weight, *output_weights(state, k))[0] - best
            for state in (on, anew)
        ]
        assert excess[0] < excess[1]
    assert on.t == 40_400


def test_streams_average_their_outputs_and_what_was_heard():
    X, y, weight = rows_of(3000, 6, "logistic", seed=10)
    problem, solver = problem_of("logistic", 1e-2, "free"), Onepass(newton_columns=0)
    known = stats(X, SparseRows, weight, y)._replace(streams=3, stream_rows=1000)
    parts = [slice(k, k + 1000) for k in (0, 1000, 2000)]
    ends = [
        visit(problem, X[p], y[p], weight[p], SparseRows, known=known, solver=solver) for p in parts
    ]
    outputs = [[with_constant(output_weights(s, k)) for s in ends] for k in range(OUTPUTS)]
    sums = np.sum([s.progressive.sums[0] for s in ends], axis=0)
    weights = sum(s.weight for s in ends)
    joined = join(problem, known, ends)
    for k, each in enumerate(outputs):
        close(with_constant(output_weights(joined, k)), np.mean(each, axis=0), 1e-12)
    np.testing.assert_allclose(joined.progressive.sums[0] / joined.weight, sums / weights)
    losses = late_losses(joined)
    J = losses + charges(problem, joined, losses, squares_of_weights(joined))
    assert joined.chosen == np.argmin(J)
    assert joined.lead.objective == J[joined.chosen]
    assert joined.lead.by == pytest.approx(np.sort(J)[1] - np.sort(J)[0])
