"""Steps of numbers, as terms describe them, for all rows of a column at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_YEAR, part_of_dates


def behind(steps: Sequence[terms.Step], numbers: Any) -> Any:
    """Return numbers (n,), none of them missing, behind steps."""
    for step in steps:
        numbers = _STEPS[type(step)](step, numbers)
    return numbers


def in_years(step: terms.InYears, seconds: Floats) -> Floats:
    """Return moments within a range: whole years earlier or later, where it has any.

    So the days go with the month, and with a year that is clipped, as they did in the sample.
    """
    first, last = step.first, step.last
    if last - first >= SECONDS_OF_YEAR:
        beyond = np.maximum(seconds - last, 0.0) - np.maximum(first - seconds, 0.0)
        years = np.sign(beyond) * np.ceil(np.abs(beyond) / SECONDS_OF_YEAR)
        seconds = seconds - years * SECONDS_OF_YEAR
    return np.clip(seconds, first, last)


_STEPS: dict[type, Callable[[Any, Any], Any]] = {
    terms.Clip: lambda step, x: np.clip(x, step.low, step.high),
    terms.LogOfOneMore: lambda _, x: np.log1p(x),
    terms.Standardise: lambda step, x: (x - step.mean) / step.deviation,
    terms.Interpolate: lambda step, x: np.interp(x, step.x, step.y),
    terms.AtMost: lambda step, x: (x <= step.bound).astype(np.float64),
    terms.InYears: in_years,
    terms.DatePart: lambda step, x: part_of_dates(x, step.of),
    terms.Range: lambda step, x: np.searchsorted(np.asarray(step.edges), x, side="right"),
}
