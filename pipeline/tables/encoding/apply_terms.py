"""Apply terms to rows: the entries of a column's cells, by its description alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.cells import (
    Floats,
    Mask,
    Read,
    hashable,
    levels_of_words,
    read_numbers,
    without,
    words_of,
)
from fewpass.pipeline.tables.encoding.column_recipe import Codes, Slot
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_YEAR, part_of_dates
from fewpass.pipeline.tables.encoding.hashing import hashed_slots
from fewpass.pipeline.tables.encoding.lists import scaled_vectors, tags_in
from fewpass.pipeline.tables.encoding.maps import scaled_maps
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.encoding.splines import hats
from fewpass.pipeline.tables.encoding.text import Ragged, encode_text
from fewpass.pipeline.tables.encoding.text_recipe import weights_in

TYPES_OF_LISTS = {
    "map": pa.map_(pa.string(), pa.float64()), "words": pa.large_list(pa.large_string()),
    "numbers": pa.large_list(pa.float64()),
}  # fmt: skip


class ReadCells(NamedTuple):
    """The cells of a column, read as its description says."""

    values: Any  # (n,) numbers, 0 where they are missing; words, an Arrow array; or lists
    missing: Any = None  # (n,) of numbers
    bad: Mask | None = None  # (n,) cells that are not what the column holds; None: none


class Entries(NamedTuple):
    """The entries of a column's cells."""

    slots: tuple[Slot | Ragged, ...]  # in the order of their output columns
    bad: Mask | None = None  # (n,) cells that are not what the column holds; None: none
    missing: Mask | None = None  # (n,) of numbers


def single_reads(read: Any) -> tuple[Any, ...]:
    """Return how the cell of each column is read."""
    if isinstance(read, terms.TwoCells):
        return read.a, read.b
    if isinstance(read, terms.PairCell):
        return (terms.WordCell(missing=read.missing),) * 2
    return (read,)


def read_cells(read: Any, cells: Any) -> ReadCells:
    """Read cells (n,), an Arrow array, as numbers, moments, words or lists."""
    if isinstance(read, terms.ListCell):
        is_nothing = pa.types.is_null(cells.type)
        return ReadCells(pa.nulls(len(cells), TYPES_OF_LISTS[read.cell]) if is_nothing else cells)
    if isinstance(read, terms.NumberCell):
        return _numbers(read_numbers(cells, read.written, read.missing))
    if isinstance(read, terms.MomentCell):
        own = read.form, read.missing, read.standins, read.first_year
        return _numbers(read_moments(cells, *own))
    return ReadCells(without(words_of(cells), read.missing))


def _numbers(read: Read) -> ReadCells:
    missing = np.isnan(read.values)
    return ReadCells(_zero_where(missing, read.values), missing, read.bad)


def _zero_where(missing: Mask, values: Floats) -> Floats:
    """Return values (n,), 0 where they are missing."""
    return np.where(missing, 0.0, values) if missing.any() else values


def entries_of(one: terms.ColumnTerms, read: Sequence[ReadCells]) -> Entries:
    """Return the entries of rows by the terms of one column, or of two."""
    entries = _unscaled(one, read)
    if one.factor == 1.0:
        return entries
    slots = tuple(slot._replace(value=one.factor * slot.value) for slot in entries.slots)
    return entries._replace(slots=slots)


def _unscaled(one: terms.ColumnTerms, read: Sequence[ReadCells]) -> Entries:
    if isinstance(one.read, terms.TwoCells):
        (table,) = one.terms
        assert isinstance(table, terms.TableTerm), "two cells have one function"
        return Entries(tuple(_of_table(table, read)))
    x = read[0]
    if isinstance(one.read, terms.PairCell):
        between = pa.scalar(one.read.between, pa.large_string())
        words = [hashable(cells.values) for cells in read]
        x = ReadCells(pc.binary_join_element_wise(*words, between))
    slots: list[Slot | Ragged] = []
    bad = x.bad
    for term in one.terms:
        if type(term) in _SLOTS:
            slots += _SLOTS[type(term)](term, x)
        else:
            ragged, bad = _RAGGED[type(term)](term, x.values)
            slots.append(ragged._replace(column=ragged.column + term.at))
    return Entries(tuple(slots), bad, x.missing)


def _of_value(term: terms.ValueTerm, x: ReadCells) -> Iterator[Slot]:
    yield Slot(term.at, _zero_where(x.missing, behind(term.steps, x.values)))


def _of_missing(term: terms.MissingTerm, x: ReadCells) -> Iterator[Slot]:
    if x.missing.any():
        yield Slot(term.at, x.missing.astype(np.float64))


def _of_code(term: terms.CodeTerm, x: ReadCells) -> Iterator[Slot]:
    codes = behind(term.steps, x.values).astype(np.int64)
    yield Slot(term.at + codes, (~x.missing).astype(np.float64))


def _of_word(term: terms.WordTerm, x: ReadCells) -> Iterator[Slot]:
    levels = levels_of_words(x.values, term.values)
    yield Slot(term.at + levels, np.ones(len(levels)))


def _of_hash(term: terms.HashTerm, x: ReadCells) -> Iterator[Slot]:
    words = hashable(x.values)
    column, value = hashed_slots(words, term.prefix, term.bits)
    if words.null_count:
        missing = words.is_null().to_numpy(zero_copy_only=False)
        column[missing], value[missing] = 1 << term.bits, 1.0
    yield Slot(term.at + column, value)


