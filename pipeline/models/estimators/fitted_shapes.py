"""The functions of a fitted additive model: of an estimator, or of a pipeline that ends in one."""
# ruff: noqa: PLC0415 - what shows functions would make the import of estimators longer

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fewpass.pipeline.errors import BadInput

if TYPE_CHECKING:
    from fewpass.pipeline.explaining.plain_shapes import ModelShapes


class WithShapes:
    """Attributes of estimators that can be additive models."""

    encoder_: Any

    def shapes(self, label: Any = None) -> ModelShapes:
        """Return what every column, and every pair, of an additive model adds to the score.

        Where `encode` gave the columns curves: "additive", "splines", or "auto" that found them
        better.  A pipeline of a `TableEncoder` and a model has them by `fewpass.explain(pipeline)`.

        Parameters
        ----------
        label : label, default=None
            Of more than two classes that one whose score is meant; of two it is the second's.

        Returns
        -------
        ModelShapes
            constant, columns, pairs, rest, importances; `data()` is what `fewpass explain RUN
            --json` writes, `to_pandas()` a frame.  See `fewpass.explain`.

        Raises
        ------
        ValueError
            If the model has no curves, or has several classes and none is named.
        """
        check_is_fitted(self)
        encoder = getattr(self, "encoder_", None)
        return shapes_of_weights(self, None if encoder is None else encoder.recipe_, label)


def shapes_of_fitted(model: Any, label: Any = None) -> ModelShapes:
    """Return the functions of an estimator, or of a pipeline of a TableEncoder and a model."""
    steps = [step for _, step in getattr(model, "steps", [])]
    if not steps:
        if not isinstance(model, WithShapes):
            raise BadInput(
                f"A {type(model).__name__} has no shapes. Give a run, a LinearClassifier or "
                "LinearRegressor, or a pipeline of a TableEncoder and a linear model."
            )
        return model.shapes(label)
    recipe = getattr(steps[0], "recipe_", None)
    if len(steps) != 2 or recipe is None:
        raise BadInput(
            "Shapes are those of a pipeline of two steps, a fitted TableEncoder and a linear "
            f"model, and this one has {', '.join(type(step).__name__ for step in steps)}."
        )
    last = getattr(steps[1], "estimator", steps[1])  # of a ScoreCalibrator
    check_is_fitted(last)
    return shapes_of_weights(last, recipe, label)


def shapes_of_weights(model: Any, recipe: Any, label: Any) -> ModelShapes:
    """Return the functions that the weights of a fitted model, of a recipe's features, stand for.

    Raises
    ------
    BadInput
        When the recipe has no curves, or the model has several scores and none of them is named.
    """
    from fewpass.pipeline.explaining.plain_shapes import ModelShapes
    from fewpass.pipeline.tables.encoding.additive_shapes import shapes_of

    if recipe is None or recipe.additive is None:
        raise BadInput(
            "The model has no curves: it is linear in its columns, as additive encoding is, too, "
            "where held-out rows lose no less with curves. Fit with encode='splines' for curves in "
            "any case (TableEncoder: additive='splines'), or look at coef_."
        )
    coef, row = np.atleast_2d(model.coef_), _row_of(model, label)
    intercept = np.broadcast_to(np.asarray(model.intercept_, float), len(coef))
    return ModelShapes.of(shapes_of(recipe, coef[row], float(intercept[row])))


def _row_of(model: Any, label: Any) -> int:
    """Return which of a model's weights are those of a class; BadInput where it must be another."""
    classes = [*getattr(model, "classes_", [])]
    if len(np.atleast_2d(model.coef_)) == 1:
        if label is not None:
            raise BadInput(f"The model has one score and no class {label!r}. Leave the class out.")
        return 0
    if label not in classes:
        named = "Name one" if label is None else f"There is none {label!r}; name one"
        raise BadInput(
            f"The model has {len(classes)} classes. {named}: {', '.join(map(str, classes[:20]))}."
        )
    return classes.index(label)
