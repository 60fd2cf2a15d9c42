"""Columns of dates and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from pipeline.encoding.cells import Floats, read_moments
from pipeline.encoding.column_recipe import Codes, ColumnRecipe, Entries, Slot

SECONDS_OF_DAY = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Date(ColumnRecipe):
    """Days since the sample's first, standardised; weekday, month and hour as categories."""

    kind: Literal["date"] = "date"
    first: float  # seconds since 1970
    mean: float  # of days since
    deviation: float
    has_hours: bool
    form: str | None = None
    """Of text, as `strptime` has it; None: ISO 8601; s, ms, us, ns: numbers, since 1970."""

    @property
    def outputs(self) -> list[str]:
        """Return the name, and one per part."""
        hours = [f"{self.name} hour={hour}" for hour in range(24)] if self.has_hours else []
        weekdays = [f"{self.name} weekday={day}" for day in WEEKDAYS]
        months = [f"{self.name} month={month}" for month in range(1, 13)]
        return [self.name, f"{self.name} is missing", *weekdays, *months, *hours]

    @property
    def told(self) -> str:
        """Say which parts are used."""
        return f"date: days, weekday, month{', hour' if self.has_hours else ''}"

    def entries(self, cells: Any) -> Entries:
        """Encode dates or times."""
        seconds, bad = read_moments(cells, self.form)
        missing = np.isnan(seconds)
        days = ((seconds - self.first) / SECONDS_OF_DAY - self.mean) / self.deviation
        slots = [Slot(missing.astype(np.int64), np.where(missing, 1.0, days))]
        for part, first in self._parts(np.where(missing, 0.0, seconds)):
            slots.append(Slot(first + part, np.where(missing, 0.0, 1.0)))
        return Entries(tuple(slots), bad)

    def _parts(self, seconds: Floats) -> Iterator[tuple[Codes, int]]:
        """Yield weekday, month and hour from 0, and where their columns begin."""
        moments = seconds.astype("datetime64[s]")
        days, months = moments.astype("datetime64[D]"), moments.astype("datetime64[M]")
        yield (days.astype(np.int64) + 3) % len(WEEKDAYS), 2  # 1970 began on a Thursday
        yield months.astype(np.int64) % 12, 9
        if self.has_hours:
            yield (moments - days).astype(np.int64) // 3600, 21
