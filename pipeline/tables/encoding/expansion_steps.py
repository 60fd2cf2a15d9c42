"""Compile a recipe's terms into steps for the expansion kernel (expanding.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.tables.encoding import terms
from fewpass.pipeline.tables.encoding.apply_terms import ReadCells, behind
from fewpass.pipeline.tables.encoding.cells import Floats, levels_of_words
from fewpass.pipeline.tables.encoding.expanding import HATS, LEVEL, NUMBER, PAIR, ExpansionSteps
from fewpass.pipeline.tables.encoding.variables import MISSING, RARE, levels_among

_STEP = ("kind", "code", "other", "first", "at", "width")


class Code(NamedTuple):
    """A number of every row from which features are computed: a column's cells behind steps."""

    column: str
    steps: tuple[terms.Step, ...] = ()
    missing: int | None = None  # the code of a missing one; None: NaN
    words: tuple[str, ...] | None = None  # of a category: the code is the place among them

    def of(self, read: ReadCells) -> Floats:
        """Return the codes of cells (n,)."""
        if self.words is not None:
            return levels_of_words(read.values, self.words).astype(np.float64)
        missing = np.nan if self.missing is None else self.missing
        return np.where(read.missing, missing, behind(self.steps, read.values))


def codes_of(described: Sequence[terms.ColumnTerms], n_columns: int) -> Iterator[Code]:
    """Yield the codes, column by column: those of its own terms, then further parts of dates.

    Parameters
    ----------
    described
        All terms, those of the `n_columns` columns first.
    """
    own, more = described[:n_columns], described[n_columns:]
    used = {code for one in more for term in one.terms for code in _codes_of(one.columns, term)}
    for one in own:
        codes = [code for term in one.terms for code in _codes_of(one.columns, term)]
        yield from codes
        further = {code for code in used if code.column == one.columns[0]} - set(codes)
        yield from sorted(further, key=_part_of)


def _part_of(code: Code) -> str:
    step = code.steps[-1]
    assert isinstance(step, terms.DatePart), "only dates have several codes"
    return step.of


def _codes_of(columns: Sequence[str], term: Any) -> Iterator[Code]:
    """Yield the codes that a term's features are computed from."""
    if isinstance(term, terms.TableTerm):
        for name, axis in zip(columns, (term.a, term.b), strict=True):
            if not isinstance(axis, terms.WordAxis):  # it has that of its column
                yield _code_of_axis(name, axis)
    elif isinstance(term, terms.ValueTerm):
        yield Code(columns[0], _value_steps(term)[0])
    elif isinstance(term, terms.WordTerm):
        yield Code(columns[0], words=term.values)
    elif isinstance(term, terms.CodeTerm):
        yield Code(columns[0], term.steps, term.width)
    elif isinstance(term, terms.HatsTerm):
        yield Code(columns[0], term.steps)


def _code_of_axis(name: str, axis: terms.KnotAxis | terms.CodeAxis) -> Code:
    missing = None if isinstance(axis, terms.KnotAxis) else len(axis.levels) - 1
    return Code(name, axis.steps, missing)


def _value_steps(term: terms.ValueTerm) -> tuple[tuple[terms.Step, ...], tuple[float, ...]]:
    """Return the steps to a number's code; and low, high, mean and deviation behind it."""
    *steps, last = term.steps
    assert isinstance(last, terms.Standardise), "numbers of codes are standardised"
    clip = steps.pop() if steps and isinstance(steps[-1], terms.Clip) else None
    ends = (clip.low, clip.high) if isinstance(clip, terms.Clip) else (-np.inf, np.inf)
    return tuple(steps), (*ends, last.mean, last.deviation)


