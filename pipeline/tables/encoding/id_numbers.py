"""Whole numbers that are names (padded, or longer than doubles are exact), or times since 1970."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import (
    UNITS_OF_TIME,
    Read,
    is_numeric,
    is_text,
    read_numbers,
)
from fewpass.solvers.bad_input import MOST_WHOLE

#: Share of the cells that begin with a zero, and that may have another width.
_PADDED, _STRAY = 0.001, 0.01
#: Digits that something may stand behind, at least.
_ZIP = 4
#: A whole number with an exponent of three digits and more.
_POWER = r"^\d+[eE]\d{3,}$"
#: Digits of text that may be beyond; cells that are looked at.
_DIGITS, _TRIED = 16, 1000


_YEAR_2000, _YEAR_2040 = 946_684_800.0, 2_208_988_800.0
_SECONDS_OF_DAY = 86_400.0
#: Words of names: created_at, eventTime, ts_ms; and those of names that are no times all the same.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TIMES = frozenset({
    "at", "birthdate", "date", "dates", "datetime", "day", "days", "dt", "enddate", "endtime",
    "epoch", "eventtime", "since", "startdate", "starttime", "time", "times", "timestamp",
    "timestamps", "ts", "unixtime", "until", "utc", "when",
})  # fmt: skip
_IDS = frozenset({
    "code", "codes", "guid", "hash", "id", "ids", "key", "keys", "no", "nr", "number", "ref", "sku",
    "uid", "uuid",
})  # fmt: skip


def is_whole(kind: Any) -> bool:
    """Return whether an Arrow type is one of whole numbers."""
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0))


def are_ids(cells: Any) -> bool:
    """Return whether whole numbers, an Arrow array of them or of text, are ids and no amounts."""
    if is_whole(cells.type):
        return _are_beyond_doubles(cells)
    ways = (_are_padded, _are_too_long, _are_extended, _are_infinite)
    return any(are_names(cells) for are_names in ways)


def _are_padded(cells: Any) -> bool:
    """Return whether digits are padded with zeros to one width, as zip codes are."""
    padded = cells.filter(pc.starts_with(cells, "0"))
    padded = padded.filter(pc.match_substring_regex(padded, r"^0\d+$"))
    if len(padded) <= _PADDED * len(cells):
        return False
    width = pc.mode(pc.binary_length(padded))[0]["mode"].as_py()
    alike = pc.match_substring_regex(cells, rf"^\d{{{width}}}$")
    written = pc.match_substring_regex(cells, r"\d")
    return bool(pc.sum(alike).as_py() >= (1.0 - _STRAY) * pc.sum(written).as_py())


def _are_extended(cells: Any) -> bool:
    """Return whether digits are of one width, and some go on behind a dash: 98115, 98115-4820."""
    plain = pc.match_substring_regex(cells, r"^\d+$")
    others = cells.filter(pc.invert(plain))
    if not len(others) or len(others) > _STRAY * len(cells):
        return False
    width = pc.mode(pc.binary_length(cells))[0]["mode"].as_py()
    extended = pc.match_substring_regex(others, rf"^\d{{{width}}}-\d+$")
    if width < _ZIP or pc.sum(extended).as_py() < len(others):
        return False
    alike = pc.match_substring_regex(cells, rf"^\d{{{width}}}$")
    return bool(pc.sum(alike).as_py() >= (1.0 - _STRAY) * len(cells))


def _are_too_long(cells: Any) -> bool:
    if not (pc.max(pc.binary_length(cells)).as_py() or 0) >= _DIGITS:
        return False
    long = cells.filter(pc.match_substring_regex(cells, rf"^[-+]?\d{{{_DIGITS},}}$"))
    return any(not _is_exact(word) for word in long[:_TRIED].to_pylist())


def _are_infinite(cells: Any) -> bool:
    """Return whether some are larger than all numbers: 12E456 is an id whose letter is an E."""
    powers = cells.filter(pc.match_substring_regex(cells, _POWER))
    numbers = pc.cast(powers, pa.float64())
    return bool(pc.any(pc.is_inf(numbers)).as_py())


def _is_exact(digits: str) -> bool:
    """Return whether a double is exact; Python reads no whole number of thousands of digits."""
    number = float(digits)
    return math.isfinite(number) and int(number) == int(digits)


def _are_beyond_doubles(cells: Any) -> bool:
    numbers = cells.drop_null()
    ends = pc.min_max(numbers)
    largest = max((abs(end) for end in ends.as_py().values() if end is not None), default=0)
    if largest <= MOST_WHOLE:
        return False
    return any(int(float(number)) != number for number in numbers.to_pylist())


def unit_since_1970(cells: Any) -> str | None:
    """Return the unit in which numbers may count the time since 1970, all of 2000 to 2039; or None.

    So do ids of 10, 13, 16 or 19 digits.
    """
    if not (is_numeric(cells.type) or is_text(cells.type)) or cells.null_count == len(cells):
        return None
    return unit_of(read_numbers(cells))


def unit_of(read: Read) -> str | None:
    """Return the unit in which numbers that were read (n,) may count the time since 1970."""
    numbers, bad = read
    if bad is not None or np.isnan(numbers).all():
        return None
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    for unit, seconds in UNITS_OF_TIME.items():
        if low * seconds >= _YEAR_2000 and high * seconds < _YEAR_2040:
            return unit
    return None


def are_times(name: str, cells: Any) -> bool:
    """Return whether numbers count time since 1970: by their column's name, or as whole days."""
    unit = unit_since_1970(cells)
    return unit is not None and (says_time(name) or _are_days(cells, UNITS_OF_TIME[unit]))


def says_time(name: str) -> bool:
    """Return whether the name of a column is that of times."""
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(words & _TIMES) and not words & _IDS


def says_id(name: str) -> bool:
    """Return whether the name of a column is that of ids."""
    return bool({word.lower() for word in _WORD.findall(name)} & _IDS)


def _are_days(cells: Any, seconds: float) -> bool:
    numbers = read_numbers(cells).values
    present = numbers[~np.isnan(numbers)]
    return not np.mod(present, _SECONDS_OF_DAY / seconds).any()
