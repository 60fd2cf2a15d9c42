"""What becomes of every column of a table: fitted to a sample, written down, applied to all rows.

Every column fills one slot or a few in each row, and in a slot one output column: a number its own,
a category that of its value.  Text alone fills as many as it has words.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.encoding.cells import Floats, Mask, Written, read_moments, read_numbers, words_of
from pipeline.encoding.column_recipe import Codes, ColumnRecipe, Entries, Slot
from pipeline.encoding.hashing import hashed_slots, hashes
from pipeline.encoding.lists import Tags, Vector
from pipeline.encoding.maps import Map
from pipeline.encoding.text import MOST_TEXT_BITS, Grams, encode_text

SECONDS_OF_DAY = 86_400
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Stands between the values of two columns that are crossed.
_BETWEEN = " x "
#: Steps of a unit that logarithms of words' frequencies are written down in.
_IDF_STEPS = 16.0


class Rank(BaseModel):
    """The share of the sample that is smaller than a number, half of those that are equal added.

    Straight lines go from one number that it is known of to the next; then it is standardised.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: Annotated[tuple[float, ...], Field(min_length=2)]  # ascending
    shares: Annotated[tuple[float, ...], Field(min_length=2)]
    mean: float
    deviation: Annotated[float, Field(gt=0.0)]

    @model_validator(mode="after")
    def _pairs(self) -> Rank:
        if len(self.values) != len(self.shares):
            raise ValueError(f"{len(self.values)} values have {len(self.shares)} shares")
        return self

    def of(self, numbers: Floats) -> Floats:
        """Return the ranks of numbers (n,)."""
        shares: Floats = np.interp(numbers, self.values, self.shares)
        return (shares - self.mean) / self.deviation


class Number(ColumnRecipe):
    """Clipped, log1p where the tail is heavy, standardised; missing ones have their own column.

    Where the rank says more than the value it has a column beside it, and so have the lowest
    numbers where many rows share them: none bought, never late.
    """

    kind: Literal["number"] = "number"
    low: float
    high: float
    logarithm: bool
    mean: float
    deviation: float
    has_missing: bool
    written: Written = "plain"
    missing: tuple[str, ...] = ()
    """Words that stand for a missing number."""
    rank: Rank | None = None
    lowest: float | None = None
    """Up to which a number is one of the lowest."""

    @property
    def outputs(self) -> list[str]:
        """Return the name, and those of what is beside it."""
        beside = ["is missing"] * self.has_missing + self._told_beside
        return [self.name, *(f"{self.name} {what}" for what in beside)]

    @property
    def _told_beside(self) -> list[str]:
        rank = ["rank"] if self.rank is not None else []
        return [*rank, f"<= {self.lowest:.6g}"] if self.lowest is not None else rank

    @property
    def told(self) -> str:
        """Say how the number is changed."""
        if self.missing_share == 1.0:
            return "nothing: all of the sample is missing"
        if self.low == self.high:
            return f"number, always {self.low:.6g}"
        parts = [f"number, clipped to {self.low:.6g} ... {self.high:.6g}"]
        parts += ["log1p"] * self.logarithm + ["standardised"]
        if self._told_beside:
            parts.append(f"beside it {' and '.join(self._told_beside)}")
        words = f" ({', '.join(self.missing)})" if self.missing else ""
        return ", ".join(parts + [f"a column for missing ones{words}"] * self.has_missing)

    def entries(self, cells: Any) -> Entries:
        """Encode numbers; missing ones are the mean, which is 0."""
        numbers, bad = read_numbers(cells, self.written, self.missing)
        missing = np.isnan(numbers)
        value = (self.reshaped(numbers) - self.mean) / self.deviation
        value[missing] = float(self.has_missing)
        slots = [Slot((missing & self.has_missing).astype(np.int64), value)]
        for beside in self._beside(numbers, missing):
            slots.append(Slot(np.full(len(value), self.has_missing + len(slots)), beside))
        return Entries(tuple(slots), bad)

    def _beside(self, numbers: Floats, missing: Mask) -> Iterator[Floats]:
        """Yield the values of rank and lowest; missing numbers have none."""
        if self.rank is not None:
            yield np.where(missing, 0.0, self.rank.of(numbers))
        if self.lowest is not None:
            yield (numbers <= self.lowest).astype(np.float64)

    def reshaped(self, numbers: Floats) -> Floats:
        """Return numbers clipped, and their logarithms where those are used."""
        clipped = np.clip(numbers, self.low, self.high)
        return np.log1p(clipped) if self.logarithm else clipped


