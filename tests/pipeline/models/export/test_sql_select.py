"""Models of tables as one SELECT, run in the database of each dialect: its answers are the recipe's."""

import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.export_formats import export
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.pipeline.models.export.sql_dialects import DIALECTS
from fewpass.pipeline.models.export.sql_query import MOST_CASES
from fewpass.pipeline.models.export.sql_select import as_select
from fewpass.pipeline.models.export.sql_steps import literal
from fewpass.pipeline.tables.encoding.category_recipe import Category
from tests.pipeline.models.export.exported_rows import (
    assert_answers,
    expected_of,
    model_of,
    of_sql,
    recipe_of,
    table,
    with_curves,
)

OTHERS = ("review", "title", "embedding", "tags", "map")


@pytest.fixture(scope="module")
def rows():
    return table().drop_columns([*OTHERS])


@pytest.fixture(scope="module")
def recipe(rows):
    plain = recipe_of(rows, user="category").model_copy(update={"crosses": ()})
    return with_curves(plain)


@pytest.fixture(params=DIALECTS)
def answers(request, databases):
    """Of a model, or of a statement, for rows, in one of the dialects."""

    def of(model, rows, table="input"):
        dialect = request.param
        select = model if isinstance(model, str) else as_select(model, dialect, table)
        return databases.answers(dialect, select, rows, table)

    of.dialect = request.param
    return of


def require_same(got, wanted):
    assert_answers(of_sql(got), wanted)


@pytest.mark.parametrize("name", ["two classes", "softmax", "counts"])
def test_weights_that_are_0_are_left_out(answers, rows, recipe, name):
    model = model_of(recipe, name)
    kept = np.random.default_rng(1).random(model.coef.shape[1]) < 0.1
    sparse = model._replace(coef=np.where(kept, model.coef, 0.0))
    require_same(answers(sparse, rows), expected_of(sparse, rows))
    gone, features = [*map(literal, model.coef[:, ~kept].ravel().tolist())], r" AS f\d+\b"
    of_all, of_few = as_select(model, answers.dialect), as_select(sparse, answers.dialect)
    assert sum(weight in of_all for weight in gone) > 100
    assert [weight for weight in gone if weight in of_few] == []
    assert len(re.findall(features, of_few)) < len(re.findall(features, of_all))
    none = model._replace(coef=0.0 * model.coef)
    require_same(answers(none, rows), expected_of(none, rows))
    assert "LEFT JOIN" not in as_select(none) and " AS f0" not in as_select(none)


def test_rows_as_text_have_their_columns_in_the_answer(answers, rows, recipe):
    users = next(one for one in recipe.columns if one.name == "user")
    assert isinstance(users, Category) and len(users.values) > MOST_CASES  # they are joined
    model = model_of(recipe, "numbers")._replace(bounds=None)
    words = pa.table({name: rows.column(name).cast(pa.string()) for name in rows.column_names})
    words = words.set_column(0, "age", pc.replace_substring_regex(words["age"], r"5$", "5\xa0"))
    got = answers(model, words)
    require_same(got, expected_of(model, rows))
    assert got.column_names[: rows.num_columns] == rows.column_names
    assert got.column("age").to_pylist() == words.column("age").to_pylist()


def test_columns_may_have_the_names_of_the_statement_and_not_of_its_answers(answers):
    words = ["x", "y", "z"] * 40
    rows = pa.table(dict.fromkeys(("t", "c0", "f0", "s0", "cells", "features", "scores"), words))
    model = model_of(recipe_of(rows), "softmax")
    require_same(answers(model, rows), expected_of(model, rows))
    for name in ("Predicted", "score", "probability_a"):
        with pytest.raises(
            BadInput, match=f"Column '{name.lower()}' has the name of an answer in SQL"
        ):
            as_select(model_of(recipe_of(pa.table({name.lower(): words})), "softmax"))


def test_a_model_of_plain_numbers_answers_rows_of_numbers_alone(answers):
    """A model without a recipe, as of a matrix with names: `predict` refuses all other rows."""
    cells = ["1.5", " 2e0 ", "-.5", None, "", "nan", "inf", "1e400", "word", "1_000", "1" * 5000]
    rows = pa.table({"a": pa.array(cells), "b": [True] * len(cells)})
    how = {"feature_names": ("a", "b"), "recipe": None, "coef": np.array([[2.0, 0.25]])}
    model = model_of(recipe_of(table(40).select(["age"])), "two classes")._replace(**how)
    constant = float(model.intercept[0]) + 0.25
    got = answers(model, rows)
    scores = got.column("score").to_pylist()
    np.testing.assert_allclose(scores[:3], [3.0 + constant, 4.0 + constant, constant - 1.0])
    assert scores[3:] == got.column("predicted").to_pylist()[3:] == [None] * 8


def test_moments_of_years_before_there_were_zones_are_read_in_any_session(answers):
    """A session's zone is so many seconds ahead then: 10:45:00+00:43:00, or +00:53:28."""
    seconds = np.random.default_rng(0).integers(-5_000_000_000, 1_600_000_000, 200)
    rows = pa.table({"at": pa.array(seconds.tolist(), pa.timestamp("s", "UTC"))})
    model = model_of(recipe_of(rows), "numbers")._replace(bounds=None)
    require_same(answers(model, rows), expected_of(model, rows))


