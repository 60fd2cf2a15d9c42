"""Sizes whose line goes on beyond the largest: the people of a place, the sales of a firm.

Numbers of a heavy tail, those that log1p stands next to, are clipped, and curves are constant
beyond the sample.  So a place three times larger than any learnt from is predicted like the largest
of these.  Where targets are numbers, the rows of a size's largest twentieth are predicted by a
ridge regression of all other rows, on all numbers and the logarithms of sizes: along its line, and
with the size of the largest row learnt from.  Where the line's squared errors are less by a fifth
and by two standard errors, it goes on to REACH times the largest number of the sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.additive.noise_columns import is_surely_less
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.encoding.cells import Floats, mean_and_deviation
from fewpass.pipeline.tables.encoding.number_recipe import REACH, Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables import Variable
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows

SHARE_BEYOND, LEAST_BEYOND = 20, 20  # one in so many rows is beyond, and so many are
LEAST_GAIN, ERRORS = 0.2, 2.0


def with_lines_beyond(
    recipe: Recipe, cells: Sequence[Any], targets: SampleTargets | None, rows: NDArray[np.int64]
) -> Recipe:
    """Return a recipe in which the lines of some sizes go on.

    Parameters
    ----------
    recipe
        How columns are encoded.
    cells
        The sample: an Arrow array (n,) for each column.
    targets
        Of its rows; sizes go on where these are numbers.
    rows
        Those by which lines are compared.
    """
    numbers = [one for one in recipe.columns if isinstance(one, Number) and one.low < one.high]
    if targets is None or targets.classes or not any(one.log for one in numbers):
        return recipe
    variables = VariablesOfRows(recipe.columns, cells)
    values = {one.name: variables.numbers(Variable(one.name)) for one in numbers}
    some = {name: own[rows] for name, own in values.items()}
    names = sizes_that_go_on(numbers, some, targets.of(rows))
    longer = {one.name: _going_on(one, values[one.name]) for one in numbers if one.name in names}
    columns = tuple(longer.get(column.name, column) for column in recipe.columns)
    return recipe.model_copy(update={"columns": columns})


def sizes_that_go_on(
    numbers: Sequence[Number], values: Mapping[str, Floats], targets: SampleTargets
) -> list[str]:
    """Return the sizes by whose line larger rows are surely predicted better."""
    features, own = [np.ones(len(targets.y))], dict[str, list[int]]()
    for column in numbers:
        if column.log:
            own[column.name] = [len(features), len(features) + 1]
        features += _features(column, values[column.name])
    X, weight = np.column_stack(features), targets.unit_weight
    gram, right = (X.T * weight) @ X, (X.T * weight) @ targets.y
    names = []
    for name, at in own.items():
        far = values[name] > np.nanquantile(values[name], 1.0 - 1.0 / SHARE_BEYOND)
        if far.sum() < LEAST_BEYOND:
            continue
        beyond, heavy = X[far], X[far].T * weight[far]
        others = gram - heavy @ beyond + np.eye(len(gram))
        coef = np.linalg.solve(others, right - heavy @ targets.y[far])
        largest = X[np.nanargmax(np.where(far, np.nan, values[name])), at]
        errors = targets.y[far] - beyond @ coef
        level = errors + (beyond[:, at] - largest) @ coef[at]
        if _is_less(*(weight[far] * np.square(one) for one in (errors, level))):
            names.append(name)
    return names


def _is_less(line: Floats, level: Floats) -> bool:
    matters = line.mean() < (1.0 - LEAST_GAIN) * level.mean()
    return bool(matters) and is_surely_less(line, level, ERRORS)


def _features(column: Number, values: Floats) -> list[Floats]:
    """Return numbers standardised, a size's logarithms next to them; missing ones are the mean."""
    is_missing = np.isnan(values)
    clipped = np.maximum(values, column.low) if column.log else np.clip(
        values, column.low, column.high
    )  # fmt: skip
    each = [clipped, np.log1p(clipped)] if column.log else [clipped]
    features = []
    for own in each:
        mean, deviation = map(float, mean_and_deviation(own))
        features.append(np.where(is_missing, 0.0, (own - mean) / (deviation or 1.0)))
    return [*features, is_missing.astype(np.float64)] if column.has_missing else features


def _going_on(column: Number, values: Floats) -> Number:
    """Return the recipe of a size whose line goes on."""
    largest = float(np.nanmax(values))
    mean, deviation = map(float, mean_and_deviation(np.fmax(values[~np.isnan(values)], column.low)))
    changed = {"high": REACH * largest, "mean": mean, "deviation": deviation, "largest": largest}
    return column.model_copy(update=changed)
