"""Dates and times, typed or as text, as seconds since 1970.

Text is matched by one regular expression per form, and its parts are counted by NumPy's calendar.
Text in a form that is no date, such as a 30 February, is missing.  SQL uses the same patterns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import (
    NOT_FINITE,
    NOTHING,
    UNITS_OF_TIME,
    Floats,
    Read,
    abridged,
    hashable,
    is_moment,
    read_numbers,
    without,
)

#: Forms besides those of `strptime`: 2024-W05 or 2024-W05-3, 2024-Q1, and ISO 8601.
WEEKS, QUARTERS, ISO = "%G-W%V", "%Y-Q%q", "ISO"
#: Separates the forms of a column that has several.
BETWEEN = "|"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Their names in any case, as not all engines have a flag for it.
_NAMES = "|".join("".join(f"[{c.upper()}{c}]" for c in name) for name in MONTHS)
#: A zone behind a time.
ZONE = (
    r" ?(?:UTC|GMT|Z|(?P<zone_sign>[-+])(?P<zone_hours>\d{2})(?::?(?P<zone_minutes>\d{2})"
    r"(?::?(?P<zone_seconds>\d{2}))?)?)"
    r"(?: \([A-Za-z ]+\))?"
)
#: The part of each code of a form, and its digits; an optional one is there between other digits.
_NUMBERS = {
    "%Y": ("year", r"\d{4}"), "%G": ("year", r"\d{4}"), "%y": ("short_year", r"\d{2}"),
    "%m": ("month", r"0?[1-9]|1[0-2]"), "%d": ("day", r"0?[1-9]|[12]\d|3[01]"),
    "%H": ("hours", r"[01]?\d|2[0-3]"), "%I": ("hours", "0?[1-9]|1[0-2]"),
    "%M": ("minutes", r"[0-5]?\d"), "%S": ("seconds", r"[0-5]?\d"), "%q": ("quarter", "[1-4]"),
    "%V": ("week", r"0[1-9]|[1-4]\d|5[0-3]"), "%u": ("weekday", "[1-7]"),
}  # fmt: skip
#: Codes whose numbers may be out of range in text that looks like a date: of days and months only
#: where the year comes first, as elsewhere a number above 12 tells them apart.
_LOOSE, _DAYS = ("%H", "%I", "%M", "%S", "%V", "%u", "%q"), ("%m", "%d")
_OTHERS = {
    "%b": rf"(?P<name>{_NAMES})[A-Za-z]*", "%a": "[A-Za-z]+",
    "%p": "(?P<half>[AaPp])[Mm]", "%z": rf"(?:{ZONE})?",
}  # fmt: skip
_OTHERS["%B"] = _OTHERS["%b"]
_FRACTION = r"(?:[.,]\d+)?"
_ISO = "%Y-%m-%d(?:[T ]%H(?::%M(?::%S)?)?%z)?"
_WEEK_OR_QUARTER = {"-W": "-?W", "%V": "%V(?:-?%u)?", "-Q": "[- ]?Q"}
#: Days that stand for a missing one: 0000-00-00, and those of the first and the last years.
_NO_DAY = r"^[0\s:./TZ+-]*$"
FIRST_MOMENT, LAST_MOMENT = -62_104_000_000.0, 253_370_764_800.0  # within the years 1 and 9998
#: The hundred years of those of two digits begin here, unless a recipe says otherwise; otherwise
#: their middle is the latest up to the second number.
_FIRST_YEAR, _LATEST_MIDDLE = 1969, 2030
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: Cells whose cast is tried before all others.
_FIRST = 64


def read_moments(
    cells: Any, form: str | None = None, missing: tuple[str, ...] = (), standins: Any = (),
    first_year: int | None = None,
) -> Read:  # fmt: skip
    """Read dates or times as seconds since 1970.

    Text is in a form of `strptime`, or in several with a bar between them, or in ISO 8601 (None),
    which is read next to all forms, as typed dates are.  Numbers count in the unit that `form` is;
    where it is none they are what their digits say, as in 20261231.  Missing are the words given,
    the moments `standins`, days of zeros, those of the years 1 and 9999, and text in a form that is
    no date.  Years of two digits are of the hundred from `first_year` on [default: 1969].
    """
    if form in UNITS_OF_TIME:
        numbers, bad = read_numbers(cells, missing=missing)
        return Read(_without_standins(numbers * UNITS_OF_TIME[form], standins), bad)
    if is_moment(cells.type):
        return Read(_without_standins(_seconds(cells), standins))
    form = with_iso(form)
    cells = abridged(without(hashable(cells), missing))
    values = _read(cells, form, _FIRST_YEAR if first_year is None else first_year)
    unread = np.isnan(values) & np.asarray(pc.is_valid(cells), np.bool_)
    if unread.any():
        left = cells.filter(pa.array(unread))
        unread[unread] = ~np.asarray(pc.match_substring_regex(left, no_date_in(form)), np.bool_)
    return Read(_without_standins(values, standins), unread if unread.any() else None)


def with_iso(form: str | None) -> str:
    """Return forms of dates, ISO 8601 among them: as JSON has dates, and CSV has typed ones."""
    forms = (form or ISO).split(BETWEEN)
    return BETWEEN.join([*forms, *[ISO] * (ISO not in forms)])


@lru_cache(maxsize=512)
def no_date_in(form: str | None) -> str:
    """Return the pattern, for any engine, of text that is missing where it is no date.

    Words for nothing, days of zeros, and text in a form whose numbers are no day.
    """
    if form in UNITS_OF_TIME:
        return f"{NOTHING}|{NOT_FINITE}"
    days = [pattern_of(one, any_number=True) for one in with_iso(form).split(BETWEEN)]
    return re.sub(r"\?P<\w+>", "?:", "|".join([NOTHING, _NO_DAY, *days]))


def is_no_day(cells: Any) -> Any:
    """Return which cells of text are days of zeros: an Arrow array."""
    return pc.match_substring_regex(cells, _NO_DAY)


def impossible(cells: Any, form: str) -> Any:
    """Return which unread cells of text look like dates in a form: an Arrow array."""
    return pc.match_substring_regex(cells, pattern_of(form, any_number=True))


def stands_for_no_day(seconds: Floats) -> Any:
    """Return which moments (n,) are of a year that stands for a missing one."""
    with np.errstate(invalid="ignore"):
        return (seconds < FIRST_MOMENT) | (seconds >= LAST_MOMENT)


def _without_standins(seconds: Floats, standins: Any) -> Floats:
    gone = stands_for_no_day(seconds)
    if len(standins):
        gone |= np.isin(seconds, standins)
    return np.where(gone, np.nan, seconds)


def _read(cells: Any, forms: str, first_year: int) -> Floats:
    """Read every cell in the first form that it has; NaN where it has none."""
    values = np.full(len(cells), np.nan)
    for form in forms.split(BETWEEN):
        unread = np.isnan(values)
        left = cells if unread.all() else cells.filter(pa.array(unread))
        values[unread] = in_form(left, form, first_year)
    return values


def first_year_of(cells: Any, forms: Sequence[str]) -> int | None:
    """Return the first year of the hundred that years of two digits are most likely of.

    It begins behind the largest gap between those there are, in the century in which the middle of
    them is the latest up to 2030.  None where all are in the hundred from 1969 on, or all of a
    hundred are there, or no form has such years.
    """
    every = [in_form(cells, form) for form in forms if "%y" in form]
    seconds = np.concatenate([np.zeros(0), *every])
    years = seconds[~np.isnan(seconds)].astype("datetime64[s]").astype("datetime64[Y]")
    years = np.unique(years.astype(np.int64) + 1970)
    seen = np.sort(years % 100)
    gaps = np.diff(np.append(seen, seen[:1] + 100))
    if not len(gaps) or gaps.max() == 1:
        return None
    first = int(seen[(gaps.argmax() + 1) % len(seen)])
    middle = first + (100 - int(gaps.max())) / 2
    first += 2000 if 2000 + middle <= _LATEST_MIDDLE else 1900
    return None if ((first <= years) & (years < first + 100)).all() else first


@lru_cache(maxsize=512)
def pattern_of(form: str, *, any_number: bool = False) -> str:
    """Return the pattern of text in a form, with named groups for the parts of a date.

    Parameters
    ----------
    any_number
        Whether numbers may be out of range, as in 2026-02-61.
    """
    template = _template_of(form)
    loose = _LOOSE + _DAYS * template.startswith(("%Y", "%a %Y", "%a, %Y"))

    def part(match: re.Match[str]) -> str:
        code = match[0]
        if code not in _NUMBERS:
            return _OTHERS.get(code, code)
        name, digits = _NUMBERS[code]
        before, behind = template[: match.start()], template[match.end() :]
        if any_number and code in loose:
            digits = r"\d{1,2}"
        elif before[-2:] in _NUMBERS or behind[:2] in _NUMBERS:
            digits = digits.replace("?", "")
        return f"(?P<{name}>{digits})" + _FRACTION * (code == "%S")

    return rf"^\s*{re.sub('%[A-Za-z]', part, template)}\s*$"


def _template_of(form: str) -> str:
    """Return the pattern of a form, but for its codes; a zone may stand behind every time."""
    if form == ISO:
        return _ISO
    words = re.findall(r"%[A-Za-z]|-W|-Q|\s+|[^%\s]", form.removesuffix(" %z"))
    text = "".join(_WEEK_OR_QUARTER.get(word) or _escaped(word) for word in words)
    return text + "%z" * ("%H" in form or "%I" in form)


def _escaped(word: str) -> str:
    if word.isspace():
        return r"\s+"
    return word if word.startswith("%") else re.escape(word)


def in_form(cells: Any, form: str, first_year: int = _FIRST_YEAR) -> Floats:
    """Read cells (n,) of text in one form as seconds since 1970, NaN where they have another."""
    if form == ISO and (seconds := _by_cast(cells)) is not None:
        return seconds
    words = cells.dictionary_encode()
    parts = pc.extract_regex(words.dictionary, pattern_of(form))
    own = {part.name: pc.struct_field(parts, part.name) for part in parts.type}
    seconds = np.append(_seconds_of(own, first_year), np.nan)
    at = words.indices.fill_null(len(parts)).to_numpy(zero_copy_only=False)
    return np.asarray(seconds[at], np.float64)


def _by_cast(cells: Any) -> Floats | None:
    """Return the seconds of text that Arrow takes for dates, all of it; None otherwise."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            pc.cast(cells[:_FIRST], kind)
            return _seconds(pc.cast(cells, kind))
        except pa.ArrowInvalid:
            continue
    return None


