"""Variables that splines and pairs are functions of: a number, a category, or a part of a date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.column_recipe import Codes
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF, Part
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number

RARE, MISSING = "rare or unseen", "missing"


class Variable(NamedTuple):
    """A variable of an additive model."""

    column: str
    part: Part = ""

    @property
    def title(self) -> str:
        """Return its name."""
        return f"{self.column} {self.part}" if self.part else self.column


def variables_of(columns: Sequence[Any]) -> tuple[list[Variable], list[Variable]]:
    """Return the numbers and the categories that recipes of columns have, in their order."""
    numbers: list[Variable] = []
    categories: list[Variable] = []
    for column in columns:
        if isinstance(column, Number) and column.low < column.high:
            numbers.append(Variable(column.name))
        elif isinstance(column, Category) and len(column.values) > 1:
            categories.append(Variable(column.name))
        elif isinstance(column, Date) and column.missing_share < 1.0:
            hours: list[Part] = ["time of day"] if column.has_hours else []
            of_date: list[Part] = ["days", "day of the year", *hours]
            numbers += [Variable(column.name, part) for part in of_date]
            days = (part for part in column.part_names if part != "hour")
            categories += [Variable(column.name, part) for part in days]
    return numbers, categories


def level_names(column: Any, part: Part) -> tuple[str, ...]:
    """Return the levels of a category, or of a part of a date, the missing one last."""
    if isinstance(column, Category):
        return (*column.values, RARE, MISSING)
    return (*LEVELS_OF[part], MISSING)


def levels_among(values: Sequence[str], names: Sequence[str]) -> Codes:
    """Return the level on an axis of each of a variable's levels, the missing one last.

    The axis has levels of its own for some values, one for all others, and one for missing ones.
    """
    own, rare = {name: k for k, name in enumerate(values)}, len(values)
    return np.array([own.get(name, rare) for name in names[:-1]] + [rare + 1])