def test_money_of_postgresql_is_money(databases):
    rows = pa.table({"price": [f"${a:,}.50" for a in range(900, 1100)]})
    model = model_of(recipe_of(rows), "counts")
    select = as_select(model, "postgres", "typed")
    with databases.postgres().cursor() as cursor:
        cursor.adbc_ingest("words", rows, mode="replace")
        cursor.execute("CREATE TABLE typed AS SELECT CAST(price AS MONEY) AS price FROM words")
        cursor.execute(f"SELECT predicted FROM ({select}) AS q")
        got = cursor.fetch_arrow_table().column(0).to_numpy()
    np.testing.assert_allclose(got, expected_of(model, rows)["prediction"], rtol=1e-10)


LONG = "é" * 31 + "-"  # 63 bytes
#: Names, and the dialects that take them for one.
ALIKE = {("rate", "Rate"): "duckdb", (f"{LONG}a", f"{LONG}b"): "postgres", ("é", "É"): ""}


@pytest.mark.parametrize("names", ALIKE)
def test_names_that_are_one_to_the_database_are_refused(answers, names):
    rows = pa.table(
        dict(zip(names, (["x", "y"] * 40, ["v", "v", "w"] * 26 + ["v"] * 2), strict=True))
    )
    model = model_of(recipe_of(rows), "counts")
    of_one = model_of(recipe_of(rows.select(names[:1])), "counts")
    of_one = of_one._replace(record=SimpleNamespace(columns=SimpleNamespace(names=names)))
    if ALIKE[names] != answers.dialect:
        require_same(answers(model, rows), expected_of(model, rows))
        require_same(answers(of_one, rows), expected_of(of_one, rows))
        return
    for one in (model, of_one):
        with pytest.raises(BadInput, match=f"has the name of a column in SQL: {answers.dialect}"):
            as_select(one, answers.dialect)


def test_labels_that_are_one_to_the_database_are_refused():
    model = model_of(recipe_of(pa.table({"a": ["x", "y"] * 40})), "two classes")
    model = model._replace(classes=np.array(["No", "no"]))
    with pytest.raises(BadInput, match="Two labels are one to duckdb"):
        as_select(model, "duckdb")
    as_select(model, "postgres")


def test_names_and_words_are_quoted(answers):
    names = ['a "b"', "it's; DROP TABLE x", "`c`\\"]
    rows = pa.table({name: ["x'y", 'p"q', "\\n"] * 40 for name in names})
    model = model_of(recipe_of(rows), "counts")
    require_same(answers(model, rows, table='my "rows"'), expected_of(model, rows))


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("user", "its words are hashed. Say"),
        ("review", "SQL computes no text"), ("embedding", "lists are no cells"),
        ("tags", "lists are no cells"), ("map", "lists are no cells"),
    ],
)  # fmt: skip
def test_what_sql_does_not_do_is_refused_by_name(column, why, tmp_path):
    rows = table(200).select(["age", column])
    with pytest.raises(BadInput, match=f"Column '{column}' is not for SQL: {why}"):
        export(model_of(recipe_of(rows), "numbers"), tmp_path / "model.sql")
    assert list(tmp_path.iterdir()) == []


def test_a_dialect_is_one_that_is_run_and_of_sql_alone(recipe, tmp_path):
    model = model_of(recipe, "numbers")
    with pytest.raises(
        BadInput, match=r"no dialect 'spark' here\. Choose one of duckdb, postgres\."
    ):
        as_select(model, "spark")
    with pytest.raises(BadInput, match=r"a dialect, a table and words are for .sql"):
        export(model, tmp_path / "model.onnx", dialect="postgres")


def test_hashed_columns_are_joined_by_the_words_of_files(answers, tmp_path):
    """Words that the files lack weigh nothing, and are counted."""
    rows = table(600).select(["age", "user", "city", "shop"])
    labelled = rows.append_column("y", pa.array(np.random.default_rng(1).normal(size=600)))
    pq.write_table(labelled, tmp_path / "rows.parquet")
    how = {"label": "y", "column": {"user": "hash"}, "cross": ["city,shop"], "hash_bits": 6}
    fewpass.ingest(tmp_path / "rows.parquet", tmp_path / "set", **how)
    fewpass.train(tmp_path / "set", tmp_path / "run", passes=2)
    model = of_run(str(tmp_path / "run"))._replace(bounds=None)
    words = [str(tmp_path / "rows.parquet")]
    export(model, tmp_path / "model.sql", dialect=answers.dialect, words=words)
    new = rows.slice(0, 1).set_column(1, "user", pa.array(["nobody"]))
    got = answers((tmp_path / "model.sql").read_text(), pa.concat_tables([rows, new]))
    require_same(got.slice(0, 600), expected_of(model, rows))
    assert got.column("unknown_words").to_pylist() == [0] * 600 + [1]
