"""A recipe as steps of compiled code, which expands the codes of rows by them (expanding.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.expanding import HATS, LEVEL, NUMBER, PAIR, ExpansionSteps
from fewpass.pipeline.tables.encoding.number_recipe import Bins
from fewpass.pipeline.tables.encoding.pair_tables import AnyAxis, PairTable
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.variables import LEVELS_OF, Part, Variable, level_names

_STEP = ("kind", "code", "other", "first", "at", "width")


class StepsInMaking:
    """The steps of a recipe, and the codes that they take.

    Parameters
    ----------
    recipe
        Of numbers, categories and dates, with splines and pairs.

    Attributes
    ----------
    codes : dict of Variable to int
        The number of every variable that is a code, in the order of the recipe's columns.
    most : int
        Features of a row that are not 0.
    """

    def __init__(self, recipe: Recipe) -> None:
        assert recipe.additive is not None, "asked before"
        self._columns = {column.name: column for column in recipe.columns}
        self._parts, self.most = recipe.additive.parts, 0
        self._steps: list[dict[str, Any]] = []
        self._numbers: list[float] = []
        self._places: list[int] = []
        self._axes: dict[str, int] = {}
        self._axis_rows: list[tuple[int, ...]] = []
        self._missing_as: list[float] = []  # of axes
        self._first = 0  # column of the next step
        self.codes = {variable: k for k, variable in enumerate(self._variables())}
        for column in recipe.columns:
            self._add_column(column)
        for part in recipe.additive.parts:
            if isinstance(part, Spline):
                self._add_curve(part)
            else:
                self._add_pair(part)

    def steps(self) -> ExpansionSteps:
        """Return what compiled code takes."""
        axes: Any = np.array(self._axis_rows, np.int64).reshape(-1, 4).T.copy()
        own: Any = np.array([[step[name] for step in self._steps] for name in _STEP], np.int64)
        scale, missing_as = (
            np.array([step[name] for step in self._steps], np.float64)
            for name in ("scale", "missing_as")
        )
        of_axes = np.array(self._missing_as, np.float64)
        numbers, places = np.array(self._numbers, np.float64), np.array(self._places, np.int64)
        return ExpansionSteps._make([*axes, of_axes, *own, scale, missing_as, numbers, places])

    def _variables(self) -> Iterator[Variable]:
        """Yield what is a code: all parts of dates that something is made of."""
        asked = {variable for part in self._parts for variable in _variables_of(part)}
        for column in self._columns.values():
            parts: list[Part] = [""]
            if isinstance(column, Date):
                parts = ["days", *column.part_names]
                more = (one.part for one in asked if one.column == column.name)
                parts += sorted(set(more) - set(parts))
            yield from (Variable(column.name, part) for part in parts)

    def _add(self, kind: int, first: int, **what: Any) -> None:
        """Add a step; it makes one feature of a row that is not 0, or more where it says so."""
        step = {"kind": kind, "first": first, "other": 0, "at": 0, "width": 0, "scale": 1.0}
        step["missing_as"] = np.nan
        self.most += what.pop("most", 1)
        self._steps.append(step | what)

    def _add_column(self, column: Any) -> None:
        first, self._first = self._first, self._first + column.width
        if isinstance(column, Date):
            at = self._put(-np.inf, np.inf, column.mean, column.deviation)
            self._add(NUMBER, first, code=self._code(column.name, "days"), at=at)
            first += 2
            for part in column.part_names:
                width = len(LEVELS_OF[part])
                self._add(LEVEL, first, code=self._code(column.name, part), other=width)
                first += width
        elif isinstance(column, Bins | Category):
            self._add(LEVEL, first, code=self._code(column.name), other=column.width)
        else:
            at = self._put(column.low, column.high, column.mean, column.deviation)
            has = float(column.has_missing)
            self._add(NUMBER, first, code=self._code(column.name), at=at, scale=has)

    def _add_curve(self, one: Spline) -> None:
        first, self._first = self._first, self._first + one.width
        at = self._put_knots(one.knots, np.linspace(0.0, 1.0, len(one.knots)))
        self._put(*one.heights)
        self._add(
            HATS, first, code=self.codes[one.variable], other=one.levels, at=at,
            width=len(one.knots), most=1 + one.levels, missing_as=_or_nan(one.missing_as),
        )  # fmt: skip

    def _add_pair(self, one: PairTable) -> None:
        first, self._first = self._first, self._first + one.width
        at = len(self._places)
        self._places += one.places.ravel().tolist()
        a, b = (self._axis(axis) for axis in (one.a, one.b))
        self._add(
            PAIR, first, code=a, other=b, at=at, width=one.shape[1], scale=one.scale,
            most=one.n_slots,
        )  # fmt: skip

    def _axis(self, axis: AnyAxis) -> int:
        """Return the number of an axis, which several pairs may have."""
        key = axis.model_dump_json()
        if key not in self._axes:
            self._axes[key] = len(self._axis_rows)
            code = self._code(axis.column, axis.part)
            if axis.kind == "hats":
                n = len(axis.knots)
                at = self._put_knots(axis.knots, np.arange(float(n)))
                self._axis_rows.append((code, at, n, 0))
                self._missing_as.append(_or_nan(axis.missing_as))
            else:
                levels = axis.levels_of(level_names(self._columns[axis.column], axis.part))
                self._axis_rows.append((code, len(self._places), 0, len(levels)))
                self._missing_as.append(np.nan)
                self._places += levels.tolist()
        return self._axes[key]

    def _code(self, column: str, part: Part = "") -> int:
        return self.codes[Variable(column, part)]

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


def _or_nan(number: float | None) -> float:
    return np.nan if number is None else number


def _variables_of(part: Spline | PairTable) -> tuple[Variable, ...]:
    return (part.variable,) if isinstance(part, Spline) else part.of
