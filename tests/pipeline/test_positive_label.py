"""`positive` names a label: however it is written, and whatever the loss, all ways say the same."""

import csv

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import get_scorer

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring.comparing_files import compare_rows
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan
from fewpass.pipeline.settings.source_options import SourceOptions

N = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("positive"), np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    sides = np.digitize(x @ [1.0, 0.5] + rng.logistic(size=N) / 2, [-0.5, 0.7])
    (folder / "three.csv").write_text(_csv(x, sides + 1))
    (folder / "two.csv").write_text(_csv(x, np.minimum(sides, 1)))
    (folder / "real.csv").write_text(_csv(x, x @ [1.0, 0.5]))
    for name in ("three", "two", "real"):
        fewpass.ingest(folder / f"{name}.csv", folder / name, label="y", encode="none")
    return folder


def _csv(x, y):
    rows = zip(x.tolist(), y.tolist(), strict=True)
    return "a,b,y\n" + "".join(f"{a:.5f},{b:.5f},{label}\n" for (a, b), label in rows)


def trained(folder, data, **plan):
    run = folder / f"run-{data}-{'-'.join(map(str, plan.values()))}"
    if not run.exists():
        fewpass.train(folder / data, run, tol=1e-6, **plan)
    return run


def predicted(folder, run, data):
    fewpass.predict(run, folder / f"{data}.csv", folder / "out.csv", overwrite=True)
    with (folder / "out.csv").open() as file:
        return [row["predicted"] for row in csv.DictReader(file)]


def rows_of(folder):
    rows = list(csv.DictReader((folder / "two.csv").read_text().splitlines()))
    return rows, pd.DataFrame(rows)[["a", "b"]].astype(float)


def test_a_label_is_meant_however_its_number_is_written(folder):
    plain, other = (trained(folder, "three", positive=name) for name in ("3", "3.0"))
    labels = predicted(folder, plain, "three")
    assert predicted(folder, other, "three") == labels
    assert {*labels} == {"not 3", "3"}
    of_set, of_file = (
        fewpass.evaluate(other, folder / place, **how)
        for place, how in (("three", {}), ("three.csv", {"label": "y"}))
    )
    assert of_file.error == pytest.approx(of_set.error)
    assert fewpass.load(trained(folder, "two", positive="1.0")).classes == (0, 1)


def test_a_loss_of_numbers_tells_labels_apart(folder):
    run = trained(folder, "two", loss="squared", positive="1")
    figures = fewpass.evaluate(run, folder / "two")
    assert figures.mse is None
    assert figures.error < figures.metrics.base_error
    assert figures.auc > 0.8
    rows, features = rows_of(folder)
    labels = predicted(folder, run, "two")
    assert [*map(str, fewpass.load(run).predict(rows))] == labels
    assert [*map(str, fewpass.from_run(run).predict(features))] == labels
    with pytest.raises(BadInput, match="no loss like 'squared' for labels"):
        fewpass.from_run(run).save_model(folder / "model.liblinear")


@pytest.mark.parametrize("calibrate", [None, "platt", "isotonic"])
def test_an_estimator_has_its_classes_in_order_whichever_is_positive(folder, calibrate):
    more = {"calibrate": calibrate, "held_out": str(folder / "two")} if calibrate else {}
    run = trained(folder, "two", positive="0", **more)
    model = fewpass.from_run(run)
    assert [*model.classes_] == [0, 1]
    rows, features = rows_of(folder)
    y = np.array([int(row["y"]) for row in rows])
    assert get_scorer("roc_auc")(model, features, y) > 0.8
    loaded = fewpass.load(run)
    assert loaded.classes == (1, 0)
    np.testing.assert_allclose(
        model.predict_proba(features), loaded.predict_proba(rows)[:, ::-1], atol=1e-9
    )


def test_models_of_the_same_labels_are_compared_whether_one_was_named_or_not(folder):
    runs = [trained(folder, "two"), trained(folder, "two", positive="1")]
    compare = [fewpass.load_model(run) for run in runs]
    how = EvaluationPlan(options=SourceOptions(label="y"))
    result = compare_rows(compare, [str(folder / "two.csv")], how)
    assert result.positive == "1"
    assert {one.difference for one in result.models[1].differences} == {0.0}
    other = fewpass.load_model(trained(folder, "two", positive="0"))
    with pytest.raises(BadInput, match=r"the labels 1, 0, and .* the labels 0, 1\. Compare"):
        compare_rows([compare[0], other], [str(folder / "two.csv")], how)


def test_numbers_are_no_labels_of_which_one_counts(folder):
    with pytest.raises(BadInput, match='and `positive` names the label "1"'):
        fewpass.train(folder / "real", folder / "none", loss="squared", positive="1")
    with pytest.raises(BadInput, match="and the logistic loss needs labels"):
        fewpass.evaluate(trained(folder, "two"), folder / "real")
    run, rows = trained(folder, "real"), folder / "real.csv"
    with pytest.raises(BadInput, match="The model predicts numbers, which have no probabilities"):
        fewpass.predict(run, rows, folder / "none.csv", probability=True)
