"""Points between which a column's share of the score is linear, and the sample's rows there."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.tables.encoding.additive_shapes import grid_of, shape_variables
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows


def with_masses(recipe: Recipe, variables: VariablesOfRows) -> Recipe:
    """Return a recipe with the rows of a sample at every point of every variable."""
    assert recipe.additive is not None, "asked before"
    masses = {}
    for variable, is_number in shape_variables(recipe):
        if is_number:
            masses[variable.title] = _grid_mass(
                variables.numbers(variable), grid_of(recipe, variable)
            )
        else:
            levels = variables.levels(variable)
            counts = np.bincount(levels.codes, minlength=len(levels.names))
            masses[variable.title] = tuple(counts.astype(np.float64).tolist())
    own = recipe.additive.model_copy(update={"masses": masses})
    return recipe.model_copy(update={"additive": own})


def _grid_mass(values: Floats, grid: Floats) -> tuple[float, ...]:
    """Return the rows at every point of a grid, shared by the two next to a row; missing last."""
    present = values[~np.isnan(values)]
    last = len(grid) - 1
    place = np.interp(present, grid, np.arange(last + 1.0))
    left = np.minimum(place.astype(np.int64), max(last - 1, 0))
    right = place - left
    masses = np.bincount(left, 1.0 - right, last + 1)
    masses += np.bincount(np.minimum(left + 1, last), right, last + 1)
    return (*masses.tolist(), float(len(values) - len(present)))