def _seconds(moments: Any) -> Floats:
    """Return the whole seconds since 1970 that had gone by: half a second before it was -1."""
    unit = moments.type.unit if pa.types.is_timestamp(moments.type) else "ms"
    counts = pc.cast(pc.cast(moments, pa.timestamp(unit)), pa.int64())
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    whole = np.asarray(counts.fill_null(0)) // _PER_SECOND[unit]
    return np.where(np.asarray(counts.is_null()), np.nan, whole.astype(np.float64))


def _seconds_of(parts: Mapping[str, Any], first_year: int) -> Floats:
    """Return the seconds of dates in parts, text (n,) each; NaN where they are no day."""

    def number(name: str, default: float) -> Any:
        return _numbers(parts[name], default) if name in parts else default

    year = number("year", np.nan)
    if "short_year" in parts:
        year = first_year + np.mod(number("short_year", np.nan) - first_year, 100.0)
    month = 3.0 * number("quarter", 0.0) - 2.0 if "quarter" in parts else number("month", 1.0)
    if "name" in parts:
        names = pc.utf8_lower(parts["name"])
        places = pc.index_in(names, value_set=pa.array(MONTHS, names.type))
        month = np.array(pc.cast(places, pa.float64()).fill_null(np.nan)) + 1.0
    first, length = _month(12.0 * (year - 1970.0) + month - 1.0)
    day = number("day", 1.0)
    days = np.where(day <= length, first + day - 1.0, np.nan)
    if "week" in parts:
        monday, following = _first_monday(year), _first_monday(year + 1.0)
        start = monday + 7.0 * (number("week", 1.0) - 1.0)
        days = np.where(start < following, start + number("weekday", 1.0) - 1.0, np.nan)
    hours = number("hours", 0.0)
    if "half" in parts:
        is_late = pc.equal(pc.utf8_lower(parts["half"]), "p").fill_null(fill_value=False)
        hours = np.mod(hours, 12.0) + 12.0 * np.asarray(is_late)
    clock = 60.0 * (60.0 * hours + number("minutes", 0.0)) + number("seconds", 0.0)
    if "zone_sign" in parts:
        ahead = 60.0 * (60.0 * number("zone_hours", 0.0) + number("zone_minutes", 0.0))
        ahead = ahead + number("zone_seconds", 0.0)
        is_behind = pc.equal(parts["zone_sign"], "-").fill_null(fill_value=False)
        clock = clock - np.where(np.asarray(is_behind), -ahead, ahead)
    seconds: Floats = 86_400.0 * days + clock
    return seconds


def _numbers(words: Any, default: float) -> Floats:
    """Return the numbers (n,) of digits; a default where there are none."""
    words = pc.if_else(pc.equal(words, ""), pa.scalar(None, words.type), words)
    return np.array(pc.cast(words, pa.float64()).fill_null(default))


def _month(since: Floats) -> tuple[Floats, Floats]:
    """Return the days from 1970 to the first of months, counted from then, and their lengths."""
    months = np.nan_to_num(since).astype(np.int64)
    first, following = (
        k.astype("datetime64[M]").astype("datetime64[D]").astype(np.float64)
        for k in (months, months + 1)
    )
    return np.where(np.isnan(since), np.nan, first), following - first


def _first_monday(year: Floats) -> Floats:
    """Return the days from 1970 to the Monday of the week that has the fourth of January."""
    fourth = _month(12.0 * (year - 1970.0))[0] + 3.0
    monday: Floats = fourth - np.mod(fourth + 3.0, 7.0)  # 1970 began on a Thursday
    return monday
