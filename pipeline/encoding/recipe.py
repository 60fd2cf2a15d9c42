"""What becomes of every column of a table: fitted to a sample, written down, applied to all rows.

Every column fills one slot or a few in each row, and in a slot one output column: a number its own,
a category that of its value.  So a row has as many entries as there are slots, whatever its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sklearn.utils import murmurhash3_32

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SECONDS_OF_DAY = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Slot(NamedTuple):
    """An entry of every row."""

    column: Codes  # (n,) which output column, from 0 at the recipe's first
    value: Floats  # (n,)


class ColumnRecipe(BaseModel):
    """How one column is encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str

    @property
    def outputs(self) -> list[str]:
        """Return the names of the output columns."""
        raise NotImplementedError

    def slots(self, cells: Any) -> Iterator[Slot]:
        """Encode cells (n,), an Arrow array."""
        raise NotImplementedError


class Number(ColumnRecipe):
    """Clipped, log1p where the tail is heavy, standardised; missing ones have their own column."""

    kind: Literal["number"] = "number"
    low: float
    high: float
    logarithm: bool
    mean: float
    deviation: float
    has_missing: bool

    @property
    def outputs(self) -> list[str]:
        """Return the name, and the indicator's."""
        return [self.name, f"{self.name} is missing"][: 1 + self.has_missing]

    def slots(self, cells: Any) -> Iterator[Slot]:
        """Encode numbers; missing ones are the mean, which is 0."""
        numbers = as_numbers(cells)
        missing = np.isnan(numbers)
        value = (self.reshaped(numbers) - self.mean) / self.deviation
        value[missing] = float(self.has_missing)
        yield Slot((missing & self.has_missing).astype(np.int64), value)

    def reshaped(self, numbers: Floats) -> Floats:
        """Return numbers clipped, and their logarithms where those are used."""
        clipped = np.clip(numbers, self.low, self.high)
        return np.log1p(clipped) if self.logarithm else clipped


class Bins(ColumnRecipe):
    """One column per range of numbers between quantiles, and one for missing ones."""

    kind: Literal["bins"] = "bins"
    edges: tuple[float, ...]

    @property
    def outputs(self) -> list[str]:
        """Return a name per range."""
        ends = ["-inf", *(f"{edge:.6g}" for edge in self.edges), "inf"]
        ranges = [f"{self.name} in [{a}, {b})" for a, b in pairwise(ends)]
        return [*ranges, f"{self.name} is missing"]

    def slots(self, cells: Any) -> Iterator[Slot]:
        """Encode numbers."""
        numbers = as_numbers(cells)
        found = np.searchsorted(np.asarray(self.edges), numbers, side="right")
        found[np.isnan(numbers)] = len(self.edges) + 1
        yield one_hot(found)


class Category(ColumnRecipe):
    """One column per value that the sample has often, one for all others, one for missing ones."""

    kind: Literal["category"] = "category"
    values: tuple[str, ...]

    @property
    def outputs(self) -> list[str]:
        """Return a name per value."""
        known = [f"{self.name}={value}" for value in self.values]
        return [*known, f"{self.name} rare or unseen", f"{self.name} is missing"]

    def slots(self, cells: Any) -> Iterator[Slot]:
        """Encode words."""
        words = as_words(cells)
        places = pc.index_in(words, value_set=pa.array(self.values, pa.large_string()))
        found = places.fill_null(len(self.values)).to_numpy(zero_copy_only=False).astype(np.int64)
        found[words.is_null().to_numpy(zero_copy_only=False)] = len(self.values) + 1
        yield one_hot(found)


class Hashed(ColumnRecipe):
    """2^bits columns, one of them by the value's hash, whose sign it takes; missing has its own."""

    kind: Literal["hashed"] = "hashed"
    bits: int

    @property
    def outputs(self) -> list[str]:
        """Return a name per column."""
        return [*(f"{self.name}#{k}" for k in range(1 << self.bits)), f"{self.name} is missing"]

    def slots(self, cells: Any) -> Iterator[Slot]:
        """Encode words."""
        coded = as_words(cells).dictionary_encode()
        hashes = np.array(
            [murmurhash3_32(f"{self.name}={value}") for value in coded.dictionary.to_pylist()],
            np.int64,
        )
        missing = coded.is_null().to_numpy(zero_copy_only=False)
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = hashes[codes] if len(hashes) else np.zeros(len(codes), np.int64)
        value = np.where(found < 0, -1.0, 1.0)
        column = np.abs(found) % (1 << self.bits)
        column[missing], value[missing] = 1 << self.bits, 1.0
        yield Slot(column, value)


class Date(ColumnRecipe):
    """Days since the sample's first, standardised; weekday, month and hour as categories."""

    kind: Literal["date"] = "date"
    first: float  # seconds since 1970
    mean: float  # of days since
    deviation: float
    has_hours: bool

    @property
    def outputs(self) -> list[str]:
        """Return the name, and one per part."""
        hours = [f"{self.name} hour={hour}" for hour in range(24)] if self.has_hours else []
        weekdays = [f"{self.name} weekday={day}" for day in WEEKDAYS]
        months = [f"{self.name} month={month}" for month in range(1, 13)]
        return [self.name, f"{self.name} is missing", *weekdays, *months, *hours]

    def slots(self, cells: Any) -> Iterator[Slot]:
        """Encode dates or times."""
        seconds = as_seconds(cells)
        missing = np.isnan(seconds)
        days = ((seconds - self.first) / SECONDS_OF_DAY - self.mean) / self.deviation
        yield Slot(missing.astype(np.int64), np.where(missing, 1.0, days))
        moments = pc.cast(cells, pa.timestamp("s"), safe=False)
        parts = [(pc.day_of_week(moments), 2), (pc.subtract(pc.month(moments), 1), 9)]
        if self.has_hours:
            parts.append((pc.hour(moments), 21))
        for part, first in parts:
            place = part.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            yield Slot(first + place, np.where(missing, 0.0, 1.0))


AnyColumn = Annotated[Number | Bins | Category | Hashed | Date, Field(discriminator="kind")]


class Recipe(BaseModel):
    """How all columns of a table are encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[AnyColumn, ...]

    @property
    def outputs(self) -> list[str]:
        """Return the names of the output columns (d,)."""
        return [name for column in self.columns for name in column.outputs]

    @property
    def n_outputs(self) -> int:
        """Return d."""
        return sum(width_of(column) for column in self.columns)


def width_of(column: ColumnRecipe) -> int:
    """Return how many output columns a column has."""
    return (1 << column.bits) + 1 if isinstance(column, Hashed) else len(column.outputs)


def one_hot(found: Codes) -> Slot:
    """Return a slot with a one in the column of each code."""
    return Slot(found.astype(np.int64), np.ones(len(found)))


def as_numbers(cells: Any) -> Floats:
    """Return cells as floats, a null as NaN; infinities are NaN, too."""
    numbers = pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def as_words(cells: Any) -> Any:
    """Return cells as text."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    return pc.cast(cells, pa.large_string())


def as_seconds(cells: Any) -> Floats:
    """Return dates or times as seconds since 1970, a null as NaN."""
    moments = pc.cast(pc.cast(cells, pa.timestamp("s"), safe=False), pa.int64())
    found: Floats = pc.cast(moments, pa.float64()).to_numpy(zero_copy_only=False)
    return np.array(found)
