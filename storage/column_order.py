"""The stored order of a data set's columns, and conversion to and from the source's order.

If the weights of all columns do not fit into the processor's cache, a sparse set stores the most
frequent columns first: their weights then share cache lines, and smaller indices compress better.
The interface of the data set uses the source's order: weights are converted when they are read or
set, rows by `Dataset.read_chunk`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.table import Integers, SparseTable, Table, index_dtype

Vectors = NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)


class ColumnOrder:
    """A permutation of the columns.

    Parameters
    ----------
    source
        (d,) stored column k is column ``source[k]`` of the source; None: the source's order.
    """

    def __init__(self, source: Integers | None = None) -> None:
        self.source = source

    @cached_property
    def place(self) -> Integers:
        """(d,) column j of the source is stored as column ``place[j]``."""
        assert self.source is not None, "columns in the source's order need no places"
        place = np.empty(self.source.size, index_dtype(self.source.size))
        place[self.source] = np.arange(self.source.size)
        return place

    def stored(self, numbers: NDArray[Number]) -> NDArray[Number]:
        """Return numbers (..., d), one per column, in stored order."""
        return numbers if self.source is None else np.take(numbers, self.source, axis=-1)

    def sourced(self, numbers: Vectors) -> Vectors:
        """Return numbers (..., d), one per column, in the source's order."""
        return numbers if self.source is None else np.take(numbers, self.place, axis=-1)

    def put(self, numbers: Vectors, first: int, out: Vectors) -> None:
        """Write numbers of the stored columns from `first` on into `out`, in the source's order."""
        own = slice(first, first + len(numbers))
        out[own if self.source is None else self.source[own]] = numbers

    def sourced_rows(self, table: Table) -> Table:
        """Return stored rows in the source's order, indices ascending in every row."""
        if self.source is None or not isinstance(table, SparseTable):
            return table
        rows = np.repeat(np.arange(table.n_rows), np.diff(table.indptr))
        columns = self.source[table.indices]
        order = np.argsort(rows * self.source.size + columns)
        return table._replace(
            data=table.data[order], indices=columns[order].astype(table.indices.dtype, copy=False)
        )


def by_frequency(counts: NDArray[np.unsignedinteger]) -> ColumnOrder:
    """Order columns by their counts (d,), most frequent first, ties in the source's order."""
    rarity = counts.max(initial=0) - counts
    return ColumnOrder(np.argsort(rarity, kind="stable").astype(index_dtype(counts.size)))


def is_order(source: Integers, n_features: int) -> bool:
    """Return whether `source` is a permutation of 0 to n_features - 1."""
    seen = np.zeros(n_features, bool)
    unsigned = source.view(f"u{source.itemsize}")  # negative numbers become too large
    if source.shape != (n_features,) or int(unsigned.max()) >= n_features:
        return False
    seen[source] = True
    return bool(seen.all())
