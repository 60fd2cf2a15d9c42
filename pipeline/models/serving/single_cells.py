"""One cell of a row, as what its column holds: a number, a moment, a word.

What `encoding.cells` and `encoding.moments` define is taken at once of Python's own types and of
usual text; all else is read by them, as an Arrow array of one cell.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.encoding.apply_terms import TYPES_OF_LISTS
from fewpass.pipeline.tables.encoding.cells import (
    UNITS_OF_TIME,
    Read,
    Written,
    numbers_among,
    read_numbers,
    words_of,
)
from fewpass.pipeline.tables.encoding.moments import (
    BETWEEN,
    FIRST_MOMENT,
    ISO,
    LAST_MOMENT,
    pattern_of,
    read_moments,
)
from fewpass.pipeline.tables.encoding.python_cells import arrow_cells
from fewpass.pipeline.tables.encoding.terms import (
    Cell,
    ListCell,
    MomentCell,
    NumberCell,
    WordCell,
)

_LARGEST = sys.float_info.max  # what is larger is infinite, and so missing
_EPOCH = dt.date(1970, 1, 1).toordinal()
#: What most cells of numbers and dates look like; all others are read by Arrow.
_USUAL = {
    "plain": r"([-+]?\d{1,300}(?:\.\d+)?)",
    "units": r"[$€£]?((?:[1-9]\d{0,2}(?:,\d{3})+|\d{1,300})(?:\.\d+)?)",
    "comma": r"((?:[1-9]\d{0,2}(?:\.\d{3})+|\d{1,300})(?:,\d+)?)(?: ?€)?",
    "clock": r"(\d{1,3}):([0-5]\d):([0-5]\d)",
}
#: Of Arrow's patterns: no vertical tab is one, as of Python's.
_BLANK = r"[\t\n\f\r ]"
#: The parts of usual dates.
_DATE_PARTS = ("year", "month", "day", "hours", "minutes", "seconds")

T = TypeVar("T")
NumberOf = Callable[[Any], float | None]


def typed_cells(name: str, read: Cell | None, cells: Sequence[Any]) -> Any:
    """Return cells (n,) as an Arrow array of a type that their column reads; or raise BadInput."""
    kind = TYPES_OF_LISTS[read.cell] if isinstance(read, ListCell) else None
    try:
        given = cells if kind is None else [_listed(cell, kind) for cell in cells]
        return arrow_cells(given, kind, _written_in(read))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        fact = f"is {cells[0]!r:.80}, which is no value of it" if len(cells) == 1 else ""
        raise BadInput(
            f"Column {shown_name(name)} {fact or 'holds values of no one type'} ({error}). Give "
            "numbers, text or dates."
        ) from error


def _listed(cell: Any, kind: Any) -> Any:
    """Return a list, or the names and numbers of a map; TypeError for what Arrow takes for one."""
    if isinstance(cell, str | bytes) and cell:
        raise TypeError("text, and a list was expected")
    if not pa.types.is_map(kind):
        return cell
    pairs = [*cell.items()] if isinstance(cell, Mapping) else cell
    if isinstance(pairs, Iterable) and any(pair is None for pair in pairs):
        raise TypeError("a pair of it is missing")  # which ends the process
    return pairs


def _read_as(name: str, cell: Any, read: Callable[[Any], T]) -> T:
    """Return what a column reads of a cell by Arrow; BadInput where it is a list or a mapping."""
    cells = typed_cells(name, None, [cell])
    try:
        return read(cells)
    except pa.ArrowException as error:
        raise BadInput(
            f"Column {shown_name(name)} is {cell!r:.80}, which is no value of it ({error}). Give "
            "a number, text or a date."
        ) from error


def _written_in(read: Cell | None) -> Written | None:
    """Return how a column has numbers as text; None where it reads none."""
    if isinstance(read, MomentCell):
        return "plain" if read.form in UNITS_OF_TIME else None
    return read.written if isinstance(read, NumberCell) else None


def number_of(name: str, read: NumberCell) -> NumberOf:
    """Return the function from a cell to its number; None where it is missing.

    It raises BadInput, by the column's name, for a cell that is none.
    """
    usual = re.compile(_USUAL[read.written], re.ASCII).fullmatch
    gone = frozenset(numbers_among(read.missing, read.written))

    def of(cell: Any) -> float | None:
        if cell is None:
            return missing(cell)
        if isinstance(cell, float | int):
            return float(cell) if is_number(cell) and cell not in gone else missing(cell)
        if isinstance(cell, str) and (parts := usual(cell)):
            number = _usual_number(parts.groups(), read.written)
            return number if number not in gone else missing(cell)
        return read_by_arrow(cell)

    def missing(cell: Any) -> float | None:
        if not read.required:
            return None
        raise refused(cell)

    def read_by_arrow(cell: Any) -> float | None:
        numbers, bad = _read_as(
            name, cell, lambda cells: read_numbers(cells, read.written, read.missing)
        )
        if bad is not None and not read.takes_words:
            raise refused(cell)
        return missing(cell) if np.isnan(numbers[0]) else float(numbers[0])

    def refused(cell: Any) -> BadInput:
        return BadInput(f"Column {shown_name(name)} is {cell!r:.80}, but a number was expected.")

    return of


def is_number(cell: Any) -> bool:
    """Say whether a cell is a float, or will be one, and no infinite one."""
    return isinstance(cell, float | int) and -_LARGEST <= cell <= _LARGEST


def _usual_number(parts: Sequence[str], written: Written) -> float:
    if written == "clock":
        return float(int(parts[0]) * 3600 + int(parts[1]) * 60 + int(parts[2]))
    if written == "units":
        return float(parts[0].replace(",", ""))
    return float(parts[0].replace(".", "").replace(",", ".") if written == "comma" else parts[0])


def moment_of(name: str, read: MomentCell) -> NumberOf:
    """Return the function from a cell to its seconds since 1970; None where it is missing."""
    standins, at_once = frozenset(read.standins), _moments_at_once(read)

    def of(cell: Any) -> float | None:
        if cell is None:
            return None
        seconds = at_once(cell)
        if seconds is None:
            return read_by_arrow(cell)
        usual = FIRST_MOMENT <= seconds < LAST_MOMENT and seconds not in standins
        return seconds if usual else None

    def moments_in(cells: Any) -> Read:
        return read_moments(cells, read.form, read.missing, read.standins, read.first_year)

    def read_by_arrow(cell: Any) -> float | None:
        seconds, bad = _read_as(name, cell, moments_in)
        if bad is not None:
            raise BadInput(f"Column {shown_name(name)} is {cell!r:.80}, but a date was expected.")
        return None if np.isnan(seconds[0]) else float(seconds[0])

    return of


def _moments_at_once(read: MomentCell) -> NumberOf:
    """Return the function from dates, and text of digits alone, to seconds; None for others."""
    if (unit := UNITS_OF_TIME.get(read.form or "")) is not None:
        return lambda cell: unit * cell if is_number(cell) else None
    first = (read.form or ISO).partition(BETWEEN)[0]
    pattern = pattern_of(first).replace(r"\s", _BLANK)
    usual = re.compile(pattern, re.ASCII).fullmatch
    missing = frozenset(read.missing)

    def of(cell: Any) -> float | None:
        if isinstance(cell, str) and cell not in missing:
            return _seconds(parts.groupdict()) if (parts := usual(cell)) else None
        if type(cell) is dt.date:
            return 86_400.0 * (cell.toordinal() - _EPOCH)
        if type(cell) is dt.datetime:
            ahead = cell.utcoffset()  # years 0 and 10,000 are none of Python's
            return calendar.timegm(cell.timetuple()) - (ahead.total_seconds() if ahead else 0.0)
        return None

    return of


def _seconds(parts: Mapping[str, str | None]) -> float | None:
    """Return the seconds of a date of digits alone; None where it is another, or no day."""
    given = {name for name, text in parts.items() if text is not None}
    if not {"year", "month", "day"} <= given <= set(_DATE_PARTS):
        return None
    year, month, day, hour, minute, second = (int(parts.get(k) or 0) for k in _DATE_PARTS)
    try:
        moment = dt.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - of no zone
    except ValueError:
        return None
    return float(calendar.timegm(moment.utctimetuple()))


def word_of(name: str, read: WordCell) -> Callable[[Any], str | None]:
    """Return the function from a cell to its text; None where it is missing."""
    missing = frozenset(read.missing) | {""}

    def of(cell: Any) -> str | None:
        if not isinstance(cell, str):
            cell = _read_as(name, cell, words_of)[0].as_py()
        return None if cell in missing else cell

    return of
