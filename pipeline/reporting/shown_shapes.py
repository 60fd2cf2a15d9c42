"""Functions as they are shown: the range of their rows, their levels in order, cells of a map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.explaining.plain_shapes import axis_values, places_of
from fewpass.pipeline.tables.encoding.additive_shapes import ColumnCurve, LevelSteps, Surface
from fewpass.pipeline.tables.encoding.category_recipe import numbers_named
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF, Part
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis
from fewpass.pipeline.tables.encoding.variables import MISSING, RARE

FEW_ROWS = 10.0  # of a cell, below which it is hatched
#: Points of a curve from which on rows between them are guessed; what density is cut at, in times
#: the mean: a value that many rows have would leave nothing to see of all others.
_FEWEST_POINTS, _MOST_DENSITY = 3, 4.0


class Stretch(NamedTuple):
    """A part of a number's range."""

    start: float
    end: float
    density: float  # the sample's rows per unit, 1 where they are most


class Level(NamedTuple):
    """A level of a category, or a point of a curve."""

    name: str
    adds: float
    rows: float  # of the sample


class ShownMap(NamedTuple):
    """The cells of a pair's function that are shown."""

    titles: tuple[str, str]  # of the column that goes down, and of that across
    down: list[str]
    across: list[str]
    values: Floats  # (down, across)
    masses: Floats  # (down, across) rows of the sample

    def upright(self) -> ShownMap:
        """Return the same with at least as many rows as columns."""
        if len(self.across) <= len(self.down):
            return self
        titles = self.titles[::-1]
        return ShownMap(titles, self.across, self.down, self.values.T, self.masses.T)

    @property
    def thin(self) -> list[list[bool]]:
        """Cells that have few rows."""
        few: list[list[bool]] = (self.masses < FEW_ROWS).tolist()
        return few


def stretches(curve: ColumnCurve) -> list[Stretch]:
    """Return the rows of the sample around each point of a curve; none where points are few.

    A stretch reaches half-way to the next points that have rows, and as far on the other side
    where there are none.
    """
    at = np.flatnonzero(curve.masses[:-1] > 0.0)
    if len(at) < _FEWEST_POINTS:
        return []
    grid, masses = curve.grid[at], curve.masses[at]
    halves = np.diff(grid) / 2.0
    before, behind = np.append(halves[0], halves), np.append(halves, halves[-1])
    far = np.append(np.inf, np.diff(at)) > 1.0  # a point without rows lies between
    before = np.where(far, np.minimum(before, behind), before)
    behind = np.where(np.append(far[1:], True), np.minimum(before, behind), behind)
    density = masses / (before + behind)
    most = min(density.max(), _MOST_DENSITY * masses.sum() / (before + behind).sum())
    each = zip(grid - before, grid + behind, np.minimum(density / most, 1.0), strict=True)
    return [Stretch(*map(float, one)) for one in each]


def within_sample(curve: ColumnCurve) -> slice:
    """Return which points of a curve lie where the sample has rows."""
    at = np.flatnonzero(curve.masses[:-1] > 0.0)
    return slice(int(at[0]), int(at[-1]) + 1) if len(at) else slice(0, len(curve.grid))


def shown_levels(function: LevelSteps, most: int) -> list[Level]:
    """Return the most frequent levels, or all parts of dates, then rare and missing ones.

    Those that are numbers come by value, and words by their rows.
    """
    each = [
        Level(*one)
        for one in zip(
            function.names, function.values.tolist(), function.masses.tolist(), strict=True
        )
    ]
    named = [one for one in each if one.name not in (RARE, MISSING) and one.rows > 0.0]
    if function.variable.part not in LEVELS_OF:
        named = _most_frequent(named, most)
    return [*named[:most], *(one for one in each if one.name in (RARE, MISSING) and one.rows > 0.0)]


