"""The recipe of a column of dates, out of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import Floats, is_text, words_of
from fewpass.pipeline.tables.encoding.date_forms import has_days, is_open
from fewpass.pipeline.tables.encoding.date_recipe import SECONDS_OF_DAY, WEEKDAYS, Date
from fewpass.pipeline.tables.encoding.inference import Held
from fewpass.pipeline.tables.encoding.moments import BETWEEN, ISO, WEEKS, read_moments

#: A moment stands for a missing one where it is in ten rows, in this share of them, and so many
#: times further from all others than the middle 99 % of these are from each other.
_SHARE, _FAR = 0.001, 10.0
#: Days of years that stand for a missing date, by which a recipe tells what it left out.
_NAMED = 5


def fitted_date(name: str, cells: Any, held: Held) -> Date:
    """Return the recipe of dates (n,), written as was found."""
    form, missing = held.form, held.missing
    forms = (form or ISO).split(BETWEEN)
    standins = _standins(read_moments(cells, form, missing).values)
    every = read_moments(cells, form, missing, standins).values
    known = every[~np.isnan(every)]
    first = float(known.min()) if len(known) else 0.0
    days = (known - first) / SECONDS_OF_DAY
    mean, deviation = (float(days.mean()), float(days.std())) if len(days) else (0.0, 1.0)
    return Date(
        name=name, first=first, mean=mean, deviation=deviation or 1.0, form=form,
        has_hours=bool((known % SECONDS_OF_DAY != 0.0).any()),
        has_weekdays=has_days(form) or (WEEKS in (form or "") and _has_weekdays(known)),
        missing=tuple(sorted({*missing, *_left_out(cells, every)})), standins=standins,
        is_open=not held.said and is_text(cells.type) and any(is_open(cells, f) for f in forms),
    )  # fmt: skip


def _standins(moments: Floats) -> tuple[float, ...]:
    """Return the first and the last moment (n,) where these are many, and far from all others."""
    days, counts = np.unique(moments[~np.isnan(moments)], return_counts=True)
    found = []
    for end, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        rest = np.repeat(days[others], counts[others])
        if not len(rest) or counts[end] < max(10, _SHARE * len(moments)):
            continue
        low, high = np.quantile(rest, (0.005, 0.995))
        near = np.abs(days[others] - days[end]).min()
        if high > low and near > _FAR * (high - low):
            found.append(float(days[end]))
    return tuple(found)


def _has_weekdays(moments: Floats) -> bool:
    return len(np.unique(moments // SECONDS_OF_DAY % len(WEEKDAYS))) > 1


def _left_out(cells: Any, moments: Floats) -> list[str]:
    """Return the cells that say something, and are missing all the same: the commonest ones."""
    gone = pc.and_(pa.array(np.isnan(moments)), pc.is_valid(cells))
    counted = pc.value_counts(words_of(cells.filter(gone))).to_pylist()
    return [one["values"] for one in sorted(counted, key=lambda one: -one["counts"])[:_NAMED]]
