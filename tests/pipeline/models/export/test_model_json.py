"""model.json, scored by examples/score_json.py, which needs nothing but Python."""

import datetime as dt
import json
import re
import runpy
import sys

import numpy as np
import pytest

from fewpass.pipeline.models.export.export_formats import as_json
from fewpass.pipeline.models.export.model_form import form_of
from fewpass.pipeline.models.serving.one_row import row_scorer
from tests.conftest import PROJECT
from tests.pipeline.models.export.exported_rows import (
    MODELS,
    SPELLINGS,
    dates_as_written,
    expected_of,
    flags_and_codes,
    model_of,
    odd_dates,
    odd_numbers,
    recipe_of,
    table,
    with_curves,
)


@pytest.fixture(scope="module")
def program():
    path = PROJECT / "examples/score_json.py"
    imported = re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
    assert imported
    assert not set(imported) - sys.stdlib_module_names
    return runpy.run_path(str(path), run_name="score")


@pytest.fixture(scope="module")
def rows():
    return table(1200)


@pytest.fixture(scope="module")
def recipe(rows):
    return with_curves(recipe_of(rows))


def written(rows):
    """Rows as JSON has them."""
    plain = lambda v: v.isoformat() if isinstance(v, dt.date) else v  # noqa: E731
    return [
        json.loads(json.dumps({name: plain(v) for name, v in row.items()}))
        for row in rows.to_pylist()
    ]


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_column_and_of_model(program, rows, recipe, name):
    model, few = model_of(recipe, name), rows.slice(0, 120)
    document = json.loads(as_json(model))
    got = [program["predict"](document, row) for row in written(few)]
    for key, values in expected_of(model, few).items():
        found = [answer[key] for answer in got]
        if key == "label":
            assert [str(a) for a in found] == [str(a) for a in values]
        else:
            found = np.array(found)
            found = found[:, 0] if found.ndim > values.ndim else found
            np.testing.assert_allclose(found, values, rtol=1e-10, atol=1e-10)


def test_text_is_a_number_where_predict_takes_it_for_one(program, rows, recipe):
    model, (texts, meant) = model_of(recipe, "numbers")._replace(bounds=None), odd_numbers(rows)
    document = json.loads(as_json(model))
    got = [program["predict"](document, row)["prediction"] for row in written(texts)]
    np.testing.assert_allclose(got, expected_of(model, meant)["prediction"], rtol=1e-10)


@pytest.mark.parametrize("learnt", SPELLINGS)
@pytest.mark.parametrize("given", SPELLINGS)
def test_true_is_true_and_1_is_1_however_they_are_written(program, learnt, given):
    rows, others = flags_and_codes(learnt), flags_and_codes(given)
    model = model_of(recipe_of(rows, flag="category", code="category"), "numbers")
    model = model._replace(bounds=None)
    expected = expected_of(model, rows)["prediction"]
    assert len(set(expected.tolist())) == 12
    np.testing.assert_array_equal(expected_of(model, others)["prediction"], expected)
    document, score = json.loads(as_json(model)), row_scorer(form_of(model))
    for row, wanted in zip(written(others), expected, strict=True):
        assert program["predict"](document, row)["prediction"] == pytest.approx(wanted)
        assert score(row)[0] == pytest.approx(wanted)


def test_dates_are_read_as_predict_reads_them(program):
    rows = dates_as_written()
    recipe = recipe_of(rows)
    assert {one.kind for one in recipe.columns} == {"date"}
    model = model_of(recipe, "numbers")._replace(bounds=None)
    document = json.loads(as_json(model))
    got = [program["predict"](document, row)["prediction"] for row in rows.to_pylist()]
    np.testing.assert_allclose(got, expected_of(model, rows)["prediction"], rtol=1e-10)


def test_a_date_is_one_where_predict_takes_it_for_one(program):
    recipe, given, meant = odd_dates()
    model = model_of(recipe, "numbers")._replace(bounds=None)
    document, score = json.loads(as_json(model)), row_scorer(form_of(model))
    expected = expected_of(model, meant)["prediction"]
    assert len(set(expected.tolist())) == 6
    for row, wanted in zip(given.to_pylist(), expected, strict=True):
        assert program["predict"](document, row)["prediction"] == pytest.approx(wanted)
        assert score(row)[0] == pytest.approx(wanted)