def _most_frequent(levels: Sequence[Level], most: int) -> list[Level]:
    chosen = sorted(levels, key=lambda one: -one.rows)[:most]
    values = numbers_named([one.name for one in chosen])
    return chosen if values is None else [chosen[k] for k in np.argsort(values).tolist()]


def left_out(function: LevelSteps, most: int) -> int:
    """Return how many levels of the sample are not among `most`."""
    return max(0, int((function.masses > 0.0).sum()) - len(shown_levels(function, most)))


def shown_map(surface: Surface, most: int) -> ShownMap:
    """Return the cells of a pair that have rows nearby, of `most` levels of each category.

    The column with more levels goes down: pages scroll that way.
    """
    down, across = (
        _levels_on(axis, surface.masses.sum(axis=other), most)
        for axis, other in ((surface.table.a, 1), (surface.table.b, 0))
    )
    own = np.ix_(down, across)
    names = [
        [axis_words(axis)[k] for k in at]
        for axis, at in ((surface.table.a, down), (surface.table.b, across))
    ]
    one, other = (variable.title for variable in surface.table.of)
    values, masses = surface.values[own], surface.masses[own]
    return ShownMap((one, other), names[0], names[1], values, masses).upright()


def _levels_on(axis: HatAxis | LevelAxis, rows: Floats, most: int) -> list[int]:
    """Return the levels of an axis that are shown: knots, or the most frequent ones."""
    last = len(rows) - 1
    chosen = np.arange(last)
    if isinstance(axis, LevelAxis):
        chosen = np.sort(np.argsort(-rows[:last], kind="stable")[:most])
    shown = [int(k) for k in chosen if rows[k] > 0.0]
    return [*shown, last] if rows[last] > 0.0 else shown


def axis_words(axis: HatAxis | LevelAxis) -> list[str]:
    """Return the levels of an axis as words, the missing one last."""
    values = axis_values(axis)
    words = number_words(axis.part, values) if isinstance(axis, HatAxis) else [*values]
    return [*words, MISSING]


def point_words(curve: ColumnCurve) -> list[str]:
    """Return the points of a curve as words, dates as dates."""
    if curve.origin is None:
        return number_words(curve.variable.part, curve.grid.tolist())
    return [str(np.datetime64(int(at), "s"))[:10] for at in places_of(curve)]


def points_of(function: ColumnCurve | LevelSteps) -> list[Level]:
    """Return the points of a column's function, those of numbers as words."""
    if isinstance(function, LevelSteps):
        names = [*function.names]
    else:
        names = [*point_words(function), MISSING]
    values, rows = function.values.tolist(), function.masses.tolist()
    each = [Level(*one) for one in zip(names, values, rows, strict=True)]
    return [one for one in each if one.rows > 0.0 or one.name != MISSING]


def number_words(part: Part, values: Sequence[float]) -> list[str]:
    """Write numbers as short as tells them apart; hours as a clock shows them."""
    if part == "time of day":
        minutes = [round(60.0 * hour) for hour in values]
        words = [f"{m // 60:02}:{m % 60:02}" for m in minutes]
        if len(set(words)) == len(set(values)):
            return words
    for digits in range(3, 13):
        words = [f"{float(f'{value:.{digits}g}'):.12g}" for value in values]
        if len(set(words)) == len(set(values)):
            break
    return words


def cell_words(values: Floats) -> list[list[str]]:
    """Write the numbers of a map with as many decimals as the largest needs for three digits."""
    most = float(np.abs(values).max(initial=0.0))
    if most <= 0.0 or not 1e-4 <= most < 1e9:
        return [[f"{value:+.2g}" for value in row] for row in values.tolist()]
    decimals = max(0, 1 - math.floor(math.log10(most)))
    return [[_decimal(value, decimals) for value in row] for row in values.tolist()]


def _decimal(value: float, decimals: int) -> str:
    word = f"{value:+,.{decimals}f}"
    return "0" if float(word.replace(",", "")) == 0.0 else word
