"""Several models side by side on sparse rows: the bits of each alone, whatever fills the lanes."""

from functools import reduce

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fewpass.pipeline.runs.packing import named_fields
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_steps import visit_interleaved as sdca_interleaved
from fewpass.solvers.each_model import filled, walk_each
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.kernels.simd.interleaved import LINE, lanes_for, lanes_taken, pack, unpacked
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.onepass import onepass_interleaved
from fewpass.solvers.onepass.onepass import Onepass
from fewpass.solvers.protocol import add_parts, copy_state
from fewpass.solvers.sgd.averaged_sgd import Asgd, Sgd
from fewpass.solvers.sgd.steps import step_rows
from fewpass.solvers.tasks import Task
from testing.oracles import block, problem_of, rows_of, sparse_rows, stats
from tests.conftest import ROUNDING


def ends(solver, views, loss, *, n=300, d=40, flush=False):
    """What views' models come to, side by side and one after the other."""
    X, y, weight = rows_of(n, d, loss, seed=3, density=0.2)
    X[::17] = 0.0  # empty rows, the last among them
    X[-1] = 0.0
    if views[0].label >= 0:
        y = np.random.default_rng(1).integers(0, len(views), n).astype(float)
    known = stats(X, SparseRows, weight, y)
    problem = problem_of(loss, 0.5 if flush else 0.01, "free")
    method = MultiModel(solver, tuple(views))
    walk, found = method.program(0)[0], []
    for enter in (walk.enter, copy_state):
        row_state = np.zeros((n, method.row_state_size(known)))
        state = enter(method.init(problem, known))
        assert bool(state.interleaved) == (enter is walk.enter)
        for order in np.split(np.arange(n), [100]):
            one = block(sparse_rows(csr_matrix(X)), y, weight, order)._replace(row_state=row_state)
            state = walk.step(problem, known, state, one)
        found.append((walk.leave(state), row_state))
    return found


def assert_same(found):
    (together, numbers), (in_turn, same_numbers) = found
    assert np.array_equal(numbers, same_numbers)
    for a, b in zip(together.models, in_turn.models, strict=True):
        pairs = zip(named_fields(a), named_fields(b), strict=True)
        assert all(np.array_equal(x, y) for (_, x), (_, y) in pairs)


ONEPASS = Onepass(newton_columns=0)


@pytest.mark.parametrize("models", [2, 5, 8, 17])
@pytest.mark.parametrize(
    "solver", [Asgd(gamma0=0.5), Sdca(), ONEPASS], ids=lambda solver: solver.kind
)
def test_any_number_of_lam(solver, models):
    assert_same(ends(solver, [Task(lam=0.1 * 0.6**k) for k in range(models)], "logistic"))


@pytest.mark.parametrize(
    ("solver", "loss"),
    [(Asgd(), "squared_hinge"), (Sgd(), "huber"), (Sdca(), "huber")],
    ids=lambda value: getattr(value, "kind", value),
)
def test_numbers_for_targets_and_steps_that_are_exact(solver, loss):
    """That every loss means in lanes what it means of numbers is test_lanes.py's."""
    assert_same(ends(solver, [Task(lam=0.3 * 0.5**k) for k in range(6)], loss))


@pytest.mark.parametrize("solver", [Asgd(gamma0=0.5), Sdca(), Onepass()], ids=lambda s: s.kind)
def test_a_model_per_class(solver):
    assert_same(ends(solver, [Task(label=k) for k in range(9)], "logistic"))


def test_streams_that_meet_step_by_what_is_owed_too():
    n, streams, found = 480, 3, []
    X, y, weight = rows_of(n, 40, "logistic", seed=3, density=0.2)
    known = stats(X, SparseRows, weight, y)._replace(streams=streams, merges=16)
    problem, rows = problem_of("logistic", 0.01, "free"), sparse_rows(csr_matrix(X))
    method = MultiModel(Psdca(), tuple(Task(lam=1e-4 * 0.6**k) for k in range(5)))
    walk = method.program(0)[0]
    for enter in (walk.enter, copy_state):
        row_state = np.zeros((n, method.row_state_size(known)))
        states = [method.init(problem, known) for _ in range(streams)]
        for part in np.array_split(np.arange(n), known.merges):
            for k, order in enumerate(np.array_split(part, streams)):
                one = block(rows, y, weight, order)._replace(row_state=row_state)
                states[k] = walk.leave(walk.step(problem, known, enter(states[k]), one))
            total = reduce(add_parts, [walk.merge.part(problem, known, s) for s in states])
            states = [walk.merge.end(problem, known, s, total, streams) for s in states]
        found.append((states[0], row_state))
    owed = [abs(model.proximal.rounds.owed) for model in states[0].models]
    assert min(owed) > 1e-6, owed
    assert_same(found)


