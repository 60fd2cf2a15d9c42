"""Models in memory: one row, many rows and the recipe say the same."""

import datetime as dt
import json
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.model_form import form_of
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.pipeline.models.serving.loaded_model import LoadedModel
from tests.pipeline.models.export.exported_rows import (
    model_of,
    recipe_of,
    table,
    with_curves,
)
from tests.pipeline.odd_cells import scorer


@pytest.fixture(scope="module")
def rows():
    return table()


@pytest.fixture(scope="module")
def recipe(rows):
    return with_curves(recipe_of(rows))


def test_classes_are_told_and_probabilities_only_where_there_are_some(rows, recipe):
    loaded = LoadedModel(model_of(recipe, "two classes, no probabilities"), "run", "1")
    assert list(loaded.classes) == [0, 1]
    with pytest.raises(BadInput, match="has no probabilities"):
        loaded.predict_proba(rows)


def test_what_a_row_must_be(rows, recipe):
    loaded = LoadedModel(model_of(recipe, "numbers"), "run", "1")
    row = rows.to_pylist()[0]
    assert loaded.predict_one(row) == loaded.predict_one(row | {"id": 7})
    without = {name: cell for name, cell in row.items() if name != "age"}
    for given in (loaded.predict_one, lambda row: loaded.predict([row])):
        with pytest.raises(BadInput, match=r"The row has no column 'age'. Give it; None if"):
            given(without)
    assert loaded.predict_one(row | {"age": "old"}) == loaded.predict_one(row | {"age": None})
    with pytest.raises(BadInput, match="Column 'day' is 'one day', but a date was expected"):
        loaded.predict_one(row | {"day": "one day"})
    with pytest.raises(BadInput, match="but a date was expected"):
        loaded.predict_one(row | {"day": "2020-03-04\v"})
    for name in ("age", "day"):
        for cell in ([1], {"a": 1}, b"\xff"):
            with pytest.raises(BadInput, match=f"Column '{name}' is .*, which is no value of it"):
                loaded.predict_one(row | {name: cell})
    with pytest.raises(BadInput, match="Column 'map' is "):
        loaded.predict_one(row | {"map": [None]})  # of which Arrow makes an end of the process
    for odd in (["u", "v", "w"], ["3", "4", "5"], [[1.0], [2.0], [3.0]], [10**400, 0, 0]):
        with pytest.raises(BadInput, match="Column 'embedding' is "):
            loaded.predict_one(row | {"embedding": odd})
    with pytest.raises(BadInput, match="Column 'tags' is 'good'"):  # and no list of letters
        loaded.predict_one(row | {"tags": "good"})
    first = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))  # in UTC of year 0
    assert loaded.predict_one(row | {"day": first}) == loaded.predict_one(row | {"day": None})
    with pytest.raises(BadInput, match="Give one row to predict_one"):
        loaded.predict(row)
    empty = dict.fromkeys(row)
    assert loaded.predict_one(empty)["prediction"] == pytest.approx(loaded.predict([empty])[0])


def test_a_run_is_loaded_and_its_rows_are_quick(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = table(600).select(["age", "paid", "city", "day", "price"]).to_pandas()
    rows["bought"] = np.where(rng.random(600) < 0.3, "yes", "no")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    fewpass.ingest(tmp_path / "rows.csv", tmp_path / "set", label="bought")
    result = fewpass.train(tmp_path / "set", tmp_path / "run", passes=3)
    monkeypatch.chdir(tmp_path)
    loaded = fewpass.load("run")
    monkeypatch.chdir("/")
    why = loaded.explain(rows[:9])
    np.testing.assert_allclose(why.score, loaded.decision_function(rows[:9]), atol=1e-9)
    assert loaded.columns == ("age", "paid", "city", "day", "price")
    assert loaded.classes == ("no", "yes")
    assert result.weights_sha256.startswith(loaded.version)
    assert loaded.health["status"] == "ok"
    fewpass.predict(
        tmp_path / "run", tmp_path / "rows.csv", tmp_path / "p.parquet", probability=True
    )
    wanted = pd.read_parquet(tmp_path / "p.parquet")["probability_yes"].to_numpy()
    dicts = rows.astype(object).where(rows.notna(), None).to_dict("records")
    began = time.thread_time()  # what other tests left may be at work in this process
    found = [loaded.predict_one(row)["probabilities"]["yes"] for row in dicts]
    of_each = time.thread_time() - began
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    for row in dicts:
        loaded.predict([row])
    assert of_each < time.thread_time() - began - of_each  # a table of one row takes longer


def test_a_model_of_plain_numbers_by_their_names(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 3)), columns=list("abc")).assign(y=1.0)
    frame["y"] = frame.a - 2 * frame.b
    frame.to_parquet(tmp_path / "rows.parquet")
    fewpass.ingest(tmp_path / "rows.parquet", tmp_path / "set", label="y", encode="none")
    fewpass.train(tmp_path / "set", tmp_path / "run", passes=3)
    loaded = fewpass.load(tmp_path / "run")
    many = loaded.predict(frame)
    one = [loaded.predict_one(row)["prediction"] for row in frame.to_dict("records")]
    np.testing.assert_allclose(one, many)
    with pytest.raises(BadInput, match="Column 'b' is None, but a number was expected"):
        loaded.predict_one({"a": 1.0, "b": None, "c": 2.0})
    with pytest.raises(BadInput, match=r"Column 'b' is .* in row 1, but a number was expected"):
        loaded.predict([{"a": 1, "b": 1, "c": 1}, {"a": 1, "b": None, "c": 1}])
    with pytest.raises(BadInput, match="Column 'b' is inf, but a number was expected"):
        loaded.predict_one({"a": 1.0, "b": float("inf"), "c": 2.0})


