"""Columns of dates and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from pydantic import model_validator

from fewpass.pipeline.tables.encoding.cells import Floats, Mask
from fewpass.pipeline.tables.encoding.column_recipe import (
    Codes,
    ColumnRecipe,
    Deviation,
    Entries,
    Slot,
    require_sizes,
)
from fewpass.pipeline.tables.encoding.date_forms import order_of
from fewpass.pipeline.tables.encoding.moments import BETWEEN, read_moments

SECONDS_OF_DAY = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Date(ColumnRecipe):
    """Days since the sample's first, standardised; weekday, month and hour as categories."""

    kind: Literal["date"] = "date"
    first: float  # seconds since 1970
    mean: float  # of days since
    deviation: Deviation
    has_hours: bool
    form: str | None = None
    """Of text, as `strptime` has it, or several with a bar between them; None: ISO 8601;
    s, ms, us, ns: numbers, since 1970."""
    has_weekdays: bool = True
    missing: tuple[str, ...] = ()
    """Words and days of the sample that stand for a missing date."""
    standins: tuple[float, ...] = ()
    """Moments, in seconds since 1970, that do."""
    is_open: bool = False
    """Whether no cell of the sample tells which of day and month comes first."""

    @model_validator(mode="after")
    def _fits(self) -> Date:
        require_sizes("mean", -self.mean / self.deviation)
        require_sizes("first", -self.first / SECONDS_OF_DAY / self.deviation)
        return self

    @property
    def outputs(self) -> list[str]:
        """Return the name, and one per part."""
        hours = [f"{self.name} hour={hour}" for hour in range(24)] if self.has_hours else []
        weekdays = [f"{self.name} weekday={day}" for day in WEEKDAYS * self.has_weekdays]
        months = [f"{self.name} month={month}" for month in range(1, 13)]
        return [self.name, f"{self.name} is missing", *weekdays, *months, *hours]

    @property
    def told(self) -> str:
        """Say which parts are used."""
        parts = ["days", *["weekday"] * self.has_weekdays, "month", *["hour"] * self.has_hours]
        gaps = f"; missing where {', '.join(self.missing)}" if self.missing else ""
        return f"date: {', '.join(parts)}{self._order}{gaps}"

    @property
    def _order(self) -> str:
        """Say which of day and month was taken to come first, where no cell tells."""
        orders = [order for form in (self.form or "").split(BETWEEN) if (order := order_of(form))]
        if not self.is_open or not orders:
            return ""
        first, other = ("days", "mdy") if orders[0] == "dmy" else ("months", "dmy")
        return (
            f"; {first} first, as no cell tells: `column={self.name}=date:{other}` if they are not"
        )

    def entries(self, cells: Any) -> Entries:
        """Encode dates or times."""
        seconds, bad = read_moments(cells, self.form, self.missing, self.standins)
        missing = np.isnan(seconds)
        days = ((seconds - self.first) / SECONDS_OF_DAY - self.mean) / self.deviation
        slots = [Slot(missing.astype(np.int64), np.where(missing, 1.0, days))]
        for part, first in self._parts(np.where(missing, 0.0, seconds)):
            slots.append(Slot(first + part, np.where(missing, 0.0, 1.0)))
        return Entries(tuple(slots), bad)

    def is_missing(self, cells: Any) -> Mask:
        """Say which cells (n,) are missing, or no dates."""
        return np.isnan(read_moments(cells, self.form, self.missing, self.standins).values)

    def _parts(self, seconds: Floats) -> Iterator[tuple[Codes, int]]:
        """Yield weekday, month and hour from 0, and where their columns begin."""
        moments = seconds.astype("datetime64[s]")
        days, months = moments.astype("datetime64[D]"), moments.astype("datetime64[M]")
        first = 2
        if self.has_weekdays:
            yield (days.astype(np.int64) + 3) % len(WEEKDAYS), first  # 1970 began on a Thursday
            first += len(WEEKDAYS)
        yield months.astype(np.int64) % 12, first
        if self.has_hours:
            yield (moments - days).astype(np.int64) // 3600, first + 12
