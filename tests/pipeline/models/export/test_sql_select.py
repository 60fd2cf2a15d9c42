"""Models of tables as one SELECT: DuckDB's answers are the recipe's, other dialects parse."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.export_formats import export
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.pipeline.models.export.sql_dialects import DIALECTS
from fewpass.pipeline.models.export.sql_query import MOST_CASES
from fewpass.pipeline.models.export.sql_select import as_select
from fewpass.pipeline.tables.encoding.category_recipe import Category
from tests.pipeline.models.export.exported_rows import (
    DATES,
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

OTHERS = ("took", "review", "title", "embedding", "tags", "map")


@pytest.fixture(scope="module")
def rows():
    return table().drop_columns([*OTHERS])


@pytest.fixture(scope="module")
def recipe(rows):
    plain = recipe_of(rows, user="category").model_copy(update={"crosses": ()})
    return with_curves(plain)


def answers(model, rows, **how):
    return in_order(as_select(model, **how), rows, how.get("table", "input"))


def in_order(select, rows, name="input"):
    """Return the answers in the order of the rows, which a join need not keep."""
    database = duckdb.connect()
    numbered = rows.append_column("row number", pa.array(range(rows.num_rows)))
    database.register(name, numbered)
    answers = database.sql(f'SELECT * FROM ({select}) ORDER BY "row number"').to_arrow_table()
    return answers.drop_columns(["row number"])


def require_same(got, wanted):
    of = lambda name: np.array(got.column(name).to_pylist())  # noqa: E731
    if "prediction" in wanted:
        np.testing.assert_allclose(of("predicted"), wanted["prediction"], rtol=1e-10, atol=1e-10)
        return
    assert [str(a) for a in of("predicted")] == [str(a) for a in wanted["label"]]
    scores = wanted["scores"]
    np.testing.assert_allclose(
        of("score"), scores.max(axis=1) if scores.ndim == 2 else scores, rtol=1e-10, atol=1e-10
    )
    columns = [name for name in got.column_names if name.startswith("probability_")]
    assert bool(columns) == ("probabilities" in wanted)
    if columns:
        found = np.column_stack([of(name) for name in columns])
        np.testing.assert_allclose(found, wanted["probabilities"], atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_column_and_of_model(rows, recipe, name):
    users = next(one for one in recipe.columns if one.name == "user")
    assert isinstance(users, Category)
    assert len(users.values) > MOST_CASES  # they are joined
    model = model_of(recipe, name)
    got = answers(model, rows)
    require_same(got, expected_of(model, rows))
    assert got.column_names[: rows.num_columns] == rows.column_names
    assert got.column("age").to_pylist() == rows.column("age").to_pylist()


@pytest.mark.parametrize("name", ["two classes", "softmax", "counts"])
def test_weights_that_are_0_are_left_out(rows, recipe, name):
    model = model_of(recipe, name)
    kept = np.random.default_rng(1).random(model.coef.shape[1]) < 0.1
    sparse = model._replace(coef=np.where(kept, model.coef, 0.0))
    require_same(answers(sparse, rows), expected_of(sparse, rows))
    assert len(as_select(sparse)) < 0.6 * len(as_select(model))
    none = model._replace(coef=0.0 * model.coef)
    require_same(answers(none, rows), expected_of(none, rows))
    assert "LEFT JOIN" not in as_select(none) and " AS f0" not in as_select(none)


def test_rows_as_text_and_rows_that_the_sample_does_not_have(rows, recipe):
    """A table of text alone; nothing in any cell; unseen words, far numbers, days beyond."""
    model = model_of(recipe, "numbers")._replace(bounds=None)
    words = pa.table({name: rows.column(name).cast(pa.string()) for name in rows.column_names})
    require_same(answers(model, words), expected_of(model, rows))
    empty = pa.table({f.name: pa.nulls(1, f.type) for f in rows.schema}, schema=rows.schema)
    odd = {
        "age": -5, "paid": 1e30, "rooms": 1e9, "city": "Zürich", "user": "nobody", "shop": "",
        "day": "1931-02-28", "us": "12/31/2099", "at": "2030-01-01 23:59:59", "ts": -1,
    }  # fmt: skip
    strange = pa.Table.from_pylist([rows.slice(0, 1).to_pylist()[0] | odd], schema=rows.schema)
    require_same(answers(model, empty), expected_of(model, empty))
    require_same(answers(model, strange), expected_of(model, strange))


def test_text_is_a_number_where_predict_takes_it_for_one(rows, recipe):
    model, (texts, meant) = model_of(recipe, "numbers")._replace(bounds=None), odd_numbers(rows)
    require_same(answers(model, texts), expected_of(model, meant))
    numbers = [1.234, 12.5, 1e-7, 1e20, 3.0, -2.5]
    place = rows.column_names.index("preis")
    typed = meant.set_column(place, "preis", pa.array(numbers))
    as_text = [f"{x:.7f}".replace(".", ",") for x in numbers]
    require_same(
        answers(model, typed), expected_of(model, meant.set_column(place, "preis", [as_text]))
    )


@pytest.mark.parametrize("learnt", SPELLINGS)
@pytest.mark.parametrize("given", SPELLINGS)
def test_true_is_true_and_1_is_1_however_they_are_written(learnt, given):
    rows = flags_and_codes(learnt)
    model = model_of(recipe_of(rows, flag="category", code="category"), "numbers")
    model = model._replace(bounds=None)
    require_same(answers(model, flags_and_codes(given)), expected_of(model, rows))


@pytest.mark.parametrize("name", DATES)
def test_dates_are_read_as_predict_reads_them(name):
    rows = dates_as_written().select([name])
    model = model_of(recipe_of(rows), "numbers")._replace(bounds=None)
    require_same(answers(model, rows), expected_of(model, rows))


def test_a_date_is_one_where_predict_takes_it_for_one():
    recipe, given, meant = odd_dates()
    model = model_of(recipe, "numbers")._replace(bounds=None)
    expected = expected_of(model, meant)
    np.testing.assert_array_equal(expected_of(model, given)["prediction"], expected["prediction"])
    require_same(answers(model, given), expected)
    refused = pa.table({"when": ["epoch", "2026-03-01 05:00:00 Europe/Oslo", "2026/03/01"]})
    none = pa.table({"when": pa.nulls(3, pa.string())})
    require_same(answers(model, refused), expected_of(model, none))


def test_columns_may_have_the_names_of_the_statement_and_not_of_its_answers():
    words = ["x", "y", "z"] * 40
    rows = pa.table(dict.fromkeys(("t", "c0", "f0", "s0", "cells", "features", "scores"), words))
    model = model_of(recipe_of(rows), "softmax")
    require_same(answers(model, rows), expected_of(model, rows))
    for name in ("Predicted", "score", "probability_a"):
        with pytest.raises(BadInput, match=f"Column '{name}' has the name of an answer in SQL"):
            as_select(model_of(recipe_of(pa.table({name: words})), "softmax"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["softmax", "isotonic", "counts"])
def test_other_dialects_parse(recipe, dialect, name):
    select = as_select(model_of(recipe, name), dialect, 'shop.visits of "2026"')
    (parsed,) = sqlglot.parse(select, dialect=dialect)
    assert isinstance(parsed, sqlglot.exp.Select)
    tables = {one.name for one in parsed.find_all(sqlglot.exp.Table)}
    assert 'visits of "2026"' in tables


def test_names_and_words_are_quoted():
    names = ['a "b"', "it's; DROP TABLE x", "`c`\\"]
    rows = pa.table({name: ["x'y", 'p"q', "\\n"] * 40 for name in names})
    model = model_of(recipe_of(rows), "counts")
    require_same(answers(model, rows, table='my "rows"'), expected_of(model, rows))
    for dialect in DIALECTS:
        (parsed,) = sqlglot.parse(as_select(model, dialect), dialect=dialect)
        assert set(names) <= {one.name for one in parsed.find_all(sqlglot.exp.Column)}


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("took", "it holds times as text"), ("user", "its words are hashed. Say"),
        ("review", "SQL computes no text"), ("embedding", "lists are no cells"),
        ("tags", "lists are no cells"), ("map", "lists are no cells"),
    ],
)  # fmt: skip
def test_what_sql_does_not_do_is_refused_by_name(column, why, tmp_path):
    rows = table(200).select(["age", column])
    with pytest.raises(BadInput, match=f"Column '{column}' is not for SQL: {why}"):
        export(model_of(recipe_of(rows), "numbers"), tmp_path / "model.sql")
    assert list(tmp_path.iterdir()) == []


def test_a_dialect_is_one_of_four_and_of_sql_alone(recipe, tmp_path):
    model = model_of(recipe, "numbers")
    with pytest.raises(BadInput, match=r"no dialect 'oracle' here\. Choose one of duckdb"):
        as_select(model, "oracle")
    with pytest.raises(BadInput, match=r"a dialect, a table and words are for .sql"):
        export(model, tmp_path / "model.onnx", dialect="spark")


def test_hashed_columns_are_joined_by_the_words_of_files(tmp_path):
    """Words that the files lack weigh nothing, and are counted."""
    rows = table(600).select(["age", "user", "city", "shop"])
    labelled = rows.append_column("y", pa.array(np.random.default_rng(1).normal(size=600)))
    pq.write_table(labelled, tmp_path / "rows.parquet")
    how = {"label": "y", "column": {"user": "hash"}, "cross": ["city,shop"], "hash_bits": 6}
    fewpass.ingest(tmp_path / "rows.parquet", tmp_path / "set", **how)
    fewpass.train(tmp_path / "set", tmp_path / "run", passes=2)
    model = of_run(str(tmp_path / "run"))._replace(bounds=None)
    export(model, tmp_path / "model.sql", words=[str(tmp_path / "rows.parquet")])
    new = rows.slice(0, 1).set_column(1, "user", pa.array(["nobody"]))
    got = in_order((tmp_path / "model.sql").read_text(), pa.concat_tables([rows, new]))
    require_same(got.slice(0, 600), expected_of(model, rows))
    assert got.column("unknown_words").to_pylist() == [0] * 600 + [1]
