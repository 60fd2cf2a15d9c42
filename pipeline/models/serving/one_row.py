"""Scores of one row, by the functions of a model's columns and no frame.

Each function is a table of weights (levels, K).  What a cell holds gives rows of it, and a share of
each: one of a word, two of a number between points, four of two such numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.models.export.model_form import ModelForm
from fewpass.pipeline.models.serving.single_cells import (
    is_number,
    moment_of,
    number_of,
    typed_cells,
    word_of,
)
from fewpass.pipeline.models.serving.single_steps import step_of
from fewpass.pipeline.tables.encoding.apply_terms import ReadCells, entries_of, single_reads
from fewpass.pipeline.tables.encoding.cells import LARGEST_ENCODED, hashable, places_among
from fewpass.pipeline.tables.encoding.folding import (
    Codes,
    ColumnFunctions,
    Effect,
    Features,
    InteractionEffect,
    Points,
    Words,
)
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.encoding.terms import (
    ColumnTerms,
    HashTerm,
    MomentCell,
    NumberCell,
    PairCell,
    TextTerm,
    ValueTerm,
    VectorTerm,
    WordCell,
)

Row = Mapping[str, Any]
Scores = NDArray[np.float64]
#: Appends rows of the weights of a function for cells that were read, and the share of each row.
Put = Callable[[Sequence[Any], list[int], list[float]], None]
#: Returns rows of weights for a cell, and the share of each.
SharesOfCell = Callable[[Any], list[tuple[int, float]]]


def row_scorer(form: ModelForm) -> Callable[[Row], Scores]:
    """Return the function from a row, by the columns' names, to its scores (K,).

    It raises BadInput where a column is missing, or holds what it did not hold in training.
    """
    cells = _Cells()
    tables: list[Any] = [np.zeros((0, len(form.intercept)))]
    puts: list[Put] = []
    for one in form.columns:
        places = cells.places_of(one)
        for function in one.functions:
            first = sum(map(len, tables))
            puts.append(_PUTS[type(function)](one, function, places, first))
            tables.append(function.weights.reshape(-1, len(form.intercept)))
    table, intercept = np.concatenate(tables), np.array(form.intercept)

    def scores(row: Row) -> Scores:
        at: list[int] = []
        shares: list[float] = []
        x = cells.of(row)
        for put in puts:
            put(x, at, shares)
        result: Scores = np.array(shares) @ table[at] + intercept
        return result

    return scores


def absent(name: Any) -> BadInput:
    """Return the error for a row without a column."""
    return BadInput(f"The row has no column {shown_name(name)}. Give it; None if it is missing.")


def cell_in(row: Row, name: str, column: str | None = None) -> Any:
    """Return the cell of a column: of `a.b` the member `b` of the object `a`, as of JSON lines.

    Raises BadInput, by the column's name, where the row has none.
    """
    if name in row:
        return row[name]
    for k in (k for k, letter in enumerate(name) if letter == "." and name[:k] in row):
        inner = row[name[:k]]
        if inner is None:
            return None
        if isinstance(inner, Mapping):
            return cell_in(inner, name[k + 1 :], column or name)
    raise absent(column or name)


class _Cells:
    """The cells of a row, each read once."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}
        self._reads: list[tuple[str, Callable[[Any], Any]]] = []

    def places_of(self, one: ColumnFunctions) -> list[int]:
        """Return where the cells of a column, or of two, are among those of a row."""
        places = []
        for name, read in zip(one.columns, single_reads(one.read), strict=True):
            if (name, read) not in self._places:
                self._places[name, read] = len(self._reads)
                self._reads.append((name, _reader(name, read)))
            places.append(self._places[name, read])
        return places

    def of(self, row: Row) -> list[Any]:
        """Return numbers, words or lists; None where they are missing."""
        try:
            return [read(row[name]) for name, read in self._reads]
        except KeyError:
            return [read(cell_in(row, name)) for name, read in self._reads]


def _reader(name: str, read: Any) -> Callable[[Any], Any]:
    if isinstance(read, NumberCell):
        return number_of(name, read)
    if isinstance(read, MomentCell):
        return moment_of(name, read)
    return word_of(name, read) if isinstance(read, WordCell) else lambda cell: cell


def _put_effect(_one: ColumnFunctions, effect: Effect, places: Sequence[int], first: int) -> Put:
    (place,) = places
    shares_of = _SHARES[type(effect.of)](effect.of)

    def put(x: Sequence[Any], at: list[int], shares: list[float]) -> None:
        for level, share in shares_of(x[place]):
            at.append(first + level)
            shares.append(share)

    return put


def _put_interaction(
    _one: ColumnFunctions, both: InteractionEffect, places: Sequence[int], first: int
) -> Put:
    (a, b), width = places, both.weights.shape[1]
    of_a, of_b = (_SHARES[type(of)](of) for of in (both.a, both.b))

    def put(x: Sequence[Any], at: list[int], shares: list[float]) -> None:
        others = of_b(x[b])
        for i, share in of_a(x[a]):
            for j, other in others:
                at.append(first + i * width + j)
                shares.append(share * other)

    return put


