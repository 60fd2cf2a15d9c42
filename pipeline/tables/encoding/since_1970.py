"""Numbers that count the time since 1970: ids of as many digits lie between them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME, is_numeric, is_text, read_numbers

_YEAR_2000, _YEAR_2040 = 946_684_800.0, 2_208_988_800.0
_SECONDS_OF_DAY = 86_400.0
#: Words of names: created_at, eventTime, ts_ms; and those of names that are no times all the same.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TIMES = frozenset(
    {
        *(
            "at",
            "date",
            "dates",
            "datetime",
            "day",
            "days",
            "dt",
            "epoch",
            "since",
            "time",
            "times",
        ),
        *("timestamp", "timestamps", "ts", "unixtime", "until", "utc", "when", "birthdate"),
        *("startdate", "enddate", "starttime", "endtime", "eventtime"),
    }
)
_IDS = frozenset(
    {
        *("code", "codes", "guid", "hash", "id", "ids", "key", "keys", "no", "nr", "number", "ref"),
        *("sku", "uid", "uuid"),
    }
)


def unit_since_1970(cells: Any) -> str | None:
    """Return the unit in which numbers may count the time since 1970, all of 2000 to 2039; or None.

    So do ids of 10, 13, 16 or 19 digits.
    """
    if not (is_numeric(cells.type) or is_text(cells.type)) or cells.null_count == len(cells):
        return None
    numbers, bad = read_numbers(cells)
    if bad is not None or np.isnan(numbers).all():
        return None
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    for unit, seconds in UNITS_OF_TIME.items():
        if low * seconds >= _YEAR_2000 and high * seconds < _YEAR_2040:
            return unit
    return None


def are_times(name: str, cells: Any) -> bool:
    """Say whether numbers count the time since 1970: by their column's name, or as whole days."""
    unit = unit_since_1970(cells)
    return unit is not None and (says_time(name) or _are_days(cells, UNITS_OF_TIME[unit]))


def says_time(name: str) -> bool:
    """Say whether the name of a column is that of times."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _TIMES) and not words & _IDS


def _are_days(cells: Any, seconds: float) -> bool:
    numbers = read_numbers(cells).values
    known = numbers[~np.isnan(numbers)]
    return not np.mod(known, _SECONDS_OF_DAY / seconds).any()
