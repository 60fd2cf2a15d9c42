"""Rows that stay in memory between the phases of an ingest, where the budget holds them all.

They lie in the order of the source, in arrays reserved once; untouched memory costs nothing. What
`Buckets` does with files is then one sort of the keys, and the rows come out in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.tables.ingest.buckets import Keys, RowKind
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.retained_columns import Retained, RetainedCells
from fewpass.storage.table import DenseTable, SparseTable, Table, n_bytes


class RowsInMemory:
    """Rows of one group, added in source order, read in the order of their keys.

    Parameters
    ----------
    kind
        What the rows look like.
    most_bytes
        That their values may take.
    shuffled
        Whether rows have keys.
    """

    def __init__(self, kind: RowKind, most_bytes: int, *, shuffled: bool) -> None:
        self.kind, self.shuffled = kind, shuffled
        self.n_rows = self.nnz = self.n_bytes = 0
        self._most_bytes = most_bytes
        self._values: NDArray[np.floating] | None = None
        self._indices: NDArray[np.integer] | None = None
        self._retained: Retained | None = None
        self._tables: list[Table] = []  # of every piece; their values lie in these arrays
        self._keys: list[Keys] = []

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the rows take."""
        return self.n_bytes + Budget.retained_row * self.n_rows

    def fits(self, table: Table) -> bool:
        """Whether the arrays take these rows, too: their values, and columns of one width."""
        items = table.X.size if isinstance(table, DenseTable) else table.nnz
        if self._values is None:
            self._reserve(table)
        assert self._values is not None
        of_width = isinstance(table, DenseTable) or (
            self._indices is not None and self._indices.dtype == table.indices.dtype
        )
        more = self._retained is None or self.n_rows + table.n_rows <= len(self._retained)
        return of_width and more and self.nnz + items <= self._values.size

    def add(
        self, table: Table, keys: Keys | None, cells: RetainedCells | None = None
    ) -> Callable[[], None]:
        """Append rows that fit, with columns kept as written, where there are any.

        They are there once what is returned was called, in any thread.
        """
        start, stop = self.nnz, self.nnz + table.nnz
        assert self._values is not None, "`fits` was asked"
        if isinstance(table, DenseTable):
            values = self._values[start:stop].reshape(table.X.shape)
            own: Table = table._replace(X=values)
        else:
            assert self._indices is not None, "`fits` was asked"
            own = table._replace(data=self._values[start:stop], indices=self._indices[start:stop])
        if cells is not None:
            assert self._retained is not None, "`fits` was asked"
            own = own._replace(retained=self._retained[self.n_rows : self.n_rows + table.n_rows])
        self._tables.append(own)
        if keys is not None:
            self._keys.append(keys)
        self.n_rows, self.nnz = self.n_rows + table.n_rows, stop
        self.n_bytes += n_bytes(own)

        def copy() -> None:
            _copy_values(table, own)
            if cells is not None and own.retained is not None:
                cells.as_bytes(own.retained)

        return copy

    def pieces(self) -> Iterator[tuple[Table, Keys | None]]:
        """Yield the rows as they were added, with their keys."""
        for number, table in enumerate(self._tables):
            yield table, self._keys[number] if self.shuffled else None

    def finish(self) -> None:
        """All rows are there."""

    def selections(self, _n_features: int) -> Iterator[Selection]:
        """Yield all rows, in order, at once."""
        table = self._whole()
        if not self.shuffled:
            yield Selection(table, np.arange(self.n_rows))
            return
        yield Selection(table, order_of(np.concatenate(self._keys)))

    def _reserve(self, first: Table) -> None:
        if width := self.kind.retained_bytes:
            self._retained = np.empty((self._most_bytes // width, width), np.uint8)
        if isinstance(first, DenseTable):
            self._values = np.empty(self._most_bytes // first.X.itemsize, first.X.dtype)
            return
        items = self._most_bytes // (first.data.itemsize + first.indices.itemsize)
        self._values = np.empty(items, first.data.dtype)
        self._indices = np.empty(items, first.indices.dtype)

    def _whole(self) -> Table:
        assert self._values is not None, "some rows were added"
        target = np.concatenate([table.target for table in self._tables])
        weights = [table.weight for table in self._tables if table.weight is not None]
        weight = np.concatenate(weights) if weights else None
        offsets = [table.offset for table in self._tables if table.offset is not None]
        offset = np.concatenate(offsets) if offsets else None
        retained = None if self._retained is None else self._retained[: self.n_rows]
        values = self._values[: self.nnz]
        if self._indices is None:
            return DenseTable(values.reshape(self.n_rows, -1), target, weight, offset, retained)
        indptr, at = np.zeros(self.n_rows + 1, np.int64), 0
        for table in self._tables:
            assert isinstance(table, SparseTable)
            stop = at + table.n_rows
            np.add(table.indptr[1:], indptr[at], out=indptr[at + 1 : stop + 1])
            at = stop
        indices = self._indices[: self.nnz]
        return SparseTable(values, indices, indptr, target, weight, offset, retained)


def order_of(keys: Keys) -> NDArray[np.int64]:
    """Return the stable order of keys; the quick one, unless equal keys make a difference."""
    order = np.argsort(keys)
    in_order = keys[order]
    if (in_order[1:] == in_order[:-1]).any():
        order = np.argsort(keys, kind="stable")
    return order


def _copy_values(table: Table, own: Table) -> None:
    if isinstance(table, DenseTable) and isinstance(own, DenseTable):
        own.X[:] = table.X
    elif isinstance(table, SparseTable) and isinstance(own, SparseTable):
        own.data[:], own.indices[:] = table.data, table.indices
