"""The terms of an additive model's scores: its functions, as `fewpass explain` shows them.

What a pair's features say of one of its columns alone is that column's (additive_shapes.py).  With
a feature for every cell of a pair, those of a row sum to the table's scale, so a function of one of
its columns is a sum over them as well: each feature adds to the pair, and to both of its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.explaining.contributions import TermWeights, Vector, mean_features
from fewpass.pipeline.explaining.score_terms import Places, ScoreTerms, distinct
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.additive_shapes import (
    Function,
    Shapes,
    Surface,
    part_variables,
    shape_variables,
    shapes_of,
    title_of,
)
from fewpass.pipeline.tables.encoding.pair_tables import PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import encoding_of, recipe_in
from fewpass.solvers.protocol import Weights
from fewpass.storage.manifest import Scaling


class FunctionTerms(NamedTuple):
    """A model with a feature for every cell of its pairs, and its scores as sums of functions."""

    model: Model
    terms: ScoreTerms
    at: TermWeights


def function_terms(model: Model) -> FunctionTerms | None:
    """Return the functions of an additive model as terms; None where it is none."""
    parts = _parts_of(model)
    if parts is None:
        return None
    whole = _Features(parts.recipe, with_all_cells=True)
    weights = Weights(np.array([whole.weights(w) for w in parts.coef]), parts.intercept)
    if model.weights.coef.ndim == 1:
        weights = Weights(weights.coef[0], parts.intercept[0])
    terms = _score_terms(parts.shapes[0], whole)
    return FunctionTerms(_with_cells(model, whole.recipe, weights), terms, _at(parts, whole))


class StoredTerms(NamedTuple):
    """A model's scores as sums of functions, for rows with the model's own features.

    Of a cell that no row of the sample had, and of a missing number of a pair, these have no
    feature: nothing is then taken from the pair's columns for it, and nothing added to the pair.
    """

    terms: ScoreTerms
    raw: TermWeights
    scaled: TermWeights

    def merged(self, places: Places) -> StoredTerms:
        """Return terms of which each of these, at `places` (T,), is one or a part."""
        each = self.terms.merged(places), self.raw.merged(places), self.scaled.merged(places)
        return StoredTerms(*each)


def stored_terms(model: Model) -> StoredTerms | None:
    """Return the functions of an additive model as terms of its own features; None if it has none.

    Raises BadInput when its rows' mean features are needed, and gone.
    """
    parts = _parts_of(model)
    if parts is None:
        return None
    features = _Features(parts.recipe, with_all_cells=False)
    raw = _at(parts, features)
    return StoredTerms(_score_terms(parts.shapes[0], features), raw, _scaled(raw, model))


def _scaled(raw: TermWeights, model: Model) -> TermWeights:
    """Return the same for features of which a shift was taken, and which were scaled then."""
    means, scale = raw.means, 1.0 if model.scale is None else model.scale
    each = [(np.atleast_2d(raw.weights.coef), raw.of), *raw.more]
    if model.shift is not None:
        taken = [[np.bincount(of, w * model.shift, raw.n_terms) for w in coef] for coef, of in each]
        means = means - np.sum(taken, axis=0)
    (coef, of), *more = [(coef / scale, of) for coef, of in each]
    return TermWeights(Weights(coef, raw.weights.intercept), of, means, tuple(more))


class _PartsOfModel(NamedTuple):
    """An additive model: its recipe, its weights for features as the recipe makes them, shapes."""

    recipe: Recipe
    coef: Vector  # (K, d)
    intercept: Vector  # (K,)
    shapes: list[Shapes]
    means: Vector  # (K, T) of its functions, before they were centred


def _parts_of(model: Model) -> _PartsOfModel | None:
    recipe = recipe_in(model.record.columns)
    if recipe is None or recipe.additive is None or model.record.scaling.kind == "unit-rows":
        return None
    plain = model.unscaled
    coef, b = np.atleast_2d(plain.coef), np.atleast_1d(plain.intercept)
    shapes = [shapes_of(recipe, w, float(c)) for w, c in zip(coef, b, strict=True)]
    means = np.array([[*one.means, *[0.0] * len(one.pairs)] for one in shapes])
    means = np.hstack([means, _means_of_rest(model, shapes[0], coef)])
    return _PartsOfModel(recipe, coef, b, shapes, means)


def _at(parts: _PartsOfModel, features: _Features) -> TermWeights:
    """Return the functions as sums over features."""
    each = [features.own(w, one) for w, one in zip(parts.coef, parts.shapes, strict=True)]
    others = [np.array([features.of_columns(one)[k] for one in parts.shapes]) for k in (0, 1)]
    more = tuple(zip(others, features.places_of_columns, strict=True))
    return TermWeights(Weights(np.array(each), parts.intercept), features.places, parts.means, more)


def _means_of_rest(model: Model, shapes: Shapes, coef: Vector) -> Vector:
    """Return the mean of each other column's contribution, (K, rest)."""
    if not shapes.rest:
        return np.zeros((len(coef), 0))
    features = mean_features(model)
    return np.column_stack([coef[:, own] @ features[own] for _, own in shapes.rest])


