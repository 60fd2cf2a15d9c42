"""The order in which a data set's columns are stored, and the way back to that of its source.

Where there are more columns than the processor's cache holds weights, a sparse set stores those
first that most rows have: the weights that are touched all the time then share cache lines, and
smaller numbers compress better.  Whatever leaves or enters the data set is in the source's order:
weights are turned where they are read out and taken in, rows by `Dataset.read_chunk`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.table import Integers, SparseTable, Table, index_dtype

Vectors = NDArray[np.float64]


class ColumnOrder:
    """A permutation of the columns.

    Parameters
    ----------
    source
        (d,) stored column k is column ``source[k]`` of the source; None: all are where they were.
    """

    def __init__(self, source: Integers | None = None) -> None:
        self.source = source

    @cached_property
    def place(self) -> Integers:
        """(d,) column j of the source is stored as column ``place[j]``."""
        assert self.source is not None, "columns that are where they were need no places"
        place = np.empty(self.source.size, index_dtype(self.source.size))
        place[self.source] = np.arange(self.source.size)
        return place

    def stored(self, numbers: Vectors) -> Vectors:
        """Return numbers (..., d), one per column of the source, in stored order."""
        return numbers if self.source is None else np.take(numbers, self.source, axis=-1)

    def sourced(self, numbers: Vectors) -> Vectors:
        """Return numbers (..., d), one per stored column, in the order of the source."""
        return numbers if self.source is None else np.take(numbers, self.place, axis=-1)

    def put(self, numbers: Vectors, first: int, out: Vectors) -> None:
        """Put numbers of the stored columns from `first` on where the source has them in `out`."""
        own = slice(first, first + len(numbers))
        out[own if self.source is None else self.source[own]] = numbers

    def sourced_rows(self, table: Table) -> Table:
        """Return stored rows as the source has them, indices ascending in every row."""
        if self.source is None or not isinstance(table, SparseTable):
            return table
        rows = np.repeat(np.arange(table.n_rows), np.diff(table.indptr))
        columns = self.source[table.indices]
        order = np.argsort(rows * self.source.size + columns)
        return table._replace(
            data=table.data[order], indices=columns[order].astype(table.indices.dtype, copy=False)
        )


def by_frequency(counts: NDArray[np.unsignedinteger]) -> ColumnOrder:
    """Order columns (d,) by how many rows have a value there, most first, then as they were."""
    rarity = counts.max(initial=0) - counts
    return ColumnOrder(np.argsort(rarity, kind="stable").astype(index_dtype(counts.size)))


def is_order(source: Integers, n_features: int) -> bool:
    """Whether these are all the numbers below `n_features`, each once."""
    seen = np.zeros(n_features, bool)
    unsigned = source.view(f"u{source.itemsize}")  # what is negative becomes too large
    if source.shape != (n_features,) or int(unsigned.max()) >= n_features:
        return False
    seen[source] = True
    return bool(seen.all())
