"""Dates and times, typed or as text, as seconds since 1970.

`strptime` counts on where a month ends, and makes 1 March of 30 February: what is in a form and is
no date is missing, and a recipe names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import (
    NOTHING,
    UNITS_OF_TIME,
    Floats,
    Mask,
    Read,
    abridged,
    hashable,
    is_moment,
    read_numbers,
    without,
)

#: Forms that `strptime` does not know: 2024-W05 or 2024-W05-3, and 2024-Q1.
WEEKS, QUARTERS = "%G-W%V", "%Y-Q%q"
ISO = "ISO"
#: Stands between the forms of a column that has several.
BETWEEN = "|"
_WEEK = r"^\s*(?P<year>\d{4})-?W(?P<week>0[1-9]|[1-4]\d|5[0-3])(?:-?(?P<day>[1-7]))?\s*$"
_QUARTER = r"^\s*(?P<year>\d{4})[- ]?Q(?P<quarter>[1-4])\s*$"
_ISO = (
    r"^\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])"
    r"([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[-+]\d{2}:?\d{2})?)?$"
)
#: Months, days and hours of one digit.
_SHORT = (
    (r"^(\d{4})-(\d)-", r"\1-0\2-"),
    (r"^(\d{4}-\d{2})-(\d)([T ].*)?$", r"\1-0\2\3"),
    (r"^(\d{4}-\d{2}-\d{2}[T ])(\d:)", r"\10\2"),
)
#: Zones behind a time.
_ZULU, _TIME = r" ?(?:UTC|GMT|Z)$", r"(:\d{2}(?:[.,]\d+)?|T\d{4,6})"
_ZONE = _TIME + r" ?([-+]\d{2}):?(\d{2})(?: \([A-Za-z ]+\))?$"
_HOURS = _TIME + r" ?([-+]\d{2})$"  # of a zone, as PostgreSQL writes it
_HAS_ZONE = rf"{_ZONE}|{_HOURS}|{_TIME}{_ZULU}"
#: More digits of a second than count.
_FRACTION = r"(:\d{2})[.,](\d{1,6})\d*"
#: Days that stand for a missing one: 0000-00-00, and those of the first and the last years.
_NO_DAY = r"^[0\s:./TZ+-]*$"
#: Years of two digits are about a middle up to this one.
_LATEST_MIDDLE = 2030
YEAR_1000 = -30_610_224_000.0
FIRST_MOMENT, LAST_MOMENT = -62_104_000_000.0, 253_370_764_800.0  # within the years 1 and 9998


#: What may count on: days at the end of a month, and seconds beyond a minute.
_SUSPICIOUS = r"29|3[01]|6[01]"
_ANY_ZONE = r"(?: ?(?:UTC|GMT|Z|[-+]\d{2}(?::?\d{2})?)(?: \([A-Za-z ]+\))?)?"
_PARTS = {
    "%Y": r"(?P<year>\d{4})", "%y": r"(?P<year>\d{2})",
    "%m": r"(?P<month>0?[1-9]|1[0-2])", "%d": r"(?P<day>0?[1-9]|[12]\d|3[01])",
    "%b": r"(?P<month>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[A-Za-z]*",
    "%a": r"[A-Za-z]+", "%H": r"\d{1,2}", "%I": r"\d{1,2}", "%M": r"\d{1,2}",
    "%S": r"(?P<second>\d{1,2})(?:[.,]\d+)?", "%p": r"(?i:[ap]m)",
    "%G": r"\d{4}", "%V": r"\d{2}(?:-?\d)?", "%q": r"\d",
}  # fmt: skip
_PARTS["%B"] = _PARTS["%b"]
#: Where the year comes first, a number above 12 decides nothing.
_BEHIND_YEARS = {"%m": r"(?P<month>\d{1,2})", "%d": r"(?P<day>\d{1,2})"}
_LONGEST_MINUTE = 59.0
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def read_moments(
    cells: Any, form: str | None = None, missing: tuple[str, ...] = (), standins: Any = (),
    first_year: int | None = None,
) -> Read:  # fmt: skip
    """Read dates or times as seconds since 1970.

    Text is in a form of `strptime`, or in several with a bar between them, or in ISO 8601 (None),
    which is read next to all forms, as typed dates are.  Numbers count in the unit that `form` is;
    where it is none they are what their digits say, as in 20261231.  Missing are the words given,
    the moments `standins`, days of zeros, those of the years 1 and 9999, and what is written as a
    date and is none.  Years of two digits are of the hundred from `first_year` on [default: 1969].
    """
    if form in UNITS_OF_TIME:
        numbers, bad = read_numbers(cells, missing=missing)
        return Read(_without_standins(numbers * UNITS_OF_TIME[form], standins), bad)
    if is_moment(cells.type):
        return Read(_without_standins(_seconds(cells), standins))
    form = with_iso(form)
    cells = abridged(without(hashable(cells), missing))
    values = _read(cells, form, first_year)
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
    """Return what text looks like that is missing where it is no date: a pattern of any engine.

    Words for nothing, days of zeros, and what is in a form and is no day.
    """
    if form in UNITS_OF_TIME:
        return NOTHING
    days = [pattern_of(one) for one in with_iso(form).split(BETWEEN)]
    return re.sub(r"\?P<\w+>", "?:", "|".join([NOTHING, _NO_DAY, *days]))


def is_no_day(cells: Any) -> Any:
    """Say which cells of text are days of zeros: an Arrow array."""
    return pc.match_substring_regex(cells, _NO_DAY)


def stands_for_no_day(seconds: Floats) -> Any:
    """Say which moments (n,) are of a year that stands for a missing one."""
    with np.errstate(invalid="ignore"):
        return (seconds < FIRST_MOMENT) | (seconds >= LAST_MOMENT)


def has_zone(cells: Any) -> Any:
    """Say which cells of text end in the zone of a time: an Arrow array."""
    return pc.match_substring_regex(cells, _HAS_ZONE)


def _without_standins(seconds: Floats, standins: Any) -> Floats:
    gone = stands_for_no_day(seconds)
    if len(standins):
        gone |= np.isin(seconds, standins)
    return np.where(gone, np.nan, seconds)


def _read(cells: Any, forms: str, first_year: int | None) -> Floats:
    """Read every cell in the first form that it has; NaN where it has none."""
    values = np.full(len(cells), np.nan)
    for form in forms.split(BETWEEN):
        unread = np.isnan(values)
        left = cells if unread.all() else cells.filter(pa.array(unread))
        read = _with_whole_years(left, form)
        if first_year is not None and "%y" in form:
            read = _in_hundred(read, first_year)
        values[unread] = read
    return values


def first_year_of(cells: Any, forms: Sequence[str]) -> int | None:
    """Return the first year of the hundred that years of two digits are most likely of.

    It begins behind the largest gap between those there are, in the century in which the middle of
    them is the latest up to 2030.  None where `strptime` has them in the same years, or all of a
    hundred are there, or no form has such years.
    """
    every = [in_form(cells, form) for form in forms if "%y" in form]
    seconds = np.concatenate([np.zeros(0), *every])
    years = seconds[~np.isnan(seconds)].astype("datetime64[s]").astype("datetime64[Y]")
    seen = np.unique((years.astype(np.int64) + 1970) % 100)
    gaps = np.diff(np.append(seen, seen[:1] + 100))
    if not len(gaps) or gaps.max() == 1:
        return None
    first = int(seen[(gaps.argmax() + 1) % len(seen)])
    middle = first + (100 - int(gaps.max())) / 2
    first += 2000 if 2000 + middle <= _LATEST_MIDDLE else 1900
    same = (_in_hundred(seconds, first) == seconds) | np.isnan(seconds)
    return None if same.all() else first


def _in_hundred(seconds: Floats, first_year: int) -> Floats:
    """Return moments (n,) in the hundred years from one on, on the same days."""
    missing = np.isnan(seconds)
    moments = np.where(missing, 0.0, seconds).astype("datetime64[s]")
    months = moments.astype("datetime64[M]")
    centuries = (months.astype(np.int64) // 12 + 1970 - first_year) // 100
    moved = (months - 1200 * centuries).astype("datetime64[s]") + (moments - months)
    return np.where(missing, np.nan, moved.astype(np.float64))


def _with_whole_years(cells: Any, form: str) -> Floats:
    """Read cells in one form, but 26 is no year where there are to be four digits."""
    values = in_form(cells, form)
    early = values < YEAR_1000
    if "%Y" in form and early.any():
        four = pc.match_substring_regex(cells.filter(pa.array(early)), r"\d{4}")
        early[early] = ~np.asarray(four, np.bool_)
        values[early] = np.nan
    return values


def in_form(cells: Any, form: str) -> Floats:
    """Read cells (n,) of text in one form as seconds since 1970, NaN where they have another."""
    if form == ISO:
        return _iso(cells)
    if form == WEEKS:
        return _weeks(cells)
    if form == QUARTERS:
        return _quarters(cells)
    values = _strptime(cells, form)
    unread = np.isnan(values) & np.asarray(pc.is_valid(cells), np.bool_)
    if unread.any():
        values[unread] = _strptime(_tidy(cells.filter(pa.array(unread)), r"\1"), form)
    return values


def _strptime(cells: Any, form: str) -> Floats:
    values = _seconds(pc.strptime(cells, format=form, unit="s", error_is_null=True))
    values[counted_on(cells, form)] = np.nan
    return values


def _tidy(cells: Any, fraction: str) -> Any:
    """Write zones as +0000, and the fractions of seconds otherwise."""
    cells = pc.replace_substring_regex(pc.utf8_trim_whitespace(cells), _ZULU, "+0000")
    cells = pc.replace_substring_regex(cells, _HOURS, r"\1 \2:00")
    cells = pc.replace_substring_regex(cells, _ZONE, r"\1 \2\3")
    return pc.replace_substring_regex(cells, _FRACTION, fraction)


def _iso(cells: Any) -> Floats:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return _seconds(pc.cast(cells, kind))
        except pa.ArrowInvalid:
            continue
    tidy = pc.replace_substring_regex(_tidy(cells, r"\1.\2"), r" ([-+]\d{4})$", r"\1")
    fits = pc.match_substring_regex(tidy, _ISO)
    if not pc.all(fits).as_py():
        for short, padded in _SHORT:
            tidy = pc.replace_substring_regex(tidy, short, padded)
        fits = pc.match_substring_regex(tidy, _ISO)
    zoned = has_zone(tidy)
    local = _cast(tidy, pc.and_(fits, pc.invert(zoned)), pa.timestamp("us"))
    absolute = _cast(tidy, pc.and_(fits, zoned), pa.timestamp("us", "UTC"))
    return np.where(np.isnan(local), absolute, local)


def _cast(cells: Any, fits: Any, kind: Any) -> Floats:
    """Read the cells that look right; a 30th of February does, too, and must not spoil others."""
    cells = pc.if_else(fits, cells, pa.scalar(None, cells.type))
    try:
        return _seconds(pc.cast(cells, kind))
    except pa.ArrowInvalid:
        words = cells.dictionary_encode()
        moments = pa.chunked_array([_one(word, kind) for word in words.dictionary], kind)
        return _seconds(moments.take(words.indices))


def _one(word: Any, kind: Any) -> Any:
    try:
        return pc.cast(pa.array([word]), kind)
    except pa.ArrowInvalid:
        return pa.array([None], kind)


def _weeks(cells: Any) -> Floats:
    """Return the first days of weeks, or the days given of them."""
    parts = pc.extract_regex(cells, _WEEK)
    year, week, day = (_numbers(parts, name) for name in ("year", "week", "day"))
    fourth = _january(year) + 3.0  # of January, which is in the first week
    monday = fourth - np.mod(fourth + 3.0, 7.0)  # 1970 began on a Thursday
    following = _january(year + 1.0) + 3.0
    week[monday + 7.0 * (week - 1.0) >= following - np.mod(following + 3.0, 7.0)] = np.nan  # no W53
    return (monday + 7.0 * (week - 1.0) + np.where(np.isnan(day), 0.0, day - 1.0)) * 86_400.0


def _quarters(cells: Any) -> Floats:
    parts = pc.extract_regex(cells, _QUARTER)
    year, quarter = (_numbers(parts, name) for name in ("year", "quarter"))
    months = (year - 1970.0) * 12.0 + (quarter - 1.0) * 3.0
    return _days(months, "M") * 86_400.0


def _january(years: Floats) -> Floats:
    return _days(years - 1970.0, "Y")


def _days(since: Floats, unit: str) -> Floats:
    """Return the days from 1970 to years or months since then; NaN where they are."""
    dates = np.nan_to_num(since).astype(np.int64).astype(f"datetime64[{unit}]")
    days = dates.astype("datetime64[D]").astype(np.float64)
    return np.where(np.isnan(since), np.nan, days)


def _numbers(parts: Any, name: str) -> Floats:
    words = pc.struct_field(parts, name)
    words = pc.if_else(pc.equal(words, ""), pa.scalar(None, words.type), words)
    return np.array(pc.cast(words, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _seconds(moments: Any) -> Floats:
    """Return the whole seconds since 1970 that had gone by: half a second before it was -1."""
    unit = moments.type.unit if pa.types.is_timestamp(moments.type) else "ms"
    counts = pc.cast(pc.cast(moments, pa.timestamp(unit)), pa.int64())
    if isinstance(counts, pa.ChunkedArray):
        counts = counts.combine_chunks()
    whole = np.asarray(counts.fill_null(0)) // _PER_SECOND[unit]
    return np.where(np.asarray(counts.is_null()), np.nan, whole.astype(np.float64))


def impossible(cells: Any, form: str) -> Any:
    """Say which cells of text, that were not read, are in a form and no dates: an Arrow array."""
    if not len(cells):
        return pa.array([], pa.bool_())
    return pc.match_substring_regex(cells, pattern_of(form))


def counted_on(cells: Any, form: str) -> Mask:
    """Say of which cells (n,) `strptime` makes the date after one that is none."""
    perhaps = np.asarray(
        pc.match_substring_regex(cells, _SUSPICIOUS).fill_null(fill_value=False), np.bool_
    )
    if perhaps.any() and "<day>" in pattern_of(form):
        perhaps[perhaps] = _are_other_days(cells.filter(pa.array(perhaps)), form)
    else:
        perhaps[:] = False
    return perhaps


def _are_other_days(cells: Any, form: str) -> Mask:
    parts = pc.extract_regex(cells, pattern_of(form))
    year, month, day = (pc.struct_field(parts, name) for name in ("year", "month", "day"))
    names = "%Y" if "%Y" in form else "%y", "%m" if "%m" in form else "%b", "%d"
    written = pc.binary_join_element_wise(year, month, day, pa.scalar(" ", year.type))
    dates = pc.strptime(written, format=" ".join(names), unit="s", error_is_null=True)
    other = pc.not_equal(pc.day(dates), pc.cast(day, pa.int64()))
    if "<second>" in pattern_of(form):
        seconds: Floats = np.asarray(pc.cast(pc.struct_field(parts, "second"), pa.float64()))
        other = pc.or_kleene(other, pa.array(seconds > _LONGEST_MINUTE))
    return np.asarray(other.fill_null(fill_value=False), np.bool_)


@lru_cache(maxsize=512)
def pattern_of(form: str) -> str:
    """Return what cells in a form look like, whatever numbers stand in them."""
    if form == "ISO":
        form = "%Y-%m-%d"
        time = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?" + _ANY_ZONE + ")?"
    else:
        time = _ANY_ZONE
    behind_year = form.startswith(("%Y", "%a %Y", "%a, %Y"))
    parts = _PARTS | (_BEHIND_YEARS if behind_year else {})
    words = re.findall(r"%[A-Za-z]|\s+|[^%\s]", form.removesuffix(" %z"))
    patterns = [
        parts.get(word) or (r"\s+" if word.isspace() else re.escape(word)) for word in words
    ]
    return rf"^\s*{''.join(patterns)}{time}\s*$"
