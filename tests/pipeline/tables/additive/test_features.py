"""Curves and pairs as features: the span of hats, their roughness, products of axes."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.plain_shapes import ModelShapes
from fewpass.pipeline.explaining.score_terms import distinct
from fewpass.pipeline.tables.additive.choosing import with_masses
from fewpass.pipeline.tables.additive.knots import knots_of
from fewpass.pipeline.tables.additive.pairing import pair_axes, pair_table
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.additive_shapes import shapes_of
from fewpass.pipeline.tables.encoding.applying import encode, encoded
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.pair_tables import PairTable, purified
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import Variable, variables_of
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows
from fewpass.storage.column_schema import Schema
from testing.shape_values import values_of

ascending = st.lists(st.integers(-1000, 1000), min_size=2, max_size=40, unique=True).map(sorted)


def spline(knots, levels, alpha=1.0):
    return Spline(
        name="x curve", column="x", knots=tuple(map(float, knots)), levels=levels, alpha=alpha
    )


def features(one, x):
    X = np.zeros((len(x), one.width))
    x = np.asarray(x, float)
    for column, value in one.features(np.nan_to_num(x)):
        X[np.arange(len(x)), column] = np.where(np.isnan(x), 0.0, value)
    return X


@given(ascending, st.integers(0, 6), st.lists(st.floats(-2000, 2000), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_a_row_has_one_hat_of_every_level(knots, levels, x):
    one = spline(knots, levels)
    X = features(one, [*x, np.nan])
    assert (np.count_nonzero(X, axis=1) <= 1 + levels).all() and not X[-1].any()
    assert (X[:, 1:] >= 0).all() and (np.abs(X) <= 0.5).all()
    assert one.width == len(one.outputs) == len(set(one.outputs))
    beyond = features(one, [knots[0] - 5.0, knots[0], knots[-1], knots[-1] + 5.0])
    np.testing.assert_array_equal(beyond[0], beyond[1])
    np.testing.assert_array_equal(beyond[2], beyond[3])


def test_hats_are_their_formula():
    u = np.linspace(0, 1, 97)
    X = features(spline(range(33), 5), 32 * u)
    np.testing.assert_allclose(X[:, 0], u - 0.5, atol=1e-15)
    for j in range(1, 6):
        i = np.arange(1 << (j - 1))
        hats = 2.0**-j * np.maximum(0, 1 - np.abs(2**j * u[:, None] - (2 * i + 1)))
        np.testing.assert_allclose(X[:, i + (1 << (j - 1))], hats, atol=1e-12)


@given(st.integers(1, 5), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_hats_span_all_functions_that_are_linear_between_their_kinks(levels, seed):
    knots = np.arange((1 << levels) + 1.0) ** 1.3
    values = np.random.default_rng(seed).normal(size=len(knots))
    x = np.sort(np.random.default_rng(seed).uniform(knots[0], knots[-1], 300))
    X = np.column_stack([np.ones(len(x)), features(spline(knots, levels), x)])
    wanted = np.interp(x, knots, values)
    found = X @ np.linalg.lstsq(X, wanted, rcond=None)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_the_squares_of_weights_are_the_integral_of_the_squared_derivative(alpha):
    levels = 4
    one, parts = spline(range(17), levels, alpha), 1 << 10
    X = features(one, np.linspace(0, 16, parts + 1))
    slopes = np.diff(X, axis=0) * parts
    gram = slopes.T @ slopes / parts
    level = np.concatenate([[0], *(np.full(1 << (j - 1), j) for j in range(1, levels + 1))])
    wanted = np.where(level == 0, 1.0, 2.0 ** (1 + level * (1 - 2 * alpha)))
    np.testing.assert_allclose(gram, np.diag(wanted), atol=1e-9)


@given(st.lists(st.integers(0, 60), min_size=3, max_size=300), st.sampled_from([4, 8, 32]))
@settings(max_examples=40, deadline=None)
def test_knots_are_numbers_of_the_sample_and_a_spike_has_its_neighbours(numbers, parts):
    sample = np.array(numbers, float)
    knots, values = np.array(knots_of(sample, parts)), np.unique(sample)
    assert np.isin(knots, values).all() and (np.diff(knots) > 0).all()
    assert {values[0], values[-1]} <= set(knots.tolist())
    if len(values) <= parts + 1:
        assert len(knots) == len(values)
        return
    for k, value in enumerate(values):
        if (sample == value).mean() >= 2.5 / parts:
            assert set(values[max(0, k - 1) : k + 2]) <= set(knots)


def table(n=400, seed=0, gaps=True):
    rng = np.random.default_rng(seed)
    x, v = rng.normal(size=n).round(2), rng.integers(0, 4, n).astype(float)
    kind = rng.choice(["a", "b", "c"], n).astype(object)
    if gaps:
        x[::7], kind[::11] = np.nan, None
    day = np.datetime64("2025-01-01T03:30") + rng.integers(0, 500 * 86_400, n)
    return pa.table({
        "x": pa.array(x, from_pandas=True), "v": v, "kind": pa.array(kind, pa.string()),
        "day": pa.array(day.astype("datetime64[s]")),
    })  # fmt: skip


def additive_recipe(rows, pairs=(("x", "v"), ("x", "kind"), ("kind", "day month"))):
    recipe = fitted(rows, RecipeRules(ranks=False, n_rows=rows.num_rows))
    cells = [column.combine_chunks() for column in rows.columns]
    variables = VariablesOfRows(recipe.columns, cells)
    numbers, categories = variables_of(recipe.columns)
    splines = tuple(
        Spline(name=f"{t.title} curve", column=t.column, part=t.part, levels=3,
               knots=knots_of(variables.numbers(t)[~np.isnan(variables.numbers(t))], 8))
        for t in numbers
    )  # fmt: skip
    named = {variable.title: variable for variable in (*numbers, *categories)}
    every = [(named[a], named[b]) for a, b in pairs]
    tables = [pair_table(of, pair_axes(of, numbers, variables, 4), variables) for of in every]
    own = Additive(splines=splines, pairs=tuple(tables), rows=rows.num_rows)
    return with_masses(recipe.model_copy(update={"additive": own}), variables), variables


def test_a_pair_is_the_product_of_its_axes():
    rows = table()
    recipe, variables = additive_recipe(rows)
    start = recipe.n_outputs - sum(pair.width for pair in recipe.additive.pairs)
    X = encoded(recipe, rows).toarray()
    for pair in recipe.additive.pairs:
        one, other = (np.zeros((rows.num_rows, len(axis.names))) for axis in (pair.a, pair.b))
        for full, axis in ((one, pair.a), (other, pair.b)):
            for part in variables.shares(axis):
                full[np.arange(len(full)), part.level] += part.share
            np.testing.assert_allclose(full.sum(axis=1), 1.0)
        product = one[:, :, None] * other[:, None, :]
        np.testing.assert_allclose(pair.masses, product.sum(axis=0), rtol=1e-6)
        i, j = np.nonzero(pair.places >= 0)
        own = X[:, start : start + pair.width]
        np.testing.assert_allclose(own, pair.scale * product[:, i, j], rtol=1e-12)
        if pair.a.kind == "hats":
            assert (pair.places[-1] < 0).all()  # what is missing has no feature
        start += pair.width


def test_rows_are_the_same_dense_and_sparse_and_however_they_are_cut():
    rows = table()
    recipe, _ = additive_recipe(rows)
    whole = encoded(recipe, rows)
    assert recipe.layout == "sparse" and whole.shape[1] == recipe.n_outputs == len(recipe.outputs)
    cells = [column.combine_chunks() for column in rows.columns]
    np.testing.assert_array_equal(encode(recipe, cells).dense(np.float64), whole.toarray())
    parts = [encoded(recipe, rows.slice(a, 100)).toarray() for a in range(0, 400, 100)]
    np.testing.assert_array_equal(np.vstack(parts), whole.toarray())
    assert all((np.diff(row.indices) > 0).all() for row in whole)
    assert "additive" not in fitted(rows, RecipeRules()).model_dump(mode="json")


@pytest.mark.parametrize("cells", ["", "AAAA", "eJw="])
def test_cells_that_are_no_numbers_are_refused(cells):
    axis = {"kind": "levels", "column": "x", "values": ("a",)}
    with pytest.raises(ValidationError, match="cells holds"):
        PairTable(name="x x y", a=axis, b={**axis, "column": "y"}, cells=cells)


#: What is forged, and what of it is said.
FORGED = {
    "a pair of no column": (lambda r: r["additive"]["pairs"][0]["a"].update(column="nobody"), "nobody"),
    "a curve of no column": (lambda r: r["additive"]["splines"][0].update(column="nobody"), "nobody"),
    "a curve of words": (lambda r: r["additive"]["splines"][0].update(column="kind"), "'kind'.*no number"),
    "levels of a number": (lambda r: r["additive"]["pairs"][1]["b"].update(column="x"), "'x'.*no category"),
    "an hour of a number": (lambda r: r["additive"]["splines"][0].update(part="time of day"), "time of day"),
    "a whole date": (lambda r: r["additive"]["splines"][0].update(column="day"), "'day'.*no number"),
    "no masses": (lambda r: r["additive"].update(masses=[]), "masses of .* 0 counts"),
    "one mass": (lambda r: r["additive"]["masses"].__setitem__(2, [1.0]), "masses of 'kind' has 1 count,"),
    "masses below 0": (lambda r: r["additive"]["masses"][0].__setitem__(0, -1.0), "of 'x'"),
    "a knot less": (lambda r: r["additive"]["splines"][0]["knots"].pop(0), "masses of"),
    "other columns": (lambda r: r["columns"][0].update(name="other"), "'other' where 'x' was expected"),
    "columns exchanged": (lambda r: r["columns"].reverse(), "was expected"),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_a_recipe_whose_parts_do_not_fit_together_is_refused_when_it_is_read(what):
    rows = table()
    recipe, _ = additive_recipe(rows)
    change, said = FORGED[what]
    document = json.loads(recipe.model_dump_json())
    assert read(document, recipe) == recipe
    change(document)
    with pytest.raises(BadInput, match=f"recipe.*{said}"):
        read(document, recipe)


def read(document, recipe):
    names = tuple(column.name for column in recipe.columns)
    kept = {"n_features": recipe.n_outputs, "recipe": document}
    return recipe_in(Schema(names=names, types=("number",) * len(names), encoding=kept))


def test_a_column_may_be_called_as_a_part_of_a_date():
    rows = table().rename_columns(["x", "v", "day month", "day"])
    recipe, _ = additive_recipe(rows, pairs=())
    assert read(json.loads(recipe.model_dump_json()), recipe) == recipe
    coef = np.random.default_rng(2).normal(size=recipe.n_outputs)
    shapes = ModelShapes.of(shapes_of(recipe, coef, 0.7))
    named = {one.part: one for one in shapes.columns if one.name == "day month"}
    assert [len(named[part].points) for part in ("", "month")] == [5, 13]
    every = {(one.name, one.importance) for one in shapes.importances}
    assert {(one.name, one.importance) for one in named.values()} < every
    assert distinct(["a", "b", "a", "a (2)", "a"]) == ["a", "b", "a (2)", "a (2) (2)", "a (3)"]


def test_shapes_add_up_to_the_score_and_are_purified_and_centred():
    rows, new = table(), table(300, seed=1)
    recipe, variables = additive_recipe(rows)
    coef = np.random.default_rng(2).normal(size=recipe.n_outputs)
    shapes = shapes_of(recipe, coef, 0.7)
    for frame in (rows, new):
        cells = [column.combine_chunks() for column in frame.columns]
        own = VariablesOfRows(recipe.columns, cells)
        found = shapes.constant + sum(values_of(function, own) for function in shapes.functions)
        wanted = encoded(recipe, frame) @ coef + 0.7
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert not shapes.rest
    for function in shapes.columns:
        assert abs(function.masses @ function.values) < 1e-9 * rows.num_rows
        assert abs(values_of(function, variables).mean()) < 1e-6
    for surface in shapes.pairs:
        weighted = surface.masses * surface.values
        np.testing.assert_allclose(weighted.sum(axis=0), 0.0, atol=1e-8)
        np.testing.assert_allclose(weighted.sum(axis=1), 0.0, atol=1e-8)


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_purifying_subtracts_what_it_returns(rows, columns, seed):
    rng = np.random.default_rng(seed)
    values, masses = rng.normal(size=(rows, columns)), rng.poisson(1.0, (rows, columns)) * 1.0
    left, r, c = purified(values, masses)
    np.testing.assert_allclose(left + r[:, None] + c, values, atol=1e-9)
    assert np.abs((masses * left).sum(axis=0)).max() < 1e-6 * (1 + masses.sum())


def test_terms_of_dates_are_calendars():
    days = pa.array(np.array(["2024-02-29T13:30", "2024-12-31T00:00", "NaT"], "datetime64[s]"))
    recipe = fitted(pa.table({"d": days}), RecipeRules())
    variables = VariablesOfRows(recipe.columns, [days])
    np.testing.assert_array_equal(
        variables.numbers(Variable("d", "day of the year")), [60, 366, np.nan]
    )
    np.testing.assert_array_equal(
        variables.numbers(Variable("d", "time of day")), [13.5, 0, np.nan]
    )
    np.testing.assert_array_equal(variables.levels(Variable("d", "weekday")).codes, [3, 1, 7])
    np.testing.assert_array_equal(variables.levels(Variable("d", "month")).codes, [1, 11, 12])
