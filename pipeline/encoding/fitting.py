"""A recipe out of a sample of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.encoding.recipe import (
    SECONDS_OF_DAY,
    AnyColumn,
    Bins,
    Category,
    Date,
    Hashed,
    Number,
    Recipe,
    as_numbers,
    as_seconds,
    as_words,
)
from pipeline.errors import BadInput

CLIP = 0.005  # share of the sample that is clipped at either end: codes such as 98 are in there
HEAVY = 5.0  # times the median: where p99 is above, logarithms are taken


class Rules(NamedTuple):
    """How columns are encoded where that is not told by the sample alone."""

    bits: int = 18  # of a hash, for columns of many values
    bins: int | None = None  # ranges in place of every number
    most_values: int = 1000  # of a column whose values have columns of their own
    least_rows: int = 10  # with a value that has a column of its own; one in 1000 of a small sample

    def enough(self, n: int) -> int:
        """Return how many of n rows a value must be in to have a column of its own."""
        return max(1, min(self.least_rows, n // 1000))


def fitted(sample: Any, rules: Rules) -> Recipe:
    """Return the recipe that suits a sample, an Arrow table.

    Raises
    ------
    BadInput
        When a column is of a type that no recipe has, by its name.
    """
    columns = [
        _column(name, sample.column(name).combine_chunks(), rules) for name in sample.column_names
    ]
    if not columns:
        raise BadInput("The table has no columns. Give some.")
    return Recipe(columns=tuple(columns))


def _column(name: str, cells: Any, rules: Rules) -> AnyColumn:
    kind, types = cells.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _bins(name, cells, rules.bins) if rules.bins else _number(name, cells)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    texts = types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner)
    if texts or types.is_boolean(kind) or types.is_dictionary(kind) or types.is_null(kind):
        return _category(name, cells, rules)
    if types.is_date(kind) or types.is_timestamp(kind):
        return _date(name, cells)
    raise BadInput(
        f"Column {name!r} holds {kind} values, which become no numbers. Leave it out, or turn it "
        "into numbers, text or dates."
    )


def _number(name: str, cells: Any) -> Number:
    every = as_numbers(cells)
    known = every[~np.isnan(every)]
    has_missing = bool(len(known) < len(every))
    if not len(known):
        return Number(
            name=name, low=0.0, high=0.0, logarithm=False, mean=0.0, deviation=1.0,
            has_missing=has_missing,
        )  # fmt: skip
    low, median, p99, high = np.quantile(known, (CLIP, 0.5, 0.99, 1.0 - CLIP)).tolist()
    logarithm = bool(known.min() >= 0.0 and p99 > HEAVY * median)
    shape = Number(
        name=name, low=low, high=high, logarithm=logarithm, mean=0.0, deviation=1.0,
        has_missing=has_missing,
    )  # fmt: skip
    reshaped = shape.reshaped(known)
    mean, deviation = float(reshaped.mean()), float(reshaped.std())
    constant = deviation <= 1e-12 * abs(mean)
    return shape.model_copy(update={"mean": mean, "deviation": 1.0 if constant else deviation})


def _bins(name: str, cells: Any, count: int) -> Bins:
    every = as_numbers(cells)
    known = every[~np.isnan(every)]
    edges = np.unique(np.quantile(known, np.arange(1, count) / count)) if len(known) else ()
    return Bins(name=name, edges=tuple(float(edge) for edge in edges))


def _category(name: str, cells: Any, rules: Rules) -> Category | Hashed:
    words = as_words(cells).drop_null()
    counted = pc.value_counts(words)
    if len(counted) > rules.most_values:
        return Hashed(name=name, bits=rules.bits)
    often = [
        str(value)
        for value, count in zip(
            counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
        )
        if count >= rules.enough(len(cells))
    ]
    return Category(name=name, values=tuple(sorted(often)))


def _date(name: str, cells: Any) -> Date:
    every = as_seconds(cells)
    known = every[~np.isnan(every)]
    first = float(known.min()) if len(known) else 0.0
    days = (known - first) / SECONDS_OF_DAY
    mean, deviation = (float(days.mean()), float(days.std())) if len(days) else (0.0, 1.0)
    return Date(
        name=name, first=first, mean=mean, deviation=deviation or 1.0,
        has_hours=bool((known % SECONDS_OF_DAY != 0.0).any()),
    )  # fmt: skip