def test_further_columns_of_a_frame_may_hold_anything(rows, recipe):
    """As those of a mapping may: two of a name, sparse ones, of no one type."""
    loaded = LoadedModel(model_of(recipe, "two classes"), "run", "1")
    simple = rows.drop_columns(["map"])
    others = LoadedModel(model_of(recipe_of(simple), "two classes"), "run", "1")
    frame = simple.to_pandas()
    more = frame.assign(what=[object()] * len(frame), few=pd.arrays.SparseArray([0] * len(frame)))
    more = pd.concat([more, more[["few"]]], axis=1)
    np.testing.assert_array_equal(others.decision_function(more), others.decision_function(simple))
    with pytest.raises(BadInput, match="Column 'age' of X is of no one type"):
        others.predict(frame.assign(age=[1, "one"] * (len(frame) // 2)))
    with pytest.raises(BadInput, match="2 columns are named 'age'"):
        loaded.predict(rows.append_column("age", rows["age"]))
    coded = rows.set_column(
        rows.schema.get_field_index("price"), "price", rows["price"].cast("binary")
    )
    np.testing.assert_array_equal(loaded.predict(coded), loaded.predict(rows))


def test_a_column_of_lists_may_be_all_missing(rows, recipe):
    loaded = LoadedModel(model_of(recipe, "numbers"), "run", "1")
    for name in ("embedding", "tags", "map"):
        place, of = rows.schema.get_field_index(name), rows.schema.field(name).type
        typed, untyped = (rows.set_column(place, name, pa.nulls(len(rows), k)) for k in (of, None))
        np.testing.assert_array_equal(loaded.predict(untyped), loaded.predict(typed))


def test_members_of_objects_are_columns_of_dotted_names_as_in_json_lines(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"n": k % 7, "user": {"age": int(age), "at": {"city": city}} if k % 9 else None}
        for k, (age, city) in enumerate(
            zip(rng.integers(18, 90, 300), rng.choice(["Bern", "Oslo"], 300).tolist(), strict=True)
        )
    ]
    labels = [int(bool(row["user"]) and row["user"]["age"] > 50) for row in rows]
    lines = [json.dumps(row | {"y": y}) for row, y in zip(rows, labels, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    fewpass.ingest(tmp_path / "rows.jsonl", tmp_path / "set", label="y", encode="linear")
    fewpass.train(tmp_path / "set", tmp_path / "run", lam=0.01, passes=2)
    fewpass.predict(tmp_path / "run", tmp_path / "rows.jsonl", tmp_path / "p.parquet")
    wanted = pd.read_parquet(tmp_path / "p.parquet")["score"].to_numpy()
    loaded, form = fewpass.load(tmp_path / "run"), form_of(of_run(str(tmp_path / "run")))
    assert set(loaded.columns) == {"n", "user.age", "user.at.city"}
    document = json.loads(form.model_dump_json())
    for found in (
        loaded.decision_function(rows), [loaded.predict_one(row)["score"] for row in rows],
        [scorer()["predict"](document, row)["scores"][0] for row in rows],
    ):  # fmt: skip
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    with pytest.raises(BadInput, match=r"The row has no column 'user.at.city'"):
        loaded.predict_one({"n": 1, "user": {"age": 3, "at": {}}})