class Bins(ColumnRecipe):
    """One column per range of numbers between quantiles, and one for missing ones."""

    kind: Literal["bins"] = "bins"
    edges: tuple[float, ...]
    written: Written = "plain"

    @property
    def outputs(self) -> list[str]:
        """Return a name per range."""
        ends = ["-inf", *(f"{edge:.6g}" for edge in self.edges), "inf"]
        ranges = [f"{self.name} in [{a}, {b})" for a, b in pairwise(ends)]
        return [*ranges, f"{self.name} is missing"]

    @property
    def told(self) -> str:
        """Say how many ranges there are."""
        return f"number, one of {len(self.edges) + 1} ranges"

    def entries(self, cells: Any) -> Entries:
        """Encode numbers."""
        numbers, bad = read_numbers(cells, self.written)
        found = np.searchsorted(np.asarray(self.edges), numbers, side="right")
        found[np.isnan(numbers)] = len(self.edges) + 1
        return Entries((one_hot(found),), bad)


class Category(ColumnRecipe):
    """One column per value that the sample has often, one for all others, one for missing ones."""

    kind: Literal["category"] = "category"
    values: tuple[str, ...]

    @property
    def outputs(self) -> list[str]:
        """Return a name per value."""
        known = [f"{self.name}={value}" for value in self.values]
        return [*known, f"{self.name} rare or unseen", f"{self.name} is missing"]

    @property
    def width(self) -> int:
        """Return how many output columns there are."""
        return len(self.values) + 2

    @property
    def told(self) -> str:
        """Say how many values have a column."""
        return f"category of {len(self.values)} values, and one for rare or unseen ones"

    def entries(self, cells: Any) -> Entries:
        """Encode words."""
        words = words_of(cells)
        places = pc.index_in(words, value_set=pa.array(self.values, pa.large_string()))
        found = places.fill_null(len(self.values)).to_numpy(zero_copy_only=False).astype(np.int64)
        found[words.is_null().to_numpy(zero_copy_only=False)] = len(self.values) + 1
        return Entries((one_hot(found),))


class Hashed(ColumnRecipe):
    """2^bits columns, one of them by the value's hash, whose sign it takes; missing has its own."""

    kind: Literal["hashed"] = "hashed"
    bits: Annotated[int, Field(ge=1, le=30)]
    examples: tuple[str, ...] = ()
    """Values that the sample has often: by them columns get names of their own."""
    collisions: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of the sample's different values that have their column not to themselves."""

    @property
    def outputs(self) -> list[str]:
        """Return a name per column: that of the example that is hashed to it, or its number."""
        names = [f"{self.name}#{k}" for k in range(1 << self.bits)]
        for value, code in zip(reversed(self.examples), reversed(self._codes), strict=True):
            names[abs(code) % (1 << self.bits)] = f"{self.name}={value}"
        return [*names, f"{self.name} is missing"]

    @property
    def width(self) -> int:
        """Return how many output columns there are."""
        return (1 << self.bits) + 1

    @property
    def told(self) -> str:
        """Say how many columns values are hashed to."""
        shared = f"; {100 * self.collisions:.3g} % of the values share a column with others"
        shared *= self.collisions > 0.0
        return f"category of many values, hashed to {1 << self.bits:,} columns{shared}"

    @property
    def _codes(self) -> list[int]:
        found: list[int] = hashes(
            pa.array(self.examples, pa.large_string()), f"{self.name}="
        ).tolist()
        return found

    def entries(self, cells: Any) -> Entries:
        """Encode words."""
        words = words_of(cells)
        column, value = hashed_slots(words, f"{self.name}=", self.bits)
        if words.null_count:
            missing = words.is_null().to_numpy(zero_copy_only=False)
            column[missing], value[missing] = 1 << self.bits, 1.0
        return Entries((Slot(column, value),))


