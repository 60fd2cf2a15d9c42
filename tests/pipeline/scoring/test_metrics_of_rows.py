"""Metrics in one pass are scikit-learn's; slices and comparisons are those of the rows themselves."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as theirs

import fewpass
from fewpass.flows.cli import main
from fewpass.flows.options import called
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.scoring import evaluated_slices
from fewpass.pipeline.scoring.comparing_files import compare_rows
from fewpass.pipeline.scoring.evaluated_slices import bytes_of, sparse, whole
from fewpass.pipeline.scoring.evaluation import Evaluation, evaluate
from fewpass.pipeline.scoring.paired_figures import (
    OF_LABELS,
    OF_NUMBERS,
    OF_PROBABILITIES,
    compare,
)
from fewpass.pipeline.scoring.row_metrics import MetricFigures
from fewpass.pipeline.settings.metric_registry import METRICS
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.solvers.protocol import add_parts
from fewpass.storage.dataset import Dataset


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n).round(3),
            "age": rng.integers(18, 80, n),
            "city": rng.choice(["Rome", "Oslo", "Bern", "Wien"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "times": rng.integers(1, 4, n),
        }
    )
    score = table["size"] + 0.02 * (table["age"] - 50) + (table["city"] == "Oslo")
    score += 0.8 * rng.standard_normal(n)
    table["bought"] = np.where(score > 0.8, "yes", "no")
    table["kind"] = np.where(score > 1.0, "c", np.where(score > 0.0, "b", "a"))
    table["spent"] = (20.0 + 5.0 * score).round(2)
    return table


def test_the_registry_has_all_figures_and_no_other():
    """What models are chosen, gated, shown and compared by is what evaluations have, by name."""
    named = {*METRICS, *(one.base for one in METRICS.values() if one.base)}
    beside = {"rows", "auc_within", "classes", "metrics", "left_out", "slices", "skipped", "notes",
              "reliability", "lift_top"}  # fmt: skip
    assert named == {*Evaluation._fields, *MetricFigures._fields} - beside
    assert {*OF_LABELS, *OF_PROBABILITIES, *OF_NUMBERS} < {*METRICS}


TARGETS = ("bought", "kind", "spent")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Two runs for each target, and new rows."""
    folder = tmp_path_factory.mktemp("metrics")
    rows_of(1200, 0).to_csv(folder / "train.csv", index=False)
    rows_of(700, 1).to_csv(folder / "new.csv", index=False)
    for target in TARGETS:
        drop = [name for name in TARGETS if name != target]
        settings = {"label": target, "drop": drop, "weight": "times"}
        fewpass.ingest(folder / "train.csv", folder / target, **settings)
        like = {"like": str(folder / target), "overwrite": True, **settings}
        fewpass.ingest(folder / "new.csv", folder / f"{target}-new", **like)
        for lam, name in (("1/n", "run"), ("0.3", "run2")):
            loss = None if target == "spent" else "logistic"
            run = folder / f"{target}-{name}"
            fewpass.train(folder / target, run, tol=1e-3, lam=lam, loss=loss, verbose=0)
    return folder


def told(shop, target, run="run", **more):
    """New rows with what is predicted of them."""
    out = shop / f"{target}-{run}.csv"
    probability = {} if target == "spent" else {"probability": True}
    keep = ["age", "city", "times", target]
    drop = [name for name in TARGETS if name != target]
    fewpass.predict(
        shop / f"{target}-{run}", shop / "new.csv", out, keep=keep, overwrite=True,
        unknown_features="ignore", drop=drop, **probability, **more,
    )  # fmt: skip
    return pd.read_csv(out)


def expected(table, target, mean):
    """The same figures by scikit-learn."""
    y, p, w = table[target], table["predicted"], {"sample_weight": table["times"]}
    if target == "spent":
        return {
            "mae": theirs.mean_absolute_error(y, p, **w),
            "mape": theirs.mean_absolute_percentage_error(y, p, **w),
            "rmse": theirs.root_mean_squared_error(y, p, **w),
            "base_mae": theirs.mean_absolute_error(y, np.full(len(y), mean), **w),
            "base_rmse": theirs.root_mean_squared_error(y, np.full(len(y), mean), **w),
        }
    labels = sorted(set(y))
    shares = table[[f"probability_{label}" for label in labels]].to_numpy()
    counts = table.groupby(target)["times"].sum() / table["times"].sum()
    base = np.tile(counts.to_numpy(), (len(y), 1))
    figures = {
        "base_error": 1.0 - counts.max(),
        "balanced_accuracy": theirs.balanced_accuracy_score(y, p, **w),
        "log_loss": theirs.log_loss(y, shares, labels=labels, **w),
        "base_log_loss": theirs.log_loss(y, base, labels=labels, **w),
    }
    if target == "kind":
        one_hot = (y.to_numpy()[:, None] == np.array(labels)) - shares
        brier = np.average((one_hot**2).sum(axis=1), weights=table["times"])
        return figures | {"f1": theirs.f1_score(y, p, average="macro", **w), "brier": brier}
    of_yes = {"pos_label": "yes", **w}
    return figures | {
        "f1": theirs.f1_score(y, p, **of_yes),
        "precision": theirs.precision_score(y, p, **of_yes),
        "base_precision": counts["yes"],
        "recall": theirs.recall_score(y, p, **of_yes),
        "brier": theirs.brier_score_loss(y == "yes", table["probability"], **w),
        "base_brier": theirs.brier_score_loss(y == "yes", base[:, 1], **w),
    }