class StepsInMaking:
    """The steps of a recipe of numbers, categories and dates, with splines and pairs.

    Parameters
    ----------
    described
        All terms, those of the `n_columns` columns first.

    Attributes
    ----------
    codes : dict of Code to int
        The number of every code, in the order of the recipe's columns.
    most : int
        Features of a row that are not 0.
    """

    def __init__(self, described: Sequence[terms.ColumnTerms], n_columns: int) -> None:
        self.codes = {code: k for k, code in enumerate(codes_of(described, n_columns))}
        self._words = {code.column: code for code in self.codes if code.words is not None}
        self.most = 0
        self._steps: list[dict[str, Any]] = []
        self._numbers: list[float] = []
        self._places: list[int] = []
        self._axes: dict[tuple[str, terms.Axis], int] = {}
        self._axis_rows: list[tuple[int, ...]] = []
        self._missing_as: list[float] = []  # of axes
        for one in described:
            for term in one.terms:
                self._add_term(one, term)

    def steps(self) -> ExpansionSteps:
        """Return the arguments of compiled code."""
        axes: Any = np.array(self._axis_rows, np.int64).reshape(-1, 4).T.copy()
        own: Any = np.array([[step[name] for step in self._steps] for name in _STEP], np.int64)
        scale, missing_as = (
            np.array([step[name] for step in self._steps], np.float64)
            for name in ("scale", "missing_as")
        )
        of_axes = np.array(self._missing_as, np.float64)
        numbers, places = np.array(self._numbers, np.float64), np.array(self._places, np.int64)
        return ExpansionSteps._make([*axes, of_axes, *own, scale, missing_as, numbers, places])

    def _add(self, kind: int, first: int, **what: Any) -> None:
        """Add a step; it makes one feature of a row that is not 0, or more where it says so."""
        step: dict[str, float] = {"kind": kind, "first": first, "other": 0, "at": 0, "width": 0}
        step["missing_as"] = np.nan
        self.most += what.pop("most", 1)
        self._steps.append(step | what)

    def _add_term(self, one: terms.ColumnTerms, term: Any) -> None:
        if isinstance(term, terms.TableTerm):
            self._add_pair(one, term)
        elif isinstance(term, terms.HatsTerm):
            self._add_curve(one, term)
        elif isinstance(term, terms.ValueTerm):
            steps, numbers = _value_steps(term)
            code, at = self.codes[Code(one.columns[0], steps)], self._put(*numbers)
            has_missing = _has_missing(one, term.at + 1)
            self._add(NUMBER, term.at, code=code, at=at, other=has_missing, scale=one.factor)
        elif isinstance(term, terms.WordTerm | terms.CodeTerm):
            (own,) = _codes_of(one.columns, term)
            levels = _n_levels(one, term)
            self._add(LEVEL, term.at, code=self.codes[own], other=levels, scale=one.factor)

    def _add_curve(self, one: terms.ColumnTerms, term: terms.HatsTerm) -> None:
        at = self._put_knots(term.knots, np.linspace(0.0, 1.0, len(term.knots)))
        self._put(*(2.0 ** (-term.alpha * np.arange(term.levels + 1.0))))
        self._add(
            HATS, term.at, code=self.codes[Code(one.columns[0], term.steps)], other=term.levels,
            at=at, width=len(term.knots), most=1 + term.levels, scale=one.factor,
            missing_as=_or_nan(term.missing_as),
        )  # fmt: skip

    def _add_pair(self, one: terms.ColumnTerms, term: terms.TableTerm) -> None:
        at = len(self._places)
        self._places += [place for row in term.places for place in row]
        axes = list(zip(one.columns, (term.a, term.b), strict=True))
        a, b = (self._axis(*axis) for axis in axes)
        most = int(np.prod([2 if isinstance(axis, terms.KnotAxis) else 1 for _, axis in axes]))
        self._add(
            PAIR, term.at, code=a, other=b, at=at, width=len(term.places[0]), most=most,
            scale=one.factor * term.scale,
        )  # fmt: skip

    def _axis(self, column: str, axis: terms.Axis) -> int:
        """Return the number of an axis, which several pairs may have."""
        if (column, axis) not in self._axes:
            self._axes[column, axis] = len(self._axis_rows)
            if isinstance(axis, terms.KnotAxis):
                n = len(axis.knots)
                at = self._put_knots(axis.knots, np.arange(float(n)))
                self._axis_rows.append((self.codes[_code_of_axis(column, axis)], at, n, 0))
                self._missing_as.append(_or_nan(axis.missing_as))
            else:
                code, levels = self._levels(column, axis)
                self._axis_rows.append((self.codes[code], len(self._places), 0, len(levels)))
                self._missing_as.append(np.nan)
                self._places += levels
        return self._axes[column, axis]

    def _levels(self, column: str, axis: Any) -> tuple[Code, list[int]]:
        """Return the code of a category, and the level of each of its values on an axis."""
        if not isinstance(axis, terms.WordAxis):
            return _code_of_axis(column, axis), list(axis.levels)
        code = self._words[column]
        return code, levels_among(axis.values, (*(code.words or ()), RARE, MISSING)).tolist()

    def _put(self, *numbers: float) -> int:
        """Note numbers, and return where they begin."""
        at = len(self._numbers)
        self._numbers += numbers
        return at

    def _put_knots(self, knots: Any, values: Floats) -> int:
        """Note knots, their values, and the slopes between them."""
        at = self._put(*knots)
        self._put(*values)
        self._put(*(np.diff(values) / np.diff(knots)), 0.0)
        return at


def _has_missing(one: terms.ColumnTerms, at: int) -> bool:
    """Return whether an output column is that of missing cells."""
    return any(isinstance(term, terms.MissingTerm) and term.at == at for term in one.terms)


def _n_levels(one: terms.ColumnTerms, term: terms.WordTerm | terms.CodeTerm) -> int:
    """Return how many output columns levels have, that of missing ones included."""
    if isinstance(term, terms.WordTerm):
        return len(term.values) + 2
    return term.width + _has_missing(one, term.at + term.width)


def _or_nan(number: float | None) -> float:
    return np.nan if number is None else number
