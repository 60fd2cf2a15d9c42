"""Memory for rows that is allocated once and filled again for every window."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.aligned_memory import aligned_empty
from fewpass.storage.array_layout import FLOAT64, INDPTR, chunk_parts
from fewpass.storage.manifest import Manifest
from fewpass.storage.table import DenseTable, SparseTable, Table

Arrays = dict[str, NDArray[Any]]


class ChunkBuffer(Protocol):
    """A destination of chunks for `Dataset.read_into`."""

    scratch: NDArray[np.uint8]  # for the encoded bytes of one object

    def allocate(self, rows: int, nnz: int) -> Arrays:
        """Return the arrays for the next chunk, which counts only after `commit`."""

    def commit(self, rows: int, nnz: int) -> None:
        """Count the chunk that was written to the arrays of `allocate`."""


class TableBuffer:
    """A buffer for the rows of several chunks, one after the other.

    Parameters
    ----------
    manifest
        Of the data set of the chunks.
    rows
        Most rows at a time.
    nnz
        Most values at a time; unused for dense sets.

    Attributes
    ----------
    n_rows, nnz : int
        Present content.
    scratch : NDArray[np.uint8]
        For the encoded bytes of one object.
    """

    def __init__(self, manifest: Manifest, rows: int, nnz: int) -> None:
        self.sparse = manifest.layout == "sparse"
        self.most_rows, self.most_nnz = rows, nnz
        self._arrays = empty_arrays(manifest, rows, nnz)
        self.scratch = aligned_empty(largest_object(manifest), np.uint8)
        self.clear()

    def clear(self) -> None:
        """Remove the rows; their memory will be overwritten."""
        self.n_rows = 0
        self.nnz = 0

    @property
    def n_bytes(self) -> int:
        """Allocated bytes."""
        return self.scratch.nbytes + sum(array.nbytes for array in self._arrays.values())

    def allocate(self, rows: int, nnz: int) -> Arrays:
        """Return where the next chunk's arrays go; nothing counts until `commit`.

        Raises
        ------
        ValueError
            The rows or values do not fit.
        """
        start, stop = self.n_rows, self.n_rows + rows
        if stop > self.most_rows or (self.sparse and self.nnz + nnz > self.most_nnz):
            raise ValueError(
                f"A chunk of {rows} rows and {nnz} values does not fit into a buffer of "
                f"{self.most_rows} rows and {self.most_nnz} values that holds {self.n_rows} and "
                f"{self.nnz}. Make the buffer larger."
            )
        parts = {name: array[start:stop] for name, array in self._arrays.items()}
        if self.sparse:
            for name in ("data", "indices"):
                parts[name] = self._arrays[name][self.nnz : self.nnz + nnz]
            # overlaps the end of the chunk before, which `commit` restores
            parts["indptr"] = self._arrays["indptr"][start : stop + 1]
        return parts

    def commit(self, rows: int, nnz: int) -> None:
        if self.sparse:
            self._arrays["indptr"][self.n_rows : self.n_rows + rows + 1] += self.nnz
        self.n_rows += rows
        self.nnz += nnz

    def table(self) -> Table:
        """Return all rows in the buffer, as views."""
        return as_table(self._arrays, self.n_rows, self.nnz)


def empty_arrays(manifest: Manifest, rows: int, nnz: int) -> Arrays:
    """Return uninitialised arrays of a table, by name, for the given rows and values."""
    dtype = np.dtype(manifest.dtype)
    arrays: Arrays = {"target": np.empty(rows, FLOAT64)}
    if manifest.layout == "sparse":
        arrays["data"] = aligned_empty(nnz, dtype)
        arrays["indices"] = aligned_empty(nnz, manifest.index_dtype)
        arrays["indptr"] = np.zeros(rows + 1, INDPTR)
    else:
        arrays["X"] = aligned_empty((rows, manifest.n_features), dtype)
    if manifest.has_weight:
        arrays["weight"] = np.empty(rows, FLOAT64)
    if manifest.has_offset:
        arrays["offset"] = np.empty(rows, FLOAT64)
    return arrays


def as_table(arrays: Arrays, n: int, nnz: int) -> Table:
    """Return the first n rows, with nnz values, as a table."""
    target = arrays["target"][:n]
    weight, offset = (arrays[name][:n] if name in arrays else None for name in ("weight", "offset"))
    if "X" in arrays:
        return DenseTable(arrays["X"][:n], target, weight, offset)
    values = slice(0, nnz)
    indptr = arrays["indptr"][: n + 1]
    data, indices = arrays["data"][values], arrays["indices"][values]
    return SparseTable(data, indices, indptr, target, weight, offset)


def largest_object(manifest: Manifest) -> int:
    """Return the bytes of the largest object of a chunk on disk."""
    parts = chunk_parts(manifest.layout, manifest.row_parts, coded=manifest.coded).values()
    return manifest.chunks.largest_of(parts)
