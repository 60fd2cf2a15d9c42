"""Curves and functions of two columns, of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fewpass.pipeline.models.serving.single_cells import NumberOf, moment_of, number_of, word_of
from fewpass.pipeline.models.serving.single_steps import interpolated, step_of
from fewpass.pipeline.tables.encoding.cells import places_among
from fewpass.pipeline.tables.encoding.terms import (
    CodeAxis,
    ColumnTerms,
    HatsTerm,
    KnotAxis,
    MomentCell,
    NumberCell,
    SingleCell,
    TableTerm,
    TwoCells,
    WordAxis,
    WordCell,
)

Row = Mapping[str, Any]
#: Appends the output columns of a row's cell, and their values.
Put = Callable[[Row, list[int], list[float]], None]
#: Returns the levels of a cell, and its share of each.
SharesOfCell = Callable[[Any], list[tuple[int, float]]]


def put_curve(one: ColumnTerms, term: HatsTerm | TableTerm) -> Put:
    """Return what appends a curve's features, or those of a function of two columns."""
    return _put_hats(one, term) if isinstance(term, HatsTerm) else _put_table(one, term)


def _put_hats(one: ColumnTerms, term: HatsTerm) -> Put:
    """Return what appends the features of a curve: one, and one of every level."""
    name, read = one.columns[0], read_of(one.columns[0], one.read)
    steps = [step_of(step) for step in term.steps]
    places = [k / (len(term.knots) - 1) for k in range(len(term.knots))]
    sizes = [2.0 ** (-term.alpha * j) for j in range(term.levels + 1)]

    def put(row: Row, at: list[int], values: list[float]) -> None:
        x = behind(read(row[name]), steps, term.missing_as)
        if x is None:
            return
        u = interpolated(x, term.knots, places)
        at.append(term.at)
        values.append(u - 0.5)
        for j in range(1, term.levels + 1):
            count = 1 << (j - 1)
            i = min(int(u * count), count - 1)
            at.append(term.at + count + i)
            values.append(sizes[j] * max(0.0, 1.0 - abs(u * (1 << j) - (2 * i + 1))))

    return put


def behind(x: float | None, steps: list[Any], missing_as: float | None) -> float | None:
    """Return a number behind steps, or what a missing one counts as."""
    if x is None:
        return missing_as
    for step in steps:
        x = step(x)
    return x


def _put_table(one: ColumnTerms, term: TableTerm) -> Put:
    """Return what appends the cells of a function of two columns."""
    assert isinstance(one.read, TwoCells), "two columns are read"
    names = one.columns
    a = _shares_of(names[0], one.read.a, term.a)
    b = _shares_of(names[1], one.read.b, term.b)

    def put(row: Row, at: list[int], values: list[float]) -> None:
        others = b(row[names[1]])
        for i, share in a(row[names[0]]):
            for j, other in others:
                place = term.places[i][j]
                if place >= 0:
                    at.append(term.at + place)
                    values.append(term.scale * share * other)

    return put


def read_of(name: str, read: Any) -> NumberOf:
    """Return the function from a column's cell to its number, or its seconds since 1970."""
    if isinstance(read, NumberCell):
        return number_of(name, read)
    assert isinstance(read, MomentCell), "curves are of numbers"
    return moment_of(name, read)


def _shares_of(name: str, read: SingleCell, axis: KnotAxis | WordAxis | CodeAxis) -> SharesOfCell:
    if isinstance(axis, WordAxis):
        assert isinstance(read, WordCell), "words are read"
        return _of_words(word_of(name, read), axis)
    number, steps = read_of(name, read), [step_of(step) for step in axis.steps]
    of = _between_knots if isinstance(axis, KnotAxis) else _of_codes
    missing_as = axis.missing_as if isinstance(axis, KnotAxis) else None
    return lambda cell: of(axis, behind(number(cell), steps, missing_as))


def _of_words(word: Callable[[Any], str | None], axis: WordAxis) -> SharesOfCell:
    rare = len(axis.values)
    levels: dict[str | None, int] = {None: rare + 1}
    levels.update(places_among(axis.values).items())
    return lambda cell: [(levels.get(word(cell), rare), 1.0)]


def _of_codes(axis: Any, x: float | None) -> list[tuple[int, float]]:
    return [(axis.levels[-1 if x is None else int(x)], 1.0)]


def _between_knots(axis: Any, x: float | None) -> list[tuple[int, float]]:
    if x is None:
        return []
    last = len(axis.knots) - 1
    place = interpolated(x, axis.knots, range(last + 1))
    left = min(int(place), last - 1)
    return [(left, 1.0 - (place - left)), (left + 1, place - left)]
