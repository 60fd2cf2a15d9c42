"""Several models in the same passes: each is the one that it would have been alone."""

import json

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.job import solver_of
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.rows.targets import target_rule
from fewpass.pipeline.runs.packing import named_fields
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.scoring.prediction import predict
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.loss_monitor import LossMonitor
from fewpass.solvers.losses import Logistic
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import Block, copy_state
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.solvers.tasks import Task
from testing import oracles
from testing.datasets import every_row, make
from testing.interruptions import assert_cuts_change_nothing, trained_model
from testing.jobs import job_of
from tests.conftest import CONVERGED, ROUNDING
from tests.solvers.kernels.test_interleaved import assert_same

CLASSES = 4
SEVERAL_WINDOWS = "96.15MB"
METHODS = {
    "asgd": {"solver": {"kind": "asgd"}, "passes": 2, "certify": True},
    "asgd, start sought": {"solver": {"kind": "asgd", "average_from": "auto"}},
    "onepass": {"solver": {"kind": "onepass"}, "passes": 2, "certify": True},
    "onepass, few bytes": {"solver": {"kind": "onepass", "newton_columns": 0}, "passes": 2},
    "onepass in streams": {"solver": {"kind": "onepass"}, "streams": 2},
    "s2gd+": {"solver": {"kind": "s2gd+"}, "passes": 6},
    "s2gd that goes back": {
        "solver": {"kind": "s2gd"},
        "passes": 12,
        "lam": "0.01/n",
        "loss": "squared_hinge",
        "class_weight": {"0": 100.0},
    },
    "svrg": {"solver": {"kind": "svrg"}, "passes": 6, "streams": 2},
    "sdca": {"solver": {"kind": "sdca"}, "loss": "hinge", "passes": 3},
    "sdca in streams": {"solver": {"kind": "sdca"}, "streams": 2, "passes": 3},
    "psdca": {"solver": {"kind": "psdca"}, "passes": 6, "lam": "0.01/n"},
    "psdca in streams": {"solver": {"kind": "psdca"}, "streams": 2, "passes": 5, "lam": "0.01/n"},
    "psdca, columns apart": {
        "solver": {"kind": "psdca", "columns": "apart"},
        "passes": 6,
        "lam": "0.01/n",
    },
    "psdca with l1": {"solver": {"kind": "psdca"}, "passes": 6, "lam": "3e-3", "penalty": "l1"},
    "newton with l1": {"solver": {"kind": "newton"}, "passes": 6, "lam": "3e-3", "penalty": "l1"},
    "psdca with l1 in streams": {
        "solver": {"kind": "psdca"},
        "passes": 4,
        "lam": "3e-3",
        "l1_ratio": 0.9,
        "streams": 2,
    },
    "sdca with the elastic net": {
        "solver": {"kind": "sdca"},
        "passes": 4,
        "lam": "1e-2",
        "l1_ratio": 0.5,
    },
    "pegasos": {"solver": {"kind": "pegasos"}, "loss": "hinge", "streams": 2, "passes": 3},
    "sag": {"solver": {"kind": "sag"}, "passes": 3, "lam": "30/n"},
    "lbfgs": {"solver": {"kind": "lbfgs"}, "passes": 6},
    "newton": {"solver": {"kind": "newton"}, "passes": 5},
    "gd": {"solver": {"kind": "gd"}, "passes": 4},
    "agd": {"solver": {"kind": "agd"}, "passes": 4},
    "asdca": {"solver": {"kind": "asdca"}, "passes": 3},
}


def plan_for(dataset, **settings):
    settings = {"memory": "256MB", "classes": "ovr", "lam": "1/n"} | settings
    return TrainingPlan(dataset=dataset.folder.url, **settings)


@pytest.fixture(scope="module", params=["dense", "sparse"])
def dataset(request, tmp_path_factory):
    url = tmp_path_factory.mktemp(request.param) / "set"
    return make(url, n=1500, chunk_rows=50, layout=request.param, weighted=True, classes=CLASSES)


#: Sparse rows are taken by all models at once, dense ones by each in turn, whatever the method.
EACH = [("sparse", method) for method in METHODS]
EACH += [("dense", method) for method in ("asgd", "onepass", "s2gd that goes back", "sdca", "psdca with l1",
                                          "lbfgs")]  # fmt: skip


