"""The forms in which a column's dates are written, inferred from a sample."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import STRAY, frequent, says_nothing
from fewpass.pipeline.tables.encoding.moments import (
    BETWEEN,
    ISO,
    QUARTERS,
    WEEKS,
    ZONE,
    impossible,
    in_form,
    is_no_day,
    stands_for_no_day,
)

#: Cells that forms are tried on; the first of these on some.
_TRIED, _SOME = 1000, 50
#: Forms of one column; words in it that stand for a missing date.
_MOST_FORMS, _MOST_WORDS = 3, 10

_DAYS = (
    "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y",
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y",
    "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y",
    "%Y-%m-%d", "%Y.%m.%d", "%d/%b/%Y", "%b %d %Y", "%Y%m%d",
)  # fmt: skip
_TIMES = (
    "", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", ":%H:%M:%S", "T%H:%M:%S", "T%H%M%S",
)  # fmt: skip
_WITH_DAYS = (*(f"{day}{time}" for day in _DAYS for time in _TIMES), "%b %d %H:%M:%S %Y")
#: Their years are of our times, or any two numbers would be one.
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", QUARTERS)
_FORMS = (ISO, *_WITH_DAYS, WEEKS, *_MONTHS)
_YEAR_1900, _YEAR_2100 = -2_208_988_800.0, 4_102_444_800.0
_YEAR_1000 = -30_610_224_000.0
_HAS_ZONE = rf"(?::\d{{2}}(?:[.,]\d+)?|T\d{{4,6}}){ZONE}$"
_WEEKDAY = r"^\s*(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*"
#: What looks like a date at all; forms are tried on nothing else.
_DATELIKE = (
    rf"({_WEEKDAY},? |^\s*)"
    r"(\d{1,4}[-/. ]\s?(\d|[A-Za-z]{3})|[A-Za-z]{3,9}\.?[- ]\d{1,4}\b|\d{4}[- ]?[WQ]\d|"
    r"\d{8}(T\d|$))"
)
#: What nobody takes for anything else.
_SURELY = (
    rf"({_WEEKDAY},? |^\s*)"
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}[-/]\d{1,2}[-/]\d{2}|"
    r"(\d{1,2}[-/. ]+)?(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[-/., ]+\d+)"
    r"($|[ T,:])"
)


class Dates(NamedTuple):
    """The form in which the dates of a column are written."""

    form: str | None  # see `read_moments`
    missing: tuple[str, ...]  # words that stand for a missing one


def dates_in(cells: Any, order: str | None = None) -> Dates | None:
    """Return how most cells, Arrow text without nulls, are dates; None where they are not.

    Parameters
    ----------
    order
        Whether days (dmy) or months (mdy) come first in numbers; None: as cells tell, and where
        they do not, months between slashes, days between dots and dashes.
    """
    if _share(_that_say_something(cells[:_TRIED]), _DATELIKE) < 0.4:
        return None
    left, forms = _that_say_something(cells), list[str]()
    strays, n, gone = STRAY * len(left), len(left), 0
    while len(forms) < _MOST_FORMS:
        form = _commonest(left, forms, order)
        if form is None:
            return None
        form = form if order else _as_cells_tell(left, form)
        forms.append(form)
        unread = left.filter(pa.array(np.isnan(in_form(left, form))))
        left = unread.filter(pc.invert(impossible(unread, form)))
        gone += len(unread) - len(left)
        if gone > n / 2:
            return None
        words = recurring(left, len(cells))
        if len(left.filter(pc.invert(pc.is_in(left, words)))) <= strays:
            joined = BETWEEN.join(forms)
            return Dates(None if joined == ISO else joined, tuple(sorted(words.to_pylist())))
    return None


def order_of(form: str) -> str | None:
    """Return which of day and month comes first, dmy or mdy, in a form that has both as numbers."""
    day, month, year = form.find("%d"), form.find("%m"), max(form.find("%Y"), form.find("%y"))
    if min(day, month) < 0 or year < min(day, month):
        return None
    return "dmy" if day < month else "mdy"


def turned(form: str) -> str:
    """Return a form with day and month in the other order."""
    return re.sub("%[dm]", lambda match: "%m" if match[0] == "%d" else "%d", form)


def _as_cells_tell(cells: Any, form: str) -> str:
    """Return a form, or the one in the other order where more cells are dates in it."""
    if order_of(form) is None:
        return form
    return min(form, turned(form), key=lambda one: int(np.isnan(in_form(cells, one)).sum()))


def is_open(cells: Any, form: str) -> bool:
    """Return whether cells of text are other dates in the other order, and none tells which."""
    if order_of(form) is None:
        return False
    one, two = in_form(cells, form), in_form(cells, turned(form))
    read = ~np.isnan(one)
    return bool((~np.isnan(two[read])).all() and (one[read] != two[read]).any())


def _in_order(order: str | None) -> tuple[str, ...]:
    """Return the forms to try, those in another order turned."""
    if order is None:
        return _FORMS
    turns = (turned(form) if order_of(form) not in (None, order) else form for form in _FORMS)
    return tuple(dict.fromkeys(turns))


def has_days(form: str | None) -> bool:
    """Return whether dates in a form, or in one of several, are days."""
    return not set((form or ISO).split(BETWEEN)) <= {WEEKS, *_MONTHS}


def look_like_dates(cells: Any) -> bool:
    """Return whether text looks like dates to everybody."""
    return bool(len(cells)) and _share(cells[:_TRIED], _SURELY) > 0.9


def recurring(cells: Any, n: int) -> Any:
    """Return words without digits that many of n cells are, as an Arrow array; none if too many."""
    words = cells.filter(pc.invert(pc.match_substring_regex(cells, r"\d")))
    common = frequent(words, n)
    return common if len(common) <= _MOST_WORDS else common[:0]


def _that_say_something(cells: Any) -> Any:
    return cells.filter(pc.invert(pc.or_(says_nothing(cells), is_no_day(cells))))


def _share(cells: Any, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(cells, pattern)).as_py() or 0.0)


def _commonest(cells: Any, others: list[str], order: str | None) -> str | None:
    """Return the first form of almost all cells, or that of most; None where there is none."""
    tried = cells[:_TRIED]
    before, behind = _around(tried)
    shares: dict[str, float] = {}
    candidates = _in_order(order)
    for form in (f"{before}{form}{behind}" if "%d" in form else form for form in candidates):
        if any(_is_turned(form, other) for other in others):
            continue
        if _share_in(tried[:_SOME], form) and (share := _share_in(tried, form)):
            shares[form] = share
            if share >= 1.0 - STRAY:
                return form
    return max(shares, key=shares.__getitem__) if shares else None


def _around(cells: Any) -> tuple[str, str]:
    """Return the forms of weekdays and zones around the dates of most cells."""
    before = ""
    for comma in (", ", " "):
        if _share(cells, rf"{_WEEKDAY}{comma}\S") > 0.5:
            before = f"%a{comma}"
    return before, " %z" if _share(cells, _HAS_ZONE) > 0.5 else ""


def _is_turned(form: str, other: str) -> bool:
    """Return whether one form has the days first where the other one has months: 1/2 is in both."""
    one, two = form.removeprefix("%a, ")[:5], other.removeprefix("%a, ")[:5]
    return "%d" in one and "%m" in one and one != two and one == two[3:] + two[2:3] + two[:2]


def _share_in(cells: Any, form: str) -> float:
    """Return the share of cells that are dates in a form; 0 where some are before our times."""
    moments = in_form(cells, form)
    read = moments[~np.isnan(moments)]
    days = read[~stands_for_no_day(read)]
    low, high = (_YEAR_1000, np.inf) if has_days(form) else (_YEAR_1900, _YEAR_2100)
    if len(days) * 2 <= len(read) or days.min() < low or days.max() >= high:
        return 0.0  # 1-2-3 is no day of the year 3
    return len(read) / len(cells)
