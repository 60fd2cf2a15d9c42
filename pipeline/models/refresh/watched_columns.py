"""The columns of the source that drift reports on, and the features that each of them became.

A column has an index of its values, and one of each share that is watched alone: of missing and of
rare or unseen values, and of zeros where features are numbers as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.id_numbers import says_id, says_time
from fewpass.pipeline.tables.encoding.lists import EmbeddingColumn
from fewpass.pipeline.tables.encoding.maps import Map
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset

LABEL = "label"
MISSING, UNSEEN = " is missing", " rare or unseen"  # how such features' names end
AT_ONCE = 1 << 18  # features that are compared at a time
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


class NumberScale(NamedTuple):
    """Deviation and mean of the source that a standardised number was made with."""

    deviation: float
    mean: float


class WatchedColumns(NamedTuple):
    """P columns of d features; the last one is the target's."""

    n_features: int  # of the data set that are watched: splines and pairs of them lie behind
    labels: Sequence[str] | None  # features of the target; None: one, its numbers
    titles: Sequence[str] | None  # (P - 1,); None: the source names no columns
    features: Sequence[str] | None  # (n_features,) their names
    starts: Places  # (P + 1,) first feature of every column, and d
    of_values: Mask  # (P,) whether its features are its values, or else numbers or a date
    shares: Places  # (S,) features that are watched alone, ascending
    dates: Places  # columns of which only missing values are watched
    counters: Places  # columns that are dates or ids by their names, one number each
    missing: Mapping[int, int]  # of numbers that may be 0: their missing values' feature, or -1
    repeats: Places  # features that say in another way what the number before them says
    scales: Mapping[int, NumberScale]  # of features that are scaled

    @classmethod
    def of(cls, data: Dataset, labels: Sequence[str] | None) -> WatchedColumns:
        """Return the columns of a data set; of numbers that were shifted nobody knows the zeros."""
        recipe = recipe_in(data.schema)
        if recipe is not None:
            return cls.encoded(recipe, labels)
        names = data.schema.feature_names if data.schema is not None else None
        zeros = data.manifest.scaling.kind != "standard"
        return cls.plain(data.n_features, names, labels, zeros=zeros)

    @classmethod
    def plain(
        cls, n: int, names: Sequence[str] | None, labels: Sequence[str] | None, *,
        zeros: bool = True,
    ) -> WatchedColumns:  # fmt: skip
        """Return n columns of numbers as they come, and whether their zeros are watched."""
        counters = [k for k, name in enumerate(names or ()) if _may_count(name)]
        none = _places([])
        return cls(
            n, labels, names, names, np.append(np.arange(n + 1), n + len(labels or (LABEL,))),
            np.append(np.zeros(n, bool), labels is not None), np.arange(n if zeros else 0), none,
            _places(counters), {}, none, {},
        )  # fmt: skip

    @classmethod
    def encoded(cls, recipe: Recipe, labels: Sequence[str] | None) -> WatchedColumns:
        """Return the columns of a table; splines and pairs of them are of the same cells."""
        parts = [*recipe.columns, *(cross.pairs for cross in recipe.crosses)]
        names: list[str] = []
        starts, shares, repeats, counters = [0], list[int](), list[int](), list[int]()
        missing, scales = dict[int, int](), dict[int, NumberScale]()
        for k, part in enumerate(parts):
            first, own = len(names), part.outputs
            names += own
            starts.append(len(names))
            shares += [first + j for j, name in enumerate(own) if _is_alone(part, name)]
            scaled = dict(enumerate(_scales(part), first))
            scales |= scaled
            if isinstance(part, Number | EmbeddingColumn):
                gone = part.name + MISSING
                missing |= dict.fromkeys(scaled, first + own.index(gone) if gone in own else -1)
            if isinstance(part, Number):
                repeats += range(first + 1, len(names))
                counters += [k] * _may_count(part.name)
        of_values = [not isinstance(part, Number | EmbeddingColumn | Map | Date) for part in parts]
        dates = [k for k, part in enumerate(parts) if isinstance(part, Date)]
        return cls(
            len(names), labels, [part.name for part in parts], names,
            np.array([*starts, len(names) + len(labels or (LABEL,))]),
            np.array([*of_values, labels is not None]), _places(shares), _places(dates),
            _places(counters), missing, _places(repeats), scales,
        )  # fmt: skip

    @property
    def n_columns(self) -> int:
        """Number of columns, the target among them."""
        return len(self.starts) - 1

    @property
    def are_flags(self) -> Mask:
        """Return which features (n_features,) are 1 or nothing: not of plain numbers."""
        flags = np.repeat(self.of_values[:-1], np.diff(self.starts[:-1]))
        flags[self.shares] = True
        return flags

    @property
    def share_columns(self) -> Places:
        """Return the columns (S,) of the shares that are watched alone."""
        return np.searchsorted(self.starts, self.shares, side="right") - 1

    def title(self, column: int) -> str:
        """Return the name of a column, or its number."""
        if column == self.n_columns - 1:
            return LABEL
        return self.titles[column] if self.titles is not None else f"column {column + 1}"

    def name(self, feature: int) -> str:
        """Return the name of a feature, or its number."""
        if feature >= self.n_features:
            return self.labels[feature - self.n_features] if self.labels else LABEL
        return self.features[feature] if self.features is not None else f"column {feature + 1}"

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield some columns after the other, and their features: a million or one fit in."""
        first, ends = 0, self.starts[1:]
        while first < self.n_columns:
            last = int(np.searchsorted(ends, self.starts[first] + AT_ONCE, side="right"))
            last = max(first + 1, last)
            yield slice(first, last), slice(int(self.starts[first]), int(self.starts[last]))
            first = last


def _may_count(name: str) -> bool:
    return says_id(name) or says_time(name)


def _is_alone(part: ColumnRecipe, feature: str) -> bool:
    """Say whether a feature is of missing, rare or lowest values, or of a name in a map."""
    own = feature.removeprefix(part.name)
    is_lowest = isinstance(part, Number) and own.startswith(" <= ")
    return own in (MISSING, UNSEEN) or is_lowest or isinstance(part, Map)


def _scales(part: ColumnRecipe) -> Sequence[NumberScale]:
    if isinstance(part, Number):
        return [NumberScale(part.deviation, part.mean)]
    if isinstance(part, EmbeddingColumn):
        return [NumberScale(*one) for one in zip(part.deviation, part.mean, strict=True)]
    return [NumberScale(1.0 / one, 0.0) for one in part.scale] if isinstance(part, Map) else []


def _places(places: Sequence[int]) -> Places:
    return np.array(places, np.int64)
