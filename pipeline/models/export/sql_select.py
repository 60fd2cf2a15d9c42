"""A model of a table as one SELECT: cells are read, then numbers and codes, scores, an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.model_form import columns_of, outcome_of
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.models.export.sql_answer import answer
from fewpass.pipeline.models.export.sql_dialects import DIALECTS, SqlDialect
from fewpass.pipeline.models.export.sql_steps import literal, stepped, total
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME
from fewpass.pipeline.tables.encoding.moments import FIRST_MOMENT, LAST_MOMENT
from fewpass.pipeline.tables.encoding.terms import (
    CodeTerm,
    ColumnTerms,
    MissingTerm,
    MomentCell,
    NumberCell,
    PairCell,
    ValueTerm,
    WordCell,
    WordTerm,
)

#: Words of a column beyond which their weights are joined, and stand in no CASE.
MOST_CASES = 64
_LARGEST = float(np.finfo(np.float64).max)


class Query:
    """The parts of a SELECT, collected column by column.

    Parameters
    ----------
    dialect
        Of the database.
    coef
        Weights (K, d) of the output columns.
    """

    def __init__(self, dialect: SqlDialect, coef: NDArray[np.float64]) -> None:
        self.dialect, self.coef = dialect, coef
        self.cells: list[str] = []
        self.features: list[str] = []
        self.joins: list[str] = []
        self.scores: list[list[str]] = [[] for _ in coef]

    def add(self, one: ColumnTerms) -> None:
        """Add a column; BadInput, by its name, for what SQL does not do."""
        name = f"c{len(self.cells)}"
        try:
            self.cells.append(f"{self._read(one)} AS {name}")
        except BadInput as error:
            raise _refused(one, str(error)) from error
        for term in one.terms:
            if isinstance(term, WordTerm):
                self._add_words(name, term)
            elif isinstance(term, ValueTerm | CodeTerm | MissingTerm):
                required = isinstance(one.read, NumberCell) and one.read.required
                self._add_number(name, term, required=required)
            else:
                raise _refused(one, f"SQL computes no {term.term} of it")

    def _read(self, one: ColumnTerms) -> str:
        cells = [f"t.{self.dialect.named(name)}" for name in one.columns]
        if isinstance(one.read, NumberCell):
            return self._number(cells[0], one.read)
        if isinstance(one.read, MomentCell):
            return self._moment(cells[0], one.read)
        if isinstance(one.read, WordCell):
            return self.dialect.as_text(cells[0])
        if isinstance(one.read, PairCell):
            first, second = map(self.dialect.as_text, cells)
            pair = f"CONCAT({first}, {self.dialect.quoted(one.read.between)}, {second})"
            return f"CASE WHEN {cells[0]} IS NOT NULL AND {cells[1]} IS NOT NULL THEN {pair} END"
        raise BadInput("lists are no cells of every database")

    def _number(self, cell: str, read: NumberCell) -> str:
        dialect, text = self.dialect, self.dialect.as_text(cell)
        if read.written == "clock":
            raise BadInput("it holds times as text. Give seconds, and train again")
        if read.written == "plain":
            number = dialect.as_number(cell)
        else:
            strange = "[^0-9.()+-]" if read.written == "units" else "[^0-9,()+-]"
            digits = f"REPLACE({dialect.without(text, strange)}, ',', '.')"
            sizes = dialect.as_number(f"REPLACE(REPLACE({digits}, '(', ''), ')', '')")
            number = f"CASE WHEN {digits} LIKE '(%' THEN -({sizes}) ELSE {sizes} END"
        largest, gone = literal(_LARGEST), _numbers_in(read.missing)
        says = [f"({number}) BETWEEN -{largest} AND {largest}"]
        if gone:
            says.append(f"{text} NOT IN ({', '.join(map(dialect.quoted, gone))})")
        return f"CASE WHEN {' AND '.join(says)} THEN {number} END"

    def _moment(self, cell: str, read: MomentCell) -> str:
        unit = UNITS_OF_TIME.get(read.form or "")
        if unit is not None:
            seconds = f"{self.dialect.as_number(cell)} * {literal(unit)}"
        else:
            seconds = self.dialect.as_seconds(cell, read.form)
        says = [f"{seconds} >= {literal(FIRST_MOMENT)}", f"{seconds} < {literal(LAST_MOMENT)}"]
        if read.standins:
            says.append(f"{seconds} NOT IN ({', '.join(map(literal, read.standins))})")
        if read.missing:
            words = ", ".join(map(self.dialect.quoted, read.missing))
            says.append(f"{self.dialect.as_text(cell)} NOT IN ({words})")
        return f"CASE WHEN {' AND '.join(says)} THEN CAST({seconds} AS {self.dialect.number}) END"

    def _add_number(
        self, cell: str, term: ValueTerm | CodeTerm | MissingTerm, *, required: bool
    ) -> None:
        if isinstance(term, CodeTerm):
            weights = self.coef[:, term.at : term.at + term.width]
        else:
            weights = self.coef[:, term.at : term.at + 1]
        if not weights.any():
            return
        if isinstance(term, MissingTerm):
            self._add_each(weights, lambda w: f"CASE WHEN {cell} IS NULL THEN {w[0]} ELSE 0e0 END")
            return
        name = f"f{len(self.features)}"
        self.features.append(f"{stepped(self.dialect, cell, term.steps)} AS {name}")
        if isinstance(term, CodeTerm):
            self._add_each(weights, lambda w: f"CASE {name} {_whens(w)} ELSE 0e0 END")
        elif required:
            self._add_each(weights, lambda w: f"{w[0]} * {name}")
        else:
            self._add_each(weights, lambda w: f"{w[0]} * COALESCE({name}, 0e0)")

    def _add_each(self, weights: NDArray[np.float64], written: Any) -> None:
        """Add an expression of its weights to each score."""
        for score, own in zip(self.scores, weights.tolist(), strict=True):
            if any(own):
                score.append(written([literal(weight) for weight in own]))

    def _add_words(self, cell: str, term: WordTerm) -> None:
        weights = self.coef[:, term.at : term.missing + 1]
        others = weights[:, -2:].tolist()
        if len(term.values) > MOST_CASES:
            alias = f"j{len(self.joins)}"
            self._join(alias, cell, term.values, weights[:, :-2])
            chosen = [f"COALESCE({alias}.w{k}, {literal(o)})" for k, (o, _) in enumerate(others)]
        else:
            words = [self.dialect.quoted(word) for word in term.values]
            pairs = zip(weights[:, :-2].tolist(), others, strict=True)
            chosen = [_case(cell, words, own, other) for own, (other, _) in pairs]
        for score, weighed, (_, missing) in zip(self.scores, chosen, others, strict=True):
            score.append(f"CASE WHEN {cell} IS NULL THEN {literal(missing)} ELSE {weighed} END")

    def _join(
        self, alias: str, cell: str, words: Sequence[str], weights: NDArray[np.float64]
    ) -> None:
        rows = [
            [self.dialect.quoted(word), *map(literal, own)]
            for word, own in zip(words, weights.T.tolist(), strict=True)
        ]
        names = ["word", *(f"w{k}" for k in range(len(weights)))]
        made = self.dialect.table(alias, names, rows)
        self.joins.append(f"LEFT JOIN {made} ON {alias}.word = {cell}")


def as_select(model: PlainModel, dialect: str = "duckdb", table: str = "input") -> str:
    """Return a model as one SELECT, which gives all columns of a table and what is predicted.

    Parameters
    ----------
    dialect
        duckdb, postgres, bigquery or spark.
    table
        Name of the table or the view, with its schema's before a point.

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
    query = Query(of, model.coef)
    for one in columns_of(model):
        query.add(one)
    scores = [
        f"{total([literal(intercept), *parts])} AS s{k}"
        for k, (intercept, parts) in enumerate(
            zip(model.intercept.tolist(), query.scores, strict=True)
        )
    ]
    source = ".".join(of.named(part) for part in table.split("."))
    steps = [
        ("cells", [f"{of.row} AS fewpass_row", *query.cells], f"FROM {source} AS t"),
        ("features", ["cells.*", *query.features], "FROM cells"),
        ("scores", ["fewpass_row", *scores], "\n".join(["FROM features", *query.joins])),
    ]
    parts = ",\n".join(f"{name} AS ({_selected(columns, rows)})" for name, columns, rows in steps)
    last = _selected([of.fields, *answer(of, outcome_of(model), len(scores))], "FROM scores")
    return f"WITH {parts}\n{last}\n"


def _selected(columns: Sequence[str], rows: str) -> str:
    listed = ",\n  ".join(columns)
    return f"\nSELECT\n  {listed}\n{rows}"


def _refused(one: ColumnTerms, why: str) -> BadInput:
    name = " x ".join(one.columns)
    return BadInput(
        f"Column {shown_name(name)} is not for SQL: {why}. Choose .onnx or .json, or leave the "
        f"column out with `column={one.columns[0]}=drop` and train again."
    )


def _numbers_in(words: Sequence[str]) -> list[str]:
    """Return the words that a database would read as numbers; the others are NULL anyway."""
    return [word for word in words if _is_number(word)]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return any(c.isdigit() for c in word)
    return True


def _whens(weights: Sequence[str]) -> str:
    return " ".join(f"WHEN {k} THEN {weight}" for k, weight in enumerate(weights))


def _case(cell: str, words: Sequence[str], weights: Sequence[float], other: float) -> str:
    cases = [f"WHEN {w} THEN {literal(x)}" for w, x in zip(words, weights, strict=True)]
    return f"CASE {cell} {' '.join(cases)} ELSE {literal(other)} END" if cases else literal(other)