@pytest.mark.parametrize(("dataset", "method"), EACH, indirect=["dataset"])
def test_each_model_has_the_bits_that_it_would_have_alone(tmp_path, dataset, method):
    plan = plan_for(dataset, **METHODS[method])
    together, result = trained_model(plan, tmp_path / "run")
    assert together.weights.coef.shape == (CLASSES, 30)
    gaps, objectives = [], []
    for k in range(CLASSES):
        own = plan.model_copy(update={"positive": str(k)})
        model, alone = trained_model(own, tmp_path / f"run{k}")
        assert np.array_equal(together.weights.coef[k], model.weights.coef)
        assert together.weights.intercept[k] == model.weights.intercept
        gaps.append(alone.certificate)
        objectives.append(alone.objective)
    if result.certificate is not None:
        assert result.certificate == max(gaps)
        assert result.objective == float(np.mean(objectives))


@pytest.mark.parametrize(
    ("dataset", "method"),
    [
        ("sparse", "asgd, start sought"),
        ("sparse", "onepass, few bytes"),
        ("dense", "s2gd that goes back"),
        ("sparse", "sdca in streams"),
        ("sparse", "psdca in streams"),
        ("sparse", "psdca with l1"),
        ("dense", "psdca with l1 in streams"),
        ("dense", "sag"),
    ],
    indirect=["dataset"],  # models go interleaved on sparse rows, and have more to put back
)
def test_interrupted_anywhere_equals_uninterrupted(tmp_path, dataset, method):
    plan = plan_for(dataset, **METHODS[method], memory=SEVERAL_WINDOWS)
    _, quiet = trained_model(plan, tmp_path / "quiet")
    assert_cuts_change_nothing(plan, tmp_path, quiet, 4)


@pytest.mark.parametrize("dataset", ["dense"], indirect=True)
def test_a_model_that_goes_back_keeps_its_own_slopes(tmp_path, dataset):
    """Its epoch taken back, a model goes with older numbers per row than the others."""
    plan = plan_for(dataset, **METHODS["s2gd that goes back"], snapshot_every=1e-9)
    run = RunFolder(str(tmp_path / "run"))
    versions = set()
    for event in TrainingRun.start(plan, run.url, InProcess()):
        if event.kind == "snapshot":
            told = run.snapshots.attributes(event.facts.name)
            models = told["streams"][0]["models"]
            versions.add(len({model["row_version"] for model in models}))
    assert versions == {1, 2}, "no model went back alone: the test shows nothing"


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["asgd", "s2gd+", "sdca", "psdca with l1", "newton with l1"])
def test_a_grid_of_lam_is_a_run_for_each_and_the_best_on_held_out_rows(tmp_path, classes, method):
    dataset = make(tmp_path / "set", n=1200, chunk_rows=50, classes=classes)
    fresh = make(tmp_path / "fresh", n=900, chunk_rows=50, classes=classes, seed=0)
    lams = ("1e-1", "3/n", "1e-3")
    settings = METHODS[method] | {"lam": ",".join(lams)}
    plan = plan_for(dataset, **settings, held_out=fresh.folder.url)
    model, result = trained_model(plan, tmp_path / "run")
    losses = []
    for k, (lam, found) in enumerate(zip(lams, result.candidates, strict=True)):
        alone, own = trained_model(
            plan.model_copy(update={"lam": Lam.of(lam)}), tmp_path / f"run{k}"
        )
        figures = evaluate(alone, fresh, InProcess())
        assert (found["loss"], found["error"]) == (figures.loss, figures.error)
        assert (found["objective"], found["gap"]) == (own.objective, own.certificate)
        losses.append(figures.loss)
        if found["lam"] == result.lam:
            assert np.array_equal(model.weights.coef, alone.weights.coef)
            assert np.array_equal(model.weights.intercept, alone.weights.intercept)
            assert result.objective == own.objective
            assert evaluate(model, fresh, InProcess()) == figures
    near = [
        one["lam"]
        for one in result.candidates
        if one["loss"] <= min(losses) + (one["standard_error"] or 0.0)
    ]  # with an l1 penalty the largest lam within one standard error
    assert result.lam == max(near) == model.lam
    assert len(near) == 1 or settings.get("penalty") == "l1"


@pytest.mark.parametrize("method", ["s2gd+", "sdca", "psdca", "svrg", "lbfgs"])
def test_a_model_that_has_reached_the_tolerance_stays_as_it_is(tmp_path, dataset, method):
    """As it would have stopped alone, whatever the others still need."""
    settings = METHODS[method] | {"passes": 60, "tol": 1e-6, "lam": "10/n", "loss": "logistic"}
    plan = plan_for(dataset, **settings, class_weight={"0": 20.0})
    together, result = trained_model(plan, tmp_path / "run")
    passes = []
    for k in range(CLASSES):
        model, alone = trained_model(
            plan.model_copy(update={"positive": str(k)}), tmp_path / f"run{k}"
        )
        assert np.array_equal(together.weights.coef[k], model.weights.coef)
        passes.append(alone.passes)
    assert result.certificate <= 1e-6
    assert len(set(passes)) > 1, "all take as many passes: the test shows nothing"
    assert result.passes == max(passes)


