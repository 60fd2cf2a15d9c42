"""Steps of numbers as ONNX: each on numbers (n, 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fewpass.pipeline.models.export.graph_parts import DOUBLE, INT64, GraphParts
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


def stepped(graph: GraphParts, x: str, steps: Sequence[Step]) -> str:
    """Return x (n, 1) behind steps."""
    for step in steps:
        x = _STEPS[type(step)](graph, x, step)
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
    x = clipped(graph, x, graph.number(at[0]), graph.number(at[-1]))
    place = counted(graph, x, at[1:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(np.diff(at) > 0.0, np.diff(to) / np.diff(at), 0.0)
    base, height, slopes = (
        graph.op("Gather", graph.constant(part), place) for part in (at[:-1], to[:-1], slope)
    )
    return graph.op("Add", graph.op("Mul", graph.op("Sub", x, base), slopes), height)


def counted(graph: GraphParts, x: str, edges: Sequence[float] | Any) -> str:
    """Return how many of some edges x (n, 1) is not below: int64."""
    if not len(edges):
        return graph.op("Cast", graph.op("Mul", x, graph.number(0.0)), to=INT64)
    beyond = graph.op("GreaterOrEqual", x, graph.constant(np.asarray(edges, np.float64)))
    return graph.op("ReduceSum", graph.op("Cast", beyond, to=INT64), graph.whole(1), keepdims=1)


def clipped(graph: GraphParts, x: str, low: str, high: str) -> str:
    """Return x between two constants."""
    return graph.op("Min", graph.op("Max", x, low), high)


def _clip(graph: GraphParts, x: str, step: Clip) -> str:
    return clipped(graph, x, graph.number(step.low), graph.number(step.high))


def _log(graph: GraphParts, x: str, _step: LogOfOneMore) -> str:
    return graph.op("Log", graph.op("Add", x, graph.number(1.0)))


def _standardise(graph: GraphParts, x: str, step: Standardise) -> str:
    centred = graph.op("Sub", x, graph.number(step.mean))
    return graph.op("Div", centred, graph.number(step.deviation))


def _range(graph: GraphParts, x: str, step: Range) -> str:
    return counted(graph, x, step.edges)


def _in_years(graph: GraphParts, x: str, step: InYears) -> str:
    within = _clip(graph, x, Clip(low=step.first, high=step.last))
    years = graph.op("Div", graph.op("Sub", x, within), graph.number(_YEAR))
    away = graph.op("Mul", graph.op("Sign", years), graph.op("Ceil", graph.op("Abs", years)))
    x = graph.op("Sub", x, graph.op("Mul", away, graph.number(_YEAR)))
    return _clip(graph, x, Clip(low=step.first, high=step.last))


def _part(graph: GraphParts, x: str, step: DatePart) -> str:
    """Return a part of a date: int64 of those that are codes."""
    if step.of == "time of day":
        return graph.op("Div", _rest(graph, x, _DAY), graph.number(3600.0))
    if step.of == "day of the year":
        return _day_of_year(graph, _floor(graph, x, _DAY))
    whole = graph.op("Floor", x)
    days = _floor(graph, whole, _DAY)
    if step.of == "weekday":  # 1970 began on a Thursday
        part = _rest(graph, graph.op("Add", days, graph.number(3.0)), 7.0)
    elif step.of == "hour":
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
    Clip: _clip, LogOfOneMore: _log, Standardise: _standardise, Range: _range, InYears: _in_years,
    DatePart: _part,
}  # fmt: skip
