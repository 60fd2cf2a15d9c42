"""A model and rows say the same whichever way they are scored: exported to any format, or served."""

import datetime as dt
import json
import re
import runpy
import sys

import numpy as np
import pyarrow as pa
import pytest
from onnxruntime import InferenceSession

from fewpass.pipeline.models.export.export_formats import as_json, as_onnx
from fewpass.pipeline.models.export.sql_select import as_select
from fewpass.pipeline.models.serving.loaded_model import LoadedModel
from fewpass.pipeline.tables.additive.choosing import with_form
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from tests.conftest import PROJECT
from tests.pipeline.models.export.exported_rows import (
    LISTS,
    MODELS,
    SPELLINGS,
    assert_answers,
    dates_as_written,
    expected_of,
    feeds_of,
    flags_and_codes,
    model_of,
    of_sql,
    recipe_of,
    table,
    with_curves,
)

SCORER = PROJECT / "examples/score_json.py"
#: Columns that a way has not; of SQL, words that are hashed, too.
NOT_OF_SQL = ("review", "title", "embedding", *LISTS)
WAYS = {
    "model.json": (), "one row": (), "many rows": (), "ONNX": LISTS, "duckdb": NOT_OF_SQL,
    "postgres": NOT_OF_SQL,
}  # fmt: skip
#: Values of columns that the sample does not have.
ODD = {
    "age": -5, "paid": 1e30, "rooms": 1e9, "city": "Zürich", "user": "nobody", "shop": "",
    "day": "1931-02-28", "us": "12/31/2099", "at": "2030-01-01 23:59:59", "review": "?!", "ts": -1,
    "title": "a",
}  # fmt: skip


# -- ways ------------------------------------------------------------------------------------------


def by_document(model, rows):
    predict = runpy.run_path(str(SCORER), run_name="score")["predict"]
    document = json.loads(as_json(model))
    plain = lambda v: v.isoformat() if isinstance(v, dt.date) else v  # noqa: E731
    written = [json.dumps({n: plain(v) for n, v in row.items()}) for row in rows.to_pylist()]
    return columns_of([predict(document, json.loads(row)) for row in written])


def one_by_one(model, rows):
    loaded = LoadedModel(model, "run", "1")
    each = [loaded.predict_one(row) for row in rows.to_pylist()]
    if "probabilities" in each[0]:
        each = [one | {"probabilities": [*one["probabilities"].values()]} for one in each]
    return columns_of([{n: v for n, v in one.items() if n != "score"} for one in each])


def columns_of(answers):
    return {name: np.array([one[name] for one in answers]) for name in answers[0]}


def together(model, rows):
    loaded = LoadedModel(model, "run", "1")
    if model.classes is None:
        return {"prediction": loaded.predict(rows)}
    probable = {"probabilities": loaded.predict_proba(rows)} if model.has_probabilities else {}
    return {"label": loaded.predict(rows), "scores": loaded.decision_function(rows)} | probable


def by_onnx(model, rows):
    session = InferenceSession(as_onnx(model))
    feeds = feeds_of(model.recipe, rows)
    assert {one.name for one in session.get_inputs()} == set(feeds)
    names = [output.name for output in session.get_outputs()]
    got = dict(zip(names, session.run(None, feeds), strict=True))
    return {"prediction": got["variable"][:, 0]} if "variable" in got else got


def by_sql(dialect, databases, model, rows):
    return of_sql(databases.answers(dialect, as_select(model, dialect, "input"), rows))


@pytest.fixture(params=WAYS)
def way(request, databases):
    """What scores rows, and the columns that it has not."""
    own = {"model.json": by_document, "one row": one_by_one, "many rows": together, "ONNX": by_onnx}
    score = own.get(request.param) or (lambda *of: by_sql(request.param, databases, *of))
    return score, WAYS[request.param]


def assert_same(score, model, rows, wanted=None):
    assert_answers(score(model, rows), wanted or expected_of(model, rows))


# -- laws ------------------------------------------------------------------------------------------