def test_models_are_flushed_when_each_is_due():
    views = [Task(lam=lam) for lam in (0.9, 0.5, 0.1, 0.01, 1e-3)]
    assert_same(ends(Asgd(gamma0=1.0, c=0.2), views, "logistic", n=2000, d=7, flush=True))


@pytest.mark.parametrize("solver", [Asgd(gamma0=0.5), Sdca()], ids=lambda solver: solver.kind)
def test_plain_python_agrees(monkeypatch, solver):
    views = [Task(lam=0.1 * 0.6**k) for k in range(5)]
    (fast, _), _ = ends(solver, views, "logistic")
    monkeypatch.setattr("fewpass.solvers.sgd.steps.step_rows", step_rows.py_func)
    monkeypatch.setattr(
        "fewpass.solvers.dual.sdca_steps.visit_interleaved", sdca_interleaved.py_func
    )
    (slow, _), _ = ends(solver, views, "logistic")
    for a, b in zip(fast.models, slow.models, strict=True):
        np.testing.assert_allclose(a.W, b.W, rtol=1e-9, atol=ROUNDING)


@pytest.mark.parametrize("models", [2, 5, 9])
def test_weights_lie_by_cache_lines_and_come_back(models):
    weights = list(np.random.default_rng(0).standard_normal((models, 23, 3)))
    W = pack(weights)
    lanes = lanes_for(models).width
    assert W.shape == (lanes_taken(models) // lanes, 23, 3 * lanes)
    assert W.ctypes.data % LINE == 0
    for own, back in zip(weights, unpacked(W, models), strict=True):
        assert np.array_equal(own, back)
        assert back.flags.c_contiguous


@pytest.mark.parametrize(
    ("models", "alone", "together"), [(3, 4, 3), (8, 2, 8), (9, 2, 8), (11, 2, 11), (20, 4, 16)]
)
def test_a_last_group_is_not_begun_for_few_models(models, alone, together):
    assert filled(models, alone) == together


def test_models_of_many_columns_go_in_turn(monkeypatch):
    """An upper bound of memory decides, and no bit depends on it."""
    tasks = tuple(Task(lam=lam) for lam in (0.1, 0.01, 0.001))
    method, known = MultiModel(ONEPASS, tasks), stats(np.ones((50, 40)), SparseRows, np.ones(50))
    walk, problem = method.program(0)[0], problem_of("logistic", 0.01, "free")
    for most, together in ((4 * 41 * 80, 3), (4 * 41 * 80 - 1, 0)):
        monkeypatch.setattr(onepass_interleaved, "MOST_BYTES", most)
        assert len(walk.enter(method.init(problem, known)).interleaved) == together


def test_averaged_sgd_that_explodes_in_one_lane_leaves_all_others_alone():
    """Rows a hundred times as long as those that its step was found on, at lam from 1e-3 to 30."""
    n = 1300
    X, y, weight = rows_of(n, 12, "squared", seed=3, density=0.5)
    X[1100:] *= 30.0
    known, problem = stats(X, SparseRows, weight, y), problem_of("squared", 0.01, "free")
    method = MultiModel(ONEPASS, tuple(Task(lam=lam) for lam in (30.0, 1e-3, 10.0, 1e-2, 3.0)))
    walk, found = method.program(0)[0], []
    in_turn = walk_each(method, method.solver.program(0)[0]._replace(interleaved=None))
    for enter in (walk.enter, in_turn.enter):
        state = enter(method.init(problem, known))
        assert bool(state.interleaved) == (enter is walk.enter)
        for order in np.split(np.arange(n), [100]):
            one = block(sparse_rows(csr_matrix(X)), y, weight, order)
            one = one._replace(row_state=np.empty((n, 0)))
            state = walk.step(problem, known, state, one)
        found.append((walk.leave(state), np.empty(0)))
    assert {m.sgd.monitor.diverged for m in found[0][0].models} == {0, 1}
    assert_same(found)
