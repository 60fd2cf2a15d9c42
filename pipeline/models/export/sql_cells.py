"""Cells of a table as SQL: numbers, seconds, words; NULL where they are missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.sql_dialects import ROW, SqlDialect
from fewpass.pipeline.models.export.sql_steps import literal
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME
from fewpass.pipeline.tables.encoding.moments import FIRST_MOMENT, LAST_MOMENT
from fewpass.pipeline.tables.encoding.terms import (
    ColumnTerms,
    MomentCell,
    NumberCell,
    PairCell,
    WordCell,
)

#: What stands in numbers besides digits, signs and their mark; an E of a currency is no exponent.
_STRANGE = {"units": "[^0-9.()+-]", "comma": "[A-Z]{3}|[^0-9,eE()+-]"}
_LARGEST = float(np.finfo(np.float64).max)


def cell_of(dialect: SqlDialect, one: ColumnTerms) -> str:
    """Return what a cell of a row holds, NULL where it is missing; or raise BadInput."""
    cells = [f"{ROW}.{dialect.named(name)}" for name in one.columns]
    if isinstance(one.read, NumberCell):
        return _number(dialect, cells[0], one.read)
    if isinstance(one.read, MomentCell):
        return _moment(dialect, cells[0], one.read)
    if isinstance(one.read, WordCell):
        return dialect.as_word(cells[0])
    if isinstance(one.read, PairCell):
        first, second = map(dialect.as_word, cells)
        pair = f"CONCAT({first}, {dialect.quoted(one.read.between)}, {second})"
        return f"CASE WHEN {cells[0]} IS NOT NULL AND {cells[1]} IS NOT NULL THEN {pair} END"
    raise BadInput("lists are no cells of every database")


def _number(dialect: SqlDialect, cell: str, read: NumberCell) -> str:
    text = dialect.as_text(cell)
    if read.written == "clock":
        raise BadInput("it holds times as text. Give seconds, and train again")
    number = dialect.as_number(cell)
    if read.written != "plain":
        said = _written(dialect, text, read)
        number = f"CASE WHEN {dialect.is_text(cell)} THEN {said} ELSE {number} END"
    largest, gone = literal(_LARGEST), _numbers_in(read.missing)
    says = [f"({number}) BETWEEN -{largest} AND {largest}"]
    if gone:
        says.append(f"{text} NOT IN ({', '.join(map(dialect.quoted, gone))})")
    return f"CASE WHEN {' AND '.join(says)} THEN {number} END"


def _written(dialect: SqlDialect, text: str, read: NumberCell) -> str:
    """Return text as the number that it says; NULL where it does not look like one."""
    digits = f"REPLACE({dialect.without(text, _STRANGE[read.written])}, ',', '.')"
    size = dialect.as_number(f"REPLACE(REPLACE({digits}, '(', ''), ')', '')")
    sign = f"CASE WHEN {digits} LIKE '(%' THEN -1 ELSE 1 END"
    return f"CASE WHEN {dialect.matches(f'TRIM({text})', read.shape)} THEN {sign} * {size} END"


def _moment(dialect: SqlDialect, cell: str, read: MomentCell) -> str:
    unit = UNITS_OF_TIME.get(read.form or "")
    if unit is not None:
        seconds = f"{dialect.as_number(cell)} * {literal(unit)}"
    else:
        seconds = dialect.as_seconds(cell, read.form)
    says = [f"{seconds} >= {literal(FIRST_MOMENT)}", f"{seconds} < {literal(LAST_MOMENT)}"]
    if read.standins:
        says.append(f"{seconds} NOT IN ({', '.join(map(literal, read.standins))})")
    if read.missing:
        words = ", ".join(map(dialect.quoted, read.missing))
        says.append(f"{dialect.as_text(cell)} NOT IN ({words})")
    return f"CASE WHEN {' AND '.join(says)} THEN CAST({seconds} AS {dialect.number}) END"


def _numbers_in(words: Sequence[str]) -> list[str]:
    """Return the words that a database would read as numbers; the others are NULL anyway."""
    return [word for word in words if _is_number(word)]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return any(c.isdigit() for c in word)
    return True