@pytest.mark.parametrize("target", TARGETS)
def test_metrics_are_those_of_scikit_learn(shop, target):
    """On files and on data sets, bit for bit the same for any number of workers."""
    model, data = fewpass.load_model(shop / f"{target}-run"), Dataset.open(f"{shop}/{target}-new")
    one, three = (evaluate(model, data, InProcess(threads)) for threads in (1, 3))
    assert one == three
    drop = [name for name in TARGETS if name != target]
    files = fewpass.evaluate(
        shop / f"{target}-run", shop / "new.csv", weight="times", label=target, drop=drop
    )
    targets = model.record.targets  # of the rows learnt from
    mean = getattr(targets, "weighted_mean", None) or getattr(targets, "mean", None)
    for name, figure in expected(told(shop, target), target, mean).items():
        assert getattr(one.metrics, name) == pytest.approx(figure, rel=1e-6), name
        assert getattr(files.metrics, name) == pytest.approx(figure, rel=1e-6), name


FILE = {"label": "bought", "weight": "times", "drop": ["kind", "spent"]}


@pytest.mark.parametrize("threshold", [None, 0.0, 0.25, 0.8, 1.0])
def test_figures_of_labels_are_those_of_the_labels_that_predict_writes(shop, threshold):
    """Of a data set, of a file, and of each slice of it: error, precision, recall, F1, intervals."""
    table, run = told(shop, "bought", threshold=threshold), shop / "bought-run"
    of_data = fewpass.evaluate(run, shop / "bought-new", threshold=threshold)
    by = ["city", "age:40"]
    of_file = fewpass.evaluate(run, shop / "new.csv", threshold=threshold, by=by, **FILE)
    (_, cities), (_, ages) = of_file.slices
    young = table["age"] < 40
    for rows, figures in [
        (table, of_data),
        (table, of_file),
        *((table[table["city"] == one.name], one.evaluation) for one in cities),
        *((table[own], one.evaluation) for own, one in zip((young, ~young), ages, strict=True)),
    ]:
        y, p, w = rows["bought"], rows["predicted"], {"sample_weight": rows["times"]}
        of_yes = {"pos_label": "yes", "zero_division": np.nan, **w}
        assert figures.error == pytest.approx(1 - theirs.accuracy_score(y, p, **w))
        for name in ("precision", "recall", "f1"):
            wanted = getattr(theirs, f"{name}_score")(y, p, **of_yes)
            found = getattr(figures.metrics, name)
            assert found is None if np.isnan(wanted) else found == pytest.approx(wanted), name
    for one in (*cities, *ages):
        assert one.error_low <= one.evaluation.error <= one.error_high


@pytest.mark.parametrize(("name", "wrong"), [
    *(("lift_at", share) for share in (0.0, -1.0, 2.0, np.nan, np.inf)),
    *(("threshold", share) for share in (-0.1, 2.0, np.nan)),
])  # fmt: skip
def test_what_is_no_share_is_refused(shop, name, wrong, capsys):
    run, data = shop / "bought-run", shop / "bought-new"
    with pytest.raises(BadInput, match=f"^{name} is {wrong}"):
        fewpass.evaluate(run, data, **{name: wrong})
    assert main(["evaluate", str(run), str(shop / "new.csv"), f"{called((name,))}={wrong}"]) == 2
    assert f"{called((name,))} is {wrong}" in capsys.readouterr().err
    for target, what in (("spent", "numbers"), ("kind", "3 labels")):
        with pytest.raises(BadInput, match=f"`{name}` is for two.*this model predicts {what}"):
            fewpass.evaluate(shop / f"{target}-run", shop / f"{target}-new", **{name: 0.5})


