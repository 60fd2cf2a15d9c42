"""A model of a table as functions of its columns: terms with the weights of each score in them.

    score_k = intercept_k + the sum of all functions' values_k

Terms of one number that are linear between points are one function: the number, its rank and its
curve.  ONNX, SQL, `model.json` and scores of single rows are made from this form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, field_serializer

from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.apply_terms import behind
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_YEAR
from fewpass.pipeline.tables.encoding.splines import hats, kinks

#: Steps that no lines between points can take the place of.
_CURVED = terms.LogOfOneMore | terms.InYears | terms.DatePart


def _rows_with_weights(weights: NDArray[np.float64]) -> dict[str, Any]:
    used = np.flatnonzero(weights.any(axis=1)).tolist()
    return {str(k): weights[k].tolist() for k in used}


_FOLDED = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
_Listed = Annotated[NDArray[np.float64], PlainSerializer(lambda array: array.tolist())]
_Sparse = Annotated[NDArray[np.float64], PlainSerializer(_rows_with_weights)]


class Points(BaseModel):
    """A number behind steps, between two of some points: a level each, with shares that sum to 1.

    Beyond the points it is the first or the last one.
    """

    model_config = _FOLDED
    argument: Literal["points"] = "points"
    steps: tuple[terms.Step, ...]
    x: tuple[float, ...]
    """Ascending."""


class Codes(BaseModel):
    """A whole number behind steps, from 0: a level."""

    model_config = _FOLDED
    argument: Literal["codes"] = "codes"
    steps: tuple[terms.Step, ...]
    size: int


class Words(BaseModel):
    """A word among some: a level; the next one is that of all other words."""

    model_config = _FOLDED
    argument: Literal["words"] = "words"
    values: tuple[str, ...]
    any_case: bool
    """True where words are alike in any case: those that are true and false."""


#: What a function is a function of; behind its levels is that of missing cells.
Argument = Annotated[Points | Codes | Words, Field(discriminator="argument")]


class Effect(BaseModel):
    """A function of one column."""

    model_config = _FOLDED
    function: Literal["effect"] = "effect"
    of: Argument
    weights: _Listed
    """(levels, K)."""


class InteractionEffect(BaseModel):
    """A function of two columns."""

    model_config = _FOLDED
    function: Literal["interaction"] = "interaction"
    a: Argument
    b: Argument
    weights: _Listed
    """(levels of a, levels of b, K)."""


class Features(BaseModel):
    """The features of a term times their weights: of words that are hashed, text and lists.

    Also of a number without bounds.
    """

    model_config = _FOLDED
    function: Literal["features"] = "features"
    term: (
        terms.ValueTerm
        | terms.HashTerm
        | terms.TextTerm
        | terms.TagsTerm
        | terms.VectorTerm
        | terms.MapTerm
    )
    """`at` 0."""
    weights: _Sparse
    """(features, K)."""

    @field_serializer("term")
    def _without_place(self, term: BaseModel) -> dict[str, Any]:
        return term.model_dump(exclude={"at"})


Function = Effect | InteractionEffect | Features


class ColumnFunctions(BaseModel):
    """The functions of one column of a table, or of two that are crossed or interact."""

    model_config = _FOLDED
    columns: tuple[str, ...]
    read: terms.Cell
    functions: tuple[Annotated[Function, Field(discriminator="function")], ...]


def folded(
    described: Sequence[terms.ColumnTerms], coef: NDArray[np.float64]
) -> tuple[ColumnFunctions, ...]:
    """Return the functions of columns, by the weights (K, d) of their terms' features."""
    weights = np.ascontiguousarray(coef.T)
    every: dict[tuple[tuple[str, ...], terms.Cell], list[Function]] = {}
    for one in described:
        functions = every.setdefault((one.columns, one.read), [])
        missing = [term for term in one.terms if isinstance(term, terms.MissingTerm)]
        for term in one.terms:
            if term not in missing:
                _add(functions, _FOLDS[type(term)](term, one.factor * weights[term.at :]))
        for term in missing:
            _add_missing(functions, one.factor * weights[term.at])
    return tuple(
        ColumnFunctions(columns=columns, read=read, functions=tuple(functions))
        for (columns, read), functions in every.items()
    )


def _add_missing(functions: list[Function], weights: Floats) -> None:
    """Add the weights of missing cells to the first function that has a level of them."""
    k = next(k for k, one in enumerate(functions) if isinstance(one, Effect))
    last = functions[k].weights[-1:] + weights
    both = np.vstack([functions[k].weights[:-1], last])
    functions[k] = functions[k].model_copy(update={"weights": both})


def _add(functions: list[Function], new: Function) -> None:
    """Add a function, to the one of the same number if there is one."""
    points = _points_of(new)
    for k, one in enumerate(functions):
        own = _points_of(one)
        if own is not None and points is not None and own.steps == points.steps:
            x = np.union1d(own.x, points.x)
            values = _at(x, own.x, one.weights) + _at(x, points.x, new.weights)
            functions[k] = Effect(of=_points(own.steps, x), weights=values)
            return
    functions.append(new)


def _points_of(one: Function) -> Points | None:
    return one.of if isinstance(one, Effect) and isinstance(one.of, Points) else None


def _points(steps: Sequence[terms.Step], x: Floats) -> Points:
    return Points(steps=tuple(steps), x=tuple(x.tolist()))


def _at(x: Floats, points: Sequence[float], weights: Floats) -> Floats:
    """Return weights (levels, K) of points and of missing cells at other points (m,)."""
    lines = [np.interp(x, points, one) for one in weights[:-1].T]
    return np.vstack([np.stack(lines, axis=1), weights[-1:]])


