"""A recipe that was changed is refused on reading, or makes numbers of cells all the same."""

import base64
import copy
import json
import math
import zlib

import numpy as np
import pyarrow as pa
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.schema import encoding_of, recipe_in
from fewpass.storage.column_schema import Schema

N = 400
NO_NUMBERS = (math.nan, math.inf, -math.inf, "NaN", "Infinity", 10**400, None, [])
ODD = (0.0, -1.0, 1.0, 1e-320, 1e30, -1e30, 1e308, -1e308)


def a_table():
    """A column of every kind of recipe, with gaps."""
    rng = np.random.default_rng(0)
    first, days = np.datetime64("2024-01-01", "s"), rng.integers(0, 90 * 86_400, N)
    paid = np.where(rng.random(N) < 0.4, 0.0, rng.lognormal(3, 2, N))
    words = np.array(["red", "green", "blue"])[rng.integers(0, 3, N)]
    return pa.table({
        "number": rng.normal(5, 2, N), "paid": pa.array(paid, mask=rng.random(N) < 0.1),
        "tails": rng.normal(0, 1, N) ** 5, "bins": rng.normal(0, 1, N), "day": first + days, "word": words,
        "id": [f"user {k % 300}" for k in range(N)],
        "said": [" ".join(rng.choice(["a", "rose", "is", "red"], 6)) for _ in range(N)],
        "vector": [rng.normal(0, 1, 3).tolist() for _ in range(N)],
        "tags": [rng.choice(["x", "y", "z"], 2).tolist() for _ in range(N)],
        "map": pa.array([[("a", 1.5), ("b", float(k))] for k in range(N)],
                        pa.map_(pa.string(), pa.float64())),
    })  # fmt: skip


TABLE = a_table()
ASKED = {"bins": "bins:4", "id": "hash", "said": "text"}
RECIPE = fitted(TABLE, RecipeRules(kinds=ASKED, bits=8, crosses=(("word", "bins"),)))


def read(document):
    """Read a recipe as from a file."""
    names = tuple(TABLE.column_names)
    kept = {"n_features": RECIPE.n_outputs, "recipe": document}
    types = ("number",) * len(names)
    return recipe_in(Schema.model_validate({"names": names, "types": types, "encoding": kept}))


def written():
    return json.loads(json.dumps(encoding_of(RECIPE).recipe))


def numbers_in(document, path=()):
    """Every number of a recipe, by where it stands."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, held in items:
        if isinstance(held, dict | list):
            yield from numbers_in(held, (*path, key))
        elif isinstance(held, float | int) and not isinstance(held, bool):
            yield (*path, key)


def changed(path, value):
    document = copy.deepcopy(written())
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return document


PLACES = list(numbers_in(written()))
KINDS = {column["kind"] for column in written()["columns"]}


def test_every_kind_is_here_and_reads_as_written():
    assert {
        "number", "bins", "date", "category", "hashed", "text", "vector", "tags", "map",
    } == KINDS  # fmt: skip
    assert any(path[-1] == "lowest" for path in PLACES)
    assert any("rank" in path for path in PLACES)
    assert read(written()) == RECIPE


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_by_name(value):
    for path in PLACES:
        if value is None and path[-1] in ("lowest", "last"):
            continue  # there need not be one
        with pytest.raises(BadInput) as told:
            read(changed(path, value))
        field = next(key for key in reversed(path) if isinstance(key, str))
        assert field in str(told.value), path
        assert "\n" not in str(told.value)
        if path[0] == "columns":
            assert repr(TABLE.column_names[path[1]]) in str(told.value)


def test_an_odd_number_is_refused_or_makes_features():
    whole = encoded(RECIPE, TABLE, np.float32)
    assert np.isfinite(whole.data).all()
    refused = 0
    for path in PLACES:
        for value in ODD:
            try:
                recipe = read(changed(path, value))
            except BadInput:
                refused += 1
                continue
            with np.errstate(over="ignore"):
                made = encoded(recipe, TABLE, np.float32)
            assert made.shape == whole.shape
            assert np.isfinite(made.data).all(), (path, value)
    assert refused > len(PLACES)


@pytest.mark.parametrize("value", [0.0, -0.0, -2.5, 0])
def test_a_deviation_is_above_0(value):
    for path in PLACES:
        if "deviation" in path or "scale" in path:
            with pytest.raises(BadInput, match="greater than 0"):
                read(changed(path, value))


@pytest.mark.parametrize(
    ("of", "changes", "said"),
    [
        ("number", {"low": 9.0, "high": 1.0}, "low and high do not ascend"),
        ("paid", {"log": {"mean": 0.0, "deviation": 1.0}, "low": -3.0}, "low is -3"),
        ("bins", {"edges": [1.0, 0.0, 2.0]}, "edges do not ascend"),
        ("vector", {"mean": [0.0, 0.0]}, "2 means have 3 deviations"),
        ("map", {"scale": [1.0]}, "2 names have 1"),
        ("said", {"idf": "no base64!"}, "idf holds no weights"),
        ("said", {"idf": base64.b64encode(zlib.compress(b"1")).decode()}, "idf holds 1 weights"),
    ],
)
def test_members_that_do_not_fit_each_other_are_refused(of, changes, said):
    document = written()
    place = TABLE.column_names.index(of)
    document["columns"][place] |= changes
    with pytest.raises(BadInput, match=said) as told:
        read(document)
    assert f"'{of}'" in str(told.value)
