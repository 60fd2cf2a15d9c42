"""Curves as the rules make them, in all exports and in serving."""

import json
import runpy

import duckdb
import numpy as np
import pytest
from onnxruntime import InferenceSession

from fewpass.pipeline.models.export.export_formats import as_json, as_onnx
from fewpass.pipeline.models.export.sql_select import as_select
from fewpass.pipeline.models.serving.loaded_model import LoadedModel
from fewpass.pipeline.tables.additive.choosing import with_form
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from tests.conftest import PROJECT
from tests.pipeline.models.export.exported_rows import expected_of, feeds_of, model_of, table


def recipe_of(rows, **asked):
    cells = [column.combine_chunks() for column in rows.columns]
    today = fitted(rows, RecipeRules(n_rows=rows.num_rows))
    return with_form(today, cells, None, AskedForm(**asked), 0).recipe


@pytest.fixture(scope="module")
def rows():
    return table(400).select(["age", "paid", "rooms", "price", "city"])


@pytest.fixture(scope="module", params=["of the sample", "only later"])
def model(rows, request):
    """Cells are missing in the sample, too, or only in rows that are scored."""
    if request.param == "only later":
        pairs = [("age", "paid"), ("paid", "city")]
        return model_of(recipe_of(rows.drop_null(), pairs=pairs), "counts")
    recipe = recipe_of(rows, form="splines")
    assert len(recipe.additive.splines) == 4
    return model_of(recipe, "counts")


@pytest.fixture(scope="module")
def wanted(model, rows):
    return expected_of(model, rows)["prediction"]


def test_served_one_by_one(model, rows, wanted):
    loaded = LoadedModel(model, "run", "1")
    got = [loaded.predict_one(row)["prediction"] for row in rows.to_pylist()]
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


def test_as_json_sql_and_onnx(model, rows, wanted):
    program = runpy.run_path(str(PROJECT / "examples/score_json.py"), run_name="score")
    document = json.loads(as_json(model))
    got = [program["predict"](document, row)["prediction"] for row in rows.to_pylist()]
    np.testing.assert_allclose(np.ravel(got), wanted, rtol=1e-9, atol=1e-9)
    database = duckdb.connect()
    database.register("input", rows)
    answer = database.sql(as_select(model)).to_arrow_table()
    np.testing.assert_allclose(answer.column("predicted").to_numpy(), wanted, rtol=1e-9, atol=1e-9)
    session = InferenceSession(as_onnx(model))
    (prediction,) = session.run(["variable"], feeds_of(model.recipe, rows))
    np.testing.assert_allclose(np.ravel(prediction), wanted, rtol=1e-9, atol=1e-9)
