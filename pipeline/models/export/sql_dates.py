"""Dates as SQL: a pattern cuts text into its parts, of which days and seconds are counted.

No database reads all text that others do, and some fail on what is no date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.tables.encoding.cells import CLOCK, SPAN
from fewpass.pipeline.tables.encoding.moments import MONTHS, pattern_of

_MONTHS = "".join(MONTHS)
#: Of the hundred that years of two digits are of, unless a recipe says otherwise.
_FIRST_YEAR = 1969
_WORDS = ("sign", "zone_sign", "half", "name")


def seconds_in(to: Statement, text: str, form: str, first_year: int | None) -> str:
    """Return text in one form as seconds since 1970; NULL where it is none.

    Years of two digits are of the hundred from `first_year` on.  BadInput for weeks and quarters.
    """
    part = _parts_of(to, text, pattern_of(form))
    if unread := {"week", "quarter"} & set(part):
        raise BadInput(f"its dates are written as {form!r}, and SQL reads no {min(unread)}")
    year = to.add("dates", _year(part, _FIRST_YEAR if first_year is None else first_year))
    month, day = to.add("dates", _month(part)), to.add("dates", part.get("day", "1e0"))
    clock = to.add("dates", _clock(part))
    days = _days(year, month, day)
    return f"CASE WHEN {day} <= {_length(year, month)} THEN {days} * 86400e0 + {clock} END"


def seconds_of_clock(to: Statement, text: str) -> str:
    """Return a time of a day, or a span of time, as seconds."""
    return f"COALESCE({', '.join(_seconds_by(to, text, one) for one in (CLOCK, SPAN))})"


def _seconds_by(to: Statement, text: str, pattern: str) -> str:
    """Return seconds; in days and a time of day the sign is that of the days."""
    part = _parts_of(to, text, pattern)
    fits = to.dialect.matches(text, in_sql(pattern))
    clock = to.add("dates", f"CASE WHEN {fits} THEN {_clock(part)} END")
    days = to.add("dates", f"COALESCE({part['days']}, 0e0) * 86400e0")
    is_minus, of_days = f"{part['sign']} = '-'", "FALSE" if pattern == SPAN else f"{days} > 0e0"
    return (
        f"CASE WHEN {is_minus} AND {of_days} THEN {clock} - {days} "
        f"WHEN {is_minus} THEN -({days} + {clock}) ELSE {days} + {clock} END"
    )


def _parts_of(to: Statement, text: str, pattern: str) -> dict[str, str]:
    """Return what the named groups of a pattern match in text: numbers, but for a few; or NULL."""
    groups = re.compile(pattern)
    cut = to.add("parts", to.dialect.groups(text, in_sql(pattern), groups.groups))
    part = {name: to.dialect.group(cut, k) for name, k in groups.groupindex.items()}
    return {
        name: text if name in _WORDS else f"CAST({text} AS {to.dialect.number})"
        for name, text in part.items()
    }


def in_sql(pattern: str) -> str:
    """Return a pattern as all dialects read it: groups have no names, and digits are of ASCII."""
    pattern = re.sub(r"\(\?P<\w+>", "(", pattern)
    return pattern.replace("(?i:", "(?:").replace(r"\d", "[0-9]")


def _year(part: Mapping[str, str], first: int) -> str:
    if "short_year" not in part:
        return part["year"]
    since = f"({part['short_year']} - {first}e0)"
    return f"{first}e0 + {since} - 100e0 * FLOOR({since} / 100e0)"


def _month(part: Mapping[str, str]) -> str:
    if "name" not in part:
        return part.get("month", "1e0")
    return f"(STRPOS('{_MONTHS}', LOWER({part['name']})) + 2) / 3e0"


def _clock(part: Mapping[str, str]) -> str:
    """Return seconds since midnight, of UTC where there is a zone."""
    hour = part.get("hours", "0e0")
    if "half" in part:
        half = f"CASE WHEN LOWER(SUBSTR({part['half']}, 1, 1)) = 'p' THEN 12e0 ELSE 0e0 END"
        twelve = f"{hour} - 12e0 * FLOOR({hour} / 12e0) + {half}"
        hour = f"CASE WHEN {part['half']} IS NULL THEN {hour} ELSE {twelve} END"
    total = _sum([(hour, 3600), (part.get("minutes"), 60), (part.get("seconds"), 1)])
    if "zone_hours" not in part:
        return total
    zone = [(part["zone_hours"], 3600), (part["zone_minutes"], 60), (part["zone_seconds"], 1)]
    ahead = _sum(zone)
    return f"{total} - CASE {part['zone_sign']} WHEN '-' THEN -1e0 ELSE 1e0 END * ({ahead})"


def _sum(parts: Sequence[tuple[str | None, int]]) -> str:
    return " + ".join(f"COALESCE({part}, 0e0) * {size}e0" for part, size in parts if part)


def _length(year: str, month: str) -> str:
    """Return the days of a month."""
    fourth, hundredth, era = (f"{year} = FLOOR({year} / {n}e0) * {n}e0" for n in (4, 100, 400))
    is_leap = f"{fourth} AND (NOT {hundredth} OR {era})"
    return (
        f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 "
        f"WHEN {is_leap} THEN 29 ELSE 28 END"
    )


def _days(year: str, month: str, day: str) -> str:
    """Return days since 1970; years begin in March, so that their last day may be a leap day."""
    early = f"CASE WHEN {month} <= 2 THEN 1e0 ELSE 0e0 END"
    begun, since = f"({year} - {early})", f"({month} + 12e0 * {early} - 3e0)"
    leaps = f"FLOOR({begun} / 4e0) - FLOOR({begun} / 100e0) + FLOOR({begun} / 400e0)"
    return f"(365e0 * {begun} + {leaps} + FLOOR((153e0 * {since} + 2e0) / 5e0) + {day} - 719469e0)"
