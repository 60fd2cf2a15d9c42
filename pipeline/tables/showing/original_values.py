"""What stored numbers were before they were stored, where the recipe of their column tells.

A number that was standardised comes back, clipped as it was stored and to six or seven digits; a
category, a range and a scaled feature as well.  Of what was hashed, counted or bent into a curve
only the features are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.number_recipe import Bins, Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable, Table

Floats = NDArray[np.float64]
Origin = Literal["original", "encoded", "label", "weight", "offset", "kept"]

#: Features of one column of the source that have a column each; of more, a row has a list.
MOST_COLUMNS = 64
#: Error of a stored float32, in the size of what it was made of: digits beyond it are noise.
_ERROR = 2e-7
FEATURES = "features"


class ShownColumn(NamedTuple):
    """A column that a data set is shown by."""

    name: str
    origin: Origin
    """original: the values of the source; encoded: features made of them; kept: as written."""
    became: str
    """What became of it."""
    of: str
    """The column of the source that it belongs to; a curve, and what two columns make, have names
    of their own."""


class Features:
    """The features of some rows, in the source's order; columns are cut out as they are asked for.

    Parameters
    ----------
    table
        The rows, with columns in the source's order.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self.n_rows = table.n_rows
        if not isinstance(table, DenseTable):
            self._rows = np.repeat(np.arange(table.n_rows), np.diff(table.indptr))
            self._order = np.argsort(table.indices, kind="stable")
            self._sorted = table.indices[self._order]

    def dense(self, first: int, width: int) -> Floats:
        """Return features from `first` on, (n, width)."""
        if isinstance(self._table, DenseTable):
            return self._table.X[:, first : first + width].astype(np.float64)
        own = self._entries(first, width)
        X = np.zeros((self.n_rows, width))
        X[self._rows[own], self._table.indices[own] - first] = self._table.data[own]
        return X

    def listed(self, first: int, width: int) -> tuple[Any, Any, Floats]:
        """Return the features that are not 0: ends (n + 1,) of rows, features, and values."""
        if isinstance(self._table, DenseTable):
            X = self.dense(first, width)
            rows, places = np.nonzero(X)
            values = X[rows, places]
            return self._ends(rows), places, values
        own = np.sort(self._entries(first, width))
        values = self._table.data[own].astype(np.float64)
        return self._ends(self._rows[own]), self._table.indices[own] - first, values

    def _ends(self, rows: NDArray[np.integer]) -> Any:
        return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n_rows))])

    def _entries(self, first: int, width: int) -> NDArray[np.int64]:
        ends = np.searchsorted(self._sorted, [first, first + width])
        return self._order[ends[0] : ends[1]]


Shown = Callable[[Features], list[Any]]  # an Arrow array for each column


class ShownPart(NamedTuple):
    """Features that are shown together: as which columns, and how these are made."""

    columns: tuple[ShownColumn, ...]
    shown: Shown


def parts_of(dataset: Dataset) -> list[ShownPart]:
    """Return how all features of a data set are shown, in their order."""
    recipe = recipe_in(dataset.schema)
    return [*(_plain(dataset) if recipe is None else _encoded(recipe, Scaler.of(dataset)))]


def _plain(dataset: Dataset) -> Iterator[ShownPart]:
    """Yield the features of a set whose columns are the source's."""
    scaler, d = Scaler.of(dataset), dataset.n_features
    own = dataset.schema.feature_names if dataset.schema is not None else None
    if dataset.manifest.layout == "sparse" and d > MOST_COLUMNS:
        names: Callable[[int], str] = own.__getitem__ if own else _numbered(dataset.hashed_names)
        said = f"{d:,} features, those that are not 0"
        yield _list_of(FEATURES, 0, d, names, said, scaler)
        return
    kind: Origin = "encoded" if scaler.kind == "unit-rows" else "original"
    became = "scaled by row, whose length is not known" if kind == "encoded" else "number"
    for k in range(d):
        name = own[k] if own else _numbered(dataset.hashed_names)(k)
        yield ShownPart((ShownColumn(name, kind, became, name),), _unscaled(scaler, k))


def _numbered(others: Any) -> Callable[[int], str]:
    return lambda k: str(others.get(k, f"x{k}"))


def _unscaled(scaler: Scaler, k: int) -> Shown:
    scale = 1.0 if scaler.scale is None else float(scaler.scale[k])
    shift = 0.0 if scaler.shift is None else float(scaler.shift[k])

    def shown(features: Features) -> list[Any]:
        values = features.dense(k, 1)[:, 0]
        if scale == 1.0 and shift == 0.0:
            return [pa.array(values)]
        size = max(float(np.abs(values).max(initial=0.0)) / scale, abs(shift))
        return [pa.array(_rounded(values / scale + shift, size))]

    return shown


