"""Memory for all rows of a data set, in stored order."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from fewpass.storage.aligned_memory import aligned_empty
from fewpass.storage.manifest import Manifest
from fewpass.storage.table import Table
from fewpass.storage.table_buffer import Arrays, as_table, empty_arrays, largest_object


class WholeTable:
    """All rows of a data set; chunks are read to their places in any order.

    The system allocates memory on first write only.  Several threads may read chunks at once, each
    into its own `slot`.

    Parameters
    ----------
    manifest
        Of the data set.

    Attributes
    ----------
    starts : list of int
        (n_chunks + 1,) first row of each chunk, and the end of the last one.
    table : Table
        All rows, valid for the chunks that were read.
    """

    def __init__(self, manifest: Manifest) -> None:
        rows, nnz = manifest.chunks.rows.tolist(), manifest.chunks.nnz.tolist()
        self._scratch = largest_object(manifest)
        self._values = list(accumulate(nnz, initial=0))
        self.starts = list(accumulate(rows, initial=0))
        self._arrays = empty_arrays(manifest, self.starts[-1], self._values[-1])
        self.table: Table = as_table(self._arrays, self.starts[-1], self._values[-1])

    def slot(self, k: int) -> ChunkSlot:
        """Return the destination of chunk `k` for `Dataset.read_into`."""
        rows = slice(self.starts[k], self.starts[k + 1])
        values = slice(self._values[k], self._values[k + 1])
        parts = {name: array[rows] for name, array in self._arrays.items()}
        for name in ("data", "indices"):
            if name in parts:
                parts[name] = self._arrays[name][values]
        if "indptr" in parts:
            parts["indptr"] = self._arrays["indptr"][rows.start : rows.stop + 1]
        return ChunkSlot(parts, values.start, self._scratch)


class ChunkSlot:
    """One chunk's part of a whole table; a `fewpass.storage.table_buffer.ChunkBuffer`."""

    def __init__(self, parts: Arrays, first_value: int, scratch: int) -> None:
        self._parts, self._first_value = parts, first_value
        self._ends = np.empty_like(parts.get("indptr", np.empty(0)))
        self.scratch = aligned_empty(scratch, np.uint8)

    def allocate(self, _rows: int, _nnz: int) -> Arrays:
        """Return the chunk's arrays; its row ends count from its own first value."""
        return self._parts | ({"indptr": self._ends} if "indptr" in self._parts else {})

    def commit(self, _rows: int, _nnz: int) -> None:
        """Convert row ends to count from the whole table's first value.

        The first one is also the last one of the chunk before, which writes the same number.
        """
        if "indptr" in self._parts:
            np.add(self._ends, self._first_value, out=self._parts["indptr"])
