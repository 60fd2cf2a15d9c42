"""Dates along an axis, in seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_TICKS = 6
#: Steps from one tick to the next: a unit of the calendar, and how many of it.
_STEPS = [
    *(("Y", k) for k in (100, 50, 20, 10, 5, 2, 1)),
    *(("M", k) for k in (6, 3, 1)),
    *(("D", k) for k in (10, 5, 2, 1)),
    *(("h", k) for k in (12, 6, 3, 1)),
]


def calendar_ticks(low: float, high: float) -> list[float]:
    """Return the first moments of years, months or days between two moments, six at most."""
    ticks: list[float] = [low, high]
    for unit, every in _STEPS:
        finer = _multiples(low, high, unit, every)
        if len(finer) > MOST_TICKS:
            break
        ticks = finer if len(finer) > 1 else ticks
    return ticks


def _multiples(low: float, high: float, unit: str, every: int) -> list[float]:
    first, last = (np.datetime64(int(at), "s").astype(f"datetime64[{unit}]") for at in (low, high))
    start = -(-first.astype(np.int64) // every) * every
    if unit == "Y":  # whole decades of years, not of years since 1970
        start = -(-(first.astype(np.int64) + 1970) // every) * every - 1970
    places = np.arange(start, last.astype(np.int64) + 1, every)
    seconds = places.astype(f"datetime64[{unit}]").astype("datetime64[s]").astype(np.float64)
    return [float(at) for at in seconds if low <= at <= high]


def calendar_words(moments: Sequence[float]) -> list[str]:
    """Write moments as short as tells them apart: 2017, 2017-04, 2017-04-12."""
    whole = [str(np.datetime64(int(at), "s")) for at in moments]
    for length, rest in ((4, "-01-01T00:00:00"), (7, "-01T00:00:00"), (10, "T00:00:00")):
        if all(word.endswith(rest) for word in whole):
            return [word[:length] for word in whole]
    days = [word[:10] for word in whole]
    return days if len(set(days)) == len(days) else [word[:16].replace("T", " ") for word in whole]


def day_word(moment: float) -> str:
    """Write the day of a moment."""
    return str(np.datetime64(int(moment), "s"))[:10]
