"""Rows stored as codes: the same features as by the terms of their recipe, bit for bit."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fewpass.pipeline.tables.additive.choosing import with_form
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.additive.smoothing import with_factors
from fewpass.pipeline.tables.encoding.applying import by_terms, encode, encoded
from fewpass.pipeline.tables.encoding.expansion import has_codes
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.recipe import Recipe

PAIRS = (("x", "z"), ("x", "word"), ("word", "day"), ("day", "when"), ("z", "when"))


def table(n, seed=0):
    """Numbers with gaps, a spike and words among them, categories, dates, ranges."""
    drawn = np.random.default_rng(seed)
    x, z = drawn.normal(size=n), np.exp(3 * drawn.normal(size=n)).round(1)
    z[drawn.random(n) < 0.4] = 0.0
    few = np.array(["a", "b", "c", "déjà", ""])[drawn.integers(0, 5, n)]
    when = np.datetime64("2024-01-01T00:00") + drawn.integers(0, 600_000, n).astype("m8[m]")
    return pa.table({
        "x": pa.array(x, mask=drawn.random(n) < 0.1),
        "z": [*map(str, z[:-1]), "none at all"],
        "word": pa.array(few, mask=drawn.random(n) < 0.1),
        "when": pa.array(when.astype("M8[us]"), mask=drawn.random(n) < 0.05),
        "day": ["Mon", "Tue", "Wed"] * (n // 3) + ["Thu"] * (n % 3),
        "w": drawn.integers(0, 9, n).astype(float),
    })  # fmt: skip


@pytest.fixture(scope="module")
def recipe():
    rows = table(3000)
    today = fitted(rows, RecipeRules(kinds={"w": "bins:4", "z": "number"}))
    asked = AskedForm(pairs=PAIRS)
    made = with_form(today, rows.columns, None, asked, 0).recipe
    return with_factors(made, [2.0 ** (k / 4 - 2) for k in range(len(made.parts))])


@pytest.fixture(scope="module")
def whole_recipe():
    """Of a sample without gaps."""
    rows = table(3000).drop_null().drop_columns("z")
    pairs = [pair for pair in PAIRS if "z" not in pair]
    today = fitted(rows, RecipeRules(kinds={"w": "number"}))
    return with_form(today, rows.columns, None, AskedForm(pairs=[*pairs, ("x", "w")]), 0).recipe


def cells_of(recipe, rows):
    return [rows.column(column.name).combine_chunks() for column in recipe.columns]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 3001])
@pytest.mark.parametrize("of", ["recipe", "whole_recipe"])
def test_codes_make_the_features_of_the_terms(of, n, dtype, request):
    """Also of a sample without gaps, and rows that have some."""
    recipe = request.getfixturevalue(of)
    assert has_codes(recipe)
    cells = cells_of(recipe, table(n, seed=1))
    made, wanted = encode(recipe, cells), by_terms(recipe, cells)
    assert (made.n_rows, made.n_outputs) == (wanted.n_rows, wanted.n_outputs)
    for mine, other in zip(made.sparse(dtype), wanted.sparse(dtype), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(made.dense(dtype), wanted.dense(dtype))
    assert [k for k, _ in made.words] == [k for k, _ in wanted.words] and made.bad == wanted.bad


def test_a_number_that_is_missing_only_later_counts_as_the_mean(whole_recipe):
    rows = table(500, seed=2)
    x, w = (column for column in whole_recipe.columns if column.name in "xw")
    filled = rows.set_column(0, "x", rows["x"].fill_null(x.mean))
    assert rows["x"].null_count and not x.has_missing
    gaps = pa.array(np.arange(500) % 5 == 0)
    rows = rows.set_column(5, "w", pc.if_else(gaps, None, rows["w"]))
    filled = filled.set_column(5, "w", pc.if_else(gaps, w.mean, filled["w"]))
    made, wanted = (
        encoded(whole_recipe, part.select([c.name for c in whole_recipe.columns]))
        for part in (rows, filled)
    )
    for mine, other in zip(
        (made.indptr, made.indices, made.data), (wanted.indptr, wanted.indices, wanted.data),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(mine, other)


def test_recipes_that_are_stored_keep_their_bits(whole_recipe, recipe):
    """Without the number that missing ones count as, these have no curve, as before."""
    as_before = without_means(json.loads(whole_recipe.model_dump_json()))
    cells = cells_of(whole_recipe, table(500, seed=2))
    old, new = (encode(one, cells).sparse(np.float64) for one in (as_before, whole_recipe))
    at = [column.name for column in whole_recipe.columns].index("x")
    missing = cells[at].is_null().to_numpy(zero_copy_only=False)
    assert (np.diff(old[2])[missing] < np.diff(new[2])[missing]).all()
    assert "missing_as" not in recipe.additive.splines[0].model_dump_json()
    dumped = json.loads(as_before.model_dump_json())
    assert Recipe.model_validate(dumped).model_dump_json() == as_before.model_dump_json()


def without_means(written):
    for part in (*written["additive"]["splines"], *written["additive"]["pairs"]):
        for of in (part, part.get("a", {}), part.get("b", {})):
            of.pop("missing_as", None)
    return Recipe.model_validate(written)