@pytest.mark.parametrize("solver", [Asgd(), Sdca(), Psdca()], ids=lambda solver: solver.kind)
def test_side_by_side_is_one_after_the_other(tmp_path, solver):
    """Sparse rows are taken by all models at once: the same bits as when that is switched off."""
    dataset = make(tmp_path / "set", n=400, chunk_rows=100, layout="sparse", classes=CLASSES)
    plan = plan_for(dataset, solver=solver)
    job = job_of(plan, dataset)
    method = solver_of(plan, job.rule, job.stats)
    walk = method.program(0)[0]
    table = dataset.read_chunk(0)
    kept = np.zeros((100, job.row_state_size))
    block = Block(row_view(table), table.target, np.ones(100), np.arange(100), kept)
    ends = []
    for enter in (walk.enter, copy_state):
        kept[:] = 0.0
        state = enter(method.init(job.problem, job.stats))
        assert len(state.interleaved) == (CLASSES if enter is walk.enter else 0)
        ends.append((walk.leave(walk.step(job.problem, job.stats, state, block)), kept.copy()))
    assert_same(ends)


def test_several_lam_need_rows_to_choose_by():
    with pytest.raises(ValueError, match="`held_out`"):
        TrainingPlan(dataset="x", lam="1e-3,1e-4", tol=1e-3)
    with pytest.raises(ValueError, match="same value twice"):
        TrainingPlan(dataset="x", lam="1e-3,0.001", held_out="y")


