"""Terms of a score, and the features of each: those of a column of the source, or of two.

A column of a table may become many features, which are a function of that column alone.  So a score
is an intercept and a sum of terms, one for each column, and one for each two that are crossed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in

#: Stands between the names of the columns that a term is a function of.
BETWEEN = " x "

Places = NDArray[np.int64]


class ScoreTerms(NamedTuple):
    """The terms of a model's score.

    Attributes
    ----------
    names
        (T,) names.
    of
        (d,) the term that each feature is part of, features in the source's order.
    columns
        (T,) the columns of the source that each term is a function of; None: that of its name.
    """

    names: Sequence[str]
    of: Places
    columns: Sequence[tuple[str, ...]] | None = None

    def columns_of(self, t: int) -> tuple[str, ...]:
        """Return the columns of the source that a term is a function of."""
        return (self.names[t],) if self.columns is None else self.columns[t]

    def merged(self, places: Places) -> ScoreTerms:
        """Return terms of which each of these, at `places` (T,), is one or a part.

        The last one is all that are not kept (places_of_largest).
        """
        most = int(places.max())
        first = [int(t) for t in np.flatnonzero(places < most)]
        others = f"{len(places) - most:,} others"
        names = [*(self.names[t] for t in first), others]
        return ScoreTerms(names, places[self.of], [*map(self.columns_of, first), ()])


def places_of_largest(sizes: NDArray[np.float64], most: int) -> Places | None:
    """Return where each term (T,) belongs if only `most` are kept, and one of all others.

    None where there are no more.
    """
    if len(sizes) <= most:
        return None
    chosen = np.sort(np.argsort(-sizes, kind="stable")[:most])
    places = np.full(len(sizes), most)
    places[chosen] = np.arange(most)
    return places


def terms_of(model: Model, names: Mapping[int, str] | None = None) -> ScoreTerms:
    """Return the terms of a model's score.

    Parameters
    ----------
    model
        Of any run.  Features without names are called x0, x1, ...
    names
        Of features that are hashes, where the model itself has none.
    """
    record = model.record
    recipe = recipe_in(record.columns)
    if recipe is not None:
        return _of_recipe(recipe)
    d = record.n_features
    own = record.columns.feature_names if record.columns else None
    each: Sequence[str] = own or NumberedNames(d, {**(names or {}), **record.hashed_names})
    return ScoreTerms(each, np.arange(d))


def _of_recipe(recipe: Recipe) -> ScoreTerms:
    """Return a term for each column, and each two, whatever the number of their parts."""
    numbers = count()
    place: dict[tuple[str, ...], int] = {}
    for columns in recipe.term_columns:
        if columns not in place:
            place[columns] = next(numbers)
    of = np.array([place[columns] for columns in recipe.term_columns])
    names = distinct(BETWEEN.join(columns) for columns in place)
    return ScoreTerms(names, np.repeat(of, [part.width for part in recipe.parts]), [*place])


def distinct(names: Iterable[str]) -> list[str]:
    """Return names, a number behind those that came before: columns of a file have one each.

    A column may be called as two that are crossed are, or as a part of a date.
    """
    given: dict[str, None] = {}
    for name in names:
        every = chain([name], (f"{name} ({k})" for k in count(2)))
        given[next(one for one in every if one not in given)] = None
    return [*given]


class NumberedNames(Sequence[str]):
    """x0, x1, ..., but for some that have other names: for as many as nobody writes down."""

    def __init__(self, n: int, others: Mapping[int, str]) -> None:
        self._n, self._others = n, others

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[str]: ...
    def __getitem__(self, k: int | slice) -> str | Sequence[str]:
        if isinstance(k, slice):
            return [self[j] for j in range(*k.indices(self._n))]
        if not 0 <= k < self._n:
            raise IndexError(k)
        return self._others.get(k, f"x{k}")