class Text(ColumnRecipe):
    """2^bits columns for words and pairs, or for runs of characters; tf-idf, rows of length 1."""

    kind: Literal["text"] = "text"
    bits: Annotated[int, Field(ge=1, le=MOST_TEXT_BITS)]
    grams: Grams = "words"
    idf: str
    """Of every slot, a byte each in sixteenths; zlib, base64."""

    @property
    def outputs(self) -> list[str]:
        """Return a name per column."""
        return [f"{self.name}#{k}" for k in range(1 << self.bits)]

    @property
    def width(self) -> int:
        """Return how many output columns there are."""
        return 1 << self.bits

    @property
    def told(self) -> str:
        """Say what is hashed."""
        of = "words and pairs of words" if self.grams == "words" else "runs of 3 to 5 characters"
        return f"text, {of} hashed to {1 << self.bits:,} columns, tf-idf"

    @cached_property
    def _weights(self) -> Floats:
        raw = zlib.decompressobj().decompress(base64.b64decode(self.idf), 1 << self.bits)
        steps = np.frombuffer(raw, np.uint8)
        if steps.size != 1 << self.bits:
            raise ValueError(f"the text column {self.name!r} has {steps.size} weights")
        return steps / _IDF_STEPS

    def entries(self, cells: Any) -> Entries:
        """Encode text; what is missing has no words."""
        return Entries((encode_text(words_of(cells), self._weights, self.grams),))


class Date(ColumnRecipe):
    """Days since the sample's first, standardised; weekday, month and hour as categories."""

    kind: Literal["date"] = "date"
    first: float  # seconds since 1970
    mean: float  # of days since
    deviation: float
    has_hours: bool
    form: str | None = None
    """Of text, as `strptime` has it; None: ISO 8601."""

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


AnyColumn = Annotated[
    Number | Bins | Category | Hashed | Text | Date | Vector | Tags | Map,
    Field(discriminator="kind"),
]


class Cross(BaseModel):
    """Pairs of the values of two columns, hashed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: tuple[str, str]
    """Names of the columns."""
    pairs: Hashed
    """What becomes of pairs; what is missing in either is missing."""

    def entries(self, one: Any, other: Any) -> Entries:
        """Encode the cells (n,) of both columns."""
        return self.pairs.entries(joined(one, other))


class Recipe(BaseModel):
    """How all columns of a table are encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[AnyColumn, ...]
    crosses: tuple[Cross, ...] = ()

    @property
    def parts(self) -> tuple[ColumnRecipe, ...]:
        """What has output columns, in their order."""
        return (*self.columns, *(cross.pairs for cross in self.crosses))

    @property
    def outputs(self) -> list[str]:
        """Return the names of the output columns (d,)."""
        return [name for part in self.parts for name in part.outputs]

    @property
    def n_outputs(self) -> int:
        """Return d."""
        return sum(part.width for part in self.parts)


def joined(one: Any, other: Any) -> Any:
    """Return the values of two columns together, an Arrow array of text."""
    between = pa.scalar(_BETWEEN, pa.large_string())
    return pc.binary_join_element_wise(words_of(one), words_of(other), between)


def one_hot(found: Codes) -> Slot:
    """Return a slot with a one in the column of each code."""
    return Slot(found.astype(np.int64), np.ones(len(found)))


def idf_text(weights: Floats) -> str:
    """Write the weights of words (2^bits,) down."""
    steps = np.clip(np.rint(weights * _IDF_STEPS), 0, 255).astype(np.uint8)
    return base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode()