def _score_terms(shapes: Shapes, features: _Features) -> ScoreTerms:
    names = distinct([*map(title_of, shapes.functions), *(name for name, _ in shapes.rest)])
    columns = [*map(_columns_of, shapes.functions), *features.columns_of_rest]
    return ScoreTerms(names, features.places, columns)


def _columns_of(function: Function) -> tuple[str, ...]:
    return function.table.columns if isinstance(function, Surface) else (function.variable.column,)


def _with_cells(model: Model, recipe: Recipe, weights: Weights) -> Model:
    """Return a model of rows that have a feature for every cell."""
    record, columns = model.record, model.record.columns
    assert columns is not None, "it has a recipe"
    assert columns.encoding is not None, "it has a recipe"
    schema = columns.model_copy(update={"encoding": encoding_of(recipe, columns.encoding.left_out)})
    own = record.model_copy(
        update={"columns": schema, "n_features": recipe.n_outputs, "scaling": Scaling()}
    )
    return model._replace(record=own, weights=weights, scale=None, shift=None)


class _Features:
    """Functions of the features of a recipe, and the worth of each.

    Parameters
    ----------
    with_all_cells
        Of the same recipe with a feature for every cell of pairs.
    """

    def __init__(self, recipe: Recipe, *, with_all_cells: bool) -> None:
        assert recipe.additive is not None, "asked before"
        self._parts, self._all = recipe.parts, with_all_cells
        self.recipe = recipe
        if with_all_cells:
            pairs = tuple(table.complete() for table in recipe.additive.pairs)
            own = recipe.additive.model_copy(update={"pairs": pairs})
            self.recipe = recipe.model_copy(update={"additive": own})
        self.columns_of_rest = [
            of
            for part, of in zip(self._parts, recipe.term_columns, strict=True)
            if not (isinstance(part, PairTable) or part_variables(part))
        ]
        self.places, self.places_of_columns = self._placed()

    def _placed(self) -> tuple[Places, tuple[Places, Places]]:
        """Return the function of every feature; of pairs also those of both columns."""
        number = {one: k for k, (one, _) in enumerate(shape_variables(self.recipe))}
        pairs = count(len(number))
        n_pairs = sum(isinstance(part, PairTable) for part in self._parts)
        rest = count(len(number) + n_pairs)
        own: list[Places] = []
        others: tuple[list[Places], list[Places]] = ([], [])
        for part in self._parts:
            if isinstance(part, PairTable):
                size = part.shape[0] * part.shape[1] if self._all else part.width
                own.append(np.full(size, next(pairs)))
                for of, variable in zip(others, part.of, strict=True):
                    of.append(np.full(size, number[variable]))
                continue
            each = [(number[one], n) for one, n in part_variables(part)] or [
                (next(rest), part.width)
            ]
            own += [np.full(n, function) for function, n in each]
            for of in others:
                of.append(np.zeros(part.width, np.int64))
        first, second = (np.concatenate(of) for of in others)
        return np.concatenate(own), (first, second)

    def weights(self, coef: Vector) -> Vector:
        """Return weights (d,) for the features of all cells; 0 where a cell had none."""
        return self._joined(coef, _in_cells)

    def own(self, coef: Vector, shapes: Shapes) -> Vector:
        """Return what features are worth to their own functions."""
        surfaces = iter(shapes.pairs)
        return self._joined(coef, lambda table, _: self._of_cells(table, next(surfaces).values))

    def of_columns(self, shapes: Shapes) -> tuple[Vector, Vector]:
        """Return what features of pairs are worth to both columns."""
        nothing = np.zeros(sum(part.width for part in self._parts))
        one, other = iter(shapes.pairs), iter(shapes.pairs)
        return (
            self._joined(nothing, lambda t, _: self._of_cells(t, next(one).of_a[:, None])),
            self._joined(nothing, lambda t, _: self._of_cells(t, next(other).of_b)),
        )

    def _of_cells(self, table: PairTable, values: Vector) -> Vector:
        """Return the weights of a pair's features for values of its cells."""
        each = np.broadcast_to(values, table.shape)
        own: Vector = each.ravel() if self._all else each[table.places >= 0]
        return own / (table.scale * table.factor)

    def _joined(self, coef: Vector, of_pair: Callable[[PairTable, Vector], Vector]) -> Vector:
        """Return weights of all features: those of pairs are made of their own."""
        start, each = 0, []
        for part in self._parts:
            own = coef[start : start + part.width]
            each.append(of_pair(part, own) if isinstance(part, PairTable) else own)
            start += part.width
        return np.concatenate(each)


def _in_cells(table: PairTable, own: Vector) -> Vector:
    values: Vector = np.where(table.places < 0, 0.0, own[np.maximum(table.places, 0)]).ravel()
    return values
