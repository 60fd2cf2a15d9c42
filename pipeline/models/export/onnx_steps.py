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
    """Return a part of a date from 0, as int64."""
    whole = graph.op("Cast", graph.op("Cast", x, to=INT64), to=DOUBLE)
    days = _floor(graph, whole, _DAY)
    if steps[0].of == "weekday":  # 1970 began on a Thursday
        part = _rest(graph, graph.op("Add", days, graph.number(3.0)), 7.0)
    elif steps[0].of == "hour":
        part = _floor(graph, _rest(graph, whole, _DAY), 3600.0)
    else:
        part = _month(graph, days)
    return graph.op("Cast", part, to=INT64)


def _month(graph: GraphParts, days: str) -> str:
    """Return months from 0, of the Gregorian calendar; years begin in March, leap days end them."""
    of_era = _rest(graph, graph.op("Add", days, graph.number(719_468.0)), 146_097.0)
    leaps = graph.op("Sub", of_era, _floor(graph, of_era, 1460.0))
    leaps = graph.op("Add", leaps, _floor(graph, of_era, 36_524.0))
    years = _floor(graph, graph.op("Sub", leaps, _floor(graph, of_era, 146_096.0)), 365.0)
    begun = graph.op("Mul", years, graph.number(365.0))
    begun = graph.op("Add", begun, _floor(graph, years, 4.0))
    begun = graph.op("Sub", begun, _floor(graph, years, 100.0))
    fifths = graph.op("Mul", graph.op("Sub", of_era, begun), graph.number(5.0))
    since_march = _floor(graph, graph.op("Add", fifths, graph.number(2.0)), 153.0)
    return _rest(graph, graph.op("Add", since_march, graph.number(2.0)), 12.0)


def _floor(graph: GraphParts, x: str, by: float) -> str:
    return graph.op("Floor", graph.op("Div", x, graph.number(by)))


def _rest(graph: GraphParts, x: str, by: float) -> str:
    return graph.op("Sub", x, graph.op("Mul", _floor(graph, x, by), graph.number(by)))


_STEPS: dict[type, Callable[[GraphParts, str, Any], str]] = {
    Clip: _clip, LogOfOneMore: _log, Standardise: _standardise, AtMost: _at_most,
    Interpolate: _interpolate, Range: _range, InYears: _in_years, DatePart: _part,
}  # fmt: skip
