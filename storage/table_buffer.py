"""Memory for rows that is taken once and filled again and again, window after window."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.array_layout import FLOAT64, INDPTR, chunk_parts
from fewpass.storage.manifest import Manifest
from fewpass.storage.table import DenseTable, SparseTable, Table

Arrays = dict[str, NDArray[Any]]


class ChunkBuffer(Protocol):
    """Where `Dataset.read_into` puts chunks."""

    scratch: NDArray[np.uint8]  # for the encoded bytes of one object
    fetch_s: float  # seconds that the store took so far

    def room(self, rows: int, nnz: int) -> Arrays:
        """Return where the next chunk's arrays go; nothing counts until `keep`."""

    def keep(self, rows: int, nnz: int) -> None:
        """Count the chunk that was put there."""


class TableBuffer:
    """Room for the rows of several chunks, one after the other.

    Parameters
    ----------
    manifest
        Of the data set whose chunks it will hold.
    rows
        Most rows at a time.
    nnz
        Most values at a time; of no meaning for dense sets.

    Attributes
    ----------
    n_rows, nnz : int
        What is in it now.
    scratch : NDArray[np.uint8]
        For the encoded bytes of one object.
    fetch_s : float
        Seconds that the store took for all that was ever read into it, decoding left out.
    """

    def __init__(self, manifest: Manifest, rows: int, nnz: int) -> None:
        self.sparse = manifest.layout == "sparse"
        self.rows_room, self.nnz_room = rows, nnz
        self._arrays = empty_arrays(manifest, rows, nnz)
        self.scratch = np.empty(largest_object(manifest), np.uint8)
        self.fetch_s = 0.0
        self.clear()

    def clear(self) -> None:
        """Forget the rows; tables taken before will be overwritten."""
        self.n_rows = 0
        self.nnz = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of memory held."""
        return self.scratch.nbytes + sum(array.nbytes for array in self._arrays.values())

    def room(self, rows: int, nnz: int) -> Arrays:
        """Return where the next chunk's arrays go; nothing counts until `keep`.

        Raises
        ------
        ValueError
            When so many rows or values do not fit any more.
        """
        start, stop = self.n_rows, self.n_rows + rows
        if stop > self.rows_room or (self.sparse and self.nnz + nnz > self.nnz_room):
            raise ValueError(
                f"A chunk of {rows} rows and {nnz} values does not fit into a buffer of "
                f"{self.rows_room} rows and {self.nnz_room} values that holds {self.n_rows} and "
                f"{self.nnz}. Make the buffer larger."
            )
        parts = {name: array[start:stop] for name, array in self._arrays.items()}
        if self.sparse:
            for name in ("data", "indices"):
                parts[name] = self._arrays[name][self.nnz : self.nnz + nnz]
            # begins at the place where the last chunk's end stands, which `keep` puts back
            parts["indptr"] = self._arrays["indptr"][start : stop + 1]
        return parts

    def keep(self, rows: int, nnz: int) -> None:
        """Count the chunk that was put where `room` said."""
        if self.sparse:
            self._arrays["indptr"][self.n_rows : self.n_rows + rows + 1] += self.nnz
        self.n_rows += rows
        self.nnz += nnz

    def table(self) -> Table:
        """All rows in the buffer, as views of it."""
        return as_table(self._arrays, self.n_rows, self.nnz)


def empty_arrays(manifest: Manifest, rows: int, nnz: int) -> Arrays:
    """Return the arrays of a table, by name, with room for so many rows and values."""
    dtype = np.dtype(manifest.dtype)
    arrays: Arrays = {"target": np.empty(rows, FLOAT64)}
    if manifest.layout == "sparse":
        arrays["data"] = np.empty(nnz, dtype)
        arrays["indices"] = np.empty(nnz, manifest.index_dtype)
        arrays["indptr"] = np.zeros(rows + 1, INDPTR)
    else:
        arrays["X"] = np.empty((rows, manifest.n_features), dtype)
    if manifest.has_weight:
        arrays["weight"] = np.empty(rows, FLOAT64)
    return arrays


def as_table(arrays: Arrays, n: int, nnz: int) -> Table:
    """See the first n rows, with nnz values in all, as a table."""
    target = arrays["target"][:n]
    weight = arrays["weight"][:n] if "weight" in arrays else None
    if "X" in arrays:
        return DenseTable(arrays["X"][:n], target, weight)
    values = slice(0, nnz)
    indptr = arrays["indptr"][: n + 1]
    return SparseTable(arrays["data"][values], arrays["indices"][values], indptr, target, weight)


def largest_object(manifest: Manifest) -> int:
    """Bytes of the largest object that a chunk has on disk."""
    objects = manifest.chunks.objects
    parts = chunk_parts(manifest.layout, manifest.has_weight).values()
    stored = (entry for key in parts for entry in objects[key])
    return max(entry.length for entry in stored if entry is not None)