def test_average_precision_and_lift_are_as_exact_as_scores_are_counted(shop):
    table = told(shop, "bought").sort_values("score", ascending=False)
    figures = fewpass.evaluate(shop / "bought-run", shop / "bought-new", lift_at=0.2).metrics
    y, w = table["bought"] == "yes", table["times"]
    average = theirs.average_precision_score(y, table["score"], sample_weight=w)
    assert figures.average_precision == pytest.approx(average, abs=2e-3)
    top = w.cumsum() <= 0.2 * w.sum()
    lift = np.average(y[top], weights=w[top]) / np.average(y, weights=w)
    assert figures.lift == pytest.approx(lift, rel=0.03)
    assert figures.lift_top == 0.2


def test_slices_are_evaluations_of_their_rows(shop, tmp_path, capsys):
    table = rows_of(700, 1)
    words = ["--drop", "kind", "--drop", "spent", "--weight", "times", "--label", "bought"]
    run, new = str(shop / "bought-run"), str(shop / "new.csv")
    by = ["--by", "city", "--by", "age:30,60"]
    assert main(["evaluate", run, new, *words, *by, "--json"]) == 0
    slices = json.loads(capsys.readouterr().out)["slices"]
    assert [one["slice"] for one in slices["city"]] == ["Bern", "Oslo", "Rome", "Wien"]
    names = ["below 30", "30 to 60", "from 60"]
    assert [one["slice"] for one in slices["age"]] == names
    for one, rows in [
        *((one, table["city"] == one["slice"]) for one in slices["city"]),
        (slices["age"][0], table["age"] < 30),
        (slices["age"][1], (table["age"] >= 30) & (table["age"] < 60)),
        (slices["age"][2], table["age"] >= 60),
    ]:
        table[rows].to_csv(tmp_path / "slice.csv", index=False)
        assert main(["evaluate", run, str(tmp_path / "slice.csv"), *words, "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        for name in ("rows", "loss", "error", "f1", "log_loss", "brier"):
            assert one[name] == pytest.approx(alone[name], rel=1e-9), name
        assert one["auc"] == pytest.approx(alone["auc"], abs=0.01)
        assert one["error_low"] < one["error"] < one["error_high"]
        assert 0.0 < one["loss_within"] < one["loss"]


def test_slices_that_cannot_be_made_are_refused(shop, tmp_path, monkeypatch):
    run = shop / "bought-run"
    table = rows_of(1200, 1).assign(
        seen=pd.date_range("2024-01-01", periods=1200).astype(str), id=range(1200),
        words=[f"w{k % 1001}" for k in range(1200)], few=[f"w{k % 1000}" for k in range(1200)],
        odd=["?", "n/a", "12", "1e3", "oops"] * 240,
    )  # fmt: skip
    table.to_csv(tmp_path / "more.csv", index=False)
    table.astype({"seen": "datetime64[us]"}).to_parquet(tmp_path / "more.parquet")
    drop = [*FILE["drop"], "seen", "id", "words", "few", "odd"]
    options = FILE | {"drop": drop}
    for by, file, why in [
        ("age:60,30", "csv", "ascending numbers"),
        ("city:1,2", "csv", "more.csv.*column 'city' has \"(Rome|Oslo|Bern|Wien)\".*by numbers"),
        ("odd:10,20", "csv", "column 'odd' has \"oops\""),
        ("seen:1,2", "csv", "column 'seen' has \"2024-01-01\""),
        ("seen:1,2", "parquet", "column 'seen' has cells of type timestamp"),
        ("nothing", "csv", "no column 'nothing', which `keep` or `by` names"),
    ]:
        with pytest.raises(BadInput, match=why):
            fewpass.evaluate(run, tmp_path / f"more.{file}", by=[by], **options)
    with pytest.raises(BadInput, match="reads a column of a file"):
        fewpass.evaluate(run, shop / "bought-new", by=["city"])
    made = fewpass.evaluate(run, tmp_path / "more.csv", by=["few", "id:100"], **options).slices
    assert [len(slices) for _, slices in made] == [1000, 2]
    monkeypatch.setattr(
        evaluated_slices, "sparse", lambda _: pytest.fail("sums of too many slices")
    )
    for by in ("words", "id"):
        with pytest.raises(BadInput, match="more than 1,000 values"):
            fewpass.evaluate(run, tmp_path / "more.csv", by=[by], **options)


def test_ranges_of_large_numbers_that_lie_close_have_names_of_their_own(shop, tmp_path):
    table = rows_of(700, 1).assign(id=1_000_000 + np.arange(700) % 5)
    table.to_csv(tmp_path / "more.csv", index=False)
    fewpass.ingest(tmp_path / "more.csv", tmp_path / "set", **FILE)
    fewpass.train(tmp_path / "set", tmp_path / "run", lam="1/n", passes=2)
    asked = ["id:1000001,1000002,1000004", "id"]
    given, own = fewpass.evaluate(tmp_path / "run", tmp_path / "more.csv", by=asked, **FILE).slices
    assert [(one.name, one.evaluation.rows) for one in given[1]] == [
        ("below 1000001", 140), ("1000001 to 1000002", 140), ("1000002 to 1000004", 280),
        ("from 1000004", 140),
    ]  # fmt: skip
    assert len(own[1]) > 3
    assert sum(one.evaluation.rows for one in own[1]) == 700


def test_sparse_parts_add_up_to_the_bits_of_whole_ones():
    rng = np.random.default_rng(0)

    def part():
        counts = rng.normal(size=(20, 30)) * (rng.random((20, 30)) < 0.1)
        return (counts, (rng.normal(), rng.normal(size=3)))

    parts = [part() for _ in range(5)]
    total, small = parts[0], sparse(parts[0])
    for one in parts[1:]:
        total, small = add_parts(total, one), add_parts(small, sparse(one))
    again = whole(small)
    assert again[1][0] == total[1][0] and (again[1][1] == total[1][1]).all()
    assert (again[0] == total[0]).all()
    assert bytes_of(small) < total[0].nbytes


def test_slices_take_no_more_than_their_share_of_the_memory(shop, monkeypatch):
    monkeypatch.setattr(Budget.slices, "part", Fraction(1, 10**5))
    with pytest.raises(BadInput, match=r"The sums of 4 slices take.*fewer values"):
        fewpass.evaluate(shop / "bought-run", shop / "new.csv", by=["city"], **FILE)


@pytest.mark.parametrize("target", TARGETS)
def test_differences_are_those_of_the_rows(shop, target):
    models = [fewpass.load_model(shop / f"{target}-{run}") for run in ("run", "run2")]
    data = Dataset.open(f"{shop}/{target}-new")
    on_data = compare(models, data, InProcess(2))
    assert on_data == compare(models, data, InProcess(1))
    drop = tuple(name for name in TARGETS if name != target)
    options = SourceOptions(label=target, drop=drop, weight="times")
    on_files = compare_rows(models, [str(shop / "new.csv")], EvaluationPlan(options=options))
    first, second = (told(shop, target, run) for run in ("run", "run2"))
    w = first["times"].to_numpy()

    def of_rows(table):
        if target == "spent":
            error = (table["predicted"] - table["spent"]).to_numpy()
            return {"mae": np.abs(error), "mse": error**2}
        own = [table.loc[k, f"probability_{label}"] for k, label in enumerate(table[target])]
        wrong = (table["predicted"] != table[target]).to_numpy().astype(float)
        return {"error": wrong, "log_loss": -np.log(own)}

    each = (of_rows(first), of_rows(second))
    for name in each[0]:
        far = each[1][name] - each[0][name]
        mean = np.average(far, weights=w)
        within = 1.96 * np.sqrt((w**2 * (far - mean) ** 2).sum()) / w.sum()
        for result in (on_data, on_files):
            (one,) = [d for d in result.models[1].differences if d.metric == name]
            assert one.difference == pytest.approx(mean, rel=1e-5, abs=1e-9)
            assert one.within == pytest.approx(within, rel=1e-4)
            assert one.value == pytest.approx(np.average(each[1][name], weights=w), rel=1e-6)
            assert result.models[0].differences[0].difference == 0.0


def test_the_command_compares_and_draws(shop, tmp_path, capsys):
    runs = [str(shop / f"bought-{run}") for run in ("run", "run2")]
    page = tmp_path / "page.html"
    words = ["evaluate", *runs, str(shop / "bought-new"), "--html", str(page), "--json"]
    assert main(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [model["run"] for model in facts["models"]] == runs
    assert facts["positive"] == "yes"
    assert "Differences from the first" in page.read_text()
    assert "The label yes counts as positive" in page.read_text()
    assert main(["evaluate", runs[0], str(shop / "bought-new"), "--html", str(page)]) == 2
    assert "Name two or more" in capsys.readouterr().err
    for alone in (["--reliability"], ["--lift-at", "0.2"]):
        assert main(["evaluate", *runs, str(shop / "bought-new"), *alone]) == 2
        assert f"{alone[0]} is of one run." in capsys.readouterr().err
    other = str(shop / "spent-run")
    assert main(["evaluate", runs[0], other, str(shop / "bought-new")]) == 2
    assert "Compare models that predict the same" in capsys.readouterr().err
    assert main(["evaluate", *runs, str(shop / "bought-new"), "--memory", "1kB"]) == 2
    assert "A memory budget of 1 kB is too small" in capsys.readouterr().err
