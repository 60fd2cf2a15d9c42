"""Groups of rows: those of one patient, user or shop.

Rows drawn at random are of groups that are learnt from, and say nothing of other groups.  Where
whole groups are held out to test on (`test_group`), they are held out to choose by, too.  Else a
column is named whose groups differ in the other columns, as the user alone knows which is to be
predicted: more rows of the same groups, or new groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.source_order import share_between
from fewpass.pipeline.tables.additive.form_sample import FormSample, Part, Rows
from fewpass.pipeline.tables.additive.interactions import Binned
from fewpass.pipeline.tables.additive.numbered_names import numbers_that_may_name
from fewpass.pipeline.tables.additive.trials import CHOICE, FOLDS, SHARE, others
from fewpass.pipeline.tables.encoding.cells import Floats, mean_and_deviation, words_of
from fewpass.storage.chunk_table import squares_between

FEWEST_GROUPS, ROWS_OF_GROUP = 20, 2  # of a column that may name groups; rows on average
FEWEST_COLUMNS = 3  # others, that groups may differ in
ALIKE = 0.5  # of the others' variance lies between groups, on average


class RowGroups(NamedTuple):
    """The group of every row."""

    by: str  # the column
    codes: NDArray[np.int64]  # (n,)

    @classmethod
    def of_cells(cls, name: str, cells: Any) -> RowGroups:
        """Number the values of a column, an Arrow array (n,)."""
        words = words_of(cells).fill_null("").dictionary_encode()
        return cls(name, np.asarray(words.indices, np.int64))

    def of(self, rows: Rows) -> RowGroups:
        """Return those of some rows."""
        return self._replace(codes=self.codes[rows])

    @property
    def are_one(self) -> bool:
        """Return whether all rows are of one group."""
        return bool((self.codes == self.codes[0]).all())

    def parts(self, seed: int, few: int) -> tuple[Part, ...]:
        """Hold out the rows of a fifth of the groups; below `few` rows each fifth in turn."""
        n, names = len(self.codes), np.unique(self.codes)
        order = np.random.default_rng([seed, CHOICE, 1]).permutation(names)
        folds = [order[: max(1, len(order) // SHARE)]]
        if n < few:
            folds = np.array_split(order, min(FOLDS, len(order)))
        scored = [np.flatnonzero(np.isin(self.codes, fold)) for fold in folds]
        return tuple((others(n, one), one) for one in scored)


def column_of_groups(sample: FormSample) -> str | None:
    """Return the column by whose groups the others differ most, if they do by half."""
    columns = [*_others(sample)]
    best, most = None, ALIKE
    for name, groups in _may_group(sample):
        own = [_share(groups, values) for of, values in columns if of != name]
        if len(own) >= FEWEST_COLUMNS and np.mean(own) > most:
            best, most = name, float(np.mean(own))
    return best


def _may_group(sample: FormSample) -> Iterator[tuple[str, Binned]]:
    """Yield the columns whose values may name groups."""
    n = sample.n_rows
    for variable in sample.categories:
        levels = sample.variables.levels(variable)
        if not variable.part and FEWEST_GROUPS <= len(levels.names) <= n / ROWS_OF_GROUP:
            yield variable.column, Binned(levels.codes, len(levels.names))
    yield from numbers_that_may_name(sample.linear_recipe, sample.variables, np.arange(n))


def _others(sample: FormSample) -> Iterator[tuple[str, Floats]]:
    """Yield numbers (n,) standardised, missing ones as 0, and whether categories are the usual."""
    for variable in sample.numbers:
        values = sample.variables.numbers(variable)
        mean, deviation = map(float, mean_and_deviation(values))
        yield variable.column, np.nan_to_num((values - mean) / (deviation or 1.0))
    for variable in sample.categories:
        codes = sample.variables.levels(variable).codes
        yield variable.column, (codes == np.bincount(codes).argmax()).astype(np.float64)


def _share(groups: Binned, values: Floats) -> float:
    """Return the share of the variance of numbers (n,) that lies between groups."""
    rows = np.bincount(groups.codes, minlength=groups.size)
    has = rows > 0
    sums = np.bincount(groups.codes, values - values.mean(), groups.size)
    between = squares_between(rows[has], sums[has])
    return share_between(int(has.sum()), len(values), between, float(values.var()))
