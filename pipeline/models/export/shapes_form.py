"""The functions of an additive model as plain data: knots, levels and values, in `model.json`.

    score_k = constants_k + the sum of all functions' values_k

examples/score_shapes.py is a scorer of it, in 60 lines of plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.tables.encoding.additive_shapes import ColumnCurve, Shapes, shapes_of
from fewpass.pipeline.tables.encoding.additive_terms import cell_of, steps_of
from fewpass.pipeline.tables.encoding.date_parts import Part
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.terms import SingleCell, Step, where_missing
from fewpass.pipeline.tables.encoding.variables import Variable

_DOCUMENT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ShapeAxis(BaseModel):
    """What a function is a function of: a number between knots, or a word of some levels."""

    model_config = _DOCUMENT
    column: str
    part: Part
    """Of a date; empty: all of the column."""
    read: SingleCell
    steps: tuple[Step, ...] = ()
    """From the cell to the number."""
    knots: tuple[float, ...] | None = None
    """Between which the function is linear; beyond, it is constant."""
    levels: tuple[str, ...] | None = None
    """Words, the last one for all others where there are others."""


class ColumnShape(BaseModel):
    """A function of one column."""

    model_config = _DOCUMENT
    name: str
    of: ShapeAxis
    values: tuple[tuple[float, ...], ...]
    """For each score, at every knot or level; the last of missing cells."""


class PairShape(BaseModel):
    """A function of two columns, without what each adds alone."""

    model_config = _DOCUMENT
    name: str
    a: ShapeAxis
    b: ShapeAxis
    values: tuple[tuple[tuple[float, ...], ...], ...]
    """For each score, at every knot or level of a and of b, missing cells last."""


class ShapesForm(BaseModel):
    """All functions."""

    model_config = _DOCUMENT
    constants: tuple[float, ...]
    columns: tuple[ColumnShape, ...]
    pairs: tuple[PairShape, ...]


def shapes_form(model: PlainModel) -> ShapesForm | None:
    """Return the functions of a model; None where some columns are no functions, such as text."""
    recipe = model.recipe
    if recipe is None or recipe.additive is None or not recipe.additive.masses:
        return None
    each = [
        shapes_of(recipe, coef, float(intercept))
        for coef, intercept in zip(model.coef, model.intercept, strict=True)
    ]
    if each[0].rest:
        return None
    return ShapesForm(
        constants=tuple(own.constant for own in each),
        columns=tuple(_column_shape(k, each, recipe) for k in range(len(each[0].columns))),
        pairs=tuple(_pair_shape(k, each, recipe) for k in range(len(each[0].pairs))),
    )


def _column_shape(k: int, each: Sequence[Shapes], recipe: Recipe) -> ColumnShape:
    function = each[0].columns[k]
    points: dict[str, Any]
    if isinstance(function, ColumnCurve):
        points = {"knots": tuple(function.grid.tolist())}
    else:
        points = {"levels": function.names[:-1]}
    return ColumnShape(
        name=function.variable.title, of=_axis_of(function.variable, points, recipe),
        values=tuple(tuple(own.columns[k].values.tolist()) for own in each),
    )  # fmt: skip


def _pair_shape(k: int, each: Sequence[Shapes], recipe: Recipe) -> PairShape:
    table = each[0].pairs[k].table
    a, b = (
        _axis_of(variable, _points_of(axis), recipe)
        for variable, axis in zip(table.of, (table.a, table.b), strict=True)
    )
    values = tuple(tuple(map(tuple, own.pairs[k].values.tolist())) for own in each)
    return PairShape(name=table.name, a=a, b=b, values=values)


def _points_of(axis: HatAxis | LevelAxis) -> dict[str, Any]:
    return {"knots": axis.knots} if isinstance(axis, HatAxis) else {"levels": axis.names[:-1]}


def _axis_of(variable: Variable, points: dict[str, Any], recipe: Recipe) -> ShapeAxis:
    name, part = variable
    columns = {column.name: column for column in recipe.columns}
    read = where_missing(cell_of(name, columns), recipe.missing)
    return ShapeAxis(
        column=name, part=part, read=read, steps=steps_of(name, part, columns),
        **points,
    )  # fmt: skip
