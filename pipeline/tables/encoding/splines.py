"""Piecewise linear functions of a number, such that the plain l2 penalty charges roughness.

With knots t_0 < ... < t_m, u is i/m at t_i, linear between them and constant beyond.  Slots of a
number are u - 1/2 and, for j = 1 ... L, one hat of the 2^(j-1) of level j (Faber and Schauder's):

    2^(-alpha j) max(0, 1 - |2^j u - (2 i + 1)|),    i = floor(2^(j-1) u)

They span all functions that are linear between multiples of 2^-L.  The derivatives of the hats are
orthogonal, so with alpha = 1/2 the sum of the weights' squares is the integral of f'(u)^2 up to
constants; alpha = 1 charges finer levels more.  docs/methods.md, section 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.column_recipe import (
    ColumnRecipe,
    MissingAs,
    Slot,
    require_ascending,
)
from fewpass.pipeline.tables.encoding.date_parts import Part
from fewpass.pipeline.tables.encoding.variables import Variable

MOST_LEVELS = 12
ALPHA = 1.0


class Spline(ColumnRecipe):
    """The features of a number's position between knots; of a missing one there may be none."""

    kind: Literal["spline"] = "spline"
    column: str
    part: Part = ""
    knots: Annotated[tuple[float, ...], Field(min_length=2)]
    levels: Annotated[int, Field(ge=0, le=MOST_LEVELS)]
    alpha: Annotated[float, Field(ge=0.0, le=4.0)] = ALPHA
    missing_as: MissingAs = None
    """The number that missing ones count as, where the sample has none; None: no features."""

    @model_validator(mode="after")
    def _fits(self) -> Spline:
        require_ascending("knots", self.knots, strictly=True)
        return self

    @property
    def variable(self) -> Variable:
        """Return the variable that it is a function of."""
        return Variable(self.column, self.part)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the source that it is a function of."""
        return (self.column,)

    @property
    def outputs(self) -> list[str]:
        title = self.variable.title
        hats = [
            f"{title} hat {2 * i + 1}/{1 << j}"
            for j in range(1, self.levels + 1)
            for i in range(1 << (j - 1))
        ]
        return [f"{title} position", *hats]

    @property
    def width(self) -> int:
        return 1 << self.levels

    @property
    def n_slots(self) -> int:
        return 1 + self.levels

    @property
    def summary(self) -> str:
        ends = f"{self.knots[0]:.6g} ... {self.knots[-1]:.6g}"
        levels = "1 level" if self.levels == 1 else f"{self.levels} levels"
        return f"a curve over {ends}, of {counted(len(self.knots), 'knot')} and {levels} of hats"

    def features(self, numbers: Floats) -> Iterator[Slot]:
        """Yield the features of numbers (n,), none of them missing."""
        return hats(numbers, self.knots, self.levels, self.alpha)

    def kinks(self) -> Floats:
        """Return the numbers, ascending, between which the features are linear."""
        return kinks(self.knots, self.levels)


def kinks(knots: Sequence[float], levels: int) -> Floats:
    """Return the numbers, ascending, between which the features of a curve are linear."""
    m, parts = len(knots) - 1, 1 << levels
    dyadic = np.interp(np.arange(parts + 1) / parts, np.arange(m + 1) / m, knots)
    return np.unique(np.concatenate([knots, dyadic]))


def hats(numbers: Floats, knots: Sequence[float], levels: int, alpha: float) -> Iterator[Slot]:
    """Yield the features of numbers (n,): their position, and one hat of every level."""
    u = np.interp(numbers, knots, np.linspace(0.0, 1.0, len(knots)))
    yield Slot(0, u - 0.5)
    heights = 2.0 ** (-alpha * np.arange(levels + 1.0))
    for level in range(1, levels + 1):
        count = 1 << (level - 1)
        i = np.minimum((u * count).astype(np.int64), count - 1)
        hat = np.maximum(0.0, 1.0 - np.abs(u * (1 << level) - (2 * i + 1)))
        yield Slot(count + i, heights[level] * hat)
