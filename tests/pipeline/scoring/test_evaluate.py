"""Evaluation out of core against scikit-learn on the same rows in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from fewpass.pipeline.calibration import score_bins
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import area, evaluate
from fewpass.pipeline.settings.training_plan import TrainingPlan
from testing.datasets import every_row, make
from testing.interruptions import trained_model


def trained(dataset, url, **settings):
    plan = TrainingPlan(dataset=dataset.folder.url, memory="128MB", **settings)
    return trained_model(plan, url)[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_labels(tmp_path, weighted):
    model = trained(make(tmp_path / "set", weighted=weighted), tmp_path / "run", lam=1e-3)
    held_out = make(tmp_path / "new", n=1500, weighted=weighted, seed=0)
    found = evaluate(model, held_out, InProcess())
    X, target, weight = every_row(held_out)
    p, y = X @ model.weights.coef + model.weights.intercept, 2 * target - 1
    assert found.rows == 1500
    assert found.error == pytest.approx(
        1 - metrics.accuracy_score(y, np.sign(p), sample_weight=weight), abs=1e-12
    )
    area = metrics.roc_auc_score(y, p, sample_weight=weight)
    assert abs(found.auc - area) <= found.auc_within + 1e-12
    assert found.auc_within < 1e-3
    loss = np.average(np.logaddexp(0, -y * p), weights=weight)
    assert found.loss == pytest.approx(loss, rel=1e-12)
    w, b = model.weights
    penalty = 0.5e-3 * (w @ w + 0.01 * (b - model.record.level) ** 2)
    assert found.objective == pytest.approx(loss + penalty, rel=1e-12)
    assert found.mse is None


def test_numbers(tmp_path):
    dataset = make(tmp_path / "set", targets="values", weighted=True)
    found = evaluate(trained(dataset, tmp_path / "run", lam=1e-3), dataset, InProcess())
    model = load_model(RunFolder(str(tmp_path / "run")))
    X, y, weight = every_row(dataset)
    p = X @ model.weights.coef + model.weights.intercept
    assert found.mse == pytest.approx(np.average((p - y) ** 2, weights=weight), rel=1e-10)
    assert found.r2 == pytest.approx(metrics.r2_score(y, p, sample_weight=weight), rel=1e-10)
    assert found.error is None


def test_other_columns_are_refused(tmp_path):
    model = trained(make(tmp_path / "set"), tmp_path / "run")
    with pytest.raises(BadInput, match=r"has 7 features, but the model has 30.*`like="):
        evaluate(model, make(tmp_path / "other", d=7), InProcess())


def test_numbers_are_no_labels(tmp_path):
    """A model of two classes is not evaluated on targets that are numbers, nor trained on one."""
    model = trained(make(tmp_path / "set"), tmp_path / "run")
    numbers = make(tmp_path / "numbers", targets="values")
    with pytest.raises(BadInput, match=r"targets are numbers, and the logistic loss needs labels"):
        evaluate(model, numbers, InProcess())
    with pytest.raises(BadInput, match="`positive` names the label"):
        trained(numbers, tmp_path / "other", positive="1")


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=2, max_size=50))
@settings(max_examples=200, deadline=None)
def test_a_larger_score_never_has_a_smaller_bin(scores):
    ordered = np.sort(np.array(scores))
    assert (np.diff(score_bins(ordered)) >= 0).all()
    assert score_bins(ordered).min() >= 0


def test_an_area_needs_both_sides():
    assert area(np.zeros(4), np.ones(4)) == (None, None)
    assert area(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == (1.0, 0.0)
    assert area(np.array([2.0, 0.0]), np.array([3.0, 0.0])) == (0.5, 0.5)
