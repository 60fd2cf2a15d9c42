"""Parts of dates: the weekday, month and hour, the day of the year and the time of day."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.column_recipe import Codes

SECONDS_OF_HOUR, SECONDS_OF_DAY = 3600, 86_400
SECONDS_OF_YEAR = 365.25 * SECONDS_OF_DAY
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: A whole column, or a part of a date.
Part = Literal["", "days", "weekday", "month", "hour", "day of the year", "time of day"]
LevelPart = Literal["weekday", "month", "hour"]
LEVEL_PARTS: tuple[LevelPart, ...] = ("weekday", "month", "hour")
#: The levels of parts that are categories; the other parts are numbers.
LEVELS_OF: dict[Part, tuple[str, ...]] = {
    "weekday": WEEKDAYS, "month": tuple(map(str, range(1, 13))),
    "hour": tuple(map(str, range(24))),
}  # fmt: skip


def part_of_dates(seconds: Floats, part: Part) -> Floats | Codes:
    """Return a part of moments (n,), none of them missing: its level from 0, or its number."""
    if part == "time of day":
        hours: Floats = np.mod(seconds, SECONDS_OF_DAY) / SECONDS_OF_HOUR
        return hours
    moments = np.floor(seconds).astype("datetime64[s]")
    days, months = moments.astype("datetime64[D]"), moments.astype("datetime64[M]")
    if part == "weekday":
        levels: Codes = (days.astype(np.int64) + 3) % len(WEEKDAYS)  # 1970 began on a Thursday
    elif part == "month":
        levels = months.astype(np.int64) % 12
    elif part == "hour":
        levels = (moments - days).astype(np.int64) // SECONDS_OF_HOUR
    else:
        numbers: Floats = (days - days.astype("datetime64[Y]")).astype(np.float64) + 1.0
        return numbers
    return levels
