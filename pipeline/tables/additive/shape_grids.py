"""Points between which a column's share of the score is linear, and the sample's rows there."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.tables.encoding.additive_recipe import grid_mass
from fewpass.pipeline.tables.encoding.additive_shapes import grid_of, shape_variables
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows


def with_masses(recipe: Recipe, variables: VariablesOfRows) -> Recipe:
    """Return a recipe with the rows of a sample at every point of every variable."""
    assert recipe.additive is not None, "asked before"
    masses = {}
    for variable, is_number in shape_variables(recipe):
        if is_number:
            masses[variable.title] = grid_mass(
                variables.numbers(variable), grid_of(recipe, variable)
            )
        else:
            levels = variables.levels(variable)
            counts = np.bincount(levels.codes, minlength=len(levels.names))
            masses[variable.title] = tuple(counts.astype(np.float64).tolist())
    own = recipe.additive.model_copy(update={"masses": masses})
    return recipe.model_copy(update={"additive": own})
