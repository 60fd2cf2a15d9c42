"""Figures of an additive model's functions: how much each moves scores, and all as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    Shapes,
    Surface,
    deviation_of,
    title_of,
)
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_DAY
from fewpass.pipeline.tables.encoding.pair_tables import HatAxis, LevelAxis


class ShapeImportance(NamedTuple):
    """How much a function moves scores."""

    name: str
    kind: str  # curve, levels or pair
    importance: float  # standard deviation over the sample, in units of the score
    share: float  # of the sum of all functions' variances


def importances(shapes: Shapes) -> list[ShapeImportance]:
    """Return what every function moves, the largest first."""
    return importances_of_all([shapes])


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


def kind_of(function: Function) -> str:
    """Return what a function is drawn as."""
    if isinstance(function, Surface):
        return "pair"
    return "curve" if isinstance(function, ColumnCurve) else "levels"


def axis_values(axis: HatAxis | LevelAxis) -> Sequence[Any]:
    """Return the levels of an axis but the missing one: numbers or words."""
    return [*axis.knots] if isinstance(axis, HatAxis) else [*axis.names[:-1]]


def places_of(curve: ColumnCurve) -> Floats:
    """Return the points of a curve: of days those in seconds since 1970."""
    if curve.origin is None:
        return curve.grid
    seconds: Floats = curve.origin + curve.grid * SECONDS_OF_DAY
    return seconds


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
