"""What columns contribute to scores: they add up, and say the same wherever they are asked for."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance

import fewpass
from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.explain import explain, explain_rows
from fewpass.pipeline.explaining.importance import importance
from fewpass.pipeline.explaining.score_terms import terms_of
from fewpass.pipeline.explaining.term_shapes import term_shapes
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.prediction_plan import ExplanationPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.storage.dataset import Dataset
from testing.datasets import every_row

PLAN = ExplanationPlan()


def frame(n, seed):
    """Rows with every kind of column; the target of some of them."""
    rng = np.random.default_rng(seed)
    day = np.datetime64("2024-01-01") + rng.integers(0, 600, n)
    table = pd.DataFrame(
        {
            "size": np.round(rng.lognormal(3.0, 1.5, n), 2),
            "city": rng.choice(["Rome", "Oslo", "Bern"], n, p=[0.6, 0.3, 0.1]),
            "day": np.datetime_as_string(day, "D"),
            "note": rng.choice(["very good", "not so good", "bad indeed", "good, but dear"], n),
            "temperature": np.where(rng.random(n) < 0.1, np.nan, rng.normal(15.0, 8.0, n).round(1)),
        }
    )
    score = np.log(table["size"]) - 3.0 + 2.0 * (table["city"] == "Oslo") - 0.5
    score += 0.03 * table["temperature"].fillna(0.0) + rng.logistic(0.0, 0.7, n)
    table["id"] = [f"{k:06d}" for k in range(n)]
    table["kind"] = np.where(score > 1.0, "c", np.where(score > 0.0, "b", "a"))
    table["bought"] = np.where(score > 0.0, "yes", "no")
    table["spent"] = score.round(3)
    return table


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two labels, three labels and numbers, and the rows that they are explained on."""
    folder = tmp_path_factory.mktemp("explained")
    frame(1500, 0).to_csv(folder / "train.csv", index=False)
    frame(400, 1).to_csv(folder / "new.csv", index=False)
    targets = {"bought", "kind", "spent"}
    for target in targets:
        drop = [*(targets - {target}), "id"]
        data = str(folder / target)
        fewpass.ingest(folder / "train.csv", data, label=target, drop=drop, test_fraction=0.2)
        fewpass.train(data, folder / f"{target}-run", tol=1e-3, verbose=0)
    return folder


@pytest.mark.parametrize("target", ["bought", "kind", "spent"])
def test_contributions_add_up_to_the_scores_of_predictions(runs, tmp_path, target):
    model, new = fewpass.load_model(runs / f"{target}-run"), str(runs / "new.csv")
    out = str(tmp_path / "why.parquet")
    options = SourceOptions(unknown_features="ignore")
    explain(model, [new], out, ExplanationPlan(options=options, keep=["id"]))
    why = pd.read_parquet(out)
    fewpass.predict(
        runs / f"{target}-run", new, tmp_path / "p.parquet", keep=["id"],
        unknown_features="ignore", clip=False,
    )  # fmt: skip
    told = pd.read_parquet(tmp_path / "p.parquet")
    assert list(why["id"]) == list(told["id"]) == [f"{k:06d}" for k in range(400)]
    columns = ["size", "city", "day", "note", "temperature"]
    each = why[[f"contribution_{name}" for name in columns]]
    np.testing.assert_allclose(why["score"], why["base"] + each.sum(axis=1), rtol=0, atol=1e-12)
    score = told["predicted" if target == "spent" else "score"]
    np.testing.assert_allclose(why["score"], score, rtol=1e-12, atol=1e-12)
    if target != "spent":
        assert list(why["predicted"]) == list(told["predicted"])


def test_the_base_is_the_mean_score_of_the_rows_learnt_from(runs, tmp_path):
    model = fewpass.load_model(runs / "spent-run")
    fewpass.predict(runs / "spent-run", runs / "spent", tmp_path / "p.npy", clip=False)
    options = SourceOptions(unknown_features="ignore")
    (row,) = explain_rows(model, [str(runs / "new.csv")], ExplanationPlan(options=options, rows=1))
    assert row.base == pytest.approx(np.load(tmp_path / "p.npy").mean(), abs=1e-6)


def test_a_model_alone_explains_without_its_data_set(runs, tmp_path):
    shutil.copytree(runs / "bought-run", tmp_path / "run")
    plan = ExplanationPlan(options=SourceOptions(unknown_features="ignore"))
    here = explain_rows(fewpass.load_model(runs / "bought-run"), [str(runs / "new.csv")], plan)
    data, away = runs / "bought", runs / "elsewhere"
    data.rename(away)
    try:
        there = explain_rows(fewpass.load_model(tmp_path / "run"), [str(runs / "new.csv")], plan)
    finally:
        away.rename(data)
    assert [one._replace(terms=()) for one in there] == [one._replace(terms=()) for one in here]
    assert len(here) == 5
    assert {term.name: term.value for term in here[0].terms}["city"] == frame(400, 1)["city"][0]


