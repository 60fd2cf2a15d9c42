"""Steps of numbers as ONNX: each on a matrix (n, m), a column for each of several terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fewpass.pipeline.models.export.graph_parts import DOUBLE, INT64, GraphParts
from fewpass.pipeline.tables.encoding.terms import (
    AtMost,
    Clip,
    DatePart,
    Interpolate,
    InYears,
    LogOfOneMore,
    Range,
    Standardise,
    Step,
)

_DAY, _YEAR = 86_400.0, 365.25 * 86_400.0
#: Several terms may take these together: all of them have as many numbers.
ALIKE = (Clip, LogOfOneMore, Standardise, AtMost)


def stepped(graph: GraphParts, x: str, steps: Sequence[Sequence[Step]]) -> str:
    """Return x (n, m) behind the steps of m terms, which are of the same kinds."""
    for several in zip(*steps, strict=True):
        x = _STEPS[type(several[0])](graph, x, several)
    return x


def finite(graph: GraphParts, x: str) -> tuple[str, str]:
    """Return x with 0 where it is no number, and where that is."""
    gone = graph.op("Or", graph.op("IsNaN", x), graph.op("IsInf", x))
    return graph.op("Where", gone, graph.number(0.0), x), gone


def interpolated(graph: GraphParts, x: str, points: Sequence[float], y: Sequence[float]) -> str:
    """Return straight lines through points, at x (n, 1)."""
    at, to = np.asarray(points, np.float64), np.asarray(y, np.float64)
    if len(at) == 1:
        return graph.op("Add", graph.op("Mul", x, graph.number(0.0)), graph.number(to[0]))
    x = _clipped(graph, x, graph.number(at[0]), graph.number(at[-1]))
    place = counted(graph, x, at[1:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(np.diff(at) > 0.0, np.diff(to) / np.diff(at), 0.0)
    base, height, slopes = (
        graph.op("Gather", graph.constant(part), place) for part in (at[:-1], to[:-1], slope)
    )
    return graph.op("Add", graph.op("Mul", graph.op("Sub", x, base), slopes), height)


def curves(graph: GraphParts, x: str, points: Any, heights: Any) -> str:
    """Return straight lines through points (m,), at x (n, 1), for each score: heights (m, K)."""
    x = _clipped(graph, x, graph.number(points[0]), graph.number(points[-1]))
    place = graph.op("Squeeze", counted(graph, x, points[1:-1]), graph.whole(1))
    base = graph.op("Gather", graph.constant(points[:-1].reshape(-1, 1)), place)
    low, slope = heights[:-1], np.diff(heights, axis=0) / np.diff(points)[:, None]
    low, slope = (graph.op("Gather", graph.constant(part), place) for part in (low, slope))
    return graph.op("Add", graph.op("Mul", graph.op("Sub", x, base), slope), low)


def counted(graph: GraphParts, x: str, edges: Sequence[float] | Any) -> str:
    """Return how many of some edges x (n, 1) is not below: int64."""
    if not len(edges):
        return graph.op("Cast", graph.op("Mul", x, graph.number(0.0)), to=INT64)
    beyond = graph.op("GreaterOrEqual", x, graph.constant(np.asarray(edges, np.float64)))
    return graph.op("ReduceSum", graph.op("Cast", beyond, to=INT64), graph.whole(1), keepdims=1)


def _clipped(graph: GraphParts, x: str, low: str, high: str) -> str:
    return graph.op("Min", graph.op("Max", x, low), high)


def _row(graph: GraphParts, numbers: list[float]) -> str:
    return graph.constant(np.array(numbers, np.float64))


def _clip(graph: GraphParts, x: str, steps: Sequence[Clip]) -> str:
    low, high = _row(graph, [s.low for s in steps]), _row(graph, [s.high for s in steps])
    return _clipped(graph, x, low, high)


def _log(graph: GraphParts, x: str, _steps: Sequence[LogOfOneMore]) -> str:
    return graph.op("Log", graph.op("Add", x, graph.number(1.0)))


def _standardise(graph: GraphParts, x: str, steps: Sequence[Standardise]) -> str:
    centred = graph.op("Sub", x, _row(graph, [s.mean for s in steps]))
    return graph.op("Div", centred, _row(graph, [s.deviation for s in steps]))


def _at_most(graph: GraphParts, x: str, steps: Sequence[AtMost]) -> str:
    below = graph.op("LessOrEqual", x, _row(graph, [s.bound for s in steps]))
    return graph.op("Cast", below, to=DOUBLE)


def _interpolate(graph: GraphParts, x: str, steps: Sequence[Interpolate]) -> str:
    return interpolated(graph, x, steps[0].x, steps[0].y)


def _range(graph: GraphParts, x: str, steps: Sequence[Range]) -> str:
    return counted(graph, x, steps[0].edges)


def _in_years(graph: GraphParts, x: str, steps: Sequence[InYears]) -> str:
    first, last = graph.number(steps[0].first), graph.number(steps[0].last)
    if steps[0].last - steps[0].first >= _YEAR:
        within = _clipped(graph, x, first, last)
        years = graph.op("Div", graph.op("Sub", x, within), graph.number(_YEAR))
        away = graph.op("Mul", graph.op("Sign", years), graph.op("Ceil", graph.op("Abs", years)))
        x = graph.op("Sub", x, graph.op("Mul", away, graph.number(_YEAR)))
    return _clipped(graph, x, first, last)


def _part(graph: GraphParts, x: str, steps: Sequence[DatePart]) -> str:
    """Return a part of a date: int64 of those that are codes."""
    if steps[0].of == "time of day":
        return graph.op("Div", _rest(graph, x, _DAY), graph.number(3600.0))
    if steps[0].of == "day of the year":
        return _day_of_year(graph, _floor(graph, x, _DAY))
    whole = graph.op("Floor", x)
    days = _floor(graph, whole, _DAY)
    if steps[0].of == "weekday":  # 1970 began on a Thursday
        part = _rest(graph, graph.op("Add", days, graph.number(3.0)), 7.0)
    elif steps[0].of == "hour":
        part = _floor(graph, _rest(graph, whole, _DAY), 3600.0)
    else:
        part = _month(graph, days)
    return graph.op("Cast", part, to=INT64)


def _since_march(graph: GraphParts, days: str) -> tuple[str, str]:
    """Return years of 400, which begin in March and end with a leap day, and days in them."""
    of_era = _rest(graph, graph.op("Add", days, graph.number(719_468.0)), 146_097.0)
    leaps = graph.op("Sub", of_era, _floor(graph, of_era, 1460.0))
    leaps = graph.op("Add", leaps, _floor(graph, of_era, 36_524.0))
    years = _floor(graph, graph.op("Sub", leaps, _floor(graph, of_era, 146_096.0)), 365.0)
    begun = graph.op("Mul", years, graph.number(365.0))
    begun = graph.op("Add", begun, _floor(graph, years, 4.0))
    begun = graph.op("Sub", begun, _floor(graph, years, 100.0))
    return years, graph.op("Sub", of_era, begun)


def _month(graph: GraphParts, days: str) -> str:
    """Return months from 0, of the Gregorian calendar."""
    _, since = _since_march(graph, days)
    fifths = graph.op("Add", graph.op("Mul", since, graph.number(5.0)), graph.number(2.0))
    return _rest(graph, graph.op("Add", _floor(graph, fifths, 153.0), graph.number(2.0)), 12.0)


def _day_of_year(graph: GraphParts, days: str) -> str:
    """Return days from 1 January on, which is 1: 306 days after 1 March, 1 March 60 or 61."""
    years, since = _since_march(graph, days)
    is_leap = graph.op("Sub", _is_multiple(graph, years, 4.0), _is_multiple(graph, years, 100.0))
    is_leap = graph.op("Add", is_leap, _is_multiple(graph, years, 400.0))
    in_spring = graph.op("Add", graph.op("Add", since, graph.number(60.0)), is_leap)
    in_winter = graph.op("Sub", since, graph.number(305.0))
    is_winter = graph.op("GreaterOrEqual", since, graph.number(306.0))
    return graph.op("Where", is_winter, in_winter, in_spring)


def _is_multiple(graph: GraphParts, years: str, of: float) -> str:
    rest = graph.op("Equal", _rest(graph, years, of), graph.number(0.0))
    return graph.op("Cast", rest, to=DOUBLE)


def _floor(graph: GraphParts, x: str, by: float) -> str:
    return graph.op("Floor", graph.op("Div", x, graph.number(by)))


def _rest(graph: GraphParts, x: str, by: float) -> str:
    return graph.op("Sub", x, graph.op("Mul", _floor(graph, x, by), graph.number(by)))


_STEPS: dict[type, Callable[[GraphParts, str, Any], str]] = {
    Clip: _clip, LogOfOneMore: _log, Standardise: _standardise, AtMost: _at_most,
    Interpolate: _interpolate, Range: _range, InYears: _in_years, DatePart: _part,
}  # fmt: skip
