"""Room for all rows of a data set in memory, chunk after chunk as they lie on disk."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from fewpass.storage.manifest import Manifest
from fewpass.storage.table import Table
from fewpass.storage.table_buffer import Arrays, as_table, empty_arrays, largest_object


class WholeTable:
    """All rows of a data set; each chunk is read to its own place, in whatever order.

    The system gives memory to what is written only.  Several threads may read chunks at once, each
    into a `place` of its own.

    Attributes
    ----------
    starts : list of int
        (n_chunks + 1,) where each chunk's rows begin, and where the last one's end.
    table : Table
        All rows; as they are on disk where a chunk was read.
    """

    def __init__(self, manifest: Manifest) -> None:
        chunks = manifest.chunks
        self._scratch = largest_object(manifest)
        self._values = list(accumulate(chunks.nnz, initial=0))
        self.starts = list(accumulate(chunks.rows, initial=0))
        self._arrays = empty_arrays(manifest, self.starts[-1], self._values[-1])
        self.table: Table = as_table(self._arrays, self.starts[-1], self._values[-1])

    def place(self, k: int) -> ChunkSlot:
        """Return where chunk `k` is read to: give it to `Dataset.read_into`."""
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
    """One chunk's part of a whole table; a `fewpass.storage.table_buffer.Room`."""

    def __init__(self, parts: Arrays, first_value: int, scratch: int) -> None:
        self._parts, self._first_value = parts, first_value
        self._ends = np.empty_like(parts.get("indptr", np.empty(0)))
        self.scratch = np.empty(scratch, np.uint8)
        self.fetch_s = 0.0

    def room(self, _rows: int, _nnz: int) -> Arrays:
        """Return where the chunk's arrays go; its row ends count from its own first value."""
        return self._parts | ({"indptr": self._ends} if "indptr" in self._parts else {})

    def keep(self, _rows: int, _nnz: int) -> None:
        """Count row ends from the whole table's first value.

        The first of them is the last of the chunk before, which writes the same number there.
        """
        if "indptr" in self._parts:
            np.add(self._ends, self._first_value, out=self._parts["indptr"])