def _split(
    steps: Sequence[terms.Step],
) -> tuple[tuple[terms.Step, ...], tuple[terms.Step, ...], Floats]:
    """Return the steps up to the last that is curved, those behind, and points of lines.

    Between the points, which are numbers behind the first steps, the others are linear.
    """
    plain = [_within_a_year(step) for step in steps]
    curved = max((k for k, step in enumerate(plain, 1) if isinstance(step, _CURVED)), default=0)
    points: Sequence[float] | Floats = ()
    for step in plain:
        if isinstance(step, terms.Clip):
            points = step.low, step.high
        elif isinstance(step, terms.InYears):
            points = step.first, step.last
        elif isinstance(step, terms.Interpolate):
            points = step.x
        elif isinstance(step, terms.LogOfOneMore):
            points = np.log1p(points)
    return tuple(plain[:curved]), tuple(plain[curved:]), np.unique(np.asarray(points, float))


def _within_a_year(step: terms.Step) -> terms.Step:
    """Return a range of moments that no year fits in as what it is: a clip."""
    if isinstance(step, terms.InYears) and step.last - step.first < SECONDS_OF_YEAR:
        return terms.Clip(low=step.first, high=step.last)
    return step


def _knots_before(
    steps: Sequence[terms.Step], knots: Sequence[float] | Floats
) -> tuple[Points, Floats]:
    """Return the argument of a function between knots, and where its points are among these."""
    curved, others, ends = _split(steps)
    x = np.asarray(knots, float)
    for step in reversed(others):
        x = x * step.deviation + step.mean if isinstance(step, terms.Standardise) else x
    if len(ends):
        x = np.unique(np.clip(np.concatenate([x, ends]), ends[0], ends[-1]))
    return _points(curved, x), behind(others, x)


def _of_value(term: terms.ValueTerm, weights: Floats) -> Function:
    curved, others, x = _split(term.steps)
    if others and isinstance(others[-1], terms.AtMost):
        beyond = terms.Range(edges=(float(np.nextafter(others[-1].bound, np.inf)),))
        values = np.vstack([weights[:1], np.zeros_like(weights[:1]), np.zeros_like(weights[:1])])
        return Effect(of=Codes(steps=(*curved, beyond), size=2), weights=values)
    if not len(x):
        return _features(term, weights[:1])
    return Effect(
        of=_points(curved, x), weights=_with_missing(behind(others, x)[:, None] * weights[0])
    )


def _with_missing(values: Floats) -> Floats:
    return np.vstack([values, np.zeros_like(values[:1])])


def _of_code(term: terms.CodeTerm, weights: Floats) -> Function:
    of = Codes(steps=term.steps, size=term.width)
    return Effect(of=of, weights=_with_missing(weights[: term.width]))


def _of_word(term: terms.WordTerm, weights: Floats) -> Function:
    return Effect(of=_words(term), weights=weights[: len(term.values) + 2])


def _words(among: terms.WordTerm | terms.WordAxis) -> Words:
    return Words(values=among.values, any_case=among.any_case)


def _of_hats(term: terms.HatsTerm, weights: Floats) -> Function:
    def curve(x: Floats) -> Floats:
        total = np.zeros((len(x), weights.shape[1]))
        for column, value in hats(x, term.knots, term.levels, term.alpha):
            total += weights[np.broadcast_to(column, len(x))] * value[:, None]
        return total

    of, x = _knots_before(term.steps, kinks(term.knots, term.levels))
    values = _with_missing(curve(x))
    if term.missing_as is not None:
        values[-1] = curve(np.array([term.missing_as]))[0]
    return Effect(of=of, weights=values)


def _of_table(term: terms.TableTerm, weights: Floats) -> Function:
    places = np.array(term.places)
    values = np.where((places < 0)[:, :, None], 0.0, term.scale * weights[np.maximum(places, 0)])
    (a, of_a), (b, of_b) = (
        _argument(axis, n) for axis, n in zip((term.a, term.b), places.shape, strict=True)
    )
    values = np.einsum("ia,jb,abk->ijk", of_a, of_b, values, optimize=True)
    return InteractionEffect(a=a, b=b, weights=values)


def _argument(axis: terms.Axis, n: int) -> tuple[Argument, Floats]:
    """Return an axis of n levels as an argument, and the shares (levels, n) of its levels."""
    own = np.eye(n)
    if isinstance(axis, terms.WordAxis):
        return _words(axis), own
    if isinstance(axis, terms.CodeAxis):
        return Codes(steps=axis.steps, size=len(axis.levels) - 1), own[[*axis.levels]]
    points, x = _knots_before(axis.steps, axis.knots)
    if axis.missing_as is not None:
        own[-1] = _at(np.array([axis.missing_as]), axis.knots, own)[0]
    return points, _at(x, axis.knots, own)


def _features(term: Any, weights: Floats) -> Features:
    return Features(term=term.model_copy(update={"at": 0}), weights=weights)


_FOLDS: dict[type, Callable[[Any, Floats], Function]] = {
    terms.ValueTerm: _of_value, terms.CodeTerm: _of_code, terms.WordTerm: _of_word,
    terms.HatsTerm: _of_hats, terms.TableTerm: _of_table,
    terms.HashTerm: lambda term, weights: _features(term, weights[: (1 << term.bits) + 1]),
    terms.TextTerm: lambda term, weights: _features(term, weights[: 1 << term.bits]),
    terms.TagsTerm: lambda term, weights: _features(term, weights[: len(term.values) + 1]),
    terms.VectorTerm: lambda term, weights: _features(term, weights[: len(term.mean) + 1]),
    terms.MapTerm: lambda term, weights: _features(term, weights[: len(term.names) + 1]),
}  # fmt: skip
