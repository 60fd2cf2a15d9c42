"""A model of a table as one SELECT: cells are read, then numbers and codes, scores, an answer."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.hashed_words import WordsOfColumns
from fewpass.pipeline.models.export.model_form import columns_of, outcome_of
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.models.export.sql_answer import answer
from fewpass.pipeline.models.export.sql_dialects import DIALECTS, ROW, SqlDialect
from fewpass.pipeline.models.export.sql_query import Query
from fewpass.pipeline.models.export.sql_steps import literal, total
from fewpass.pipeline.tables.encoding.terms import ColumnTerms

NO_WORDS: WordsOfColumns = MappingProxyType({})


def as_select(
    model: PlainModel,
    dialect: str = "duckdb",
    table: str = "input",
    words: WordsOfColumns = NO_WORDS,
) -> str:
    """Return a model as one SELECT, which gives all columns of a table and what is predicted.

    Parameters
    ----------
    dialect
        duckdb, postgres, bigquery or spark.
    table
        Name of the table or the view, with its schema's before a point.
    words
        Of hashed columns, all that are to weigh something.  A row's others are counted in the
        column `unknown_words`.

    Raises
    ------
    BadInput
        The dialect is not known, or a column is encoded as SQL cannot: the message names it.
    """
    if dialect not in DIALECTS:
        raise BadInput(
            f"There is no dialect {dialect!r} here. Choose one of {', '.join(DIALECTS)}."
        )
    of = DIALECTS[dialect]
    query = Query(of, model.coef, words)
    for one in columns_of(model):
        query.add(one)
    scores = [
        f"{total([literal(intercept), *parts])} AS s{k}"
        for k, (intercept, parts) in enumerate(
            zip(model.intercept.tolist(), query.scores, strict=True)
        )
    ]
    counted = [f"{' + '.join(query.unknown)} AS unknown_words"] if query.unknown else []
    source = ".".join(of.named(part) for part in table.split("."))
    steps = [
        ("cells", [f"{of.row} AS fewpass_row", *query.cells], f"FROM {source} AS {ROW}"),
        ("features", ["cells.*", *query.features], "FROM cells"),
        ("scores", ["fewpass_row", *scores, *counted], "\n".join(["FROM features", *query.joins])),
    ]
    parts = ",\n".join(f"{name} AS ({_selected(columns, rows)})" for name, columns, rows in steps)
    answers = [*answer(of, outcome_of(model), len(scores)), *["unknown_words"] * bool(counted)]
    _require_names(of, columns_of(model), answers)
    last = _selected([of.fields, *answers], "FROM scores")
    return f"WITH {parts}\n{last}\n"


def _require_names(
    of: SqlDialect, described: Sequence[ColumnTerms], answers: Sequence[str]
) -> None:
    """Refuse a column with the name of an answer, which readers by name would take for it."""
    taken = {one.rpartition(" AS ")[2].strip(of.quote).lower() for one in answers}
    for name in (name for one in described for name in one.columns):
        if name.lower() in taken:
            raise BadInput(
                f"Column {shown_name(name)} has the name of an answer in SQL. Choose .json, or "
                "rename it and train again."
            )


def _selected(columns: Sequence[str], rows: str) -> str:
    listed = ",\n  ".join(columns)
    return f"\nSELECT\n  {listed}\n{rows}"
