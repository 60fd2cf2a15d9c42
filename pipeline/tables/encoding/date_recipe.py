"""Columns of dates and times."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME, Floats, Read, is_text, words_of
from fewpass.pipeline.tables.encoding.column_recipe import (
    ColumnRecipe,
    Deviation,
    require_ascending,
    require_sizes,
)
from fewpass.pipeline.tables.encoding.date_forms import has_days, is_open, order_of
from fewpass.pipeline.tables.encoding.date_parts import (
    LEVEL_PARTS,
    LEVELS_OF,
    SECONDS_OF_DAY,
    SECONDS_OF_YEAR,
    WEEKDAYS,
    LevelPart,
)
from fewpass.pipeline.tables.encoding.inference import Inferred
from fewpass.pipeline.tables.encoding.moments import (
    BETWEEN,
    ISO,
    WEEKS,
    first_year_of,
    read_moments,
    with_iso,
)

#: With this many years of data, the trend is extrapolated by half of the range.
_YEARS, GOES_ON = 3.0, 0.5
EARLIEST, LATEST = 1900.0, 2100.0  # years, where numbers may be some


#: A moment stands for a missing one where it is in ten rows, in this share of them, and so many
#: times further from all others than the middle 99 % of these are from each other; and some years
#: away where it begins or ends a year, as 1970-01-01 does, or as many as no data are apart.
_SHARE, _FAR = 0.001, 10.0
_AWAY, _FAR_AWAY = 2.0 * SECONDS_OF_YEAR, 50.0 * SECONDS_OF_YEAR
#: Days of years that stand for a missing date, by which a recipe tells what it left out.
_NAMED = 5


class Date(ColumnRecipe):
    """Days since the sample's first, standardised; weekday, month and hour as categories."""

    kind: Literal["date"] = "date"
    first: float  # seconds since 1970
    last: float | None = None
    """Seconds since 1970 where days end.  None: they go on."""
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
    """True where no cell of the sample tells which of day and month comes first."""
    first_year: Annotated[int | None, Field(exclude_if=lambda year: year is None)] = None
    """Of the hundred that years of two digits are of; None: 1969."""

    @model_validator(mode="after")
    def _fits(self) -> Date:
        require_sizes("mean", -self.mean / self.deviation)
        require_sizes("first", -self.first / SECONDS_OF_DAY / self.deviation)
        require_ascending(
            "first and last", (self.first, self.first if self.last is None else self.last)
        )
        return self

    @property
    def outputs(self) -> list[str]:
        levels = (f"{part}={level}" for part in self.part_names for level in LEVELS_OF[part])
        return [self.name, *(f"{self.name} {one}" for one in ("is missing", *levels))]

    @property
    def wanted(self) -> str:
        return "a date was"

    @property
    def summary(self) -> str:
        parts = ["days", *self.part_names]
        if self.last is not None:
            parts[0] += f" from {_day(self.first)} to {_day(self._last_seen)}"
            if self._last_seen < self.last:
                parts[0] += f", a trend to {_day(self.last)}"
        gaps = f"; missing where {', '.join(self.missing)}" if self.missing else ""
        if self.first_year is not None:
            last = self.first_year + 99
            gaps += f"; years of two digits, of the century from {self.first_year} to {last}"
        return f"date: {', '.join(parts)}{self._order}{gaps}"

    @property
    def _order(self) -> str:
        """Return which of day and month was taken to come first, where no cell tells."""
        orders = [order for form in (self.form or "").split(BETWEEN) if (order := order_of(form))]
        if not self.is_open or not orders:
            return ""
        first, other = ("days", "mdy") if orders[0] == "dmy" else ("months", "dmy")
        return (
            f"; {first} first, as no cell tells: `column={self.name}=date:{other}` if they are not"
        )

    def described(self) -> terms.ColumnTerms:
        scaled = terms.Standardise(mean=self.mean, deviation=self.deviation)
        days = terms.ValueTerm(at=0, steps=(*self.steps_to_days, scaled))
        every: list[terms.NumberTerm] = [days, terms.MissingTerm(at=1)]
        at = 2
        for part in self.part_names:
            width = len(LEVELS_OF[part])
            every.append(terms.CodeTerm(at=at, steps=(terms.DatePart(of=part),), width=width))
            at += width
        is_unit = self.form in UNITS_OF_TIME
        form = self.form if is_unit or self.form is None else with_iso(self.form)
        read = terms.MomentCell(
            form=form, missing=self.missing, standins=self.standins, first_year=self.first_year
        )
        return terms.ColumnTerms(columns=(self.name,), read=read, terms=tuple(every))

    @property
    def steps_to_days(self) -> tuple[terms.Step, ...]:
        """Return the steps from a moment to the days since the sample's first."""
        since = terms.Standardise(mean=self.first, deviation=SECONDS_OF_DAY)
        return (
            (since,)
            if self.last is None
            else (terms.InYears(first=self.first, last=self.last), since)
        )

    @property
    def part_names(self) -> tuple[LevelPart, ...]:
        """Return the parts that are categories, in the order of their columns."""
        has = {"weekday": self.has_weekdays, "month": True, "hour": self.has_hours}
        return tuple(part for part in LEVEL_PARTS if has[part])

    @property
    def _last_seen(self) -> float:
        """Return where the dates of the sample end, of which `last` may be a while after."""
        last = self.first if self.last is None else self.last
        goes_on = last - self.first >= (1.0 + GOES_ON) * _YEARS * SECONDS_OF_YEAR
        return (last + GOES_ON * self.first) / (1.0 + GOES_ON) if goes_on else last

    def read(self, cells: Any) -> Read:
        """Read cells (n,) as seconds since 1970."""
        return read_moments(cells, self.form, self.missing, self.standins, self.first_year)


