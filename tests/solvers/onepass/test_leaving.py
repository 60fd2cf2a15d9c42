"""Learners that can no longer win leave the pass: who, when, and that nothing else changes."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fewpass.pipeline.runs.events import Learners
from fewpass.pipeline.runs.packing import from_named_fields, named_fields
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.onepass import leaving, onepass
from fewpass.solvers.onepass.leaving import FIRST_LOOK, GRAIN, LOOKS, NEWTON_GRAIN, rows_to_look
from fewpass.solvers.onepass.onepass import Onepass
from fewpass.solvers.onepass.onepass_state import NEWTON
from fewpass.solvers.onepass.visit import ASGD, LEFT
from fewpass.solvers.protocol import ENDLESS, copy_state
from fewpass.solvers.tasks import Task
from testing.oracles import block, problem_of, rows_of, sparse_rows, stats, stored

N = LOOKS * GRAIN + 333
LAM = 2 * NEWTON_GRAIN  # rows until the best lam goes on alone
WITHOUT_NEWTON = Onepass(newton_columns=0)


@pytest.fixture(scope="module")
def uneven():
    """Columns of very different scales, with which averaged SGD cannot win."""
    X, _, weight = rows_of(N, 5, "logistic", seed=3)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, 1.0, -1.0)
    X[:, 2] *= 1024.0
    return X, y, weight


def passed(rows, problem, solver=WITHOUT_NEWTON, kind=SparseRows, cuts=(), stop=N, **known):
    X, y, weight = rows
    own = stats(X, kind, weight, y)._replace(**known)
    seen = stored(kind, X)
    state = solver.init(problem, own)
    for order in np.split(np.arange(min(stop, len(y))), cuts):
        state = from_named_fields(type(state), dict(named_fields(copy_state(state))))
        state = solver.step(problem, own, state, block(seen, y, weight, order))
    return state


def same_bits(one, other):
    for (name, mine), (_, theirs) in zip(named_fields(one), named_fields(other), strict=True):
        if not name.startswith("progressive.reported"):  # by blocks
            assert np.array_equal(mine, theirs), name


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
def test_who_leaves_changes_nothing_of_who_stays(uneven, kind, monkeypatch):
    problem = problem_of("logistic", 1e-4, "free")
    state = passed(uneven, problem, kind=kind)
    monkeypatch.setattr(onepass, "looked", lambda _problem, _stats, state, *_: state)
    everybody = passed(uneven, problem, kind=kind)
    assert (state.sgd.monitor.diverged, everybody.sgd.monitor.diverged) == (1, 0)
    assert state.chosen == everybody.chosen != ASGD
    assert np.array_equal(state.columns, everybody.columns)
    others = np.arange(ASGD)
    assert np.array_equal(state.progressive.sums[:, others], everybody.progressive.sums[:, others])
    assert not np.array_equal(state.sgd.W, everybody.sgd.W)


def test_a_resumed_pass_has_the_same_bits_however_rows_are_cut(uneven):
    problem = problem_of("logistic", 1e-4, "free")
    first = 1200  # rows of the first block find averaged SGD's step
    whole = passed(uneven, problem, cuts=[first])
    looks = [-(-(N * k) // (LOOKS * GRAIN)) * GRAIN for k in (3, 4)]
    for cuts in ([looks[0] - 1, looks[0], looks[1] + 1], [5000, 17_001]):
        same_bits(whole, passed(uneven, problem, cuts=[first, *cuts]))
    assert whole.sgd.monitor.diverged


def test_models_side_by_side_are_each_alone(uneven):
    X, y, weight = uneven
    tasks = tuple(Task(lam=lam) for lam in (1e-5, 1e-2, 1.0))
    problem, known = problem_of("logistic", 1.0, "free"), stats(X, SparseRows, weight, y)
    solver = MultiModel(WITHOUT_NEWTON, tasks)
    (walk,) = solver.program(0)
    state = walk.enter(solver.init(problem, known))
    assert len(state.interleaved) == len(tasks)
    rows = sparse_rows(csr_matrix(X))
    for order in np.array_split(np.arange(N), 3):
        state = walk.step(problem, known, state, block(rows, y, weight, order))
    models = walk.leave(state).models
    for task, model in zip(tasks, models, strict=True):
        same_bits(passed(uneven, task.problem(problem), cuts=[6938, 13_876]), model)
    assert any(model.sgd.monitor.diverged for model in models)


def models_of_lam(rows, kind, cuts, *, rivals=True):
    """A grid of lam after a pass, left and entered anew at every cut: models, tasks, solver."""
    X, y, weight = rows
    tasks = tuple(Task(lam=lam) for lam in (1e-4, 1e-2, 1.0))
    problem, known = problem_of("logistic", 1.0, "free"), stats(X, kind, weight, y)
    solver = MultiModel(WITHOUT_NEWTON, tasks, rivals=rivals)
    (walk,) = solver.program(0)
    seen = stored(kind, X)
    state = solver.init(problem, known)
    for order in np.split(np.arange(N), cuts):
        window = block(seen, y, weight, order)._replace(row_state=np.empty(0))
        state = walk.step(problem, known, walk.enter(state), window)
        state = walk.leave(state)
    return state, tasks, solver


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("more", [[], [LAM - 1, LAM, LAM + 1], [5000, 17_001]])
def test_from_a_tenth_of_the_pass_on_the_best_lam_goes_on_alone(uneven, kind, more, monkeypatch):
    """It has the bits of a model of that lam alone; of the others no loss is known."""
    monkeypatch.setattr(leaving, "LAM_ROWS", N)
    state, tasks, solver = models_of_lam(uneven, kind, [1200, *more])
    (best,) = np.flatnonzero(np.isfinite(solver.before_steps(state)))
    problem = tasks[best].problem(problem_of("logistic", 1.0, "free"))
    same_bits(passed(uneven, problem, kind=kind, cuts=[1200, LAM]), state.models[best])
    assert len(solver.learners(state)) == 1
    assert {model.t for model in state.models} == {LAM, N}
    early = [passed(uneven, task.problem(problem_of("logistic", 1.0, "free")), kind=kind,
                    cuts=[1200, LAM], stop=LAM) for task in tasks]  # fmt: skip
    losses = [leaving.least_late_loss(one) for one in early]
    assert best == np.argmin(losses)


@pytest.mark.parametrize(
    ("asked", "rivals"), [({"MANY_COLUMNS": 0}, True), ({"LAM_ROWS": N + 1}, True), ({}, False)]
)
def test_all_lam_stay_where_a_tenth_of_the_rows_does_not_tell(uneven, asked, rivals, monkeypatch):
    for name, value in ({"LAM_ROWS": N} | asked).items():
        monkeypatch.setattr(leaving, name, value)
    state, tasks, solver = models_of_lam(uneven, SparseRows, [1200], rivals=rivals)
    assert np.isfinite(solver.before_steps(state)).all()
    for task, model in zip(tasks, state.models, strict=True):
        problem = task.problem(problem_of("logistic", 1.0, "free"))
        same_bits(passed(uneven, problem, cuts=[1200]), model)


def test_adagrad_leaves_where_averaged_sgd_is_far_ahead(monkeypatch):
    """Its numbers are zeros then, alone and side by side."""
    rows = rows_of(N, 5, "logistic", seed=5)
    monkeypatch.setattr("fewpass.solvers.onepass.leaving.trailing", lambda _p, _s, _state, _J: 1)
    problem = problem_of("logistic", 1e-3, "free")
    state = passed(rows, problem)
    assert state.chosen == ASGD
    assert (state.progressive.sums[0, :ASGD] == LEFT).all()
    assert not state.columns[:, :6].any()
    assert state.lead.runner_up == ASGD
    (told,) = WITHOUT_NEWTON.learners(state)
    assert "left" in Learners([told._asdict()]).sentence()
    X, y, weight = rows
    solver, known = MultiModel(WITHOUT_NEWTON, (Task(), Task())), stats(X, SparseRows, weight, y)
    (walk,) = solver.program(0)
    both = walk.enter(solver.init(problem, known))
    both = walk.step(problem, known, both, block(sparse_rows(csr_matrix(X)), y, weight))
    for model in walk.leave(both).models:
        same_bits(state, model)


def test_of_the_squared_loss_the_others_leave_and_the_optimum_stays_proven():
    n = LOOKS * NEWTON_GRAIN
    rows = rows_of(n, 4, "squared", seed=6)
    problem, solver = problem_of("squared", 1e-3, "free"), Onepass()
    state = passed(rows, problem, solver, DenseRows)
    X, y, weight = rows
    (walk,) = solver.program(0)
    state = walk.join(problem, stats(X, DenseRows, weight, y), [state])
    assert (state.progressive.sums[0, :ASGD] == LEFT).all()
    assert state.sgd.monitor.diverged
    assert state.chosen == NEWTON
    proven = solver.certificate(state)
    assert proven is not None
    assert proven.gap <= 1e-9


@pytest.mark.parametrize(
    "known", [{"stream_rows": ENDLESS}, {"streams": 2}, {"stream_rows": LOOKS * GRAIN - 1}]
)
def test_all_stay_where_the_end_is_unknown_or_shared_or_near(uneven, known):
    X, y, weight = uneven
    own = stats(X, SparseRows, weight, y)
    state = WITHOUT_NEWTON.init(problem_of("logistic", 1e-4), own)
    first = rows_to_look(own, state)
    assert first % GRAIN == 0
    assert first >= N * FIRST_LOOK / LOOKS
    assert rows_to_look(own._replace(**known), state) == ENDLESS