def _shares_of_words(of: Any) -> SharesOfCell:
    other = [(len(of.values), 1.0)]
    levels: dict[str | None, list[tuple[int, float]]] = {None: [(len(of.values) + 1, 1.0)]}
    levels.update({word: [(k, 1.0)] for word, k in places_among(of.values).items()})
    return lambda word: levels.get(word, other)


def _shares_of_codes(of: Codes) -> SharesOfCell:
    behind = _behind(of.steps)
    return lambda x: [(of.size if x is None else int(behind(x)), 1.0)]


def _shares_of_points(of: Points) -> SharesOfCell:
    """Return the function from a number to the points next to it."""
    behind, points, size = _behind(of.steps), of.x, len(of.x)

    def shares(x: float | None) -> list[tuple[int, float]]:
        if x is None:
            return [(size, 1.0)]
        x = behind(x)
        k = bisect_right(points, x)
        if k in (0, size):
            return [(max(k - 1, 0), 1.0)]
        right = (x - points[k - 1]) / (points[k] - points[k - 1])
        return [(k - 1, 1.0 - right), (k, right)]

    return shares


def _behind(steps: Sequence[Any]) -> Callable[[float], float]:
    """Return the function from a number to the same behind steps."""
    each = [step_of(step) for step in steps]
    if len(each) < 2:
        return each[0] if each else lambda x: x

    def behind(x: float) -> float:
        for step in each:
            x = step(x)
        return x

    return behind


def _put_features(
    one: ColumnFunctions, function: Features, places: Sequence[int], first: int
) -> Put:
    of = _FEATURES.get(type(function.term), _by_rows)(one, function.term)

    def put(x: Sequence[Any], at: list[int], values: list[float]) -> None:
        columns, own = of([x[place] for place in places])
        at.extend(first + column for column in columns)
        values.extend(own)

    return put


#: Returns the features of cells, and their values.
FeaturesOfCells = Callable[[list[Any]], tuple[Sequence[int], Sequence[float]]]


def _of_value(_one: ColumnFunctions, term: ValueTerm) -> FeaturesOfCells:
    behind = _behind(term.steps)
    return lambda x: ((), ()) if x[0] is None else ((0,), (behind(x[0]),))


def _of_hash(one: ColumnFunctions, term: HashTerm) -> FeaturesOfCells:
    between = one.read.between if isinstance(one.read, PairCell) else ""
    mask = (1 << term.bits) - 1

    def of(x: list[Any]) -> tuple[Sequence[int], Sequence[float]]:
        words = hashable(pa.array(x, pa.large_string()))
        if words.null_count:
            return (mask + 1,), (1.0,)
        joined = pa.array([between.join(words.to_pylist())], pa.large_string())
        code = int(hashes(joined, term.prefix)[0])
        return (abs(code) & mask,), (-1.0 if code < 0 else 1.0,)

    return of


def _of_vector(one: ColumnFunctions, term: VectorTerm) -> FeaturesOfCells:
    """Return the function of lists of numbers; missing ones, and odd ones, as rows of files are."""
    size, mean, deviation = len(term.mean), np.array(term.mean), np.array(term.deviation)
    places, of_others = range(size), _by_rows(one, term)

    def of(x: list[Any]) -> tuple[Sequence[int], Sequence[float]]:
        (cell,) = x
        if isinstance(cell, list | tuple) and len(cell) == size and all(map(is_number, cell)):
            scaled = (np.array(cell, np.float64) - mean) / deviation
            if (np.abs(scaled) <= LARGEST_ENCODED).all():
                return places, scaled.tolist()
        return of_others(x)

    return of


def _by_rows(one: ColumnFunctions, term: Any) -> FeaturesOfCells:
    """Return the function that encodes text and lists as rows of files are."""
    (name,) = one.columns
    alone = ColumnTerms(columns=one.columns, read=one.read, terms=(term,))

    def of(x: list[Any]) -> tuple[Sequence[int], Sequence[float]]:
        is_text = isinstance(term, TextTerm)
        cells = pa.array(x, pa.large_string()) if is_text else typed_cells(name, one.read, x)
        entries = entries_of(alone, [ReadCells(cells)])
        if entries.bad is not None and entries.bad.any():
            raise BadInput(
                f"Column {shown_name(name)} is {x[0]!r:.80}, but numbers of usual size were "
                "expected."
            )
        (slot,) = entries.slots
        return np.atleast_1d(slot.column).tolist(), slot.value.tolist()

    return of


_PUTS: dict[type, Callable[[ColumnFunctions, Any, Sequence[int], int], Put]] = {
    Effect: _put_effect, InteractionEffect: _put_interaction, Features: _put_features,
}  # fmt: skip
_SHARES: dict[type, Callable[[Any], SharesOfCell]] = {
    Points: _shares_of_points, Codes: _shares_of_codes, Words: _shares_of_words,
}  # fmt: skip
_FEATURES: dict[type, Callable[[ColumnFunctions, Any], FeaturesOfCells]] = {
    ValueTerm: _of_value, HashTerm: _of_hash, VectorTerm: _of_vector,
}  # fmt: skip
