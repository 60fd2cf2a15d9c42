"""The functions of single columns and of pairs that the weights of an additive model stand for.

Features overlap: what a pair tells of one of its columns alone could as well be that column's.  So
from the table of every pair the means of its rows and columns are subtracted, weighted by the rows
of the sample in each cell, and added to the functions of the columns, until none is left; then
every function is centred, and its mean added to the constant.  Predictions are the same:

    score = constant + sum of the columns' functions + sum of the pairs' + the rest

the rest being columns of text, hashes, lists and the like, whose weights are their own.
docs/methods.md, section 12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.encoding.apply_terms import between_knots
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF, SECONDS_OF_DAY
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis, PairTable, purified
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import Variable, level_names, levels_among


class ColumnCurve(NamedTuple):
    """A function of a number: linear between the points of a grid, constant beyond."""

    variable: Variable
    grid: Floats  # (m,) ascending
    values: Floats  # (m + 1,), the last of missing numbers
    masses: Floats  # (m + 1,) rows of the sample
    origin: float | None = None  # of days: the first, in seconds since 1970


class LevelSteps(NamedTuple):
    """A function of a category."""

    variable: Variable
    names: tuple[str, ...]  # of its levels, the missing one last
    values: Floats  # (levels,)
    masses: Floats  # (levels,) rows of the sample


class Surface(NamedTuple):
    """A function of two columns, between the levels of its table's axes."""

    table: PairTable
    values: Floats  # (levels of a, levels of b)
    of_a: Floats  # (levels of a,) what of it was a's alone, and is in the function of a
    of_b: Floats  # (levels of b,)

    @property
    def title(self) -> str:
        """Return its name."""
        return self.table.name

    @property
    def masses(self) -> Floats:
        """Rows of the sample in every cell."""
        return self.table.masses


Function = ColumnCurve | LevelSteps | Surface


class Shapes(NamedTuple):
    """An additive model as functions."""

    constant: float
    columns: tuple[ColumnCurve | LevelSteps, ...]
    pairs: tuple[Surface, ...]
    rest: tuple[tuple[str, slice], ...]  # other columns, and where their weights are
    means: tuple[float, ...]  # of `columns` before they were centred

    @property
    def functions(self) -> tuple[Function, ...]:
        """Those of columns, then those of pairs."""
        return (*self.columns, *self.pairs)


def title_of(function: Function) -> str:
    """Return what a function is called."""
    return function.title if isinstance(function, Surface) else function.variable.title


def deviation_of(function: Function) -> float:
    """Return the standard deviation of a function over the sample: its importance."""
    masses = function.masses
    total = max(float(masses.sum()), 1e-300)
    mean = float((masses * function.values).sum()) / total
    return float(np.sqrt((masses * np.square(function.values - mean)).sum() / total))


def shape_variables(recipe: Recipe) -> Iterator[tuple[Variable, bool]]:
    """Yield the variables that columns are functions of, and whether each is a number."""
    for column in recipe.columns:
        if isinstance(column, Number | Category):
            yield Variable(column.name), isinstance(column, Number)
        elif isinstance(column, Date):
            days = Variable(column.name, "days")
            yield days, True
            for part in column.part_names:
                yield Variable(column.name, part), False
            for spline in _splines_of(recipe, column.name):
                if spline.variable != days:
                    yield spline.variable, True


def _splines_of(recipe: Recipe, name: str) -> list[Spline]:
    splines = recipe.additive.splines if recipe.additive else ()
    return [spline for spline in splines if spline.column == name]


def grid_of(recipe: Recipe, variable: Variable) -> Floats:
    """Return the points between which all that is a function of a number is linear."""
    assert recipe.additive is not None, "asked before"
    points = [spline.kinks() for spline in recipe.additive.splines if spline.variable == variable]
    for pair in recipe.additive.pairs:
        axes = zip((pair.a, pair.b), pair.of, strict=True)
        points += [np.asarray(a.knots) for a, own in axes if own == variable and a.kind == "hats"]
    for column in recipe.columns:
        if column.name == variable.column and isinstance(column, Number):
            points.append(np.array([column.low, column.high]))
        elif (
            column.name == variable.column and isinstance(column, Date) and variable.part == "days"
        ):
            last = column.first if column.last is None else column.last
            most = (last - column.first) / SECONDS_OF_DAY
            points.append(np.array([0.0, most or max(1.0, 2.0 * column.mean)]))
    return np.unique(np.concatenate(points))


def _origin_of(recipe: Recipe, variable: Variable) -> float | None:
    """Return the first of a variable's days, in seconds since 1970; None where it has none."""
    dates = [column for column in recipe.columns if isinstance(column, Date)]
    own = (column.first for column in dates if column.name == variable.column)
    return next(own) if variable.part == "days" else None


