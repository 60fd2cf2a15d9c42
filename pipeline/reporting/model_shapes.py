"""The functions of columns and pairs of a run's additive model, and how much each moves scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.reporting.largest_weights import weights_of_class
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import classes_of
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.additive_shapes import (
    Function,
    Shapes,
    Surface,
    shapes_of,
)
from fewpass.pipeline.tables.encoding.schema import recipe_in


class ClassShapes(NamedTuple):
    """The functions that scores of a class are the sums of."""

    label: str | None  # None: the model has one score
    shapes: Shapes


def is_additive(model: Model) -> bool:
    """Return whether the columns of a model have curves."""
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
            "`encode=splines` for curves in any case, or list its weights (fewpass explain)."
        )
    plain, row = model.unscaled, weights_of_class(model, label)
    intercept = np.atleast_1d(np.asarray(plain.intercept, float))[row]
    return shapes_of(recipe, plain.coef[row], float(np.squeeze(intercept)))


def shapes_by_class(model: Model, label: str | None = None) -> list[ClassShapes]:
    """Return the functions of every class of a model, or of one; BadInput as `model_shapes`."""
    labels = (label,) if label is not None else classes_of(model) or (None,)
    return [ClassShapes(one, model_shapes(model, one)) for one in labels]


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
    for surface in shapes.pairs:
        titles = [each.title for each in surface.table.of]
        if _words(name) in (_words(":".join(titles)), _words(":".join(reversed(titles)))):
            return surface
    names = ", ".join(":".join(each.title for each in s.table.of) for s in shapes.pairs[:20])
    raise BadInput(f"There is no pair {name!r} in the model. It has {names or 'none'}.")


def _words(name: str) -> list[str]:
    """Return what stands between colons, which names of columns may have, too."""
    return [part.strip() for part in name.split(":")]


def form_in_words(own: Additive) -> str:
    """Say in a sentence or two how a form was chosen, and what the certificate does not say."""
    chosen = own.chosen
    said = (
        "The certificate is of the weights, given these knots, pairs, strengths and lam; of how "
        "well these were chosen it says nothing."
    )
    if chosen is None:
        return said
    taken = f"By the {chosen.figure}; {len(own.pairs)} of {chosen.looked_at:,} pairs were taken."
    return " ".join(one for one in (taken, chosen.strengths, said) if one)