def fitted_date(name: str, cells: Any, inferred: Inferred, *, whole: bool) -> Date:
    """Return the recipe of dates (n,), written as was found; `whole`: no later ones are known."""
    form, missing = inferred.form, inferred.missing
    forms = (form or ISO).split(BETWEEN)
    year = first_year_of(words_of(cells), forms) if is_text(cells.type) else None
    said = read_moments(pa.array(missing, pa.large_string()), form, first_year=year).values
    standins = tuple(said[~np.isnan(said)].tolist())  # typed dates say them, too
    standins += _standins(read_moments(cells, form, missing, standins, year).values)
    every = read_moments(cells, form, missing, standins, year).values
    present = every[~np.isnan(every)]
    first = float(present.min()) if len(present) else 0.0
    last = float(present.max()) if whole and len(present) else None
    if last is not None and last - first >= _YEARS * SECONDS_OF_YEAR:
        last += GOES_ON * (last - first)
    days = (present - first) / SECONDS_OF_DAY
    mean, deviation = (float(days.mean()), float(days.std())) if len(days) else (0.0, 1.0)
    return Date(
        name=name, first=first, last=last, mean=mean, deviation=deviation or 1.0, form=form,
        has_hours=bool((present % SECONDS_OF_DAY != 0.0).any()),
        has_weekdays=has_days(form) or (WEEKS in (form or "") and _has_weekdays(present)),
        missing=tuple(sorted({*missing, *_left_out(cells, every)})), standins=standins,
        first_year=year,
        is_open=not inferred.said and is_text(cells.type) and any(is_open(cells, f) for f in forms),
    )  # fmt: skip


def _day(seconds: float) -> str:
    return str(np.datetime64(round(seconds), "s"))[:10]


def are_years(numbers: Floats) -> bool:
    """Return whether numbers (n,) are years: each of a row of them, in our time."""
    first, last = float(numbers.min()), float(numbers.max())
    if not EARLIEST <= first <= last <= LATEST or last - first < _YEARS:
        return False
    years = np.unique(numbers)
    return len(years) == last - first + 1.0 and bool((years == np.floor(years)).all())


def _standins(moments: Floats) -> tuple[float, ...]:
    """Return the first and the last moment (n,) where these are many, and far from all others."""
    days, counts = np.unique(moments[~np.isnan(moments)], return_counts=True)
    standins = []
    for end, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        rest = np.repeat(days[others], counts[others])
        if not len(rest) or counts[end] < max(10, _SHARE * len(moments)):
            continue
        low, high = np.quantile(rest, (0.005, 0.995))
        near = np.abs(days[others] - days[end]).min()
        away = _AWAY if _is_end_of_year(days[end]) else _FAR_AWAY
        if high > low and near > max(away, _FAR * (high - low)):
            standins.append(float(days[end]))
    return tuple(standins)


def _is_end_of_year(moment: float) -> bool:
    """Return whether a moment is on the first day of a year or the last two, as 1899-12-30."""
    day = np.datetime64(int(moment), "s").astype("datetime64[D]")
    return any(str(day + k).endswith("-01-01") for k in range(3))


def _has_weekdays(moments: Floats) -> bool:
    return len(np.unique(moments // SECONDS_OF_DAY % len(WEEKDAYS))) > 1


def _left_out(cells: Any, moments: Floats) -> list[str]:
    """Return the cells that say something, and are missing all the same: the commonest ones."""
    gone = pc.and_(pa.array(np.isnan(moments)), pc.is_valid(cells))
    counted = pc.value_counts(words_of(cells.filter(gone)).drop_null()).to_pylist()
    return [one["values"] for one in sorted(counted, key=lambda one: -one["counts"])[:_NAMED]]
