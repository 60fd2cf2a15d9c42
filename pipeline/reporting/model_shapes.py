"""The functions of columns and pairs of a run's additive model, and how much each moves scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.reporting.largest_weights import classes_of, row_of_class
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    Shapes,
    Surface,
    deviation_of,
    shapes_of,
    title_of,
)
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis
from fewpass.pipeline.tables.encoding.schema import recipe_in


class ShapeImportance(NamedTuple):
    """How much a function moves scores."""

    name: str
    kind: str  # curve, levels or pair
    importance: float  # standard deviation over the sample, in units of the score
    share: float  # of the sum of all functions' variances


class ClassShapes(NamedTuple):
    """The functions that scores of a class are the sums of."""

    label: str | None  # None: the model has one score
    shapes: Shapes


def is_additive(model: Model) -> bool:
    """Whether the columns of a model have curves."""
    recipe = recipe_in(model.record.columns)
    return recipe is not None and recipe.additive is not None


def model_shapes(model: Model, label: str | None = None) -> Shapes:
    """Return the functions of a model, of one class where it has several.

    Raises
    ------
    BadInput
        When the model is not additive, or of several classes and none of them is named.
    """
    recipe = recipe_in(model.record.columns)
    if recipe is None or recipe.additive is None:
        raise BadInput(
            f"The model of {model.run.url} has no curves: it is linear in its columns, as additive "
            "encoding is, too, where held-out rows lose no less with curves. Ingest with "
            "`encode=splines` for curves in any case, or list its weights (fewpass weights)."
        )
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift)
    plain, row = unscaled(model.weights, scaler), row_of_class(model, label)
    intercept = np.atleast_1d(np.asarray(plain.intercept, float))[row]
    return shapes_of(recipe, plain.coef[row], float(np.squeeze(intercept)))


def shapes_by_class(model: Model, label: str | None = None) -> list[ClassShapes]:
    """Return the functions of every class of a model, or of one; BadInput as `model_shapes`."""
    labels = (label,) if label is not None else classes_of(model) or (None,)
    return [ClassShapes(one, model_shapes(model, one)) for one in labels]


def importances(shapes: Shapes) -> list[ShapeImportance]:
    """Return what every function moves, the largest first."""
    return importances_of_all([shapes])


def kind_of(function: Function) -> str:
    """Return what a function is drawn as."""
    if isinstance(function, Surface):
        return "pair"
    return "curve" if isinstance(function, ColumnCurve) else "levels"


def functions_of_column(shapes: Shapes, name: str) -> list[Function]:
    """Return the functions of a column alone, by its name or a part of a date; BadInput if none."""
    own = [one for one in shapes.columns if name in (one.variable.column, one.variable.title)]
    if not own:
        names = sorted({one.variable.column for one in shapes.columns})
        raise BadInput(
            f"There is no shape of a column {shown_name(name)}. There are those of "
            f"{', '.join(map(shown_name, names[:20]))}."
        )
    return [*own]


def function_of_pair(shapes: Shapes, name: str) -> Surface:
    """Return the function of a pair, A:B in any order; BadInput if there is none."""
    one, _, other = name.partition(":")
    for surface in shapes.pairs:
        if {one.strip(), other.strip()} == {each.title for each in surface.table.of}:
            return surface
    names = ", ".join(":".join(each.title for each in s.table.of) for s in shapes.pairs[:20])
    raise BadInput(f"There is no pair {name!r} in the model. It has {names or 'none'}.")


def axis_values(axis: HatAxis | LevelAxis) -> Sequence[Any]:
    """Return the levels of an axis but the missing one: numbers or words."""
    return [*axis.knots] if isinstance(axis, HatAxis) else [*axis.names[:-1]]


def importances_of_all(each: Sequence[Shapes]) -> list[ShapeImportance]:
    """Return what every function moves the scores of all classes: the root of the mean square."""
    deviations = np.array([[deviation_of(one) for one in shapes.functions] for shapes in each])
    squares = np.square(deviations).mean(axis=0)
    total = max(float(squares.sum()), 1e-300)
    rows = [
        ShapeImportance(title_of(one), kind_of(one), float(np.sqrt(square)), float(square) / total)
        for one, square in zip(each[0].functions, squares, strict=True)
    ]
    return sorted(rows, key=lambda one: (-one.importance, one.name))


def as_facts(shapes: Shapes) -> dict[str, Any]:
    """Return all functions as JSON has them.

    The last of `values` and `rows` is that of missing cells.
    """
    share = {one.name: one for one in importances(shapes)}
    columns = [
        {
            "name": title_of(one), "column": one.variable.column, "part": one.variable.part,
            "kind": kind_of(one),
            "knots": one.grid.tolist() if isinstance(one, ColumnCurve) else [*one.names[:-1]],
            **_first_day(one), "values": one.values.tolist(), "rows": one.masses.tolist(),
            "importance": share[title_of(one)].importance, "share": share[title_of(one)].share,
        }
        for one in shapes.columns
    ]  # fmt: skip
    pairs = [
        {
            "name": one.title, "a": one.table.of[0].title, "b": one.table.of[1].title,
            "grid_a": axis_values(one.table.a), "grid_b": axis_values(one.table.b),
            "values": one.values.tolist(), "rows": one.masses.tolist(),
            "importance": share[one.title].importance, "share": share[one.title].share,
            **(one.table.selection.model_dump() if one.table.selection else {}),
        }
        for one in shapes.pairs
    ]  # fmt: skip
    rest = [name for name, _ in shapes.rest]
    return {"constant": shapes.constant, "columns": columns, "pairs": pairs, "rest": rest}


def _first_day(function: Function) -> dict[str, str]:
    """Return the date that days are counted from, where a function is one of days."""
    if not isinstance(function, ColumnCurve) or function.origin is None:
        return {}
    return {"days_since": str(np.datetime64(int(function.origin), "s"))[:10]}


def form_in_words(own: Additive) -> str:
    """Say in a sentence or two how a form was chosen, and what the certificate does not say."""
    chosen = own.chosen
    said = (
        "The certificate is of the weights, given these knots, pairs and lam; of how well these "
        "were chosen it says nothing."
    )
    if chosen is None:
        return said
    by = f"the last by {chosen.held_out_by}" if chosen.held_out_by else "drawn at random"
    if chosen.agreed_by:
        by += f", and of every fifth by {chosen.agreed_by}"
    return (
        f"By the loss of {chosen.held_out_rows:,} rows of a sample, {by}; {len(own.pairs)} of "
        f"{chosen.looked_at:,} pairs were taken. {said}"
    )