def _of_hats(term: terms.HatsTerm, x: ReadCells) -> Iterator[Slot]:
    numbers, missing = _with_means(behind(term.steps, x.values), x.missing, term.missing_as)
    for column, value in hats(numbers, term.knots, term.levels, term.alpha):
        yield Slot(term.at + column, _zero_where(missing, value))


def _with_means(numbers: Floats, missing: Mask, missing_as: float | None) -> tuple[Floats, Mask]:
    """Return numbers, and which of them are missing and count as no other number."""
    if missing_as is None:
        return numbers, missing
    return np.where(missing, missing_as, numbers), np.zeros_like(missing)


def _of_table(term: terms.TableTerm, read: Sequence[ReadCells]) -> Iterator[Slot]:
    places = np.array(term.places)
    others = _shares(term.b, read[-1])
    for one in _shares(term.a, read[0]):
        for other in others:
            place = places[one.level, other.level]
            value = np.where(place < 0, 0.0, term.scale * (one.share * other.share))
            yield Slot(term.at + np.maximum(place, 0), value)


class ShareOfLevel(NamedTuple):
    """A level of every row, and the row's share of it."""

    level: Codes  # (n,)
    share: Floats  # (n,)


def between_knots(
    numbers: Floats, missing: Mask, knots: Sequence[float] | Floats, missing_as: float | None = None
) -> tuple[ShareOfLevel, ShareOfLevel]:
    """Return the two knots next to numbers (n,), with shares that sum to 1.

    Missing ones count as a number, or else have the level behind the knots.
    """
    numbers, missing = _with_means(numbers, missing, missing_as)
    last = len(knots) - 1
    place = np.where(missing, 0.0, np.interp(numbers, knots, np.arange(last + 1.0)))
    left = np.minimum(place.astype(np.int64), max(last - 1, 0))
    right = place - left
    first = ShareOfLevel(np.where(missing, last + 1, left), np.where(missing, 1.0, 1.0 - right))
    return first, ShareOfLevel(np.where(missing, 0, left + 1), np.where(missing, 0.0, right))


def _shares(axis: terms.Axis, x: ReadCells) -> tuple[ShareOfLevel, ...]:
    """Return the levels of rows on an axis of a pair, and the share of each."""
    if isinstance(axis, terms.KnotAxis):
        return between_knots(behind(axis.steps, x.values), x.missing, axis.knots, axis.missing_as)
    if isinstance(axis, terms.CodeAxis):
        codes = np.where(x.missing, len(axis.levels) - 1, behind(axis.steps, x.values))
        levels = np.array(axis.levels)[codes.astype(np.int64)]
    else:
        levels = levels_of_words(x.values, axis.values)
    return (ShareOfLevel(levels, np.ones(len(levels))),)


@lru_cache(maxsize=16)
def _weights(idf: str, bits: int) -> Floats:
    return weights_in(idf, bits)


def _of_text(term: terms.TextTerm, words: Any) -> tuple[Ragged, None]:
    weights = _weights(term.idf, term.bits)
    return encode_text(hashable(words), term.bits, term.grams, weights), None


_SLOTS: dict[type, Callable[[Any, ReadCells], Iterator[Slot]]] = {
    terms.ValueTerm: _of_value, terms.MissingTerm: _of_missing, terms.CodeTerm: _of_code,
    terms.WordTerm: _of_word, terms.HashTerm: _of_hash, terms.HatsTerm: _of_hats,
}  # fmt: skip
_RAGGED: dict[type, Callable[[Any, Any], tuple[Ragged, Mask | None]]] = {
    terms.TextTerm: _of_text,
    terms.TagsTerm: lambda term, cells: (tags_in(cells, term.values), None),
    terms.VectorTerm: lambda term, cells: scaled_vectors(cells, term.mean, term.deviation),
    terms.MapTerm: lambda term, cells: scaled_maps(cells, term.names, term.scale),
}


def behind(steps: Sequence[terms.Step], numbers: Any) -> Any:
    """Return numbers (n,), none of them missing, behind steps."""
    for step in steps:
        numbers = _STEPS[type(step)](step, numbers)
    return numbers


def in_years(step: terms.InYears, seconds: Floats) -> Floats:
    """Return moments within a range: whole years earlier or later, where it has any.

    So the days go with the month, and with a year that is clipped, as they did in the sample.
    """
    first, last = step.first, step.last
    if last - first >= SECONDS_OF_YEAR:
        beyond = np.maximum(seconds - last, 0.0) - np.maximum(first - seconds, 0.0)
        years = np.sign(beyond) * np.ceil(np.abs(beyond) / SECONDS_OF_YEAR)
        seconds = seconds - years * SECONDS_OF_YEAR
    return np.clip(seconds, first, last)


_STEPS: dict[type, Callable[[Any, Any], Any]] = {
    terms.Clip: lambda step, x: np.clip(x, step.low, step.high),
    terms.LogOfOneMore: lambda _, x: np.log1p(x),
    terms.Standardise: lambda step, x: (x - step.mean) / step.deviation,
    terms.Interpolate: lambda step, x: np.interp(x, step.x, step.y),
    terms.AtMost: lambda step, x: (x <= step.bound).astype(np.float64),
    terms.InYears: in_years,
    terms.DatePart: lambda step, x: part_of_dates(x, step.of),
    terms.Range: lambda step, x: np.searchsorted(np.asarray(step.edges), x, side="right"),
}
