"""Rows stored as codes: the same features as by the slots of their recipe, bit for bit."""

import numpy as np
import pyarrow as pa
import pytest

from fewpass.pipeline.tables.additive.choosing import with_form
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.encoding.applying import encode, in_slots
from fewpass.pipeline.tables.encoding.expansion import has_codes
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted

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
    return with_form(today, rows.columns, None, asked, 0).recipe


def cells_of(recipe, rows):
    return [rows.column(column.name).combine_chunks() for column in recipe.columns]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 3001])
def test_codes_make_the_features_of_the_slots(recipe, n, dtype):
    assert has_codes(recipe)
    cells = cells_of(recipe, table(n, seed=1))
    made, wanted = encode(recipe, cells), in_slots(recipe, cells)
    assert (made.n_rows, made.n_outputs) == (wanted.n_rows, wanted.n_outputs)
    for mine, other in zip(made.sparse(dtype), wanted.sparse(dtype), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(made.dense(dtype), wanted.dense(dtype))
    assert [k for k, _ in made.words] == [k for k, _ in wanted.words] and made.bad == wanted.bad
