"""Steps of one number, a function for each; and what is made of a single score."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fewpass.pipeline.calibration import Calibration, Sigmoid, Steps
from fewpass.pipeline.models.export.model_form import NumberOutput
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_DAY, SECONDS_OF_YEAR
from fewpass.pipeline.tables.encoding.terms import (
    Clip,
    DatePart,
    InYears,
    LogOfOneMore,
    Range,
    Standardise,
    Step,
)

_EPOCH = dt.date(1970, 1, 1).toordinal()


def step_of(step: Step) -> Callable[[float], float]:
    """Return a step as a function."""
    return partial(_STEPS[type(step)], step)


def interpolated(x: float, points: Sequence[float], heights: Sequence[float]) -> float:
    """Return straight lines between points; beyond, the first and the last height."""
    k = bisect_right(points, x)
    if k == 0:
        return heights[0]
    if k == len(points):
        return heights[-1]
    low, high = points[k - 1], points[k]
    return heights[k - 1] + (x - low) * ((heights[k] - heights[k - 1]) / (high - low))


def _clip(step: Clip, x: float) -> float:
    return min(max(x, step.low), step.high)


def _log(_step: LogOfOneMore, x: float) -> float:
    return math.log1p(x)


def _standardise(step: Standardise, x: float) -> float:
    return (x - step.mean) / step.deviation


def _range(step: Range, x: float) -> float:
    return bisect_right(step.edges, x)


def _in_years(step: InYears, x: float) -> float:
    beyond = max(x - step.last, 0.0) - max(step.first - x, 0.0)
    x -= math.copysign(math.ceil(abs(beyond) / SECONDS_OF_YEAR), beyond) * SECONDS_OF_YEAR
    return min(max(x, step.first), step.last)


def _part(step: DatePart, x: float) -> float:
    if step.of == "time of day":
        return x % SECONDS_OF_DAY / 3600.0
    if step.of == "day of the year":
        day = dt.date.fromordinal(_EPOCH + int(x // SECONDS_OF_DAY))
        return day.timetuple().tm_yday
    seconds = math.floor(x)
    if step.of == "weekday":
        return (seconds // SECONDS_OF_DAY + 3) % 7  # 1970 began on a Thursday
    if step.of == "hour":
        return seconds % SECONDS_OF_DAY // 3600
    return dt.date.fromordinal(_EPOCH + seconds // SECONDS_OF_DAY).month - 1


_STEPS: dict[type, Callable[[Any, float], float]] = {
    Clip: _clip, LogOfOneMore: _log, Standardise: _standardise, Range: _range, InYears: _in_years,
    DatePart: _part,
}  # fmt: skip


# -- scores --------------------------------------------------------------------------------------


def number_of(score: float, outcome: NumberOutput) -> float:
    """Return the predicted number."""
    number = _exp(score) if outcome.response == "exp" else score
    low, high = outcome.clip or (-math.inf, math.inf)
    return min(max(number, low), high)


def _exp(score: float) -> float:
    try:
        return math.exp(score)
    except OverflowError:
        return math.inf  # as NumPy has it


def shares_of_scores(scores: list[float], how: Calibration) -> list[float]:
    """Return the probability of every class."""
    if isinstance(how, Steps):
        second = interpolated(scores[0], how.scores, how.p)
        return [1.0 - second, second]
    if isinstance(how, Sigmoid):
        p = [sigmoid(how.slope * score + how.offset) for score in scores]
        if len(p) == 1:
            return [1.0 - p[0], p[0]]
    else:
        sloped = [how.slope * s + o for s, o in zip(scores, how.offsets, strict=True)]
        highest = max(sloped)
        p = [math.exp(s - highest) for s in sloped]
    whole = sum(p)
    return [one / whole for one in p] if whole else [1.0 / len(p)] * len(p)


def sigmoid(s: float) -> float:
    """Return 1 / (1 + exp(-s))."""
    e = math.exp(-abs(s))
    return (1.0 if s >= 0.0 else e) / (1.0 + e)
