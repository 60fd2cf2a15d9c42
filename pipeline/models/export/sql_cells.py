"""Cells of a table as SQL: numbers, seconds, words; NULL where they are missing.

A cell that `predict` refuses makes a condition true, and the row has no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.sql_dates import in_sql, seconds_in
from fewpass.pipeline.models.export.sql_dialects import LARGEST, ROW
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.models.export.sql_steps import literal
from fewpass.pipeline.tables.encoding.cells import _NOTHING as NOTHING
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME
from fewpass.pipeline.tables.encoding.moments import (
    _NO_DAY as NO_DAY,
)
from fewpass.pipeline.tables.encoding.moments import (
    BETWEEN,
    FIRST_MOMENT,
    ISO,
    LAST_MOMENT,
    pattern_of,
)
from fewpass.pipeline.tables.encoding.terms import (
    Cell,
    MomentCell,
    NumberCell,
    PairCell,
    WordCell,
)

#: What stands in numbers besides digits, signs and their mark; an E of a currency is no exponent.
_STRANGE = {"units": "[^0-9.()+-]", "comma": "[A-Z]{3}|[^0-9,eE()+-]"}
_NOT_FINITE = "^[-+]?(?:inf|infinity|nan)$"
_BLANKS = r"^\s+|\s+$"


def cell_of(to: Statement, columns: Sequence[str], read: Cell) -> tuple[str, str]:
    """Return the column of a row's cell, NULL where it is missing, and when it is refused.

    BadInput for what no SQL reads.
    """
    cells = [f"{ROW}.{to.dialect.named(name)}" for name in columns]
    if isinstance(read, NumberCell):
        return _number(to, cells[0], read)
    if isinstance(read, MomentCell):
        return _moment(to, cells[0], read)
    if isinstance(read, WordCell):
        return _word(to, cells[0]), ""
    if isinstance(read, PairCell):
        first, second = (_word(to, cell) for cell in cells)
        pair = f"CONCAT({first}, {to.dialect.quoted(read.between)}, {second})"
        is_there = f"{first} IS NOT NULL AND {second} IS NOT NULL"
        return to.add("cells", f"CASE WHEN {is_there} THEN {pair} END"), ""
    raise BadInput("lists are no cells of every database")


def _number(to: Statement, cell: str, read: NumberCell) -> tuple[str, str]:
    value, bad = _said(to, cell, read)
    number = to.add("cells", f"CASE WHEN {value} BETWEEN -{LARGEST} AND {LARGEST} THEN {value} END")
    refused = [] if read.takes_words else [bad]
    return number, " OR ".join([*refused, f"{number} IS NULL"] if read.required else refused)


def _said(to: Statement, cell: str, read: NumberCell) -> tuple[str, str]:
    """Return the number of a cell, and when it is none and says something all the same."""
    if read.written == "clock":
        raise BadInput("it holds times as text. Give seconds, and train again")
    _, text, trimmed, typed = _given(to, cell)
    fits = to.dialect.matches(trimmed, in_sql(read.shape))
    if read.written == "plain":
        fits = f"({fits} OR {to.dialect.matches(trimmed, _NOT_FINITE, any_case=True)})"
    fits = to.add("parts", fits)
    said = to.dialect.number_in(trimmed) if read.written == "plain" else _written(to, trimmed, read)
    value = f"CASE WHEN {typed} IS NOT NULL THEN {typed} WHEN {fits} THEN {said} END"
    if read.missing:
        gone = _is_one(to, text, read.missing)
        value, unread = f"CASE WHEN NOT {gone} THEN {value} END", f"NOT {gone} AND NOT {fits}"
    else:
        unread = f"NOT {fits}"
    bad = f"{typed} IS NULL AND {unread} AND NOT {_says_nothing(to, text)}"
    return to.add("values", value), bad


class _Given(NamedTuple):
    """Columns of a cell as it is given."""

    kind: str  # its type
    text: str
    trimmed: str
    number: str  # of a typed one


def _given(to: Statement, cell: str) -> _Given:
    kind, text = (to.add("texts", of(cell)) for of in (to.dialect.kind_of, to.dialect.as_text))
    trimmed = to.add("read", to.dialect.without(text, _BLANKS))
    return _Given(kind, text, trimmed, to.add("read", to.dialect.typed_number(kind, text)))


def _word(to: Statement, cell: str) -> str:
    kind, text = (to.add("texts", of(cell)) for of in (to.dialect.kind_of, to.dialect.as_text))
    return to.add("read", to.dialect.as_word(kind, text))


def _written(to: Statement, text: str, read: NumberCell) -> str:
    """Return text that looks like a number as the number that it says."""
    digits = f"REPLACE({to.dialect.without(text, _STRANGE[read.written])}, ',', '.')"
    size = to.dialect.number_in(f"REPLACE(REPLACE({digits}, '(', ''), ')', '')")
    return f"CASE WHEN {digits} LIKE '(%' THEN -1 ELSE 1 END * {size}"


def _moment(to: Statement, cell: str, read: MomentCell) -> tuple[str, str]:
    unit = UNITS_OF_TIME.get(read.form or "")
    if unit is not None:
        value, bad = _said(to, cell, NumberCell())
        return _usual(to, f"{value} * {literal(unit)}", read), bad
    kind, text, trimmed, typed = _given(to, cell)
    forms = (read.form or ISO).split(BETWEEN)
    is_moment = to.dialect.is_moment(kind)
    found = [seconds_in(to, trimmed, form) for form in forms]
    if ISO not in forms:
        found = [f"CASE WHEN {is_moment} THEN {seconds_in(to, trimmed, ISO)} END", *found]
    is_given = f"{typed} IS NULL"
    if read.missing:
        is_given += f" AND NOT {_is_one(to, text, read.missing)}"
    value = to.add(
        "values", f"CASE WHEN {is_given} THEN COALESCE({', '.join([*found, 'NULL'])}) END"
    )
    patterns = [NO_DAY, *map(pattern_of, forms)]
    looks = [to.dialect.matches(text, in_sql(one), any_case=True) for one in patterns]
    bad = f"{value} IS NULL AND NOT {is_moment} AND NOT ({' OR '.join(looks)})"
    if read.missing:
        bad += f" AND NOT {_is_one(to, text, read.missing)}"
    return _usual(to, value, read), f"{bad} AND NOT {_says_nothing(to, text)}"


def _usual(to: Statement, value: str, read: MomentCell) -> str:
    """Return seconds that stand for no missing moment."""
    says = [f"{value} >= {literal(FIRST_MOMENT)}", f"{value} < {literal(LAST_MOMENT)}"]
    if read.standins:
        says.append(f"{value} NOT IN ({', '.join(map(literal, read.standins))})")
    return to.add("cells", f"CASE WHEN {' AND '.join(says)} THEN {value} END")


def _is_one(to: Statement, text: str, words: Sequence[str]) -> str:
    return f"{text} IN ({', '.join(map(to.dialect.quoted, words))})"


def _says_nothing(to: Statement, text: str) -> str:
    """Return whether text is what people write where there is nothing to write."""
    return f"({to.dialect.matches(text, in_sql(NOTHING), any_case=True)})"
