"""The largest weights of a model, by the names of its features."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import classes_of, row_of_class
from fewpass.pipeline.tables.encoding.maps import Map
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in

MOST_LISTED = 20  # weights, unless another number is asked for
NO_NAMES: Mapping[int, str] = MappingProxyType({})


class NamedWeight(NamedTuple):
    """One weight of a model."""

    feature: str
    weight: float  # of the feature as it was trained on: scaled, standardised, one of a category;
    # of a value that is hashed to it with the sign of its hash
    per_unit: float | None  # of the column as its source has it; None: it is bent, or no number


def largest_weights(
    model: Model, top: int, label: str | None = None, names_of: Mapping[int, str] = NO_NAMES
) -> list[NamedWeight]:
    """Return the `top` weights that are largest in absolute value, for one class.

    Parameters
    ----------
    model
        Of any run.
    top
        How many.
    label
        Class of a model of several; None of a model of one score.
    names_of
        Names of columns, where the model itself has none.

    Raises
    ------
    BadInput
        When the model has several classes and none is named, or it does not have that one.
    """
    weights = model.weights.coef[weights_of_class(model, label)]
    plain = model.unscaled.coef[weights_of_class(model, label)]
    columns = model.record.columns
    recipe = recipe_in(columns)
    if recipe:
        weights = weights * recipe.signs
    names = recipe.outputs if recipe else columns.feature_names if columns else None
    hashed = {**names_of, **model.record.hashed_names}
    in_source = _per_unit(recipe, plain) if recipe else plain
    order = np.argsort(-np.abs(weights), kind="stable")[:top]
    return [
        NamedWeight(
            names[j] if names else hashed.get(j, f"x{j}"),
            float(weights[j]),
            float(in_source[j]) if np.isfinite(in_source[j]) else None,
        )
        for j in order.tolist()
        if weights[j] != 0.0
    ]


def weights_of_class(model: Model, label: str | None) -> int | slice:
    """Return which weights are those of a class; BadInput where it must be another."""
    if label is not None:
        return row_of_class(model, label)
    if classes := classes_of(model):
        raise BadInput(f"The model has {len(classes)} classes. Name one: {', '.join(classes[:20])}")
    return slice(None)


def _per_unit(recipe: Recipe, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo the standardising of numbers; NaN for what has no unit."""
    per_unit, start = np.full(len(weights), np.nan), 0
    for column in recipe.parts:
        if isinstance(column, Number):
            per_unit[start] = weights[start] * column.factor / column.deviation
        if isinstance(column, Map):
            names = slice(start, start + len(column.names))
            per_unit[names] = weights[names] * np.array(column.scale)
        start += column.width
    return per_unit
