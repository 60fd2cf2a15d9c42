"""Which slice of the rows each row is in, by a column of the source: `fewpass evaluate --by`.

A slice is a value of the column; of numbers a range (`age:20,40,60`), by default between the
quintiles that the model's recipe knows; of dates a month.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.cells import Written, read_numbers, words_of
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.schema import recipe_in

#: Slices of a column at most.
MOST_SLICES = 1000
MISSING = "missing"
#: Standard deviations from the mean that a fifth of normal numbers each lie between.
_FIFTHS = (-0.8416, -0.2533, 0.2533, 0.8416)
_SHARES = (0.2, 0.4, 0.6, 0.8)


class SliceBy(NamedTuple):
    """How rows are put into slices."""

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
            return cls(name, date=column)
        if isinstance(column, Number):
            own = numbers or _fifths(column)
            return cls(name, own, column.written, column.missing)
        return cls(name, numbers)

    def codes(self, cells: Any) -> tuple[NDArray[np.int64], list[str]]:
        """Return the slice of each cell (n,), and the names of the slices."""
        if self.date is not None:
            return self._months(cells, self.date)
        if self.edges:
            numbers = read_numbers(cells, self.written, self.missing).values
            names = [*_ranges(self.edges), MISSING]
            places = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isnan(numbers), len(names) - 1, places), names
        coded = words_of(cells).fill_null(MISSING).dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, coded.dictionary.to_pylist()

    @staticmethod
    def _months(cells: Any, date: Date) -> tuple[NDArray[np.int64], list[str]]:
        seconds = date.moments(cells)
        gone = np.isnan(seconds)
        months = np.where(gone, 0.0, seconds).astype("datetime64[s]").astype("datetime64[M]")
        text = np.where(gone, MISSING, months.astype(str))
        names, codes = np.unique(text, return_inverse=True)
        return codes.astype(np.int64), [str(name) for name in names]


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
        at = np.expm1(at) if column.logarithm else at
        at = np.clip(at, column.low, column.high)
    return tuple(float(f"{edge:.4g}") for edge in np.unique(at))


def _ranges(edges: tuple[float, ...]) -> list[str]:
    """Return the names of ranges, whose lower ends belong to them."""
    inner = [f"{a:g} to {b:g}" for a, b in pairwise(edges)]
    return [f"below {edges[0]:g}", *inner, f"from {edges[-1]:g}"]


def require_few(slices: Mapping[str, Any], by: SliceBy) -> None:
    """Refuse a column of too many values."""
    if len(slices) > MOST_SLICES:
        raise BadInput(
            f"Column {by.column!r} has more than {MOST_SLICES:,} values, and each would be a "
            f"slice. Give edges if they are numbers (by={by.column}:10,20), or name another."
        )


def rows_by_slice(by: SliceBy, cells: Any) -> dict[str, NDArray[np.int64]]:
    """Return the rows of every slice that has some."""
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    codes, names = by.codes(cells)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {names[int(code)]: part for code, part in zip(present, parts, strict=True)}
