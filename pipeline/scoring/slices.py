"""Slices of rows by a column of the source: `fewpass evaluate --by`.

A slice is a value of the column; of numbers a range (`age:20,40,60`), by default between the
quintiles that the model's recipe knows; of dates a month.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.cells import (
    Read,
    Written,
    as_array,
    is_single,
    is_text,
    read_numbers,
    words_of,
)
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.solvers.bad_input import shown

#: Slices of a column at most.
MOST_SLICES = 1000
MISSING = "missing"
#: Standard deviations from the mean that a fifth of normal numbers each lie between.
_FIFTHS = (-0.8416, -0.2533, 0.2533, 0.8416)
_SHARES = (0.2, 0.4, 0.6, 0.8)


class SliceBy(NamedTuple):
    """Rule by which rows are put into slices."""

    column: str
    edges: tuple[float, ...] = ()  # of ranges, where cells are numbers
    written: Written = "plain"
    missing: tuple[str, ...] = ()  # words that stand for a missing number
    date: Date | None = None  # whose months are slices

    @classmethod
    def of(cls, asked: str, model: Model) -> SliceBy:
        """Read `column` or `column:edge,edge,...`; BadInput where the edges do not ascend."""
        recipe = recipe_in(model.record.columns)
        own_columns = {column.name: column for column in recipe.columns} if recipe else {}
        name, colon, edges = asked.rpartition(":")
        if asked in own_columns or not colon:
            name, edges = asked, ""
        column = own_columns.get(name)
        numbers = _edges(asked, edges) if edges else ()
        if isinstance(column, Date):
            if numbers:
                raise BadInput(
                    f"by={asked} has edges of ranges, and slices of dates are months. Write "
                    f"by={name}."
                )
            return cls(name, date=column)
        if isinstance(column, Number):
            own = numbers or _fifths(column)
            return cls(name, own, column.written, column.missing)
        return cls(name, numbers)

    @property
    def ranges(self) -> list[str]:
        """Names of all slices in their order, where cells are numbers with edges; else none."""
        return [*_ranges(self.edges), MISSING] if self.edges else []

    def rows(self, cells: Any, where: str) -> dict[str, NDArray[np.int64]]:
        """Return the rows of every slice that has some; BadInput where slices are too many."""
        codes, names = self._codes(as_array(cells), where)
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        require_few(len(present), self.column)
        parts = np.split(order, starts[1:])
        return {names[int(code)]: part for code, part in zip(present, parts, strict=True)}

    def _codes(self, cells: Any, where: str) -> tuple[NDArray[np.int64], list[str]]:
        """Return the slice of each cell (n,), and the names of the slices."""
        if self.date is not None:
            return self._months(cells, self.date, where)
        if self.edges:
            numbers = self._numbers(cells, where)
            names = self.ranges
            places = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isnan(numbers), len(names) - 1, places), names
        coded = words_of(cells).fill_null(MISSING).dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, coded.dictionary.to_pylist()

    def _numbers(self, cells: Any, where: str) -> NDArray[np.float64]:
        """Return the numbers of cells, NaN where they are missing."""
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if not (is_text(cells.type) or is_single(cells.type)):
            raise self._refused(where, f"cells of type {cells.type}")
        return self._read(cells, read_numbers(cells, self.written, self.missing), where)

    def _months(self, cells: Any, date: Date, where: str) -> tuple[NDArray[np.int64], list[str]]:
        seconds = self._read(cells, date.read(cells), where)
        gone = np.isnan(seconds)
        months = np.where(gone, 0.0, seconds).astype("datetime64[s]").astype("datetime64[M]")
        text = np.where(gone, MISSING, months.astype(str))
        names, codes = np.unique(text, return_inverse=True)
        return codes.astype(np.int64), [str(name) for name in names]

    def _read(self, cells: Any, read: Read, where: str) -> NDArray[np.float64]:
        """Return the values that were read; BadInput where a cell has none and is not missing."""
        if read.bad is not None and read.bad.any():
            raise self._refused(where, shown(cells[int(read.bad.argmax())].as_py()))
        return read.values

    def _refused(self, where: str, cell: str) -> BadInput:
        wanted = "numbers" if self.date is None else "dates"
        return BadInput(
            f"{where}: column {shown_name(self.column)} has {cell}, and `by` puts rows into "
            f"slices by {wanted} there. Correct it, give no edges where cells are words, or name "
            "another column."
        )


def _edges(asked: str, edges: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(edge) for edge in edges.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not np.isfinite(numbers).all() or (np.diff(numbers) <= 0.0).any():
        raise BadInput(
            f"by={asked} names no column with edges of ranges, ascending numbers with commas "
            "between, as in age:20,40,60."
        )
    return numbers


def _fifths(column: Number) -> tuple[float, ...]:
    """Return about the quintiles of a column, as far as its recipe knows them."""
    if column.rank is not None:
        at = np.interp(_SHARES, column.rank.shares, column.rank.values)
    else:
        at = column.mean + column.deviation * np.array(_FIFTHS)
        at = np.clip(at, column.low, column.high)
    return tuple(map(float, _distinct(np.unique(at).tolist(), 4)))


def _ranges(edges: tuple[float, ...]) -> list[str]:
    """Return the names of ranges, whose lower ends belong to them."""
    names = _distinct(edges, 6)
    inner = [f"{a} to {b}" for a, b in pairwise(names)]
    return [f"below {names[0]}", *inner, f"from {names[-1]}"]


def _distinct(edges: Sequence[float], digits: int) -> list[str]:
    """Write different numbers with as few digits as tell them apart, or more."""
    names = [f"{edge:.{digits}g}" for edge in edges]
    return names if len({*names}) == len(edges) else _distinct(edges, digits + 1)


def require_few(slices: int, column: str) -> None:
    """Refuse a column of too many values."""
    if slices > MOST_SLICES:
        raise BadInput(
            f"Column {shown_name(column)} has more than {MOST_SLICES:,} values, each a slice. "
            f"Give edges if they are numbers (by={column}:10,20), or name another."
        )
