"""One cell of a row, as what its column holds: a number, a moment, a word.

What Python's own types say, and usual text, is taken at once; all else is read as the columns of
files are, by Arrow.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME, Written, read_numbers, words_of
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.maps import Map
from fewpass.pipeline.tables.encoding.moments import FIRST_MOMENT, ISO, LAST_MOMENT, read_moments
from fewpass.pipeline.tables.encoding.terms import MomentCell, NumberCell

_EPOCH = dt.date(1970, 1, 1).toordinal()
#: What most cells of numbers and dates look like; all others are read by Arrow.
_USUAL = {
    "plain": re.compile(r"([-+]?\d{1,300}(?:\.\d+)?)").fullmatch,
    "units": re.compile(r"[$€£]?((?:[1-9]\d{0,2}(?:,\d{3})+|\d{1,300})(?:\.\d+)?)").fullmatch,
    "comma": re.compile(r"((?:[1-9]\d{0,2}(?:\.\d{3})+|\d{1,300})(?:,\d+)?)(?: ?€)?").fullmatch,
    "clock": re.compile(r"(\d{1,3}):([0-5]\d):([0-5]\d)").fullmatch,
}
_DIGITS = {
    "%Y": r"(?P<Y>\d{4})", "%m": r"(?P<m>\d\d)", "%d": r"(?P<d>\d\d)", "%H": r"(?P<H>\d\d)",
    "%M": r"(?P<M>\d\d)", "%S": r"(?P<S>\d\d)",
}  # fmt: skip
_ISO_DAYS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S")

NumberOf = Callable[[Any], float | None]


def typed_cells(name: str, part: ColumnRecipe | None, cells: Sequence[Any]) -> Any:
    """Return cells (n,) as an Arrow array of a type that their column reads; or raise BadInput."""
    kind = _LISTS.get(getattr(part, "kind", ""))
    if isinstance(part, Map):
        cells = [[*cell.items()] if isinstance(cell, Mapping) else cell for cell in cells]
    try:
        return pa.array(cells, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"Column {shown_name(name)} holds values of no one type ({error}). Make them alike: "
            "numbers, text or dates."
        ) from error


_LISTS = {
    "map": pa.map_(pa.string(), pa.float64()),
    "tags": pa.large_list(pa.large_string()),
    "vector": pa.large_list(pa.float64()),
}


def number_of(name: str, read: NumberCell) -> NumberOf:
    """Return the function from a cell to its number; None where it is missing.

    It raises BadInput, by the column's name, for a cell that is none.
    """
    usual, missing = _USUAL[read.written], frozenset(read.missing)

    def of(cell: Any) -> float | None:
        if cell is None:
            if read.required:
                raise refused(cell)
            return None
        if isinstance(cell, float | int):
            return float(cell) if math.isfinite(cell) else of(None)
        if isinstance(cell, str) and (parts := usual(cell)) and cell not in missing:
            return _usual_number(parts.groups(), read.written)
        return read_by_arrow(cell)

    def read_by_arrow(cell: Any) -> float | None:
        numbers, bad = _read(
            name, cell, lambda cells: read_numbers(cells, read.written, read.missing)
        )
        if bad is not None and not read.takes_words:
            raise refused(cell)
        return of(None) if np.isnan(numbers[0]) else float(numbers[0])

    def refused(cell: Any) -> BadInput:
        return BadInput(f"Column {shown_name(name)} is {cell!r:.80}, but a number was expected.")

    return of


def _usual_number(parts: Sequence[str], written: Written) -> float:
    if written == "clock":
        return float(int(parts[0]) * 3600 + int(parts[1]) * 60 + int(parts[2]))
    if written == "units":
        return float(parts[0].replace(",", ""))
    return float(parts[0].replace(".", "").replace(",", ".") if written == "comma" else parts[0])


def moment_of(name: str, read: MomentCell) -> NumberOf:
    """Return the function from a cell to its seconds since 1970; None where it is missing."""
    standins, unit = frozenset(read.standins), UNITS_OF_TIME.get(read.form or "", 1.0)
    at_once = _moments_at_once(read)

    def of(cell: Any) -> float | None:
        if cell is None:
            return None
        if isinstance(cell, float | int):
            seconds: float | None = float(cell) * unit
        else:
            seconds = at_once(cell)
        if seconds is None:
            return read_by_arrow(cell)
        usual = FIRST_MOMENT <= seconds < LAST_MOMENT and seconds not in standins
        return seconds if usual else None

    def read_by_arrow(cell: Any) -> float | None:
        seconds, bad = _read(
            name, cell, lambda cells: read_moments(cells, read.form, read.missing, read.standins)
        )
        if bad is not None:
            raise BadInput(f"Column {shown_name(name)} is {cell!r:.80}, but a date was expected.")
        return None if np.isnan(seconds[0]) else float(seconds[0])

    return of


def _moments_at_once(read: MomentCell) -> NumberOf:
    """Return the function from dates, and text of digits alone, to seconds; None for others."""
    forms = _ISO_DAYS if read.form in (None, ISO) else (read.form or "",)
    patterns = [pattern for form in forms if (pattern := _pattern_of(form))]
    missing = frozenset(read.missing)

    def of(cell: Any) -> float | None:
        if isinstance(cell, str) and cell not in missing:
            return next((_seconds(p.groupdict()) for m in patterns if (p := m(cell))), None)
        if type(cell) is dt.date:
            return 86_400.0 * (cell.toordinal() - _EPOCH)
        if type(cell) is dt.datetime:
            return float(calendar.timegm(cell.utctimetuple()))
        return None

    return of


def _pattern_of(form: str) -> Callable[[str], re.Match[str] | None] | None:
    """Return what matches a form of years, months and days as digits, each once; else None."""
    words = re.findall(r"%[A-Za-z]|[^%]", form)
    parts = [word for word in words if word.startswith("%")]
    if not {"%Y", "%m", "%d"} <= set(parts) <= set(_DIGITS) or len(parts) > len(set(parts)):
        return None
    return re.compile("".join(_DIGITS.get(word) or re.escape(word) for word in words)).fullmatch


def _seconds(parts: dict[str, str]) -> float | None:
    """Return the seconds of a date that is written in digits; None where it is none."""
    year, month, day, hour, minute, second = (int(parts.get(k, 0)) for k in "YmdHMS")
    try:
        moment = dt.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - of no zone
    except ValueError:
        return None
    return float(calendar.timegm(moment.utctimetuple()))


def word_of(name: str, cell: Any) -> str | None:
    """Return a cell as text; None where it is missing."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, float) and math.isnan(cell):
        return None
    word: str | None = _read(name, cell, words_of)[0].as_py()
    return word


def _read(name: str, cell: Any, how: Callable[[Any], Any]) -> Any:
    try:
        return how(pa.array([cell]))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"Column {shown_name(name)} is {cell!r:.80}, which is no value of it ({error})."
        ) from error
