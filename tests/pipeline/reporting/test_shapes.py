"""Shapes of additive models: printed, written, drawn; they add up to predictions."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fewpass
from fewpass import TableEncoder
from fewpass.flows.cli import main
from fewpass.pipeline.explaining.plain_shapes import importances
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.reporting.model_shapes import function_of_pair, model_shapes
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.tables.encoding.additive_shapes import title_of
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows
from testing.shape_values import values_of


def rows(n, seed):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n)).round(3)
    town = rng.choice(["<north>", "south", "west"], n)
    day = np.datetime64("2025-01-01") + rng.integers(0, 700, n)
    score = 2 * np.abs(x) + (town == "south") * 2 * z
    kind = np.select([score > 2, score > 0.8], ["high", "middle"], "low")
    return pd.DataFrame({
        "x": x, "z": z, "town": town, "day": day.astype(str), "y": (score + rng.normal(size=n) / 9).round(4),
        "kind": kind,
    })  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    rows(1500, 0).to_csv(folder / "rows.csv", index=False)
    rows(200, 1).to_csv(folder / "new.csv", index=False)
    for name, label, other in (("run", "y", "kind"), ("classes", "kind", "y")):
        data = str(folder / f"{name}-data")
        source = ["ingest", str(folder / "rows.csv"), data, "--label", label, "--drop", other, "-q"]
        assert main([*source, "--additive", "--pairs", "z:town,x:day"]) == 0
        train = ["train", data, str(folder / name), "--lam", "1/n", "--tol", "1e-2", "-q"]
        assert main(train) == 0
    return folder


@pytest.mark.parametrize("name", ["run", "classes"])
def test_printed_shapes_add_up_to_the_score(name, work):
    model = load_model(RunFolder(str(work / name)))
    frame = pd.read_csv(work / "new.csv")
    table = pa.Table.from_pandas(frame)
    recipe = recipe_in(model.record.columns)
    cells = [table.column(column.name).combine_chunks() for column in recipe.columns]
    X = encoded(recipe, table)
    labels = ["low", "middle", "high"] if name == "classes" else [None]
    classes = sorted(filter(None, labels))
    for label in labels:
        shapes = model_shapes(model, label)
        variables = VariablesOfRows(recipe.columns, cells)
        score = shapes.constant + sum(values_of(one, variables) for one in shapes.functions)
        k = classes.index(label) if label else None
        coef, b = model.weights.coef, np.asarray(model.weights.intercept)
        wanted = X @ (coef if k is None else coef[k]) + (b if k is None else b[k])
        np.testing.assert_allclose(score, wanted, rtol=1e-9, atol=1e-9)
        shares = [one.share for one in importances([shapes])]
        assert shares == sorted(shares, reverse=True) and abs(sum(shares) - 1.0) < 1e-9


@pytest.mark.parametrize("name", ["run", "classes"])
def test_what_rows_are_told_is_what_shapes_show(name, work):
    """Term by term, also where cells are missing, or together in no row that was learnt from."""
    model, frame = load_model(RunFolder(str(work / name))), pd.read_csv(work / "new.csv")
    for step, column in ((7, "z"), (9, "x"), (11, "day")):
        frame.loc[::step, column] = np.nan
    frame.loc[::5, "town"] = "elsewhere"
    why = fewpass.load(work / name).explain(frame)
    table = pa.Table.from_pandas(frame)
    recipe = recipe_in(model.record.columns)
    cells = [table.column(column.name).combine_chunks() for column in recipe.columns]
    variables = VariablesOfRows(recipe.columns, cells)
    scores = fewpass.load(work / name).decision_function(frame) if name == "classes" else None
    for label in [None] if why.labels is None else np.unique(why.labels):
        own = slice(None) if label is None else why.labels == label
        shapes = model_shapes(model, label)
        assert [*why.names] == [title_of(one) for one in shapes.functions]
        told = np.column_stack([values_of(one, variables) for one in shapes.functions])
        np.testing.assert_allclose(why.contributions[own], told[own], atol=1e-12)
        np.testing.assert_allclose(why.base[own], shapes.constant, rtol=1e-12)
    if scores is not None:
        np.testing.assert_allclose(why.score, scores.max(axis=1), rtol=1e-12)


@pytest.mark.parametrize("name", ["run", "classes"])
def test_importance_is_of_the_functions_that_rows_are_told(name, work, tmp_path, capsys):
    """On files and on data sets; of a hundred rows whose cells the sample has."""
    model, frame = str(work / name), pd.read_csv(work / "rows.csv").head(100)
    frame.to_csv(tmp_path / "few.csv", index=False)
    data = ["ingest", str(tmp_path / "few.csv"), str(tmp_path / "few"), "-q"]
    assert main([*data, "--like", str(work / f"{name}-data")]) == 0
    why = fewpass.load(model)
    classes = [None] if name == "run" else ["high", "low", "middle"]
    each = np.stack([why.explain(frame, label).contributions for label in classes], axis=1)
    each -= each.mean(axis=1, keepdims=True) if name == "classes" else 0.0
    scores = each.sum(axis=2) - each.sum(axis=2).mean(axis=0)
    together = np.einsum("ikt,ik->t", each - each.mean(axis=0), scores)
    shares = dict(zip(why.explain(frame).names, together / np.square(scores).sum(), strict=True))
    for rows in ("few", "few.csv"):
        words = ["evaluate", model, str(tmp_path / rows), "--importance", "--json", "-q"]
        assert main(words) == 0
        terms = json.loads(capsys.readouterr().out)["importance"]["terms"]
        assert [one["name"] for one in terms] == sorted(shares, key=shares.get, reverse=True)
        for one in terms:
            assert one["share"] == pytest.approx(shares[one["name"]], abs=2e-6)


def test_the_command_lists_shapes_and_writes_them_as_json(work, capsys):
    run = str(work / "run")
    assert main(["explain", run]) == 0
    assert "z x town" in capsys.readouterr().out
    for words in (["--function", "x"], ["--function", "day"], ["--function", "town:z"]):
        assert main(["explain", run, *words]) == 0
        assert capsys.readouterr().out.strip()
    assert main(["explain", run, "--json", "-q"]) == 0
    facts = json.loads(capsys.readouterr().out)["additive"]
    names = [one["name"] for one in facts["columns"]]
    assert {"x", "z", "town", "day days", "day month"} <= set(names) and not facts["rest"]
    for one in facts["columns"]:
        assert len(one["contributions"]) == len(one["rows"]) == len(one["points"])
    pair = next(one for one in facts["pairs"] if one["name"] == "z x town")
    assert len(pair["contributions"]) == len(pair["points_a"]) and "<north>" in pair["points_b"]


@pytest.mark.parametrize(
    "wanted", [["-3", "1", "2", "2.5", "10"], ["Mon", "Tues.", "WED", "Fri", "sunday"]]
)
def test_levels_that_are_numbers_or_days_come_in_their_order(wanted, tmp_path, capsys):
    """In tables, JSON, bars and maps; words that name numbers stay words."""
    frame, named = rows(1500, 2), "|".join(map(re.escape, wanted))
    frame["stars"] = np.random.default_rng(3).choice(sorted(wanted), len(frame))
    frame["y"] += np.where(frame["stars"] == wanted[-1], 2 * frame["z"], 0.0)
    frame.drop(columns=["kind", "day"]).to_csv(tmp_path / "rows.csv", index=False)
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    source = ["ingest", str(tmp_path / "rows.csv"), data, "--label", "y", "-q"]
    assert main([*source, "--pairs", "z:stars", "--column", "stars=category", "--additive"]) == 0
    assert main(["train", data, run, "--lam", "1/n", "--tol", "1e-2", "-q"]) == 0
    assert main(["explain", run, "--json", "-q"]) == 0
    facts = json.loads(capsys.readouterr().out)["additive"]
    (own,) = (one for one in facts["columns"] if one["name"] == "stars")
    assert own["points"][:5] == facts["pairs"][0]["points_b"][:5] == wanted
    for words in (["--function", "stars"], ["--function", "z:stars"]):
        assert main(["explain", run, *words]) == 0
        found = re.findall(rf"(?<=\s)(?:{named})(?=\s)", capsys.readouterr().out)
        assert found[:5] == wanted
    assert main(["report", run, "--html", "-q"]) == 0
    page = (tmp_path / "run/report/report.html").read_text()
    assert re.findall(rf"<th class=.number.>({named})</th>", page)[:5] == wanted
    assert re.findall(rf">({named}) \(\d+\)<", page)[:5] == wanted


def test_functions_of_all_classes_stand_next_to_each_other(work, capsys):
    run = str(work / "classes")
    assert main(["explain", run, "--json", "-q"]) == 0
    every = json.loads(capsys.readouterr().out)["classes"]
    assert [one["class"] for one in every] == ["high", "low", "middle"]
    assert main(["explain", run, "--class", "low", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["additive"] == every[1]["additive"]
    for words in (["--function", "x"], ["--function", "town:z"], ["--top", "3"]):
        assert main(["explain", run, *words]) == 0
        printed = capsys.readouterr().out
        assert all(one["class"] in printed for one in every)
        if words == ["--function", "x"]:
            at_first = [one["additive"]["columns"][0]["contributions"][0] for one in every]
            assert all(f"{value:+.6g}" in printed for value in at_first)


@pytest.mark.parametrize("name", ["run", "classes"])
def test_python_has_what_the_command_writes(name, work, capsys):
    label = "low" if name == "classes" else None
    words = ["--class", "low"] if label else []
    assert main(["explain", str(work / name), *words, "--json", "-q"]) == 0
    written = json.loads(capsys.readouterr().out)["additive"]
    for model in (work / name, fewpass.from_run(work / name)):
        found = fewpass.explain(model, class_label=label)
        assert json.loads(json.dumps(found.data())) == written
    assert [one.name for one in found.columns] == [one["name"] for one in written["columns"]]
    assert all(one.points[-1] is None for one in found.columns)
    days = next(one for one in written["columns"] if one["name"] == "day days")
    assert found["day days"].points[0] == np.datetime64(days["points"][0])
    pair = found["town", "z"]
    assert pair is found["z x town"] and pair.contributions.shape == (
        len(pair.points_a), len(pair.points_b)
    )  # fmt: skip
    frame = pair.to_pandas()
    assert (
        frame.loc[pair.points_a[0], "south"] == pair.contributions[0, pair.points_b.index("south")]
    )
    assert found.to_pandas()["name"][0] == found.importances[0].name
    with pytest.raises(KeyError, match="no function 'q'"):
        found["q"]


def test_functions_of_an_estimator_add_up_to_its_predictions():
    """Put together from points and contributions alone, as a notebook would."""
    frame = rows(600, 4)[["x", "town", "y"]]
    frame.loc[::9, "x"] = np.nan
    X, y = frame[["x", "town"]], frame["y"]
    model = fewpass.LinearRegressor(encode="splines", tol=1e-3, clip=False).fit(X, y)
    found = model.shapes()
    x, town = found["x"], found["town"]
    curve = np.interp(X["x"], x.points[:-1], x.contributions[:-1])
    curve = np.where(X["x"].isna(), x.contributions[-1], curve)
    bars = X["town"].map(dict(zip(town.points, town.contributions, strict=True)))
    np.testing.assert_allclose(found.constant + curve + bars, model.predict(X), atol=1e-9)
    assert x.to_pandas()["rows"].sum() == pytest.approx(len(X)) == town.rows.sum()
    piped = make_pipeline(TableEncoder(additive="splines"), Ridge()).fit(X, y)
    assert fewpass.explain(piped)["town"].points == [*town.points]
    with pytest.raises(ValueError, match="has no curves"):
        fewpass.LinearRegressor(encode="always", tol=1e-3).fit(X, y).shapes()
    with pytest.raises(ValueError, match="pipeline of two steps"):
        fewpass.explain(make_pipeline(StandardScaler(), Ridge()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--function", "q"], "no shape of a column"),
        (["run", "--function", "x:z"], "no pair 'x:z'"),
        (["classes", "--class", "huge"], "no scores of a class 'huge'"),
        (["run", "--rows", "3"], "--rows is about rows"),
        (["run", "new.csv", "--function", "x"], "Leave --function or INPUT out"),
        (["run", "--by-column", "--function", "x:z"], "Leave --function or --by-column out"),
        (["run", "--function", "x", "--csv"], "Leave --csv or --function out"),
        (["run", "--by-column", "--class", "low"], "Leave --class or --by-column out"),
        (["run", "--function", "x", "--top", "3"], "Leave --top or --function out"),
        (["run", "--held-out", "data"], "add --by-column"),
    ],
)
def test_what_has_no_shape_is_refused(words, said, work, capsys):
    assert main(["explain", str(work / words[0]), *words[1:]]) == 2
    assert said in capsys.readouterr().err


def test_a_pair_is_found_by_its_columns_whatever_these_are_called():
    titles = [("a:b", "c"), ("a", "b"), ("x ", "y")]
    pairs = [
        SimpleNamespace(table=SimpleNamespace(of=[SimpleNamespace(title=one) for one in pair]))
        for pair in titles
    ]
    for name, k in (("a:b:c", 0), ("c:a:b", 0), ("b : a", 1), ("y:x", 2)):
        assert function_of_pair(SimpleNamespace(pairs=pairs), name) is pairs[k]


@pytest.mark.parametrize("rows", [[], ["new.csv"]])
def test_python_refuses_a_number_where_it_returns_all(rows, work):
    with pytest.raises(ValueError, match="top = 3 is of weights"):
        fewpass.explain(work / "run", *(work / name for name in rows), top=3)


def test_a_linear_model_has_no_shapes(work, tmp_path, capsys):
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    source = ["ingest", str(work / "new.csv"), data, "--label", "y", "--encode", "linear", "-q"]
    assert main(source) == 0 and main(["train", data, run, "--tol", "1e-2", "-q"]) == 0
    assert main(["explain", run, "--function", "x"]) == 2
    assert "has no curves" in capsys.readouterr().err


def test_pages_and_card_show_them(work, capsys):
    run = str(work / "run")
    assert main(["explain", run, "--html", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    page = Path(told["page"]).read_text()
    assert all(f"<h3>{one['name']}</h3>" in page for one in told["additive"]["pairs"])
    assert "&lt;north&gt;" in page and "<north>" not in page
    assert main(["report", run, "--html", "-q"]) == 0
    page = (work / "run/report/report.html").read_text()
    assert "Importance" in page and "z x town" in page
    assert "&lt;north&gt;" in page and "<north>" not in page
    assert "## Form" in model_card(RunFolder(run))
