"""Steps of numbers as SQL; NULL stays NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from fewpass.pipeline.models.export.sql_dialects import SqlDialect
from fewpass.pipeline.tables.encoding.terms import (
    Clip,
    DatePart,
    InYears,
    LogOfOneMore,
    Range,
    Standardise,
    Step,
)

_DAY, _YEAR = 86_400.0, 365.25 * 86_400.0
#: Terms of one sum: databases bound how deep expressions are.
_TOGETHER = 100


def literal(number: float) -> str:
    """Return a number in double precision: with an exponent no dialect takes it for a decimal."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def total(parts: Sequence[str]) -> str:
    """Return the sum of expressions, added up in groups."""
    groups = [parts[k : k + _TOGETHER] for k in range(0, len(parts), _TOGETHER)]
    lines = [f"({' + '.join(group)})" for group in groups]
    return "\n    + ".join(lines)


def stepped(dialect: SqlDialect, x: str, steps: Sequence[Step]) -> str:
    """Return x, the name of a column, behind steps."""
    for step in steps:
        x = _STEPS[type(step)](dialect, x, step)
    return x


def interpolated(x: str, points: Sequence[float], y: Sequence[float]) -> str:
    """Return straight lines between points, as one case for each."""
    cases = [f"WHEN {x} < {literal(points[0])} THEN {literal(y[0])}"]
    for (a, b), (low, high) in zip(pairwise(points), pairwise(y), strict=True):
        if b > a:
            line = f"{literal(low)} + ({x} - {literal(a)}) * {literal((high - low) / (b - a))}"
            cases.append(f"WHEN {x} < {literal(b)} THEN {line}")
    cases.append(f"WHEN {x} >= {literal(points[-1])} THEN {literal(y[-1])}")
    return f"CASE {' '.join(cases)} END"


def clipped(x: str, low: float, high: float) -> str:
    """Return x within bounds."""
    bounds = (literal(low), literal(high))
    return (
        f"CASE WHEN {x} < {bounds[0]} THEN {bounds[0]} WHEN {x} > {bounds[1]} THEN {bounds[1]} "
        f"ELSE {x} END"
    )


def _clip(_dialect: SqlDialect, x: str, step: Clip) -> str:
    return clipped(x, step.low, step.high)


def _log(_dialect: SqlDialect, x: str, _step: LogOfOneMore) -> str:
    return f"LN(1e0 + ({x}))"


def _standardise(_dialect: SqlDialect, x: str, step: Standardise) -> str:
    return f"(({x}) - {literal(step.mean)}) / {literal(step.deviation)}"


def _in_years(_dialect: SqlDialect, x: str, step: InYears) -> str:
    first, last, year = literal(step.first), literal(step.last), literal(_YEAR)
    x = (
        f"CASE WHEN {x} > {last} THEN {x} - CEIL(({x} - {last}) / {year}) * {year} "
        f"WHEN {x} < {first} THEN {x} + CEIL(({first} - {x}) / {year}) * {year} ELSE {x} END"
    )
    return clipped(f"({x})", step.first, step.last)


def _part(dialect: SqlDialect, x: str, step: DatePart) -> str:
    if step.of == "time of day":
        return f"({x} - FLOOR({x} / {literal(_DAY)}) * {literal(_DAY)}) / 3600e0"
    if step.of == "day of the year":
        return dialect.day_of_year.format(f"FLOOR({x})")
    x = f"FLOOR({x})"  # whole seconds; dialects differ in how they cut numbers
    if step.of == "month":
        return f"{dialect.month.format(x)} - 1"
    days = f"FLOOR({x} / {literal(_DAY)})"
    if step.of == "weekday":  # 1970 began on a Thursday
        return f"{days} + 3 - 7 * FLOOR(({days} + 3) / 7e0)"
    return f"FLOOR(({x} - {days} * {literal(_DAY)}) / 3600e0)"


def _range(_dialect: SqlDialect, x: str, step: Range) -> str:
    cases = [f"WHEN {x} < {literal(edge)} THEN {k}" for k, edge in enumerate(step.edges)]
    return f"CASE {' '.join(cases)} WHEN {x} IS NOT NULL THEN {len(step.edges)} END"


_STEPS: dict[type, Callable[[SqlDialect, str, Any], str]] = {
    Clip: _clip, LogOfOneMore: _log, Standardise: _standardise, Range: _range, InYears: _in_years,
    DatePart: _part,
}  # fmt: skip
