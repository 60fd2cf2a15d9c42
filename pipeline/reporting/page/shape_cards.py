"""The shapes of an additive model, as cards of the report."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.drawing.charts import Curve, chart
from fewpass.pipeline.drawing.pieces import Bar, bars, card, section, signed_heat
from fewpass.pipeline.reporting.largest_weights import classes_of
from fewpass.pipeline.reporting.model_shapes import (
    ShapeImportance,
    axis_values,
    density_of,
    form_in_words,
    importances,
    is_additive,
    model_shapes,
    points_of,
)
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    LevelSteps,
    Surface,
    title_of,
)
from fewpass.pipeline.tables.encoding.schema import recipe_in

MOST_BARS, MOST_SHAPES, MOST_LEVELS, MOST_CELLS = 20, 9, 20, 14
FEW_ROWS = 10.0  # of a cell, below which it is hatched


def shape_cards(model: Model) -> str:
    """Return the importances and the most important shapes; nothing of a model without any.

    Of a model of several classes those of the last one.
    """
    if not is_additive(model):
        return ""
    classes = classes_of(model)
    label = classes[-1] if classes else None
    shapes = model_shapes(model, label)
    rows = importances(shapes)[:MOST_BARS]
    by_name = {title_of(function): function for function in shapes.functions}
    cards = [_importances(rows), _form(model)]
    cards += [_card(by_name[row.name]) for row in rows[:MOST_SHAPES]]
    of = f" of the class {label}" if label else ""
    return section(f"Shapes{of}", *(one for one in cards if one))


def _importances(rows: list[ShapeImportance]) -> str:
    drawn = bars([Bar(row.name, row.importance, f"{row.importance:.4g}") for row in rows])
    note = (
        "The standard deviation of what each column, and each pair beyond its columns, adds to the "
        "score."
    )
    return card("Importance", drawn, note)


def _form(model: Model) -> str:
    """Say how the form was chosen."""
    recipe = recipe_in(model.record.columns)
    own = recipe.additive if recipe else None
    if own is None or own.chosen is None:
        return ""
    tried = [Bar(one.form, one.loss, f"{one.loss:.4g}") for one in own.chosen.candidates]
    return card(f"Form: {own.chosen.form}", bars(tried), form_in_words(own))


def _card(function: Function) -> str:
    title = title_of(function)
    if isinstance(function, Surface):
        return card(title, _surface(function), "Beyond what both add alone; hatched: few rows.")
    if isinstance(function, ColumnCurve):
        return card(title, _curve(function), _missing(function))
    return card(title, _levels(function))


def _curve(function: ColumnCurve) -> str:
    points = [*zip(function.grid.tolist(), function.values[:-1].tolist(), strict=True)]
    low, high = float(function.values[:-1].min()), float(function.values[:-1].max())
    middles, rows = density_of(function)
    shares = rows / max(float(rows.max()), 1e-300)
    foot = low - 0.25 * (high - low)
    density = [
        (x, foot + 0.2 * (high - low) * share)
        for x, share in zip(middles.tolist(), shares.tolist(), strict=True)
    ]
    lines = [Curve("adds", points), Curve("rows of the sample", density, 3, "faint")]
    return chart(lines, title_of(function), "added to the score")


def _missing(function: ColumnCurve) -> str:
    rows = function.masses[-1]
    return f"Missing ({rows:,.0f} rows): {function.values[-1]:+.4g}." if rows else ""


def _levels(function: LevelSteps) -> str:
    points = sorted((p for p in points_of(function) if p[2] > 0.0), key=lambda p: -p[2])
    shown = points[:MOST_LEVELS]
    return bars([Bar(f"{name} ({rows:,.0f})", adds, f"{adds:+.4g}") for name, adds, rows in shown])


def _surface(function: Surface) -> str:
    a, b = axis_values(function.table.a), axis_values(function.table.b)
    masses = function.masses[: len(a), : len(b)]
    rows, columns = (
        np.sort(np.argsort(-masses.sum(axis=axis), kind="stable")[:MOST_CELLS]) for axis in (1, 0)
    )
    rows, columns = rows[masses[rows].sum(axis=1) > 0.0], columns[masses[:, columns].sum(0) > 0.0]
    values = function.values[np.ix_(rows, columns)]
    thin = masses[np.ix_(rows, columns)] < FEW_ROWS
    names = [[_written(axis[k]) for k in at.tolist()] for axis, at in ((a, rows), (b, columns))]
    corner = " / ".join(variable.title for variable in function.table.of)
    return signed_heat(names[0], names[1], values.tolist(), thin.tolist(), corner)


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