def shapes_of(recipe: Recipe, coef: Floats, intercept: float) -> Shapes:
    """Return the functions of weights (d,) and an intercept, purified and centred."""
    assert recipe.additive is not None, "asked before"
    functions: dict[Variable, ColumnCurve | LevelSteps] = {}
    columns = {column.name: column for column in recipe.columns}
    variables = zip(shape_variables(recipe), recipe.additive.masses, strict=False)
    for (variable, is_number), counts in variables:
        masses = np.asarray(counts)
        zeros = np.zeros(len(masses))
        if is_number:
            grid, origin = grid_of(recipe, variable), _origin_of(recipe, variable)
            functions[variable] = ColumnCurve(variable, grid, zeros, masses, origin)
        else:
            names = level_names(columns[variable.column], variable.part)
            functions[variable] = LevelSteps(variable, names, zeros, masses)
    pairs: list[Surface] = []
    rest: list[tuple[str, slice]] = []
    start = 0
    for part in recipe.parts:
        own = part.factor * coef[start : start + part.width]
        if isinstance(part, Number | Category | Date | Spline):
            _add_part(part, own, functions)
        elif isinstance(part, PairTable):
            pairs.append(_purified(part, own, functions))
        else:
            rest.append((part.name, slice(start, start + part.width)))
        start += part.width
    constant, centred, means = float(intercept), [], []
    for function in functions.values():
        mean = float(function.masses @ function.values) / max(float(function.masses.sum()), 1e-300)
        centred.append(function._replace(values=function.values - mean))
        constant += mean
        means.append(mean)
    return Shapes(constant, tuple(centred), tuple(pairs), tuple(rest), tuple(means))


def part_variables(part: Any) -> list[tuple[Variable, int]]:
    """Return the variables that the features of a part are functions of, and how many of each.

    None of pairs, and of columns that have no functions.
    """
    if isinstance(part, Spline):
        return [(part.variable, part.width)]
    if isinstance(part, Number | Category):
        return [(Variable(part.name), part.width)]
    if isinstance(part, Date):
        levels = [(Variable(part.name, word), len(LEVELS_OF[word])) for word in part.part_names]
        return [(Variable(part.name, "days"), 2), *levels]
    return []


def _add_part(part: Any, own: Floats, functions: dict[Variable, ColumnCurve | LevelSteps]) -> None:
    """Add what the weights of a part stand for to the functions of its variables, in place."""
    if isinstance(part, Spline):
        function = functions[part.variable]
        assert isinstance(function, ColumnCurve), "of a number"
        for column, value in part.features(function.grid):
            function.values[:-1] += own[column] * value
        if part.missing_as is not None:
            mean = np.array([part.missing_as])
            function.values[-1] += sum((own[k] * hat).item() for k, hat in part.features(mean))
    elif isinstance(part, Number):
        function = functions[Variable(part.name)]
        assert isinstance(function, ColumnCurve), "of a number"
        clipped = np.clip(function.grid, part.low, part.high)
        function.values[:-1] += own[0] * (clipped - part.mean) / part.deviation
        function.values[-1] += own[1] if part.has_missing else 0.0
    elif isinstance(part, Category):
        functions[Variable(part.name)].values[:] += own
    else:
        _add_date(part, own, functions)


def _add_date(part: Date, own: Floats, functions: dict[Variable, ColumnCurve | LevelSteps]) -> None:
    days = functions[Variable(part.name, "days")]
    assert isinstance(days, ColumnCurve), "of a number"
    days.values[:-1] += own[0] * (days.grid - part.mean) / part.deviation
    days.values[-1] += own[1]
    start = 2
    for word in part.part_names:
        count = len(LEVELS_OF[word])
        functions[Variable(part.name, word)].values[:count] += own[start : start + count]
        start += count


def _purified(
    table: PairTable, own: Floats, functions: dict[Variable, ColumnCurve | LevelSteps]
) -> Surface:
    """Return a pair's function without what is its columns' alone, which is added to theirs."""
    values = np.where(table.places < 0, 0.0, table.scale * own[np.maximum(table.places, 0)])
    values, rows, columns = purified(values, table.masses)
    for axis, of_values, of_axis in ((table.a, values, rows), (table.b, values.T, columns)):
        _put_missing(axis, of_values, of_axis)
    for axis, variable, part in zip((table.a, table.b), table.of, (rows, columns), strict=True):
        functions[variable].values[:] += _on(functions[variable], axis, part)
    return Surface(table, values, rows, columns)


def _put_missing(axis: HatAxis | LevelAxis, values: Floats, own: Floats) -> None:
    """Put what missing numbers count as in their level of values (levels, m) and own (levels,)."""
    if isinstance(axis, HatAxis) and axis.missing_as is not None:
        shares = between_knots(np.zeros(1), np.ones(1, np.bool_), axis.knots, axis.missing_as)
        values[-1] = sum(one.share[0] * values[one.level[0]] for one in shares)
        own[-1] = sum(one.share[0] * own[one.level[0]] for one in shares)


def _on(function: ColumnCurve | LevelSteps, axis: HatAxis | LevelAxis, part: Floats) -> Floats:
    """Return a function of an axis's levels at the points of a column's own function."""
    if isinstance(axis, HatAxis):
        assert isinstance(function, ColumnCurve), "of a number"
        return np.append(np.interp(function.grid, axis.knots, part[:-1]), part[-1])
    assert isinstance(function, LevelSteps), "of a category"
    return part[levels_among(axis.values, function.names)]
