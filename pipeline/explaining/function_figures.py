"""Figures of an additive model's functions: how much each moves scores, and its points."""

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
    """Return what every function moves the scores of all classes, the largest first."""
    return sorted(in_their_order(each), key=lambda one: (-one.importance, one.name))


def in_their_order(each: Sequence[Shapes]) -> list[ShapeImportance]:
    """Return the same function by function: the root of the mean square over classes."""
    deviations = np.array([[deviation_of(one) for one in shapes.functions] for shapes in each])
    squares = np.square(deviations).mean(axis=0)
    total = max(float(squares.sum()), 1e-300)
    return [
        ShapeImportance(title_of(one), kind_of(one), float(np.sqrt(square)), float(square) / total)
        for one, square in zip(each[0].functions, squares, strict=True)
    ]


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
