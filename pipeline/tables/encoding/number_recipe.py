"""Columns of numbers: standardised, with their rank, or as one of some ranges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, model_validator

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.cells import Floats, Written
from fewpass.pipeline.tables.encoding.column_recipe import (
    OF_RECIPES,
    ColumnRecipe,
    Deviation,
    require_ascending,
    require_sizes,
)

#: How many times the largest number of the sample the lines of some sizes reach.
REACH = 4.0

UnitInterval = Annotated[float, Field(ge=0.0, le=1.0)]


class Rank(BaseModel):
    """The share of the sample that is smaller than a number, half of those that are equal added.

    Straight lines go from one number that it is known of to the next; then it is standardised.
    """

    model_config = OF_RECIPES

    values: Annotated[tuple[float, ...], Field(min_length=2)]  # ascending
    shares: Annotated[tuple[UnitInterval, ...], Field(min_length=2)]
    mean: float
    deviation: Deviation

    @model_validator(mode="after")
    def _fits(self) -> Rank:
        if len(self.values) != len(self.shares):
            raise ValueError(f"{len(self.values)} values have {len(self.shares)} shares")
        require_ascending("values", self.values, strictly=True)
        require_ascending("shares", self.shares)
        require_sizes("mean", *((share - self.mean) / self.deviation for share in (0.0, 1.0)))
        return self


class Log(BaseModel):
    """log1p of a clipped number, standardised."""

    model_config = OF_RECIPES

    mean: float
    deviation: Deviation

    def of(self, clipped: Floats) -> Floats:
        """Return the logarithms of clipped numbers (n,)."""
        return (np.log1p(clipped) - self.mean) / self.deviation


class Number(ColumnRecipe):
    """Clipped and standardised; missing ones have their own column.

    Where the tail is heavy log1p has a column of its own, where the rank says more than both it has
    one, too, and so have the lowest numbers where many rows share them: none bought, never late.
    """

    kind: Literal["number"] = "number"
    low: float
    high: float
    mean: float
    deviation: Deviation
    has_missing: bool
    written: Written = "plain"
    missing: tuple[str, ...] = ()
    """Words that stand for a missing number."""
    rank: Rank | None = None
    lowest: float | None = None
    """Up to which a number is one of the lowest."""
    is_open: bool = False
    """True where no cell of the sample tells which of comma and point stands before decimals."""
    log: Log | None = None
    """Next to the number."""
    largest: float | None = None
    """Of the sample, where the line goes on beyond it, to `high`."""
    takes_words: bool = False
    """True where cells that are no numbers are missing, and not bad."""
    n_words: Annotated[int, Field(ge=0, le=1 << 48)] = 0
    """Cells of the sample that are no numbers, and say something."""
    words: tuple[str, ...] = ()
    """The first of them."""

    @model_validator(mode="after")
    def _fits(self) -> Number:
        require_ascending("low and high", (self.low, self.high))
        if self.log and self.low <= -1.0:
            raise ValueError(f"low is {self.low}, of which there is no logarithm")
        numbers = np.array([self.low, self.high])
        with np.errstate(over="ignore"):
            require_sizes("mean", *((numbers - self.mean) / self.deviation).tolist())
            require_sizes("log", *(self.log.of(numbers).tolist() if self.log else ()))
        return self

    @property
    def outputs(self) -> list[str]:
        more = ["is missing"] * self.has_missing + self._more
        return [self.name, *(f"{self.name} {what}" for what in more)]

    @property
    def _more(self) -> list[str]:
        """Return the names of the columns next to the number."""
        parts = ["log1p"] * (self.log is not None) + ["rank"] * (self.rank is not None)
        return [*parts, f"<= {self.lowest:.6g}"] if self.lowest is not None else parts

    @property
    def n_slots(self) -> int:
        return 1 + (self.rank is not None) + (self.log is not None)

    @property
    def summary(self) -> str:
        if self.missing_share == 1.0:
            return "nothing: all of the sample is missing"
        if self.low == self.high:
            return f"number, always {self.low:.6g}"
        beyond = "" if self.largest is None else f" ({REACH:g} times the largest)"
        parts = [f"number, clipped to {self.low:.6g} ... {self.high:.6g}{beyond}", "standardised"]
        if self._more:
            parts.append(f"with {' and '.join(self._more)}")
        if self.is_open:
            mark, other = ("comma", "point") if self.written == "comma" else ("point", "comma")
            parts.append(
                f"a {mark} before decimals, as no cell tells: `column={self.name}=number:{other}` "
                f"if it is a {other}"
            )
        words = f" ({', '.join(self.missing)})" if self.missing else ""
        parts += [f"a column for missing ones{words}"] * self.has_missing
        if self.n_words:
            shown = ", ".join(repr(word) for word in self.words)
            more = ", ..." * (self.n_words > len(self.words))
            words = counted(self.n_words, "that is no number", "that are no numbers")
            parts.append(f"among them {words} ({shown}{more})")
        return ", ".join(parts)

    def described(self) -> terms.ColumnTerms:
        clip = terms.Clip(low=self.low, high=self.high)
        scaled = terms.Standardise(mean=self.mean, deviation=self.deviation)
        every: list[terms.NumberTerm] = [terms.ValueTerm(at=0, steps=(clip, scaled))]
        if self.has_missing:
            every.append(terms.MissingTerm(at=1))
        at = len(every)
        for k, steps in enumerate(self._more_steps(clip)):
            every.append(terms.ValueTerm(at=at + k, steps=steps))
        read = terms.NumberCell(
            written=self.written, missing=self.missing, takes_words=self.takes_words
        )
        return terms.ColumnTerms(columns=(self.name,), read=read, terms=tuple(every))

    def _more_steps(self, clip: terms.Clip) -> Iterator[tuple[terms.Step, ...]]:
        """Yield the steps of each column next to the number."""
        if self.log is not None:
            yield clip, terms.LogOfOneMore(), _standardised(self.log)
        if self.rank is not None:
            points = terms.Interpolate(x=self.rank.values, y=self.rank.shares)
            yield points, _standardised(self.rank)
        if self.lowest is not None:
            yield (terms.AtMost(bound=self.lowest),)


def _standardised(part: Rank | Log) -> terms.Standardise:
    return terms.Standardise(mean=part.mean, deviation=part.deviation)


class Bins(ColumnRecipe):
    """One column per range of numbers between quantiles, and one for missing ones."""

    kind: Literal["bins"] = "bins"
    edges: tuple[float, ...]
    written: Written = "plain"
    missing: tuple[str, ...] = ()
    """Words that stand for a missing number."""
    takes_words: bool = False
    """True where cells that are no numbers are missing, and not bad."""

    @model_validator(mode="after")
    def _fits(self) -> Bins:
        require_ascending("edges", self.edges, strictly=True)
        return self

    @property
    def outputs(self) -> list[str]:
        ends = ["-inf", *(f"{edge:.6g}" for edge in self.edges), "inf"]
        ranges = [f"{self.name} in [{a}, {b})" for a, b in pairwise(ends)]
        return [*ranges, f"{self.name} is missing"]

    @property
    def as_setting(self) -> str:
        return f"bins:{len(self.edges) + 1}"

    @property
    def summary(self) -> str:
        return f"number, one of {len(self.edges) + 1} ranges"

    def described(self) -> terms.ColumnTerms:
        width = len(self.edges) + 1
        code = terms.CodeTerm(at=0, steps=(terms.Range(edges=self.edges),), width=width)
        read = terms.NumberCell(
            written=self.written, missing=self.missing, takes_words=self.takes_words
        )
        both = (code, terms.MissingTerm(at=width))
        return terms.ColumnTerms(columns=(self.name,), read=read, terms=both)
