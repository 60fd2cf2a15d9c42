"""Cells of a table as SQL: numbers, seconds, words; NULL where they are missing.

A cell that `predict` refuses makes a condition true, and the row has no answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.sql_dates import in_sql, seconds_in, seconds_of_clock
from fewpass.pipeline.models.export.sql_dialects import LARGEST, ROW
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.models.export.sql_steps import literal
from fewpass.pipeline.tables.encoding.cells import (
    LONGEST_CELL,
    NOT_FINITE,
    UNITS_OF_TIME,
    Written,
    numbers_among,
)
from fewpass.pipeline.tables.encoding.moments import BETWEEN, FIRST_MOMENT, ISO, LAST_MOMENT
from fewpass.pipeline.tables.encoding.terms import (
    Cell,
    MomentCell,
    NumberCell,
    PairCell,
    WordCell,
)

#: What stands in numbers besides digits, signs and their mark; an E of a currency is no exponent.
_STRANGE = {"units": "[^0-9.()+-]", "comma": "[A-Z]{3}|[^0-9,eE()+-]"}
#: Blanks of ASCII, and Unicode's others: no-break ones stand behind numbers of spreadsheets.
_BLANK = "[\\s\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+"
_BLANKS = f"^{_BLANK}|{_BLANK}$"


def cell_of(to: Statement, columns: Sequence[str], read: Cell, *, hashed: bool) -> tuple[str, str]:
    """Return the column of a row's cell, NULL where it is missing, and when it is refused.

    BadInput for what no SQL reads.
    """
    cells = [f"{ROW}.{to.dialect.named(name)}" for name in columns]
    if isinstance(read, NumberCell):
        return _number(to, cells[0], read)
    if isinstance(read, MomentCell):
        return _moment(to, cells[0], read)
    if isinstance(read, WordCell):
        return _word(to, cells[0], read, hashed=hashed), ""
    if isinstance(read, PairCell):
        first, second = (_word(to, cell, read, hashed=True) for cell in cells)
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
    _, text, typed = _texts(to, cell)
    trimmed = to.add("read", to.dialect.without(text, _BLANKS))
    fits = to.dialect.matches(trimmed, in_sql(read.shape))
    if read.written == "plain":
        not_finite = to.dialect.matches(trimmed, in_sql(NOT_FINITE), any_case=True)
        fits = f"({fits} OR {not_finite})"
    fits = to.add("parts", f"{fits} AND LENGTH({text}) <= {LONGEST_CELL}")
    said = f"CASE WHEN {fits} THEN {_written(to, trimmed, read.written)} END"
    said = _unless(to, text, read.missing, said)
    value = f"CASE WHEN {typed} IS NOT NULL THEN {typed} ELSE {said} END"
    for number in numbers_among(read.missing, read.written):
        value = f"NULLIF({value}, {literal(number)})"
    value = to.add("values", value)
    return value, f"{typed} IS NULL AND NOT {fits} AND {_says_something(to, text, read)}"


def _texts(to: Statement, cell: str) -> tuple[str, str, str]:
    """Return the type of a cell, its text, and its number where the type is one of numbers."""
    kind = to.add("texts", to.dialect.kind_of(cell))
    text = to.add("texts", to.dialect.as_text(cell))
    return kind, text, to.add("numbers", to.dialect.typed_number(kind, text))


def _word(to: Statement, cell: str, read: WordCell | PairCell, *, hashed: bool) -> str:
    word = to.add("read", to.dialect.as_word(*_texts(to, cell)))
    said = _hashable(to, word) if hashed else word
    return to.add("values", _unless(to, word, read.missing, said))


def _hashable(to: Statement, word: str) -> str:
    """Return the column of a word, `3.0` as `3`."""
    whole = to.dialect.matches(word, "^-?[0-9]+[.]0$")
    shorter = to.dialect.without(word, "[.]0$")
    return to.add("known", f"CASE WHEN {whole} THEN {shorter} ELSE {word} END")


def _written(to: Statement, text: str, written: Written) -> str:
    """Return text that looks like a number as the number that it says."""
    if written == "plain":
        return to.dialect.number_in(text)
    if written == "clock":
        return seconds_of_clock(to, text)
    digits = f"REPLACE({to.dialect.without(text, _STRANGE[written])}, ',', '.')"
    size = to.dialect.number_in(f"REPLACE(REPLACE({digits}, '(', ''), ')', '')")
    return f"CASE WHEN {digits} LIKE '(%' THEN -1 ELSE 1 END * {size}"


def _moment(to: Statement, cell: str, read: MomentCell) -> tuple[str, str]:
    unit = UNITS_OF_TIME.get(read.form or "")
    if unit is not None:
        value, bad = _said(to, cell, NumberCell(missing=read.missing))
        return _usual(to, f"{value} * {literal(unit)}", read), bad
    kind, text, number = _texts(to, cell)
    word = _hashable(to, to.add("read", to.dialect.as_word(kind, text, number)))
    forms = (read.form or ISO).split(BETWEEN)
    moments = [seconds_in(to, word, form, read.first_year) for form in forms]
    every = moments[0] if len(moments) == 1 else f"COALESCE({', '.join(moments)})"
    value = to.add("values", _unless(to, word, read.missing, every))
    unread = f"{value} IS NULL AND NOT {to.dialect.is_moment(kind)}"
    return _usual(to, value, read), f"{unread} AND {_says_something(to, word, read)}"


def _usual(to: Statement, value: str, read: MomentCell) -> str:
    """Return seconds that stand for no missing moment."""
    says = [f"{value} >= {literal(FIRST_MOMENT)}", f"{value} < {literal(LAST_MOMENT)}"]
    if read.standins:
        says.append(f"{value} NOT IN ({', '.join(map(literal, read.standins))})")
    return to.add("cells", f"CASE WHEN {' AND '.join(says)} THEN {value} END")


def _unless(to: Statement, word: str, missing: Sequence[str], value: str) -> str:
    """Return a value, unless a word stands for a missing one."""
    if not missing:
        return value
    return f"CASE WHEN {word} NOT IN ({_listed(to, missing)}) THEN {value} END"


def _says_something(to: Statement, text: str, read: NumberCell | MomentCell) -> str:
    """Return whether text is none that counts as missing."""
    says = f"NOT ({to.dialect.matches(text, in_sql(read.nothing), any_case=True)})"
    return f"{says} AND {text} NOT IN ({_listed(to, read.missing)})" if read.missing else says


def _listed(to: Statement, words: Sequence[str]) -> str:
    return ", ".join(map(to.dialect.quoted, words))
