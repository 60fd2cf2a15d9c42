"""One model of all classes, out of core: optimum, laws, probabilities, and what old plans mean."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.problem import loss_word
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.scoring.prediction import predict
from fewpass.pipeline.scoring.probabilities import caution
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.prepared import with_classes_that_fit
from fewpass.storage.manifest import Labels
from testing.datasets import every_row, make
from testing.interruptions import assert_cuts_change_nothing, trained_model

CLASSES = 5
SEVERAL_WINDOWS = "96.4MB"
METHODS = {
    "psdca": {"solver": {"kind": "psdca"}, "passes": 4, "lam": "0.1/n"},
    "psdca in streams": {"solver": {"kind": "psdca"}, "streams": 2, "passes": 4, "lam": "0.1/n"},
    "asgd": {"solver": {"kind": "asgd"}, "passes": 2, "certify": True},
    "lbfgs": {
        "solver": {"kind": "lbfgs"},
        "passes": 12,
        "classes": "multinomial",
        "tol": 1e-9,
    },
    "newton": {
        "solver": {"kind": "newton"},
        "passes": 4,
        "classes": "multinomial",
        "memory": "98MB",
    },
}


def plan_for(dataset, **settings):
    return TrainingPlan(
        dataset=dataset.folder.url, **({"memory": "256MB", "lam": "1/n"} | settings)
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    url = tmp_path_factory.mktemp("sparse") / "set"
    return make(
        url, n=1200, chunk_rows=50, layout="sparse", weighted=True, classes=CLASSES
    )  # fmt: skip


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    url = tmp_path_factory.mktemp("fresh") / "set"
    return make(url, n=600, chunk_rows=50, layout="sparse", classes=CLASSES, seed=0)


def rows_of(dataset):
    X, y, weight = every_row(dataset)
    return X, y.astype(int), weight


@pytest.mark.parametrize("solver", ["psdca", "newton"])
def test_class_and_row_weights_give_scikit_learns_model(tmp_path, dataset, solver):
    plan = plan_for(
        dataset, lam="10/n", tol=1e-9, intercept="none", class_weight={"0": 3.0, "2": 0.5},
        solver=solver, classes="multinomial",
    )  # fmt: skip
    model, result = trained_model(plan, tmp_path / "run")
    X, y, weight = rows_of(dataset)
    n, factor = len(y), np.array([3.0, 1.0, 0.5, 1.0, 1.0])
    unit = weight * factor[y]
    unit *= n / unit.sum()
    oracle = LogisticRegression(C=1 / 10, fit_intercept=False, tol=1e-10, max_iter=10_000)
    oracle.fit(X, y, sample_weight=unit)

    def objective(W):
        V = X @ W.T
        own = V[np.arange(n), y]
        return np.mean(unit * (logsumexp(V, axis=1) - own)) + 5 / n * np.sum(W * W)

    assert (result.solver, result.loss, result.classes) == (solver, "softmax", None)
    assert result.objective == pytest.approx(objective(model.weights.coef), rel=1e-9)
    assert result.objective - objective(oracle.coef_) <= result.certificate + 1e-12
    np.testing.assert_allclose(model.weights.coef, oracle.coef_, atol=1e-4)
    assert not model.weights.intercept.any()


@pytest.mark.parametrize("method", METHODS)
def test_interrupted_anywhere_equals_uninterrupted(tmp_path, dataset, method):
    plan = plan_for(dataset, **{"memory": SEVERAL_WINDOWS} | METHODS[method])
    _, quiet = trained_model(plan, tmp_path / "quiet")
    assert quiet.loss == "softmax"
    assert quiet.certificate >= 0.0
    assert_cuts_change_nothing(plan, tmp_path, quiet, 3)


@pytest.mark.parametrize("method", ["psdca", "asgd"])
def test_a_grid_of_lam_is_a_run_for_each(tmp_path, dataset, fresh, method):
    lams = ("1e-1", "3/n")
    plan = plan_for(dataset, **METHODS[method] | {"lam": ",".join(lams)}, held_out=fresh.folder.url)
    model, result = trained_model(plan, tmp_path / "run")
    for k, (lam, candidate) in enumerate(zip(lams, result.candidates, strict=True)):
        alone, own = trained_model(
            plan.model_copy(update={"lam": Lam.of(lam)}), tmp_path / f"run{k}"
        )
        figures = evaluate(alone, fresh, InProcess())
        assert (candidate["loss"], candidate["error"]) == (figures.loss, figures.error)
        assert (candidate["objective"], candidate["gap"]) == (own.objective, own.certificate)
        if candidate["lam"] == result.lam:
            assert np.array_equal(model.weights.coef, alone.weights.coef)
            assert np.array_equal(model.weights.intercept, alone.weights.intercept)


def test_probabilities_are_the_softmax_everywhere(tmp_path, dataset, fresh):
    plan = plan_for(dataset, **METHODS["psdca"])
    model, result = trained_model(plan, tmp_path / "run")
    X, y, _ = rows_of(fresh)
    scores = X @ model.weights.coef.T + model.weights.intercept
    p = softmax(scores, axis=1)
    figures = evaluate(model, fresh, InProcess())
    assert figures.loss == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean(), rel=1e-9)
    assert figures.error == pytest.approx((scores.argmax(axis=1) != y).mean())
    own = evaluate(model, dataset, InProcess())
    assert own.objective == pytest.approx(result.objective, rel=1e-9)
    diagram = evaluate(model, fresh, InProcess()).reliability
    assert diagram.log_loss == pytest.approx(figures.loss, rel=1e-9)
    assert caution(model) is None
    out = str(tmp_path / "out.npy")
    predict(model, [fresh.folder.url], out, PredictionPlan(probability=True))
    np.testing.assert_allclose(np.load(out), p.max(axis=1), rtol=1e-6)


def test_a_start_from_another_run_and_calibration(tmp_path, dataset, fresh):
    plan = plan_for(dataset, lam="1/n", tol=1e-5)
    _, first = trained_model(plan, tmp_path / "first")
    again = plan.model_copy(update={"start_from": str(tmp_path / "first")})
    _, second = trained_model(again, tmp_path / "second")
    assert second.passes < first.passes
    assert abs(second.objective - first.objective) <= max(first.certificate, second.certificate)
    evaluated = plan_for(
        dataset, solver="asgd", passes=3, start_from=str(tmp_path / "first"),
        held_out=fresh.folder.url, calibrate="platt", early_stopping=True,
    )  # fmt: skip
    model, _ = trained_model(evaluated, tmp_path / "evaluated")
    assert len(model.calibration.offsets) == CLASSES
    diagram = evaluate(model, fresh, InProcess()).reliability
    assert diagram.log_loss <= evaluate(model, fresh, InProcess()).loss + 1e-9


def test_memory_that_does_not_do_is_refused_with_what_would(tmp_path, dataset):
    with pytest.raises(BadInput, match=r"too small.*One model tells all classes apart.*ovr"):
        joint = METHODS["psdca"] | {"classes": "multinomial"}
        trained_model(plan_for(dataset, memory="96MB", **joint), tmp_path / "run")


def test_where_memory_is_short_for_one_model_of_all_each_class_has_its_own(tmp_path):
    wide = make(tmp_path / "wide", n=400, d=200_000, chunk_rows=100, classes=3, layout="sparse")
    for memory, classes in (("300MB", "ovr"), ("2GB", "auto")):
        plan = TrainingPlan(dataset=wide.folder.url, lam="1/n", tol=1e-3, memory=memory)
        assert with_classes_that_fit(plan, wide, near=False).classes == classes
        asked = plan.model_copy(update={"classes": "multinomial"})
        assert with_classes_that_fit(asked, wide, near=False) == asked


def labels(K):
    return Labels(labels=tuple(float(k) for k in range(K)), counts=(3,) * K)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "logistic"),
        ({"tol": 1e-3}, "softmax"),
        ({"tol": 1e-3, "passes": 1}, "logistic"),
        ({"tol": 1e-3, "classes": "ovr"}, "logistic"),
        ({"tol": 1e-3, "positive": "1"}, "logistic"),
        ({"loss": "logistic", "solver": "psdca"}, "softmax"),
        ({"solver": "asgd"}, "softmax"),
        ({"solver": {"kind": "asgd", "average_from": "auto"}}, "logistic"),
        ({"solver": {"kind": "psdca", "columns": "apart"}}, "logistic"),
        ({"solver": "newton"}, "logistic"),
        ({"solver": "newton", "classes": "multinomial"}, "softmax"),
        ({"solver": "onepass", "classes": "multinomial"}, "softmax"),
        ({"solver": "sdca"}, "logistic"),
        ({"loss": "softmax"}, "softmax"),
        ({"loss": "softmax", "solver": "lbfgs"}, "softmax"),
        ({"loss": "squared_hinge", "solver": "psdca"}, "squared_hinge"),
    ],
)
def test_which_loss_a_plan_means(settings, expected):
    plan = TrainingPlan(dataset="x", **settings)
    assert loss_word(plan, labels(4)) == expected
    assert loss_word(plan, labels(2)) == expected.replace("softmax", "logistic")
    assert loss_word(plan.named(plan.solver), labels(4)) == expected


def test_one_model_of_all_classes_is_refused_for_a_loss_that_has_none():
    with pytest.raises(ValueError, match="classes = multinomial is of the loss logistic"):
        TrainingPlan(dataset="x", loss="hinge", classes="multinomial")


def test_a_method_chosen_for_one_pass_trains_what_was_planned():
    plan = TrainingPlan(dataset="x")
    chosen = plan.named(TrainingPlan(dataset="x", solver="asgd").solver)
    assert loss_word(chosen, labels(100)) == loss_word(plan, labels(100)) == "logistic"


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="classes = ovr asks for one each"):
        TrainingPlan(dataset="x", loss="softmax", classes="ovr")


def test_methods_for_one_score_are_refused_by_name(tmp_path, dataset):
    for method in ("s2gd", "sdca", "onepass", "agd"):
        with pytest.raises(ValueError, match=rf"{method} trains one score.*psdca.*asgd.*ovr"):
            trained_model(plan_for(dataset, loss="softmax", solver=method), tmp_path / "run")
