"""The variables of some rows, read as their columns are described."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.encoding.additive_recipe import cell_of, steps_of
from fewpass.pipeline.tables.encoding.apply_terms import (
    ReadCells,
    ShareOfLevel,
    behind,
    between_knots,
    read_cells,
)
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.cells import Floats, levels_of_words
from fewpass.pipeline.tables.encoding.column_recipe import Codes
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis, PairTable, masses_text
from fewpass.pipeline.tables.encoding.variables import Variable, level_names, levels_among

Axis = HatAxis | LevelAxis


class Levels(NamedTuple):
    """A category of some rows."""

    names: tuple[str, ...]  # of all levels, the missing one last
    codes: Codes  # (n,)


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
        self._columns = {column.name: column for column in columns}
        self._cells = dict(zip(self._columns, cells, strict=True))
        self._read: dict[str, ReadCells] = {}
        self.n_rows = len(cells[0])
        self.axes: dict[tuple[Variable, int], Axis] = {}
        """Axes of pairs that were made before, by how many bins or values they may have."""

    def numbers(self, variable: Variable) -> Floats:
        """Return a variable's numbers (n,), NaN where they are missing."""
        read = self._read_once(variable.column)
        numbers = behind(steps_of(*variable, self._columns), read.values)
        return np.where(read.missing, np.nan, numbers)

    def missing_as(self, variable: Variable) -> float | None:
        """Return the number that a missing one counts as where no row is missing: the mean."""
        column = self._columns[variable.column]
        if column.has_missing if isinstance(column, Number) else column.missing_share > 0.0:
            return None
        return column.mean if isinstance(column, Number) else float(self.numbers(variable).mean())

    def levels(self, variable: Variable) -> Levels:
        """Return a variable's levels."""
        column, read = self._columns[variable.column], self._read_once(variable.column)
        names = level_names(column, variable.part)
        if isinstance(column, Category):
            return Levels(names, read.values)
        codes = behind(steps_of(*variable, self._columns), read.values)
        return Levels(names, np.where(read.missing, len(names) - 1, codes).astype(np.int64))

    def shares(self, axis: Axis) -> tuple[ShareOfLevel, ...]:
        """Return the levels of rows on an axis of a pair, and the shares of each."""
        variable = Variable(axis.column, axis.part)
        if isinstance(axis, LevelAxis):
            every = self.levels(variable)
            level = levels_among(axis.values, every.names)[every.codes]
            return (ShareOfLevel(level, np.ones(self.n_rows)),)
        numbers = self.numbers(variable)
        return between_knots(numbers, np.isnan(numbers), axis.knots, axis.missing_as)

    def products(self, a: Axis, b: Axis) -> Iterator[tuple[ShareOfLevel, ShareOfLevel]]:
        """Yield the levels of rows on both axes of a pair."""
        others = self.shares(b)
        for one in self.shares(a):
            for other in others:
                yield one, other

    def masses(self, a: Axis, b: Axis) -> Floats:
        """Return how many rows every cell of two axes has, shares of rows added."""
        rows, columns = len(a.names), len(b.names)
        masses = np.zeros(rows * columns)
        for one, other in self.products(a, b):
            flat = one.level * columns + other.level
            masses += np.bincount(flat, one.share * other.share, rows * columns)
        return masses

    def counted(self, table: PairTable) -> PairTable:
        """Return the table of a pair with the cells of these rows."""
        return table.model_copy(update={"cells": masses_text(self.masses(table.a, table.b))})

    def _read_once(self, name: str) -> ReadCells:
        if name not in self._read:
            column = self._columns[name]
            read = read_cells(cell_of(name, self._columns), self._cells[name])
            if isinstance(column, Category):
                read = read._replace(values=levels_of_words(read.values, column.values))
            self._read[name] = read
        return self._read[name]
