"""Runs that learn probabilities from held-out rows: what they keep, say, predict and export."""

import json

import numpy as np
import pyarrow.parquet
import pytest
from onnxruntime import InferenceSession
from safetensors import safe_open
from scipy.stats import binomtest
from sklearn import metrics

from fewpass import from_run, ingest, load_model, predict, train
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.calibration import (
    ScoreCounts,
    Sigmoid,
    Steps,
    fit_softmax,
    fit_two_classes,
    softmax_log_loss,
)
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.export_formats import export
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.scoring.probabilities import caution, probabilities_of
from fewpass.pipeline.scoring.reliability import (
    ReliabilityPart,
    reliability,
    wilson,
)
from testing.datasets import every_row, make

FAST = {"memory": "128MB", "tol": 1e-3}
FORMS = {
    "platt": (2, "squared_hinge", Sigmoid),
    "isotonic": (2, "hinge", Steps),
    "of three": (3, "squared_hinge", None),
}


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """Runs by form, with the rows that they were calibrated on and others."""
    made = {}
    for name, (classes, loss, _) in FORMS.items():
        at = tmp_path_factory.mktemp("calibrated")
        sets = {
            part: make(at / part, 1500, 6, weighted=True, seed=7, classes=classes)
            for part in ("rows", "test_rows")
        }
        sets["others"] = make(at / "others", 900, 6, weighted=True, seed=8, classes=classes)
        method = "isotonic" if name == "isotonic" else "platt"
        result = train(
            at / "rows",
            at / "run",
            loss=loss,
            held_out=str(at / "test_rows"),
            calibrate=method,
            **FAST,
        )
        made[name] = result, load_model(at / "run"), sets
    return made


def rows_of(dataset):
    X, y, weight = every_row(dataset)
    return X, y.astype(int), weight * (len(y) / weight.sum())


def scores_of(model, X):
    return X @ model.weights.coef.T + model.weights.intercept


@pytest.mark.parametrize("name", FORMS)
def test_a_run_learns_what_a_fit_to_all_scores_does(calibrated, name):
    result, model, sets = calibrated[name]
    X, y, weight = rows_of(sets["test_rows"])
    scores = scores_of(model, X)
    if name == "of three":
        found = fit_softmax(lambda at: softmax_log_loss(at, (scores, y, weight)), 3)
    else:
        found = fit_two_classes(ScoreCounts.of(scores, y == 1, weight), name)
    for here, there in zip(model.calibration, found, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-9)
    assert result.calibration == model.calibration._asdict()