def with_odd_rows(rows):
    """Nothing at all, and unseen words, far numbers, a day before and after, no word in a text."""
    empty = pa.table({f.name: pa.nulls(1, f.type) for f in rows.schema}, schema=rows.schema)
    odd = {name: value for name, value in ODD.items() if name in rows.column_names}
    strange = rows.slice(0, 1).to_pylist()[0] | odd
    return pa.concat_tables([rows, empty, pa.Table.from_pylist([strange], schema=rows.schema)])


@pytest.fixture(scope="module")
def carried():
    """Rows of every kind of column that a way has, and their recipe."""

    def of(left_out):
        if left_out not in made:
            rows = table().drop_columns([*left_out])
            recipe = recipe_of(rows, **({"user": "category"} if "review" in left_out else {}))
            if "review" in left_out:
                recipe = recipe.model_copy(update={"crosses": ()})
            made[left_out] = with_odd_rows(rows.slice(0, 100)), with_curves(recipe)
        return made[left_out]

    made = {}
    return of


def test_the_program_that_scores_a_document_needs_python_alone():
    imported = re.findall(r"^(?:import|from) (\w+)", SCORER.read_text(), re.MULTILINE)
    assert imported and not set(imported) - sys.stdlib_module_names


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_column_and_of_model(way, carried, name):
    rows, recipe = carried(way[1])
    assert_same(way[0], model_of(recipe, name), rows)


def test_the_program_reads_cells_as_a_model_in_memory_does(carried):
    rows, recipe = carried(())
    model = model_of(recipe, "numbers")._replace(bounds=None)
    predict = runpy.run_path(str(SCORER), run_name="score")["predict"]
    document, loaded = json.loads(as_json(model)), LoadedModel(model, "run", "1")
    row = rows.drop_columns(["typed"]).to_pylist()[0] | {"typed": "2020-03-04"}
    same = {"rooms": "inf", "ts": "-Infinity", "day": "2020-03-04 05:06:07 UTC (noon)"}
    same["at"] = "1850-03-04 05:06:07-04:56:02"  # of New York, before there were zones
    for name, cell in same.items():
        given = row | {name: cell}
        wanted = loaded.predict_one(given)["prediction"]
        assert predict(document, given)["prediction"] == pytest.approx(wanted, abs=1e-10), name
    for name, cell in {"day": "2020-03-04\xa0", "embedding": [1.0]}.items():
        for score in (loaded.predict_one, lambda row: predict(document, row)):
            with pytest.raises(ValueError, match=r"2020-03-04|\[1\.0\]"):
                score(row | {name: cell})


def test_curves_of_a_sample_without_gaps_and_rows_that_have_some(way):
    """Those of a sample with gaps are test_one_answer.py's."""
    rows = table(400).select(["age", "paid", "rooms", "price", "city"])
    sample = rows.drop_null()
    cells = [column.combine_chunks() for column in sample.columns]
    today = fitted(sample, RecipeRules(n_rows=sample.num_rows))
    asked = AskedForm(pairs=[("age", "paid"), ("paid", "city")])
    recipe = with_form(today, cells, None, asked, 0).recipe
    assert recipe.additive.splines
    assert_same(way[0], model_of(recipe, "counts"), rows)


def test_dates_in_all_ways_to_write_them(way):
    rows = dates_as_written()
    recipe = recipe_of(rows)
    assert {one.kind for one in recipe.columns} == {"date"}
    assert_same(way[0], model_of(recipe, "numbers")._replace(bounds=None), rows)


@pytest.mark.parametrize(("learnt", "given"), SPELLINGS)
def test_true_is_true_and_1_is_1_however_they_are_written(way, learnt, given):
    """In text of ONNX, too, whose tensors have no flags."""
    rows = flags_and_codes(learnt)
    if way[0] is by_onnx and given == "typed":
        given = "JSON"
    recipe = recipe_of(rows, flag="category", code="category")
    model = model_of(recipe, "numbers")._replace(bounds=None)
    wanted = expected_of(model, rows)
    assert len(set(wanted["prediction"].tolist())) == 12
    assert_same(way[0], model, flags_and_codes(given), wanted)