def _encoded(recipe: Recipe, scaler: Scaler) -> Iterator[ShownPart]:
    """Yield the parts of a recipe: as they were, or as the features that they became.

    Curves and pairs of columns that are shown as they were say nothing more, and are left out.
    """
    first = 0
    columns = [*recipe.columns, *[None] * (len(recipe.parts) - len(recipe.columns))]
    shown_as_they_were: set[str] = set()
    for own, part, of in zip(columns, recipe.parts, recipe.term_columns, strict=True):
        original = None if scaler.kind != "none" or own is None else _original(own, first)
        if original is not None and own is not None:
            shown_as_they_were.add(own.name)
            yield ShownPart((ShownColumn(own.name, "original", own.summary, own.name),), original)
        elif own is None and shown_as_they_were.issuperset(of):
            pass
        elif part.width <= MOST_COLUMNS:
            shown = (ShownColumn(name, "encoded", part.summary, part.name) for name in part.outputs)
            yield ShownPart(tuple(shown), _each(first, part.width))
        else:
            names = part.outputs
            yield _list_of(
                f"{part.name} (encoded)", first, part.width, names.__getitem__, part.summary
            )
        first += part.width


def _original(column: Any, first: int) -> Shown | None:
    """Return how the cells of a column are found from its features; None where they are not."""
    if isinstance(column, Number):
        return lambda features: [_number(column, features.dense(first, column.width))]
    if isinstance(column, Category) and column.width <= MOST_COLUMNS * MOST_COLUMNS:
        words = [*column.values, "rare or unseen", None]
        return lambda features: [_word(words, features, first)]
    if isinstance(column, Bins):
        named = [name.removeprefix(f"{column.name} in ") for name in column.outputs[:-1]]
        return lambda features: [_word([*named, None], features, first)]
    return None


def _number(column: Number, features: Floats) -> Any:
    values = features[:, 0] * column.deviation + column.mean
    ends = column.reshaped(np.array([column.low, column.high]))
    size = float(np.abs(ends - column.mean).max(initial=0.0)) + abs(column.mean)
    if column.logarithm:
        values = np.expm1(values)
        values = np.where(values == 0.0, 0.0, _significant(values))
    else:
        values = _rounded(values, size)
    missing = features[:, 1] == 1.0 if column.has_missing else None
    return pa.array(np.clip(values, column.low, column.high), mask=missing)


def _word(words: Sequence[str | None], features: Features, first: int) -> Any:
    ends, places, _ = features.listed(first, len(words))
    codes = np.full(features.n_rows, len(words) - 1)
    filled = np.flatnonzero(np.diff(ends))
    codes[filled] = places[ends[filled]]
    return pa.array(words, pa.string()).take(pa.array(codes))


def _each(first: int, width: int) -> Shown:
    return lambda features: [pa.array(column) for column in features.dense(first, width).T]


def _list_of(
    name: str,
    first: int,
    width: int,
    title: Callable[[int], str],
    became: str,
    scaler: Scaler | None = None,
) -> ShownPart:
    """Return many features as one column of lists: name and value of those that are not 0."""

    def shown(features: Features) -> list[Any]:
        ends, places, values = features.listed(first, width)
        if scaler is not None and scaler.scale is not None:
            values = _significant(values / scaler.scale[places])
        different, at = np.unique(places, return_inverse=True)
        titles = pa.array([title(int(k)) for k in different], pa.string())
        entries = pa.StructArray.from_arrays(
            [titles.take(pa.array(at)), pa.array(values)], names=["feature", "value"]
        )
        return [pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), entries)]

    given = scaler is not None and scaler.kind != "unit-rows"
    of = name.removesuffix(" (encoded)")
    return ShownPart((ShownColumn(name, "original" if given else "encoded", became, of),), shown)


def _rounded(values: Floats, size: float) -> Floats:
    """Leave out the digits that float32 has lost of numbers of a size."""
    if not size:
        return values
    decimals = int(np.floor(-np.log10(_ERROR * size)))
    result: Floats = np.round(values, min(decimals, 15))
    return result + 0.0  # no zero below zero


def _significant(values: Floats) -> Floats:
    """Round every number to six digits."""
    size = 10.0 ** (5 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300))))
    result: Floats = np.where(values == 0.0, 0.0, np.round(values * size) / size)
    return result
