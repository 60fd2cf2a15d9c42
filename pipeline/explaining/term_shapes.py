"""Contributions of a linear model's column as a function of its value: curves, bars.

Contributions are compared with the mean row, as `contributions.py` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.explaining.contributions import Vector, mean_features
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.apply_terms import ReadCells, entries_of
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.date_parts import LEVELS_OF, LevelPart
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.encoding.terms import (
    AtMost,
    Clip,
    CodeTerm,
    ColumnTerms,
    DatePart,
    Interpolate,
    InYears,
    MissingTerm,
    MomentCell,
    NumberCell,
    NumberTerm,
    Range,
    Standardise,
    Step,
    WordTerm,
)
from fewpass.pipeline.tables.encoding.variables import MISSING, RARE

#: Bars of a column whose features say more than its values, such as words of a text.
MOST_BARS = 20
_POINTS = 101  # of a curve, besides those where it bends


class TermShape(NamedTuple):
    """Contribution of one column at some of its values.

    Attributes
    ----------
    title
        Of the column, or of a part of it: the weekday of a date.
    kind
        `number`, `date` (seconds since 1970) or `bars`.
    points
        (n,) numbers, or names of bars.
    contributions
        (K, n) for each score, compared with the mean row.
    missing
        (K,) of a missing value; None where `points` has it.
    """

    title: str
    kind: str
    points: Sequence[float] | Sequence[str]
    contributions: Vector
    missing: Vector | None = None


def term_shapes(model: Model) -> dict[str, list[TermShape]]:
    """Return the curves and bars of each column of a table, by its name.

    None are known of a model whose columns are numbers as they come, or whose rows were scaled.
    BadInput where the mean features of its rows are gone.
    """
    recipe = recipe_in(model.record.columns)
    if recipe is None or model.record.scaling.kind == "unit-rows":
        return {}
    coef = np.atleast_2d(model.unscaled.coef)
    means = mean_features(model)
    means = means if model.scale is None else means / model.scale
    means = means if model.shift is None else means + model.shift
    each = zip(recipe.columns, recipe.described(), strict=False)
    return {part.name: [*_shapes_of(part, one, coef, means)] for part, one in each}


def _shapes_of(
    part: ColumnRecipe, one: ColumnTerms, coef: Vector, means: Vector
) -> Iterator[TermShape]:
    own = slice(one.terms[0].at, one.terms[0].at + part.width)
    if isinstance(one.terms[0], WordTerm):
        names = [*one.terms[0].values, RARE, MISSING]
        yield TermShape(part.name, "bars", names, _compared(coef, means, own))
    elif isinstance(one.read, NumberCell | MomentCell):
        yield _curve_of(one, coef, means)
        for term in one.terms:
            if (level := _date_part(term)) is not None:
                yield _levels_met(f"{part.name}: {level}", level, coef, means, _places(term))
    else:
        yield _largest(part, coef[:, own])


def _levels_met(title: str, level: LevelPart, coef: Vector, means: Vector, own: slice) -> TermShape:
    """Return the bars of those months, weekdays or hours that rows learnt from have."""
    met = np.flatnonzero(means[own])
    names = [LEVELS_OF[level][int(k)] for k in met]
    return TermShape(title, "bars", names, _compared(coef, means, own)[:, met])


def _compared(coef: Vector, means: Vector, own: slice) -> Vector:
    """Return the weights of levels (K, m), compared with the mean row."""
    weights: Vector = coef[:, own] - (coef[:, own] @ means[own])[:, None]
    return weights


def _places(term: Any) -> slice:
    return slice(term.at, term.at + (term.width if isinstance(term, CodeTerm) else 1))


def _date_part(term: Any) -> LevelPart | None:
    """Return the part of a date that a term has a feature for each level of; None of others."""
    step = term.steps[0] if isinstance(term, CodeTerm) else None
    return step.of if isinstance(step, DatePart) else None  # type: ignore[return-value]


def _curve_of(one: ColumnTerms, coef: Vector, means: Vector) -> TermShape:
    """Return what all terms of a number contribute, or those of the days of a date."""
    terms: list[Any] = [term for term in one.terms if _date_part(term) is None]
    at = _points_of(terms)
    cells = ReadCells(np.append(at, 0.0), np.append(np.zeros(len(at), np.bool_), True))
    values = np.zeros((len(coef), len(at) + 1))
    for slot in entries_of(one.model_copy(update={"terms": tuple(terms)}), [cells]).slots:
        values += coef[:, np.broadcast_to(slot.column, len(at) + 1)] * slot.value
    mean, whole = (
        sum(coef[:, _places(term)] @ means[_places(term)] for term in some)
        for some in (terms, one.terms)
    )
    kind = "date" if isinstance(one.read, MomentCell) else "number"
    curve, missing = values[:, :-1] - np.reshape(mean, (-1, 1)), values[:, -1] - whole
    return TermShape(one.columns[0], kind, at.tolist(), curve, missing)


def _points_of(terms: Sequence[NumberTerm]) -> Vector:
    """Return where a contribution bends or jumps, and points from the first to the last."""
    every = [term.steps for term in terms if not isinstance(term, MissingTerm)]
    bends = np.array([x for steps in every for x in _bends(steps)])
    low, high = float(bends.min()), float(bends.max())
    if all(isinstance(steps[0], Range) for steps in every):
        beyond = 0.05 * (high - low) or 1.0
        low, high = low - beyond, high + beyond
    return np.unique(np.concatenate([bends, np.linspace(low, high, _POINTS)]))


def _bends(steps: Sequence[Step]) -> list[float]:
    step = steps[0]
    if isinstance(step, Clip):
        return [step.low, step.high]
    if isinstance(step, InYears):
        return [step.first, step.last]
    if isinstance(step, Interpolate):
        return [*step.x]
    if isinstance(step, AtMost):
        return [step.bound, float(np.nextafter(step.bound, np.inf))]
    if isinstance(step, Range):
        return [*step.edges, *np.nextafter(step.edges, -np.inf).tolist()]
    scaled = steps[-1]
    assert isinstance(step, Standardise), "of days without an end"
    assert isinstance(scaled, Standardise), "which are scaled"
    about_all = scaled.mean + 2.0 * scaled.deviation
    return [step.mean, step.mean + about_all * step.deviation]


def _largest(part: ColumnRecipe, coef: Vector) -> TermShape:
    """Return the largest weights of features (K, width), which are those of words."""
    coef = coef * part.signs
    order = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:MOST_BARS]
    names = part.outputs
    return TermShape(part.name, "bars", [names[int(j)] for j in order], coef[:, order])
