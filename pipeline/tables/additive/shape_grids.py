"""Points between which a column's share of the score is linear, and the sample's rows there."""

from __future__ import annotations

import numpy as np

from fewpass.pipeline.tables.encoding.additive_recipe import grid_mass
from fewpass.pipeline.tables.encoding.additive_shapes import grid_of, shape_terms
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.terms import TermsOfRows


def with_masses(recipe: Recipe, terms: TermsOfRows) -> Recipe:
    """Return a recipe with the rows of a sample at every point of every term."""
    assert recipe.additive is not None, "asked before"
    masses = {}
    for term, is_number in shape_terms(recipe):
        if is_number:
            masses[term.title] = grid_mass(terms.numbers(term), grid_of(recipe, term))
        else:
            levels = terms.levels(term)
            counts = np.bincount(levels.codes, minlength=len(levels.names))
            masses[term.title] = tuple(counts.astype(np.float64).tolist())
    own = recipe.additive.model_copy(update={"masses": masses})
    return recipe.model_copy(update={"additive": own})
