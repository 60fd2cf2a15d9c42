"""Dates as SQL: a pattern cuts text into its parts, of which days and seconds are counted.

No database reads all text that others do, and some fail on what is no date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.tables.encoding.moments import ISO

_ZONE = (
    r" ?(?:UTC|GMT|Z|(?P<sign>[-+])(?P<zone_hours>\d{2})(?::?(?P<zone_minutes>\d{2}))?"
    r"(?: [(][A-Za-z ]+[)])?)"
)
#: What `strptime` calls by these.
_PARTS = {
    "%Y": r"(?P<year>\d{4})", "%y": r"(?P<short_year>\d{2})", "%m": r"(?P<month>0?[1-9]|1[0-2])",
    "%d": r"(?P<day>0?[1-9]|[12]\d|3[01])", "%b": r"(?P<name>[A-Za-z]{3})[A-Za-z]*",
    "%a": "[A-Za-z]+", "%H": r"(?P<hour>[01]?\d|2[0-3])", "%I": r"(?P<hour>0?[1-9]|1[0-2])",
    "%M": r"(?P<minute>[0-5]?\d)", "%S": r"(?P<second>[0-5]?\d)(?:[.,]\d+)?",
    "%p": "(?P<half>[AaPp])[Mm]", "%z": _ZONE,
}  # fmt: skip
_ISO = "%Y-%m-%d(?:[T ]%H:(?P<minute>[0-5]\\d)(?::(?P<second>[0-5]\\d)(?:[.,]\\d+)?)?(?:%z)?)?"
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_WORDS = ("sign", "half", "name")


def seconds_in(to: Statement, text: str, form: str) -> str:
    """Return trimmed text in one form as seconds since 1970; NULL where it is none.

    BadInput for a form that is not known.
    """
    pattern = re.compile(f"^{_pattern_of(form)}$")
    cut = to.add("parts", to.dialect.groups(text, in_sql(pattern.pattern), pattern.groups))
    part = {name: to.dialect.group(cut, k) for name, k in pattern.groupindex.items()}
    for name in part.keys() - _WORDS:
        part[name] = f"CAST({part[name]} AS {to.dialect.number})"
    year, month, day, clock = (
        to.add("dates", of)
        for of in (_year(part), _month(part), part.get("day", "1e0"), _clock(part))
    )
    days = _days(year, month, day)
    return f"CASE WHEN {day} <= {_length(year, month)} THEN {days} * 86400e0 + {clock} END"


def in_sql(pattern: str) -> str:
    """Return a pattern as all dialects read it: groups have no names, and digits are of ASCII."""
    pattern = re.sub(r"\(\?P<\w+>", "(", pattern)
    return pattern.replace("(?i:", "(?:").replace(r"\d", "[0-9]")


def _pattern_of(form: str) -> str:
    if form == ISO:
        return re.sub("%[A-Za-z]", lambda code: _PARTS[code[0]], _ISO)
    known = form.replace(" %z", "%z").replace("%B", "%b").replace("%A", "%a")
    words = re.findall(r"%[A-Za-z]|\s+|[^%\s]", known)
    if unknown := [word for word in words if word.startswith("%") and word not in _PARTS]:
        raise BadInput(f"its dates are written as {form!r}, and SQL reads no {unknown[0]}")
    return "".join(
        _PARTS.get(word) or (r"\s+" if word.isspace() else re.escape(word)) for word in words
    )


def _year(part: Mapping[str, str]) -> str:
    if "short_year" not in part:
        return part["year"]
    year = part["short_year"]
    return f"{year} + CASE WHEN {year} < 69 THEN 2000e0 ELSE 1900e0 END"


def _month(part: Mapping[str, str]) -> str:
    if "name" not in part:
        return part.get("month", "1e0")
    return f"(STRPOS('{_MONTHS}', LOWER({part['name']})) + 2) / 3e0"


def _clock(part: Mapping[str, str]) -> str:
    """Return seconds since midnight of UTC."""
    hour = part.get("hour", "0e0")
    if "half" in part:
        hour = (
            f"CASE WHEN {hour} = 12 THEN 0e0 ELSE {hour} END "
            f"+ CASE WHEN LOWER({part['half']}) = 'p' THEN 12e0 ELSE 0e0 END"
        )
    seconds = [f"COALESCE({hour}, 0e0) * 3600e0"]
    seconds += [
        f"COALESCE({part[name]}, 0e0) * {size}" for name, size in _SIZES.items() if name in part
    ]
    total = " + ".join(seconds)
    if "sign" not in part:
        return total
    ahead = " + ".join(
        f"COALESCE({part[f'zone_{name}']}, 0e0) * {size}"
        for name, size in (("hours", "3600e0"), ("minutes", "60e0"))
    )
    return f"{total} - CASE {part['sign']} WHEN '-' THEN -1e0 ELSE 1e0 END * ({ahead})"


_SIZES = {"minute": "60e0", "second": "1e0"}


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