@pytest.mark.parametrize("target", ["bought", "kind", "spent"])
def test_a_loaded_model_explains_frames_as_files(runs, target):
    rows = frame(400, 1)
    why = fewpass.load(runs / f"{target}-run").explain(rows)
    told = explain_rows(
        fewpass.load_model(runs / f"{target}-run"), [str(runs / "new.csv")],
        ExplanationPlan(options=SourceOptions(unknown_features="ignore"), rows=50),
    )  # fmt: skip
    for k, row in enumerate(told):
        assert why.score[k] == pytest.approx(row.score, abs=1e-5)
        own = dict(zip(why.names, why.contributions[k], strict=True))
        for term in row.terms:
            assert own[term.name] == pytest.approx(term.contribution, abs=1e-5)


def test_shapes_say_what_rows_are_told(runs, tmp_path):
    """A curve at a row's value is the row's contribution, whatever the other columns are."""
    model, new = fewpass.load_model(runs / "spent-run"), str(runs / "new.csv")
    options = SourceOptions(unknown_features="ignore")
    rows = explain_rows(model, [new], ExplanationPlan(options=options, rows=200))
    shapes = term_shapes(model)
    (city,) = shapes["city"]
    bars = dict(zip(city.points, city.contributions[0].tolist(), strict=True))
    (temperature,) = shapes["temperature"]
    low, high = temperature.points[0], temperature.points[-1]
    told = 0
    for row in rows:
        terms = {term.name: term for term in row.terms}
        assert bars[terms["city"].value] == pytest.approx(terms["city"].contribution, abs=1e-6)
        value = terms["temperature"].value
        if value is None:
            expected = temperature.missing[0]
            told += 1
        elif low < float(value) < high:
            expected = np.interp(float(value), temperature.points, temperature.contributions[0])
        else:
            continue
        assert terms["temperature"].contribution == pytest.approx(expected, abs=0.02)
    assert told
    titles = [shape.title for shape in shapes["day"]]
    assert titles == ["day", "day: weekday", "day: month"]


def test_shapes_have_the_months_that_rows_have(tmp_path, monkeypatch):
    """A bar for a month that was never seen would say nothing but what its absence does."""
    monkeypatch.chdir(tmp_path)
    rows = frame(900, 2)
    rows = rows[rows["day"].between("2024-02-01", "2024-04-30")][["day", "city", "bought"]]
    rows.to_csv("rows.csv", index=False)
    fewpass.ingest("rows.csv", "data", label="bought", encode="linear")
    fewpass.train("data", "run", lam="1/n", verbose=0)
    months = term_shapes(fewpass.load_model("run"))["day"][-1]
    assert (months.title, [*months.points]) == ("day: month", ["2", "3", "4"])
    assert months.contributions.shape == (1, 3)


def test_importance_is_that_of_scikit_learn_and_shares_add_up(runs):
    """Permutation importance, of a model that takes contributions as its columns."""
    model, data = fewpass.load_model(runs / "spent-run"), Dataset.open(str(runs / "spent-test"))
    figures = importance(model, data, InProcess())
    assert sum(one.share for one in figures.terms) == pytest.approx(1.0)
    terms = terms_of(model)
    X, y, _ = every_row(data)
    parts = X * model.weights.coef
    C = np.stack([parts[:, terms.of == t].sum(axis=1) for t in range(len(terms.names))], axis=1)
    score = C.sum(axis=1)
    shares = [np.cov(c, score, bias=True)[0, 1] / score.var() for c in C.T]

    class Sum:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X.sum(axis=1) + model.weights.intercept

        def score(self, X, y):
            return -0.5 * np.mean((self.predict(X) - y) ** 2)

    theirs = permutation_importance(Sum(), C, y, n_repeats=20, random_state=0)
    own = {one.name: one for one in figures.terms}
    for t, name in enumerate(terms.names):
        assert own[name].share == pytest.approx(shares[t], abs=1e-6)
        near = 4.0 * (own[name].standard_error + theirs.importances_std[t]) + 1e-9
        assert own[name].loss_without == pytest.approx(theirs.importances_mean[t], abs=near)


def test_cells_of_rows_that_weigh_next_to_nothing_are_not_exchanged(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 400))
    rows = np.column_stack([a, b, a + b + rng.standard_normal(400), np.ones(400)])
    odd = np.column_stack([1e3 * a, b, 1e3 * a, np.full(400, 1e-9)])[:40]
    found = []
    for name, some in (("usual", rows), ("odd", np.vstack([odd, rows]))):
        table = "\n".join(",".join(map(str, row)) for row in some.tolist())
        (tmp_path / f"{name}.csv").write_text(f"a,b,y,w\n{table}\n")
        how = {"label": "y", "weight": "w", "task": "regression", "encode": "none", "scale": "none"}
        fewpass.ingest(tmp_path / f"{name}.csv", tmp_path / name, **how)
        if name == "usual":
            fewpass.train(tmp_path / name, tmp_path / "run", lam=1e-3, loss="squared")
        model, data = fewpass.load_model(tmp_path / "run"), Dataset.open(str(tmp_path / name))
        found.append({one.name: one for one in importance(model, data, InProcess()).terms})
    usual, odd = found
    for name in "ab":
        assert odd[name].loss_without == pytest.approx(usual[name].loss_without, rel=0.3)


