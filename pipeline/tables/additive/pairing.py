"""Pairs of columns: which there may be, their axes, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.additive.interactions import LEVELS
from fewpass.pipeline.tables.additive.knots import knots_of
from fewpass.pipeline.tables.encoding.pair_tables import (
    MOST_CELLS,
    HatAxis,
    LevelAxis,
    PairSelection,
    PairTable,
    masses_text,
)
from fewpass.pipeline.tables.encoding.variables import Variable
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows

#: Parts of dates in no pairs: hours repeat the time of day, and days do not come again.
_UNPAIRED = ("hour", "days")
#: Parts of one date in no pair with each other: a day of the year is of one month.
_OF_YEARS = {"month", "day of the year"}
#: Pairs that are looked at, at most: of more columns the most important ones.
MOST_LOOKED_AT = 5_000


def pairs_of(
    numbers: Sequence[Variable], categories: Sequence[Variable]
) -> list[tuple[Variable, Variable]]:
    """Return all pairs of variables that do not imply each other."""
    every = [variable for variable in (*numbers, *categories) if variable.part not in _UNPAIRED]
    return [(a, b) for a, b in combinations(every, 2) if _differ(a, b)]


def _differ(a: Variable, b: Variable) -> bool:
    """Return whether variables are of two columns, or parts of a date that differ in kind."""
    return a.column != b.column or (a != b and {a.part, b.part} != _OF_YEARS)


def named_pairs(
    names: Sequence[tuple[str, str]], numbers: Sequence[Variable], categories: Sequence[Variable]
) -> list[tuple[Variable, Variable]]:
    """Return the pairs that settings name, of columns or of parts of dates; or BadInput."""
    every = [*numbers, *categories]
    pairs = []
    for pair in names:
        own = []
        for name in pair:
            variables = [
                t for t in every if name in (t.column, t.title) and t.part not in _UNPAIRED
            ]
            if not variables:
                raise BadInput(
                    f"There is no column {name!r} to pair: pairs are of numbers, of words of at "
                    "most 1000 values and of dates, more than one value each. Name two of "
                    f"{', '.join(sorted({t.column for t in every})[:20])}."
                )
            own.append(variables)
        each = [(a, b) for a in own[0] for b in own[1] if _differ(a, b)]
        if not each or pair[0] == pair[1]:
            raise BadInput(
                f"{pair[0]}:{pair[1]} is a column with itself. Name two columns, or two parts of a "
                "date that differ in kind, such as its weekday and its time of day."
            )
        pairs += each
    return pairs


def number_axis(variable: Variable, variables: VariablesOfRows, bins: int) -> HatAxis:
    """Return the axis of a number, of knots at its quantiles."""
    values = variables.numbers(variable)
    knots = knots_of(values[~np.isnan(values)], bins)
    return HatAxis(
        column=variable.column, part=variable.part, knots=knots,
        missing_as=variables.missing_as(variable),
    )  # fmt: skip


def level_axis(variable: Variable, variables: VariablesOfRows, most: int) -> LevelAxis:
    """Return the axis of a category, of its most frequent levels in their order."""
    levels = variables.levels(variable)
    own = levels.names[:-1] if variable.part else levels.names[:-2]
    counts = np.bincount(levels.codes, minlength=len(levels.names))[: len(own)]
    frequent = np.sort(np.argsort(-counts, kind="stable")[:most])
    values = tuple(own[k] for k in frequent.tolist() if counts[k])
    return LevelAxis(column=variable.column, part=variable.part, values=values)


def pair_axes(
    pair: tuple[Variable, Variable], numbers: Sequence[Variable], variables: VariablesOfRows,
    bins: int, most: int = LEVELS, least_bins: int = 1,
) -> tuple[HatAxis | LevelAxis, HatAxis | LevelAxis]:  # fmt: skip
    """Return the axes of a pair, of at most MOST_CELLS cells.

    Of a number and a category pieces give way first, down to `least_bins`, then values.
    """

    def axis(variable: Variable) -> HatAxis | LevelAxis:
        make, size = (number_axis, bins) if variable in numbers else (level_axis, most)
        if (variable, size) not in variables.axes:
            variables.axes[variable, size] = make(variable, variables, size)
        return variables.axes[variable, size]

    while True:
        a, b = map(axis, pair)
        if a.n_features * b.n_features <= MOST_CELLS:
            return a, b
        has_levels, has_bins = "levels" in (a.kind, b.kind), "hats" in (a.kind, b.kind)
        if has_levels and not (has_bins and bins > least_bins):
            most -= 1
        else:
            bins -= 1


def pair_table(
    pair: tuple[Variable, Variable], axes: tuple[HatAxis | LevelAxis, HatAxis | LevelAxis],
    variables: VariablesOfRows, selection: PairSelection | None = None,
) -> PairTable:  # fmt: skip
    """Return the table of a pair, its cells those that rows have."""
    a, b = axes
    return PairTable(
        name=f"{pair[0].title} x {pair[1].title}", a=a, b=b, selection=selection,
        cells=masses_text(variables.masses(a, b)),
    )  # fmt: skip


def both_rounds(first: Sequence[PairTable], second: Sequence[PairTable]) -> list[PairTable]:
    """Return the tables of both rounds; of a pair in both that of the second, which is finer."""
    again = [table.of for table in second]
    return [*(table for table in first if table.of not in again), *second]
