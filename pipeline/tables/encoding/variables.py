"""Columns as functions of one variable: a number, a category, or a part of a date.

Splines (splines.py) and pairs (pair_tables.py) are made of them.  A number is NaN where it is
missing; a category is the place of its level, the last of which stands for missing ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.column_recipe import Codes
from fewpass.pipeline.tables.encoding.date_parts import (
    LEVELS_OF,
    Part,
    level_of_date,
    number_of_date,
)
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number

#: How a column's cells are read, by its kind.
_READ_BY = {"number": "numbers", "date": "moments", "category": "codes"}
RARE, MISSING = "rare or unseen", "missing"


class Variable(NamedTuple):
    """A variable of an additive model."""

    column: str
    part: Part = ""

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.column} {self.part}" if self.part else self.column


class Levels(NamedTuple):
    """A category of some rows."""

    names: tuple[str, ...]  # of all levels, the missing one last
    codes: Codes  # (n,)


def variables_of(columns: Sequence[Any]) -> tuple[list[Variable], list[Variable]]:
    """Return the numbers and the categories that recipes of columns have, in their order."""
    numbers: list[Variable] = []
    categories: list[Variable] = []
    for column in columns:
        if isinstance(column, Number) and column.low < column.high:
            numbers.append(Variable(column.name))
        elif isinstance(column, Category) and len(column.values) > 1:
            categories.append(Variable(column.name))
        elif isinstance(column, Date):
            hours: list[Part] = ["time of day"] if column.has_hours else []
            numbers += [Variable(column.name, part) for part in ("day of the year", *hours)]
            days = (part for part in column.part_names if part != "hour")
            categories += [Variable(column.name, part) for part in days]
    return numbers, categories


class VariablesOfRows:
    """The variables of some rows; every column is read once.

    Parameters
    ----------
    columns
        Recipes.
    cells
        An Arrow array (n,) for each of them.
    """

    def __init__(self, columns: Sequence[Any], cells: Sequence[Any]) -> None:
        self._columns = {
            column.name: (column, of) for column, of in zip(columns, cells, strict=True)
        }
        self._read: dict[str, Any] = {}
        self.n_rows = len(cells[0])

    def numbers(self, variable: Variable) -> Floats:
        """Return a variable's numbers (n,), NaN where they are missing."""
        values: Floats = self._read_once(variable.column)
        if variable.part == "days":
            days: Floats = self._columns[variable.column][0].days(values)
            return days
        return values if variable.part == "" else number_of_date(values, variable.part)

    def missing_as(self, variable: Variable) -> float | None:
        """Return the number that a missing one counts as where no row is missing: the mean."""
        column, _ = self._columns[variable.column]
        if column.has_missing if isinstance(column, Number) else column.missing_share > 0.0:
            return None
        return column.mean if isinstance(column, Number) else float(self.numbers(variable).mean())

    def levels(self, variable: Variable) -> Levels:
        """Return a variable's levels."""
        column, _ = self._columns[variable.column]
        values, names = self._read_once(variable.column), level_names(column, variable.part)
        if isinstance(column, Category):
            return Levels(names, values)
        return Levels(names, level_of_date(values, variable.part))

    def _read_once(self, name: str) -> Any:
        if name not in self._read:
            column, cells = self._columns[name]
            read = _READ_BY[column.kind]
            self._read[name] = getattr(column, read)(cells)
        return self._read[name]


def level_names(column: Any, part: Part) -> tuple[str, ...]:
    """Return the levels of a category, or of a part of a date, the missing one last."""
    if isinstance(column, Category):
        return (*column.values, RARE, MISSING)
    return (*LEVELS_OF[part], MISSING)
