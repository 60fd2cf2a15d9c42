"""The functions of columns and pairs of a run's additive model, and how much each moves scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.reporting.largest_weights import row_of_class
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    Shapes,
    Surface,
    shapes_of,
    spread_of,
    title_of,
)
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis
from fewpass.pipeline.tables.encoding.schema import recipe_in


class ShapeImportance(NamedTuple):
    """How much a function moves scores."""

    name: str
    kind: str  # curve, levels or pair
    importance: float  # standard deviation over the sample, in units of the score
    share: float  # of the sum of all functions' variances


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
            f"The model of {model.run.url} has no curves: it is linear in its columns. Ingest with "
            "`encode=additive` for a model that has, or list its weights (fewpass weights)."
        )
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift)
    plain, row = unscaled(model.weights, scaler), row_of_class(model, label)
    intercept = np.atleast_1d(np.asarray(plain.intercept, float))[row]
    return shapes_of(recipe, plain.coef[row], float(np.squeeze(intercept)))


def importances(shapes: Shapes) -> list[ShapeImportance]:
    """Return what every function moves, the largest first."""
    spreads = [spread_of(function) for function in shapes.functions]
    total = max(sum(spread * spread for spread in spreads), 1e-300)
    each = [
        ShapeImportance(title_of(function), kind_of(function), spread, spread * spread / total)
        for function, spread in zip(shapes.functions, spreads, strict=True)
    ]
    return sorted(each, key=lambda one: (-one.importance, one.name))


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


def density_of(curve: ColumnCurve, parts: int = 40) -> tuple[Floats, Floats]:
    """Return the middles (parts,) of equal stretches of a curve, and the sample's rows in each.

    Rows lie evenly between the points of the curve, as far as the recipe knows.
    """
    edges = np.linspace(curve.grid[0], curve.grid[-1], parts + 1)
    halves = np.append(curve.grid[0], (curve.grid[1:] + curve.grid[:-1]) / 2.0)
    ends = np.append(halves, curve.grid[-1])
    rows = np.diff(np.interp(edges, ends, np.append(0.0, np.cumsum(curve.masses[:-1]))))
    return (edges[1:] + edges[:-1]) / 2.0, rows


def points_of(function: Function) -> list[tuple[str, float, float]]:
    """Return the points of a column's function: where, what it adds, and the sample's rows."""
    assert not isinstance(function, Surface), "of a column"
    if isinstance(function, ColumnCurve):
        names = [*(f"{x:.6g}" for x in function.grid), "missing"]
    else:
        names = [*function.names]
    each = zip(names, function.values.tolist(), function.masses.tolist(), strict=True)
    return [point for point in each if point[2] > 0.0 or point[0] != "missing"]


def axis_values(axis: HatAxis | LevelAxis) -> Sequence[Any]:
    """Return the levels of an axis but the missing one: numbers or words."""
    return [*axis.knots] if isinstance(axis, HatAxis) else [*axis.names[:-1]]


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
            "values": one.values.tolist(), "rows": one.masses.tolist(),
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


def form_in_words(own: Additive) -> str:
    """Say in a sentence or two how a form was chosen, and what the certificate does not say."""
    chosen = own.chosen
    said = "The certificate is of the weights, given these curves and pairs."
    if chosen is None:
        return said
    by = f"the last by {chosen.held_out_by}" if chosen.held_out_by else "drawn at random"
    return (
        f"By the loss of {chosen.held_out_rows:,} rows of a sample, {by}; {len(own.pairs)} of "
        f"{chosen.looked_at:,} pairs were taken. {said}"
    )
