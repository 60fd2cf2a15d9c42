"""Dates that no calendar has: a 30th of February, a 24th hour.

`strptime` counts on where a month ends, and makes 1 March of 30 February.  What is in a form and is
no date is missing, and a recipe names it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import Floats, Mask

#: What may count on: days at the end of a month, and seconds beyond a minute.
_SUSPICIOUS = r"29|3[01]|6[01]"
_ZONE = r"(?: ?(?:UTC|GMT|Z|[-+]\d{2}:?\d{2})(?: \([A-Za-z ]+\))?)?"
_PARTS = {
    "%Y": r"(?P<year>\d{4})", "%y": r"(?P<year>\d{2})",
    "%m": r"(?P<month>0?[1-9]|1[0-2])", "%d": r"(?P<day>0?[1-9]|[12]\d|3[01])",
    "%b": r"(?P<month>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[A-Za-z]*",
    "%a": r"[A-Za-z]+", "%H": r"\d{1,2}", "%I": r"\d{1,2}", "%M": r"\d{1,2}",
    "%S": r"(?P<second>\d{1,2})(?:[.,]\d+)?", "%p": r"(?i:[ap]m)",
    "%G": r"\d{4}", "%V": r"\d{2}(?:-?\d)?", "%q": r"\d",
}  # fmt: skip
_PARTS["%B"] = _PARTS["%b"]
#: Where the year comes first nothing else is told by which number is above 12.
_BEHIND_YEARS = {"%m": r"(?P<month>\d{1,2})", "%d": r"(?P<day>\d{1,2})"}
_LONGEST_MINUTE = 59.0


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
    found = pc.strptime(written, format=" ".join(names), unit="s", error_is_null=True)
    other = pc.not_equal(pc.day(found), pc.cast(day, pa.int64()))
    if "<second>" in pattern_of(form):
        seconds: Floats = np.asarray(pc.cast(pc.struct_field(parts, "second"), pa.float64()))
        other = pc.or_kleene(other, pa.array(seconds > _LONGEST_MINUTE))
    return np.asarray(other.fill_null(fill_value=False), np.bool_)


@lru_cache(maxsize=512)
def pattern_of(form: str) -> str:
    """Return what cells in a form look like, whatever numbers stand in them."""
    if form == "ISO":
        form = "%Y-%m-%d"
        time = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?" + _ZONE + ")?"
    else:
        time = _ZONE
    behind_year = form.startswith(("%Y", "%a %Y", "%a, %Y"))
    parts = _PARTS | (_BEHIND_YEARS if behind_year else {})
    words = re.findall(r"%[A-Za-z]|\s+|[^%\s]", form.removesuffix(" %z"))
    told = [parts.get(word) or (r"\s+" if word.isspace() else re.escape(word)) for word in words]
    return rf"^\s*{''.join(told)}{time}\s*$"