def test_rows_to_choose_by_that_do_not_fit_are_refused_before_anything_is_written(tmp_path):
    dataset = make(tmp_path / "set", n=400, chunk_rows=100)
    other = make(tmp_path / "other", n=400, d=7, chunk_rows=100)
    with pytest.raises(BadInput, match="has 7 features, but the model has 30"):
        trained_model(
            plan_for(dataset, lam="1e-2,1e-3", held_out=other.folder.url), tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    dataset = make(folder / "set", n=1500, chunk_rows=50, weighted=True, classes=CLASSES)
    plan = plan_for(
        dataset, solver={"kind": "s2gd+"}, lam="10/n", tol=1e-9, intercept="none",
        class_weight={"0": 3.0, "2": 0.5},
    )  # fmt: skip
    return dataset, *trained_model(plan, folder / "run")


def test_class_and_row_weights_give_scikit_learns_model(certified):
    dataset, model, result = certified
    X, y, weight = every_row(dataset)
    n, factor = len(y), np.array([3.0, 1.0, 0.5, 1.0])
    unit = weight * factor[y.astype(int)]
    unit *= n / unit.sum()
    for k in range(CLASSES):
        oracle = LogisticRegression(C=1 / 10, fit_intercept=False, tol=1e-12, max_iter=1000)
        oracle.fit(X, y == k, sample_weight=unit)
        w, side = oracle.coef_[0], np.where(y == k, 1.0, -1.0)
        optimum = np.mean(unit * np.logaddexp(0, -side * (X @ w))) + 5 / n * w @ w
        objective, gap = Saved.of(model.run.snapshots.load(model.snapshot)).certificate.models[k]
        assert objective - optimum <= gap * (1 + 1e-6) + ROUNDING
        assert abs(objective - optimum) <= CONVERGED
    assert result.certificate <= 1e-9


def test_evaluation_and_predictions_agree_with_scikit_learn(tmp_path, certified):
    dataset, model, _ = certified
    X, y, weight = every_row(dataset)
    scores = X @ model.weights.coef.T + model.weights.intercept
    best = scores.argmax(axis=1)
    found = evaluate(model, dataset, InProcess())
    wrong = 1 - metrics.accuracy_score(y, best, sample_weight=weight)
    assert found.error == pytest.approx(wrong, abs=1e-12)
    recall = metrics.recall_score(y, best, sample_weight=weight, average=None)
    precision = metrics.precision_score(y, best, sample_weight=weight, average=None)
    np.testing.assert_allclose([c.recall for c in found.classes], recall, rtol=1e-12)
    np.testing.assert_allclose([c.precision for c in found.classes], precision, rtol=1e-12)
    side = np.where(y[:, None] == np.arange(CLASSES), 1.0, -1.0)
    losses = np.average(np.logaddexp(0, -side * scores), weights=weight, axis=0)
    assert found.loss == pytest.approx(losses.mean(), rel=1e-12)

    out = str(tmp_path / "out.npy")
    predict(model, [dataset.folder.url], out, PredictionPlan(probability=True))
    chances = 1 / (1 + np.exp(-scores))
    expected = chances.max(axis=1) / chances.sum(axis=1)
    np.testing.assert_allclose(np.load(out), expected, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_balanced_weights_are_scikit_learns(tmp_path, weighted):
    """Whose LogisticRegression balances what the rows of each class weigh."""
    table = make(tmp_path / "set", n=900, classes=3, seed=3, weighted=weighted)
    chunks = [table.read_chunk(k) for k in range(table.n_chunks)]
    y = np.concatenate([chunk.target for chunk in chunks])
    weight = np.concatenate([chunk.weight for chunk in chunks]) if weighted else None
    for positive, kinds in ((None, y), ("1", (y == 1.0).astype(float))):
        rule = target_rule(table.manifest, Logistic(), positive, "balanced")
        classes = np.unique(kinds)
        of_each = compute_class_weight("balanced", classes=classes, y=kinds, sample_weight=weight)
        np.testing.assert_allclose(rule.weigh(y), of_each[kinds.astype(int)], rtol=1e-12)


def test_labels_and_weights_that_do_not_fit_are_refused(tmp_path, certified):
    dataset, model, _ = certified
    with pytest.raises(BadInput, match='names "7", but the data set has 0, 1, 2, 3'):
        target_rule(dataset.manifest, Logistic(), None, {"7": 2.0})
    values = make(tmp_path / "values", targets="values")
    with pytest.raises(BadInput, match="Class weights need classes"):
        trained_model(plan_for(values, class_weight="balanced"), tmp_path / "run")
    more = make(tmp_path / "more", classes=6, weighted=True)
    with pytest.raises(BadInput, match='label "4" is unknown to the model'):
        evaluate(model, more, InProcess())
    with pytest.raises(BadInput, match=r"too small: the model with"):
        trained_model(plan_for(dataset, memory="96MB"), tmp_path / "small")


def test_a_plan_may_name_class_weights_as_text():
    plan = TrainingPlan(dataset="x", class_weight="spam=10,not=a-word=0.5")
    assert plan.class_weight == {"spam": 10.0, "not=a-word": 0.5}
    assert TrainingPlan.model_validate(json.loads(plan.model_dump_json())) == plan
    with pytest.raises(ValueError, match="LABEL=NUMBER"):
        TrainingPlan(dataset="x", class_weight="spam")


def test_restarts_shorten_a_models_own_step_and_it_stays_short():
    """What explodes begins again with half its step; no other model gets its long step back."""
    X, y, _ = oracles.rows_of(300, 5, "squared_hinge")
    known = oracles.stats(X, DenseRows, y=y)
    problem = oracles.problem_of("squared_hinge", 0.01)
    views = tuple(Task(lam=lam) for lam in (0.01, 0.02, 0.04))
    together = MultiModel(Asgd(), views)
    (walk,) = together.program(0)
    state = together.init(problem, known)
    models = [m._replace(gamma0=g) for m, g in zip(state.models, (0.4, 0.3, 0.2), strict=True)]
    state = state._replace(models=tuple(models))
    expected = [0.4, 0.3, 0.2]
    for lost in ((0,), (1,), (0, 2), (1,)):
        exploded = LossMonitor(diverged=1.0)
        models = [
            m._replace(monitor=exploded) if k in lost else m for k, m in enumerate(state.models)
        ]
        state = walk.recover(problem, known, state._replace(models=tuple(models)))
        expected = [g / 2 if k in lost else g for k, g in enumerate(expected)]
        assert [m.gamma0 for m in state.models] == expected
        assert all(m.t == 0 and not m.W.any() and not walk.diverged(state) for m in state.models)
    # A model that found its step and begins again goes where it would have gone at once.
    rows = oracles.block(oracles.dense_rows(X), y)
    found = Asgd().step(problem, known, Asgd().init(problem, known), rows)
    again = Asgd().restarted(problem, known, found)
    again = Asgd().step(problem, known, again, rows)
    pairs = zip(named_fields(found), named_fields(again), strict=True)
    assert all(np.array_equal(a, b) for (_, a), (_, b) in pairs)
