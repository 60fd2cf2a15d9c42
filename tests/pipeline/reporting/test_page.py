"""The page of a run: its curves are scikit-learn's, and it needs and runs nothing from elsewhere."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score, roc_curve

from fewpass.flows import cli
from fewpass.pipeline.calibration import BITS, score_bins
from fewpass.pipeline.drawing.charts import (
    Axis,
    Curve,
    chart,
    decades,
    image_address,
    picture,
    steps,
)
from fewpass.pipeline.reporting.figure_rows import shown_figures
from fewpass.pipeline.reporting.quality import curves
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.row_metrics import MetricFigures, average_precision
from fewpass.storage.dataset import Dataset
from testing.html_pages import Page


def test_curves_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.2
    p = (rng.standard_normal(4000) + y).round(1)  # ties, and no two scores in one bin
    bins = score_bins(p)
    sides = [np.bincount(bins[y == side], minlength=1 << BITS) * 1.0 for side in (1, 0)]
    found = curves(*sides)
    false, true, _ = roc_curve(y, p, drop_intermediate=False)
    np.testing.assert_allclose(found.false_positive_rate, false)
    np.testing.assert_allclose(found.recall, true)
    np.testing.assert_allclose(average_precision(*sides), average_precision_score(y, p))
    area = np.trapezoid(found.recall, found.false_positive_rate)
    np.testing.assert_allclose(area, roc_auc_score(y, p))


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (-3.2, 17.0), (1e-7, 4e-7), (0.4691, 0.4702)])
def test_ticks_are_few_and_inside(low, high):
    for ticks in [steps(low, high), *([decades(low, high)] if low > 0.0 else [])]:
        assert 2 <= len(ticks) <= 11
        assert all(low * 0.99 - 1e-12 <= tick <= high * 1.01 for tick in ticks)


@pytest.mark.parametrize("high", [2.5e-5, 2.4e9, 2.4e11, 3e5])
def test_ticks_are_written_as_the_numbers_that_they_are(high):
    words = Axis("linear", 0.0, high, 0.0, 1.0).words()
    units = {"k": "e3", "M": "e6"}
    meant = [float("".join(units.get(letter, letter) for letter in word)) for word in words]
    assert meant == pytest.approx(steps(0.0, high), rel=1e-7)
    beside = Axis("linear", 20_240_101.0, 20_240_131.0, 0.0, 1.0).words()
    assert beside == ["20.24011M", "20.24012M", "20.24013M"]


def test_a_chart_leaves_out_what_an_axis_cannot_show():
    drawn = chart(
        [Curve("a<b", [(1.0, 0.0), (2.0, 3.0), (3.0, np.nan), (4.0, 5.0)])], "x", "y", y="log"
    )
    assert len(re.search(r'polyline [^>]*points="([^"]*)"', drawn)[1].split()) == 2
    assert "a&lt;b" in drawn
    assert chart([Curve("", [(1.0, 0.0)])], "x", "y", y="log") == ""
    assert image_address(chart([Curve("", [(1.0, 2.0)])], "x", "y")) is None
    alone = ET.fromstring(picture(drawn))  # XML, with its style and its legend
    assert "--c1:" in alone.find("{*}style").text and "a<b" in "".join(alone.itertext())


def trained(tmp_path, monkeypatch, label, task="auto"):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = label(X[:, 0] + 0.5 * rng.standard_normal(600))
    rows = [",".join([*map(str, x), str(t)]) for x, t in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["<b>one</b>,two,three,what", *rows]) + "\n")
    ingest = f"ingest rows.csv rows --label what --test-fraction 0.3 --task {task} -q"
    for words in (ingest, "train rows run --tol 1e-4 -q", "report run --html -q"):
        assert cli.main(words.split()) == 0
    return (tmp_path / "run/report/report.html").read_text(encoding="utf-8")


def test_two_labels(tmp_path, monkeypatch):
    html = trained(tmp_path, monkeypatch, lambda p: np.where(p > 0, "<i>yes", "no & not"))
    page = Page(html)
    assert page.images == 0
    for title in ("ROC curve", "Precision and recall", "Calibration", "Confusion", "Certificate",
                  "Largest weights", "How to reproduce it", "Predicted and actual"):  # fmt: skip
        assert title in page.text
    assert "<b>one</b>" in page.text
    assert "<i>yes" in page.text
    assert cli.main(["predict", "run", "rows-test", "out.csv", "-q"]) == 0
    data = Dataset.open("rows-test")
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    given = [line.split(",")[0].strip('"') for line in lines]
    codes = np.concatenate([data.read_chunk(k).target for k in range(data.n_chunks)])
    names = load_model(RunFolder("run")).record.targets.labels
    known = [names[int(code)] for code in codes]
    for cell in confusion_matrix(known, given, labels=list(names)).ravel():
        assert f">{cell}</td>" in html


@pytest.mark.parametrize("case", ["classes", "numbers"])
def test_other_targets(tmp_path, monkeypatch, case):
    label = {"classes": lambda p: np.digitize(p, [-0.5, 0.5]), "numbers": lambda p: p}[case]
    page = Page(trained(tmp_path, monkeypatch, label))
    assert page.images == 0
    assert "On held-out rows" in page.text
    assert ("Confusion" in page.text) == (case == "classes")
    assert ("Predicted / actual" in page.text) == (case == "numbers")


def test_targets_of_one_large_number_are_drawn_around_it(tmp_path, monkeypatch):
    page = Page(trained(tmp_path, monkeypatch, lambda p: np.full(len(p), 1e17), "regression"))
    assert "Predicted / actual" in page.text


def test_test_rows_of_a_set_that_was_made_anew_are_not_used(tmp_path, monkeypatch):
    """The model has learnt from most of them."""
    trained(tmp_path, monkeypatch, lambda p: np.where(p > 0, "yes", "no"))
    for words, are_there in (
        ("append rows rows.csv --again -q", True),
        ("ingest rows.csv rows --label what --test-fraction 0.3 --seed 1 --overwrite -q", False),
    ):
        for command in (words, "report run --html -q"):
            assert cli.main(command.split()) == 0
        page = Page((tmp_path / "run/report/report.html").read_text(encoding="utf-8"))
        assert ("No rows were held out" not in page.text) == are_there


def test_the_top_of_few_rows_is_not_none_of_them():
    metrics = MetricFigures(lift=2.5, lift_top=0.004)
    figures = Evaluation(1000, 0.5, 0.5, 0.2, 0.8, None, None, None, metrics=metrics)
    assert shown_figures(figures)["lift"] == "2.500 (in the top 0.4% of the rows)"
