"""Streams that meet in the middle of a pass: D, certificates, passes, and bits."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.solvers.dual.merging import Lag, Moves, merged, moves_of
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_state import RUNNING, copy_to_go_on
from fewpass.solvers.dual.shrinking import visit_once_more
from fewpass.solvers.losses import LOSSES, Problem, conjugate
from fewpass.solvers.papers.rounds_of_lanes import Along, take_round
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import add_parts, copy_state
from testing import oracles
from testing.dual_runs import Run, data, gen_dense
from tests.conftest import ROUNDING
from tests.solvers.dual.test_rounds import dual_of_steps, rows

LAM = 2e-3


def problem_of(loss, column=1.0, lam=LAM):
    return Problem(LOSSES[loss](), L2(lam), column, 0.01 * lam)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.floats(1.0, 8.0), st.floats(1.0, 8.0), st.floats(1.0, 8.0),
    st.sampled_from(["hinge", "logistic", "squared", "squared_hinge"]), st.integers(0, 3),
)  # fmt: skip
def test_no_merge_lowers_the_dual_objective(seed, s, s_V, rho, loss, again):
    """Whatever s is; with (rho - 1) reg / 2 (V . (w - w_round))^2 on top, and what is owed.

    Streams whose rows are visited once step as the lanes of the page do.
    """
    rng = np.random.default_rng(seed)
    of = rows(loss, n=48, d=5, seed=seed, streams=4, merges=6)
    problem = problem_of(loss, 0.0, 0.01)
    run = Run(Psdca(shrink_rounds=again, grow_to=1), problem, of).passes(2)
    factors = run.state.proximal.rounds._replace(
        owed=0.1 * rng.normal(), across=s, along=max(s, s_V), rho=rho
    )
    run.state = run.state._replace(proximal=run.state.proximal._replace(rounds=factors))
    order, states = rng.permutation(48), [copy_state(run.state) for _ in range(4)]
    for parts in np.array_split(order, 3):
        a, before = run.dual_variables.copy(), states[0].W[:-1, RUNNING].copy()
        at = states[0].proximal.rounds
        lanes = np.array_split(parts, 4)
        for k, part in enumerate(lanes):
            states[k] = run.solver.step_rows(problem, of.stats, states[k], run.block(part))
        if not again:
            page = Along(at.V[:-1], at.owed, at.across, at.along, at.rho)
            given_rows = problem, of.X, of.y, of.weight
            took, *_, t = take_round(*given_rows, lanes, 4, a, before, page, 1.0, 5.0)
            moved = t * run.row_state[parts, 1]
            np.testing.assert_allclose(moved, (took - a)[parts], rtol=1e-6, atol=1e-9)
        total = reduce(add_parts, [moves_of(problem, of.stats, state) for state in states])
        states = [merged(of.stats, state, total, Lag(1.0, 5.0)) for state in states]
        taken, w = states[0].merges.taken[states[0].merges.done - 1], states[0].W[:-1, RUNNING]
        after = a.copy()
        after[parts] = run.row_state[parts, 0] + taken * run.row_state[parts, 1]
        T = at.V[:-1] @ (w - before)
        extra = problem.lam * (at.owed * T + 0.5 * (1.0 - 1.0 / at.rho) * T**2)
        gained = dual_of_steps(problem, of, of.X, after, w) + extra
        gained -= dual_of_steps(problem, of, of.X, a, before)
        size = np.abs(conjugate(problem.loss, after[0], of.y[0])) + problem.lam * w @ w + 1.0
        assert gained >= -ROUNDING * size * 10
        np.testing.assert_array_equal(states[1].W[:, RUNNING], states[0].W[:, RUNNING])
        run.row_state[parts, 0], run.row_state[parts, 1] = after[parts], 0.0


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_row_that_is_visited_again_is_stepped_as_at_first(loss):
    """By what is owed, and by what its stream moved before."""
    of, problem = rows(loss, n=48, d=5, streams=4, merges=6), problem_of(loss, 0.0, 0.01)
    run, order = Run(Psdca(grow_to=1), problem, of).passes(2), np.arange(12)
    run.row_state[:, 0], run.row_state[:, 1] = run.dual_variables, 0.0
    factors = run.state.proximal.rounds._replace(owed=0.3, across=2.0, along=5.0, rho=2.0)
    state = run.state._replace(proximal=run.state.proximal._replace(rounds=factors))
    W, again = state.W.copy(order="K"), run.row_state.copy()
    given = run.solver._given(problem, of.stats, state, 0.0)
    stepped = W[:, RUNNING:], state.fresh, given, 0.0, *run.block(order)[:3], order, again
    _, moved = visit_once_more(*stepped)
    first = run.solver.step_rows(problem, of.stats, copy_state(state), run.block(order))
    for found, expected in (
        (again[:, :2], run.row_state[:, :2]), (W, first.W), (moved, first.merges.moved),
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("loss", "column"), [("squared_hinge", 0.0), ("logistic", 1.0)])
def test_sixteen_streams_take_the_passes_of_one(loss, column):
    """Where all rows lie near one direction, and every move along it adds up."""
    X, y = gen_dense(8192, 30, 3, noise=0.3, rho=0.5)
    passes = []
    for how in ({}, {"streams": 16, "merges": 64}):
        of, found = data(X, y, **how), None
        run = Run(Psdca(), problem_of(loss, column, 1.0 / 8192), of)
        while found is None or found.gap > 1e-3 * found.objective:
            found = run.solver.certificate(run.one_pass().state)
        passes.append(run.state.passes)
    assert passes[0] >= 3, "it shows nothing"
    assert passes[1] <= 1.3 * passes[0] + 1


def test_weights_added_up_afresh_are_those_of_every_pass(monkeypatch):
    """Where moves are shortened, too."""
    of, problem, ends = (
        rows("logistic", sparse=True, streams=4, merges=5),
        problem_of("logistic"),
        [],
    )
    for often in (1, 1000):
        monkeypatch.setattr("fewpass.solvers.dual.sdca_state.REFRESHED", often)
        run, least = Run(Psdca(), problem, of), 1.0
        for _ in range(9):
            least = min(least, run.one_pass().state.shares.min())
        assert least < 1.0, "nothing was shortened: it shows nothing"
        ends.append((run.state.W[:, :2], run.dual_variables, run.certified()))
    for w, a, found in ends[1:]:
        np.testing.assert_allclose(w, ends[0][0], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(a, ends[0][1], rtol=1e-9, atol=1e-11)
        assert found.gap == pytest.approx(ends[0][2].gap, abs=1e-9)


def a_row_each(n=64, d=40):
    """Rows of three columns each."""
    rng = np.random.default_rng(4)
    X = np.zeros((n, d))
    for row in X:
        row[rng.choice(d, 3, replace=False)] = oracles.single(rng.random(3))
    return data(X, np.where(rng.random(n) < 0.5, 1.0, -1.0), sparse=True, streams=4, merges=4)


@pytest.mark.parametrize("solver", [Psdca(), Psdca(shrink_rounds=3), Sdca()])
def test_touched_columns_have_the_bits_of_all(solver, monkeypatch):
    """A merge of every column is the same; with w(a) added up, moves cut and one chunk again."""
    monkeypatch.setattr("fewpass.solvers.dual.sdca_state.REFRESHED", 2)
    of, problem, ends, sizes = a_row_each(), problem_of("hinge"), [], []
    for touch in (None, lambda touched, *_: touched.fill(True)):
        if touch:
            monkeypatch.setattr("fewpass.solvers.dual.merging.note_columns", touch)
        run, cut = Run(solver, problem, of), 1.0
        for _ in range(6):
            cut = min(cut, run.one_pass(cuts=2).state.shares.min())
        ends.append((run.state.W, run.row_state, run.state.shares))
        state = run.solver.step_rows(problem, of.stats, run.state, run.block(np.arange(4)))
        sizes.append(len(moves_of(problem, of.stats, state).moves.columns))
    assert cut < 1.0
    assert (sizes[0] <= 13, sizes[1]) == (True, 41)
    for touched, dense in zip(*ends, strict=True):
        np.testing.assert_array_equal(touched, dense)


@given(st.lists(st.lists(st.integers(0, 20), unique=True), min_size=1, max_size=6))
def test_moves_add_up_column_by_column(lists):
    dense, parts = np.zeros((21, 2)), []
    for k, columns in enumerate(map(sorted, lists)):
        by = np.arange(2 * len(columns)).reshape(-1, 2) + 10.0 * k
        parts.append(Moves(np.array(columns, np.int64), by))
        dense[columns] += by
    total = reduce(Moves.__add__, parts)
    touched = sorted(set().union(*lists))
    assert total.columns.tolist() == touched
    np.testing.assert_array_equal(total.by, dense[touched])


def test_a_copy_to_go_on_leaves_the_state_as_it_is(monkeypatch):
    """In a first round, where V is made, and in one that adds up w(a) and is cut."""
    monkeypatch.setattr("fewpass.solvers.dual.sdca_state.REFRESHED", 2)
    of, problem = a_row_each(), problem_of("hinge")
    for passes in (0, 1, 2):
        state = Run(Psdca(), problem, of).passes(passes).state
        before, run = copy_state(state), Run(Psdca(), problem, of)
        other = copy_to_go_on(state)
        for part in np.array_split(np.arange(64), 4):
            other = run.solver.step_rows(problem, of.stats, other, run.block(part))
            total = reduce(add_parts, [moves_of(problem, of.stats, other)] * 4)
            other = merged(of.stats, other, total, Lag(1.0, 5.0))
        np.testing.assert_equal(state, before)
        assert not np.array_equal(other.W, state.W)


@pytest.mark.parametrize("sparse", [False, True])
def test_kernels_and_python_give_the_same(sparse, monkeypatch):
    of, problem = rows("hinge", n=120, sparse=sparse, streams=3, merges=4), problem_of("hinge")
    ends = []
    for _ in range(2):
        run = Run(Sdca(shrink_rounds=3), problem, of).passes(3)
        ends.append((run.state.W, run.row_state))
        for name in ("sdca.visit_rows", "sdca.visit_once_more"):
            module, kernel = name.split(".")
            compiled = __import__(f"fewpass.solvers.dual.{module}", fromlist=[kernel])
            plain = getattr(compiled, kernel)
            monkeypatch.setattr(compiled, kernel, getattr(plain, "py_func", plain))
    for mine, other in zip(*ends, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