@pytest.mark.parametrize("target", ["kind", "bought"])
def test_importance_has_the_same_bits_for_any_workers(runs, target):
    model, data = fewpass.load_model(runs / f"{target}-run"), Dataset.open(str(runs / target))
    one, three = (importance(model, data, InProcess(threads)) for threads in (1, 3))
    assert one == three


def test_the_commands_say_it(runs, tmp_path, capsys):
    run, new = str(runs / "bought-run"), str(runs / "new.csv")
    assert main(["explain", run, new, "--rows", "2", "--unknown-features", "ignore", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["row"] for row in rows] == [1, 2]
    for row in rows:
        parts = sum(term["contribution"] for term in row["terms"])
        assert row["score"] == pytest.approx(row["base"] + parts)
    assert main(["explain", run, "--by-column", "--json"]) == 0
    by_column = json.loads(capsys.readouterr().out)
    assert by_column["dataset"].endswith("bought-test")
    assert main(["evaluate", run, str(runs / "bought-test"), "--importance", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["importance"]["terms"] == by_column["terms"]
    words = ["evaluate", run, new, "--importance", "--json", "--unknown-features", "ignore"]
    assert main(words) == 0
    files = json.loads(capsys.readouterr().out)["importance"]
    assert sum(term["share"] for term in files["terms"]) == pytest.approx(1.0)
    assert main(["report", run, "--html", "--quiet"]) == 0
    page = (runs / "bought-run/report/report.html").read_text()
    assert "Importance" in page
    assert "temperature" in page


@pytest.mark.parametrize("header", [False, True])
def test_cells_are_shown_as_they_are_written_whatever_columns_are_called(runs, tmp_path, header):
    """Of rows without names one was shown for another, and of other names they were refused."""
    columns = ["size", "city", "day"]
    table = frame(900, 0)[[*columns, "bought"]]
    table.to_csv(tmp_path / "rows.csv", index=False, header=header)
    label = "bought" if header else 3
    fewpass.ingest(tmp_path / "rows.csv", tmp_path / "data", label=label, encode="linear")
    fewpass.train(tmp_path / "data", tmp_path / "run", lam=1e-3, passes=2, verbose=0)
    table.rename(columns=lambda name: f"my {name}").to_csv(
        tmp_path / "new.csv", index=False, header=header
    )
    model = fewpass.load_model(tmp_path / "run")
    plan = ExplanationPlan(options=SourceOptions(by_position=True, label=3), rows=1)
    (shown,) = explain_rows(model, [str(tmp_path / "new.csv")], plan)
    own = dict(zip(columns if header else ["x0", "x1", "x2"], table.iloc[0], strict=False))
    assert {one.name: one.value for one in shown.terms} == {
        name: str(cell) for name, cell in own.items()
    }


def test_what_cannot_be_explained_is_refused_by_name(runs, tmp_path):
    model = fewpass.load_model(runs / "bought-run")
    with pytest.raises(BadInput, match="is a data set, which has features and no columns"):
        explain_rows(model, [str(runs / "bought")], PLAN)
    with pytest.raises(BadInput, match="one score and no class 'maybe'"):
        explain_rows(model, [str(runs / "new.csv")], ExplanationPlan(class_label="maybe"))
    three = fewpass.load_model(runs / "kind-run")
    with pytest.raises(BadInput, match=r"no scores of a class .d.. It has a, b, c"):
        explain_rows(three, [str(runs / "new.csv")], ExplanationPlan(class_label="d"))
    with pytest.raises(BadInput, match="several numbers for each row"):
        explain(model, [str(runs / "new.csv")], str(tmp_path / "o.npy"), PLAN)
    with pytest.raises(BadInput, match="no column 'name', which `keep` or `by` names"):
        explain(
            model, [str(runs / "new.csv")], str(tmp_path / "o.csv"), ExplanationPlan(keep=["name"])
        )


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"out": "why.csv"}, "Name inputs"),
        ({"inputs": "new.csv", "keep": "id"}, "`keep` is of a file of contributions"),
        ({"inputs": "new.csv", "out": "why.csv", "rows": 3}, "`rows` is of rows that are shown"),
    ],
)
def test_what_would_be_left_out_in_silence_is_refused(given, names):
    with pytest.raises(BadInput, match=names):
        fewpass.explain("run", **given)
