"""Scores of one row, by closures over what a recipe says of itself, and no frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.model_form import columns_of
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.models.serving.single_cells import (
    NumberOf,
    number_of,
    typed_cells,
    word_of,
)
from fewpass.pipeline.models.serving.single_curves import Put, Row, put_curve, read_of
from fewpass.pipeline.models.serving.single_steps import step_of
from fewpass.pipeline.tables.encoding.apply_terms import entries_of, read_cells
from fewpass.pipeline.tables.encoding.cells import LARGEST_ENCODED, hashable, places_among
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.terms import (
    CodeTerm,
    ColumnTerms,
    HashTerm,
    HatsTerm,
    MissingTerm,
    MomentCell,
    NumberCell,
    NumberTerm,
    PairCell,
    TableTerm,
    VectorTerm,
    WordCell,
    WordTerm,
)

Scores = NDArray[np.float64]


def row_scorer(model: PlainModel) -> Callable[[Row], Scores]:
    """Return the function from a row, by the columns' names, to its scores (K,).

    It raises BadInput where a column is missing, or holds what it did not hold in training.
    """
    table, intercept = np.ascontiguousarray(model.coef.T), model.intercept
    if model.recipe is None:
        return _of_numbers(model)
    puts = _puts_of(model.recipe)

    def scores(row: Row) -> Scores:
        at: list[int] = []
        values: list[float] = []
        try:
            for put in puts:
                put(row, at, values)
        except KeyError as error:
            raise absent(error.args[0]) from error
        result: Scores = np.array(values) @ table[at] + intercept
        return result

    return scores


def absent(name: Any) -> BadInput:
    """Return the error for a row without a column."""
    return BadInput(f"The row has no column {shown_name(name)}. Give it; None if it is missing.")


def _of_numbers(model: PlainModel) -> Callable[[Row], Scores]:
    """Return the function for a model whose columns are numbers as they come."""
    columns = columns_of(model)
    reads = [(one.columns[0], _number_of(one)) for one in columns]
    coef, intercept = model.coef, model.intercept

    def scores(row: Row) -> Scores:
        try:
            x = [read(row[name]) for name, read in reads]
        except KeyError as error:
            raise absent(error.args[0]) from error
        result: Scores = coef @ np.array(x, np.float64) + intercept
        return result

    return scores


def _number_of(one: ColumnTerms) -> NumberOf:
    assert isinstance(one.read, NumberCell), "all columns are numbers"
    return number_of(one.columns[0], one.read)


def _puts_of(recipe: Recipe) -> list[Put]:
    return [_put_of(one, part) for one, part in zip(recipe.described(), recipe.parts, strict=True)]


def _put_of(one: ColumnTerms, part: ColumnRecipe) -> Put:
    """Return the function that appends one column's values."""
    name, terms = one.columns[0], one.terms
    if isinstance(terms[0], TableTerm | HatsTerm):
        return put_curve(one, terms[0])
    if isinstance(one.read, NumberCell | MomentCell):
        return _put_number(name, read_of(name, one.read), terms)
    if isinstance(terms[0], WordTerm):
        return _put_word(one, terms[0])
    if isinstance(terms[0], HashTerm):
        return _put_hash(one, terms[0])
    put = _put_by_recipe(one, part)
    return _put_vector(name, terms[0], put) if isinstance(terms[0], VectorTerm) else put


def _put_number(name: str, read: NumberOf, terms: Sequence[Any]) -> Put:
    missing = [term.at for term in terms if isinstance(term, MissingTerm)]
    ways = [_way_of(term) for term in terms if not isinstance(term, MissingTerm)]

    def put(row: Row, at: list[int], values: list[float]) -> None:
        x = read(row[name])
        if x is None:
            at.extend(missing)
            values.extend(1.0 for _ in missing)
            return
        for first, steps, is_code in ways:
            y = x
            for step in steps:
                y = step(y)
            at.append(first + int(y) if is_code else first)
            values.append(1.0 if is_code else y)

    return put


def _way_of(term: NumberTerm) -> tuple[int, list[Callable[[float], float]], bool]:
    assert not isinstance(term, MissingTerm), "it has no steps"
    return term.at, [step_of(step) for step in term.steps], isinstance(term, CodeTerm)


def _put_word(one: ColumnTerms, term: WordTerm) -> Put:
    assert isinstance(one.read, WordCell), "words are read"
    name, word = one.columns[0], word_of(one.columns[0], one.read)
    places: dict[str | None, int] = {w: term.at + k for w, k in places_among(term.values).items()}
    places[None] = term.missing
    other = term.other

    def put(row: Row, at: list[int], values: list[float]) -> None:
        at.append(places.get(word(row[name]), other))
        values.append(1.0)

    return put


def _put_hash(one: ColumnTerms, term: HashTerm) -> Put:
    assert isinstance(one.read, WordCell | PairCell), "words are read"
    between = one.read.between if isinstance(one.read, PairCell) else ""
    reads = [(name, word_of(name, one.read)) for name in one.columns]
    mask = (1 << term.bits) - 1

    def put(row: Row, at: list[int], values: list[float]) -> None:
        words = hashable(pa.array([word(row[name]) for name, word in reads], pa.large_string()))
        if words.null_count:
            at.append(term.missing)
            values.append(1.0)
            return
        joined = pa.array([between.join(words.to_pylist())], pa.large_string())
        code = int(hashes(joined, term.prefix)[0])
        at.append(term.at + (abs(code) & mask))
        values.append(-1.0 if code < 0 else 1.0)

    return put


def _put_vector(name: str, term: VectorTerm, by_recipe: Put) -> Put:
    """Return what appends lists of numbers; missing ones, and odd ones, as files are encoded."""
    size, mean, deviation = len(term.mean), np.array(term.mean), np.array(term.deviation)
    places = range(term.at, term.at + size)

    def put(row: Row, at: list[int], values: list[float]) -> None:
        cell = row[name]
        if isinstance(cell, list | tuple) and len(cell) == size and None not in cell:
            scaled = (np.array(cell, np.float64) - mean) / deviation
            if (np.abs(scaled) <= LARGEST_ENCODED).all():
                at.extend(places)
                values.extend(scaled.tolist())
                return
        by_recipe(row, at, values)

    return put


def _put_by_recipe(one: ColumnTerms, part: ColumnRecipe) -> Put:
    """Return the function that encodes text and lists as files are encoded."""
    (name,) = one.columns

    def put(row: Row, at: list[int], values: list[float]) -> None:
        cells = typed_cells(name, part, [row[name]])
        entries = entries_of(one, [read_cells(one.read, cells)])
        if entries.bad is not None and entries.bad.any():
            raise BadInput(
                f"Column {shown_name(name)} is {row[name]!r:.80}, but {part.wanted} expected."
            )
        for slot in entries.slots:
            at.extend(np.atleast_1d(slot.column).tolist())
            values.extend(slot.value.tolist())

    return put