@pytest.mark.parametrize("name", FORMS)
def test_predictions_have_a_column_per_class(calibrated, name, tmp_path, monkeypatch):
    _, model, sets = calibrated[name]
    place, out = sets["others"].folder.url, tmp_path / "out.parquet"
    result = predict(model.run.url, place, out, probability=True)
    labels = ("-1", "1") if model.weights.coef.ndim == 1 else ("0", "1", "2")
    table = pyarrow.parquet.read_table(out)
    X, _, _ = rows_of(sets["others"])
    scores = scores_of(model, X)
    p = model.calibration.probabilities(scores)
    each = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    found = np.column_stack([table[f"probability_{label}"] for label in labels])
    assert result.columns == tuple(table.column_names)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(each, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
    told = p[np.arange(len(p)), best] if p.ndim == 2 else p
    np.testing.assert_allclose(np.sort(table["probability"]), np.sort(told), rtol=1e-6)
    monkeypatch.setattr(Budget, "scored_piece", 64)  # bytes: a few rows at a time
    few = predict(model.run.url, place, tmp_path / "few.npy", probability=True)
    assert few.rows == 900
    assert np.array_equal(np.load(tmp_path / "few.npy"), table["probability"])


def test_a_folder_of_predictions_is_of_one_calibration(tmp_path):
    """Of a model that was calibrated anew the weights are what they were."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(400).round(3)
    rows = zip(x, np.where(x + rng.logistic(size=400) > 0, "yes", "no"), strict=True)
    source = tmp_path / "rows.csv"
    source.write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in rows))
    ingest(source, tmp_path / "d", label="y", test_fraction=0.3)
    runs = [
        train(
            tmp_path / "d",
            tmp_path / how,
            lam=0.01,
            held_out=str(tmp_path / "d-test"),
            calibrate=how,
            **FAST,
        )
        for how in ("platt", "isotonic")
    ]
    assert runs[0].weights_sha256 == runs[1].weights_sha256
    for name, how in (("shares", {"probability": True}), ("called", {"threshold": 0.3})):
        out = f"{tmp_path}/{name}/"
        predict(runs[0].run, source, out, **how)
        assert predict(runs[0].run, source, out, **how).done_before == 1
        with pytest.raises(BadInput, match="holds predictions of another model"):
            predict(runs[1].run, source, out, **how)
        assert predict(runs[1].run, source, out, only_new=True, **how).done_before == 1
    predict(runs[0].run, source, f"{tmp_path}/labels/")
    assert predict(runs[1].run, source, f"{tmp_path}/labels/").done_before == 1


@pytest.mark.parametrize("name", FORMS)
def test_reliability_is_what_scikit_learn_says(calibrated, name):
    _, model, sets = calibrated[name]
    X, y, weight = rows_of(sets["others"])
    p = model.calibration.probabilities(scores_of(model, X))
    found = evaluate(model, sets["others"], InProcess()).reliability
    several = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    brier = metrics.brier_score_loss(y, p, sample_weight=weight)
    assert found.brier == pytest.approx(brier, rel=1e-9)
    floor = np.maximum(several, np.finfo(float).eps)
    there = metrics.log_loss(y, floor / floor.sum(axis=1)[:, None], sample_weight=weight)
    assert found.log_loss == pytest.approx(there, rel=1e-9)
    told, true = (p, y == 1) if p.ndim == 1 else (p.max(axis=1), p.argmax(axis=1) == y)
    where = np.minimum((told * 15).astype(int), 14)
    gaps = [abs((weight * (told - true))[where == k].sum()) for k in range(15)]
    assert found.calibration_error == pytest.approx(sum(gaps) / weight.sum(), rel=1e-9)
    assert sum(one.rows for one in found.bins) == found.rows == 900


@pytest.mark.parametrize(("right", "rows"), [(0, 5), (3, 7), (40, 40), (123, 1000)])
def test_intervals_are_wilsons(right, rows):
    there = binomtest(right, rows).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson(right / rows, rows), tuple(there), atol=1e-12)


def test_intervals_are_of_the_rows_that_weigh():
    heavy = np.arange(100) < 20
    p, came_true, weight = np.full(100, 0.5), np.arange(100) % 2, np.where(heavy, 2.0, 1e-12)
    (one,) = reliability(ReliabilityPart.of(p, came_true, weight)).bins
    assert (one.rows, one.observed) == (100, pytest.approx(0.5))
    assert (one.low, one.high) == pytest.approx(wilson(0.5, 20))


@pytest.mark.parametrize("name", FORMS)
def test_exports_keep_the_calibration_or_refuse(calibrated, name, tmp_path):
    _, model, sets = calibrated[name]
    plain = of_run(model.run.url)
    X, _, _ = rows_of(sets["others"])
    p = model.calibration.probabilities(scores_of(model, X))
    each = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    export(plain, tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        told = json.loads(file.metadata()["fewpass"])["calibration"]
    assert told == json.loads(json.dumps(model.calibration._asdict()))
    for suffix in ("liblinear", "skops"):
        with pytest.raises(BadInput, match="has no place for the calibration"):
            export(plain, tmp_path / f"model.{suffix}")
    export(plain, tmp_path / "model.onnx")
    session = InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(["probabilities"], {"X": X})
    np.testing.assert_allclose(found, each, atol=1e-12)
    np.testing.assert_allclose(from_run(model.run.url).predict_proba(X), each, atol=1e-12)


def test_what_has_no_honest_probabilities_says_so(calibrated, tmp_path):
    _, _, sets = calibrated["platt"]
    rows = sets["rows"].folder.url
    train(rows, tmp_path / "svm", loss="hinge", passes=1)
    with pytest.raises(BadInput, match=r"Only the logistic loss.*`calibrate=platt`"):
        probabilities_of(load_model(tmp_path / "svm"))
    train(rows, tmp_path / "weighted", class_weight="balanced")
    assert "weighted by class" in caution(load_model(tmp_path / "weighted"))
    train(calibrated["of three"][2]["rows"].folder.url, tmp_path / "three", passes=1)
    assert "over the sum" in caution(load_model(tmp_path / "three"))
    train(rows, tmp_path / "plain")
    assert caution(load_model(tmp_path / "plain")) is None
    for run, cautions in (("weighted", 1), ("plain", 0)):
        made = predict(str(tmp_path / run), rows, tmp_path / f"{run}.csv", probability=True)
        assert ["weighted by class" in note for note in made.notes] == [True] * cautions


def test_what_cannot_be_calibrated_is_refused_before_training(calibrated, tmp_path):
    rows, three = (calibrated[name][2]["rows"].folder.url for name in ("platt", "of three"))
    with pytest.raises(BadInput, match=r"Name a data set with `held_out`"):
        train(rows, tmp_path / "run", calibrate="platt")
    with pytest.raises(BadInput, match=r"for two classes, but there are 3"):
        train(three, tmp_path / "run", calibrate="isotonic", held_out=three)
    values = make(tmp_path / "values", 300, 6, targets="values").folder.url
    with pytest.raises(BadInput, match="Numbers are predicted here"):
        train(values, tmp_path / "run", calibrate="platt", held_out=values)
    with pytest.raises(BadInput, match="are of one class"):
        train(rows, tmp_path / "run", calibrate="platt", held_out=one_sided(tmp_path / "one"))
    assert not (tmp_path / "run").exists()


def one_sided(url):
    from fewpass.storage.table import take
    from testing.datasets import random_table, write

    table = random_table(400, 6)
    return write(url, take(table, np.flatnonzero(table.target == 1.0)), 6, 60).folder.url


def test_the_command_draws_the_diagram(calibrated, as_json, fewpass):
    _, model, sets = calibrated["platt"]
    others = sets["others"].folder.url
    told = as_json("evaluate", model.run.url, others, "--reliability", "--scheduler", "none")
    there = evaluate(model, sets["others"], InProcess()).reliability
    assert told["reliability"]["brier"] == there.brier
    assert len(told["reliability"]["bins"]) == len(there.bins)
    page = model.run.folder.read("report/reliability.html").decode()
    assert told["reliability"]["page"] == model.run.folder.address("report/reliability.html")
    assert page.count("<svg") == 1 and f"Brier score {there.brier:.4f}" in page
    status, out, _ = fewpass("evaluate", model.run.url, others, "--reliability")
    assert status == 0
    assert "calibration error" in out
