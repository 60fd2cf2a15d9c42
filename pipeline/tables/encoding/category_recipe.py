"""Columns of words: a feature for each value, or a hash where there are many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, HashTerm, WordCell, WordTerm

#: Words that have an order of their own, whole or their first three letters and more.
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_YEAR = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_SHORTEST = 3


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Return levels in the order they are shown in: by what they number, else as words.

    So 10 comes behind 2, and Tue behind Mon.
    """
    words = sorted(levels)
    values = numbers_named(words)
    if values is None:
        return tuple(words)
    return tuple(words[k] for k in np.argsort(values, kind="stable").tolist())


def numbers_named(levels: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the numbers, weekdays or months that levels (n,) name; None where some are none."""
    try:
        values = np.array([float(level) for level in levels])
    except ValueError:
        days = _places_in(_WEEK, levels)
        return _places_in(_YEAR, levels) if days is None else days
    return values if np.isfinite(values).all() else None


def _places_in(names: Sequence[str], levels: Sequence[str]) -> NDArray[np.float64] | None:
    """Return which name each level (n,) begins, such as Tues. or oct; None where some are none."""
    places = []
    for level in levels:
        word = level.strip().rstrip(".").lower()
        named = [k for k, name in enumerate(names) if name.startswith(word)]
        if len(word) < _SHORTEST or not named:
            return None
        places.append(float(named[0]))
    return np.array(places)


class Category(ColumnRecipe):
    """One column per value that the sample has often, one for all others, one for missing ones."""

    kind: Literal["category"] = "category"
    values: tuple[str, ...]

    @property
    def outputs(self) -> list[str]:
        titles = [f"{self.name}={value}" for value in self.values]
        return [*titles, f"{self.name} rare or unseen", f"{self.name} is missing"]

    @property
    def width(self) -> int:
        return len(self.values) + 2

    @property
    def summary(self) -> str:
        return f"category of {counted(len(self.values), 'value')}, and one for rare or unseen ones"

    def described(self) -> ColumnTerms:
        terms = (WordTerm(at=0, values=self.values),)
        return ColumnTerms(columns=(self.name,), read=WordCell(), terms=terms)


class Hashed(ColumnRecipe):
    """2^bits columns, one of them by the value's hash, whose sign it takes; missing has its own."""

    is_group: ClassVar[bool] = False

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
    def signs(self) -> NDArray[np.float64]:
        """Return the signs of the examples that columns are named by, 1 for the others."""
        return self.signs_of([abs(code) % (1 << self.bits) for code in self._codes], self._codes)

    @property
    def width(self) -> int:
        return (1 << self.bits) + 1

    @property
    def as_setting(self) -> str:
        return "hash"

    @property
    def summary(self) -> str:
        shared = f"; {100 * self.collisions:.3g} % of the values share a column with others"
        shared *= self.collisions > 0.0
        return f"category of many values, hashed to {1 << self.bits:,} columns{shared}"

    @property
    def _codes(self) -> list[int]:
        codes: list[int] = hashes(
            pa.array(self.examples, pa.large_string()), f"{self.name}="
        ).tolist()
        return codes

    def described(self) -> ColumnTerms:
        terms = (HashTerm(at=0, prefix=f"{self.name}=", bits=self.bits),)
        return ColumnTerms(columns=(self.name,), read=WordCell(), terms=terms)
