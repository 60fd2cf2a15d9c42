"""Curves and functions of two columns as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.date_parts import Part
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis, PairTable
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.terms import (
    CodeAxis,
    ColumnTerms,
    DatePart,
    HatsTerm,
    KnotAxis,
    MomentCell,
    NumberCell,
    SingleCell,
    Step,
    TableTerm,
    TwoCells,
    ValueTerm,
    WordAxis,
    WordCell,
    WordTerm,
)
from fewpass.pipeline.tables.encoding.variables import level_names, levels_among

Columns = Mapping[str, ColumnRecipe]


def described_additive(additive: Additive, columns: Columns) -> Iterator[ColumnTerms]:
    """Yield the terms of splines and pairs, each from its own first output column."""
    for spline in additive.splines:
        yield _of_spline(spline, columns)
    for pair in additive.pairs:
        yield _of_pair(pair, columns)


def _of_spline(spline: Spline, columns: Columns) -> ColumnTerms:
    term = HatsTerm(
        at=0, steps=steps_of(spline.column, spline.part, columns), knots=spline.knots,
        levels=spline.levels, alpha=spline.alpha, missing_as=spline.missing_as,
    )  # fmt: skip
    read = cell_of(spline.column, columns)
    return ColumnTerms(columns=(spline.column,), read=read, terms=(term,))


def _of_pair(pair: PairTable, columns: Columns) -> ColumnTerms:
    names = pair.a.column, pair.b.column
    a, b = cell_of(names[0], columns), cell_of(names[1], columns)
    term = TableTerm(
        at=0, a=_axis(pair.a, columns), b=_axis(pair.b, columns),
        places=tuple(map(tuple, pair.places.tolist())), scale=pair.scale,
    )  # fmt: skip
    return ColumnTerms(columns=names, read=TwoCells(a=a, b=b), terms=(term,))


def cell_of(name: str, columns: Columns) -> SingleCell:
    """Return how a column's cells are read, which is the same for all that it becomes."""
    read = columns[name].described().read
    assert isinstance(read, NumberCell | MomentCell | WordCell), "curves are not of lists"
    return read


def steps_of(name: str, part: Part, columns: Columns) -> tuple[Step, ...]:
    """Return the steps from a cell to a variable."""
    if part == "":
        return ()
    if part == "days":  # those of the column's own days, before they are standardised
        days = columns[name].described().terms[0]
        assert isinstance(days, ValueTerm), "days come first"
        return days.steps[:-1]
    return (DatePart(of=part),)


def _axis(axis: HatAxis | LevelAxis, columns: Columns) -> KnotAxis | WordAxis | CodeAxis:
    if isinstance(axis, HatAxis):
        steps = steps_of(axis.column, axis.part, columns)
        return KnotAxis(steps=steps, knots=axis.knots, missing_as=axis.missing_as)
    if isinstance(columns[axis.column].described().terms[0], WordTerm):
        return WordAxis(values=axis.values)
    levels = levels_among(axis.values, level_names(columns[axis.column], axis.part))
    steps = steps_of(axis.column, axis.part, columns)
    return CodeAxis(steps=steps, levels=tuple(levels.tolist()))
