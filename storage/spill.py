"""Rows partitioned into bucket files on a local disk, to shuffle more rows than fit in memory.

A bucket's file is a sequence of blocks (`spill_blocks`).  The index ``spill.json`` is written when
all rows are in buckets, so that another process can continue.  It is sealed, and has length and
checksum of every bucket, so that changed buckets are refused.

Bucket files are not flushed to disk before the index: that would cost every ingest 6 % of its time
(measured), only to save repeating the partitioning after a power cut, whose damage the checksums
detect.
"""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal, unseal
from fewpass.storage.spill_blocks import Extent, empty, read_blocks, write_block
from fewpass.storage.table import DenseTable, SparseTable, Table, concatenate, cut, n_bytes

INDEX = "spill.json"
BUCKET = ".bucket"
FORMAT = "fewpass-spill"
VERSION = 2
#: Advice on damage: the next ingest starts afresh.
PARTITION_AGAIN = "Run the same command again: it reads all rows anew."
_SETTINGS = (
    "n_buckets", "layout", "dtype", "n_features", "has_weight", "memory_bytes", "has_offset",
    "retained_bytes",
)  # fmt: skip


class DamagedSpill(Damaged):
    """Damage to an unfinished ingest; rows must be read again."""


class Spill:
    """Bucket files in one local directory, written by one thread.

    Parameters
    ----------
    folder
        The directory; created if missing.
    n_buckets
        Number of buckets.
    layout, dtype, n_features, has_weight, has_offset, retained_bytes
        Properties of the tables; `n_features` may be None for sparse rows.
    memory_bytes
        Rows are buffered up to this size; writing takes the memory of one more bucket.
    clean
        Whether to remove an earlier spill in the directory (the default).
    lasting
        Whether a later process may `open` it (the default); without, no index is written.
    """

    def __init__(
        self,
        folder: Path,
        n_buckets: int,
        layout: Literal["dense", "sparse"],
        dtype: Literal["float32", "float64"],
        n_features: int | None,
        has_weight: bool,
        memory_bytes: int,
        has_offset: bool = False,
        retained_bytes: int = 0,
        *,
        clean: bool = True,
        lasting: bool = True,
    ) -> None:
        if layout == "dense" and n_features is None:
            raise ValueError("Dense rows need a known number of features. Give `n_features`.")
        self.folder = folder
        self.n_buckets = n_buckets
        self.layout = layout
        self.dtype = dtype
        self.n_features = n_features
        self.has_weight, self.has_offset = has_weight, has_offset
        self.retained_bytes = retained_bytes
        self.memory_bytes = memory_bytes
        self.lasting = lasting
        self._rows = np.zeros(n_buckets, np.int64)
        self._nnz = np.zeros(n_buckets, np.int64)
        self._index_bytes = np.full(n_buckets, 4, np.int64)
        self._extents = [empty(b) for b in range(n_buckets)]
        self._waiting: list[list[Table]] = [[] for _ in range(n_buckets)]
        self._waiting_bytes = 0
        self._files = Folder(str(folder))
        if clean:
            self._clean()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a finished spill of this or an earlier process.

        Raises
        ------
        FileNotFoundError
            When there is none.
        DamagedSpill
            The index has been changed, or is of another version.
        """
        try:
            index = _index(Folder(str(folder)).read(INDEX))
            spill = cls(folder, **{name: index[name] for name in _SETTINGS}, clean=False)
            spill._rows, spill._nnz, spill._index_bytes = (
                np.array(index[name], np.int64) for name in ("rows", "nnz", "index_bytes")
            )
            extents = zip(index["bytes"], index["crc32c"], strict=True)
            spill._extents = [Extent(*extent) for extent in extents]
            spill._require_index()
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise _damaged(folder / INDEX, error) from error
        return spill

    def append(self, table: Table, ends: NDArray[np.integer]) -> None:
        """Append rows that are grouped by bucket.

        Parameters
        ----------
        table
            Those of bucket 0, then those of bucket 1, ...; must not be changed until written.
        ends
            (n_buckets,) end of each bucket's rows.

        Raises
        ------
        OSError
            Rows cannot be written; the message names the file.
        """
        self._require_fitting(table, ends)
        start = 0
        for b, stop in enumerate(ends.tolist()):
            if stop > start:
                self._waiting[b].append(cut(table, start, stop))
            start = stop
        self._count(table, ends)
        self._waiting_bytes += n_bytes(table)
        if self._waiting_bytes > self.memory_bytes:
            self._flush()

    def finish(self) -> None:
        """Write the buffered rows and, for a later process, the index."""
        self._flush()
        if not self.lasting:
            return
        counts = {"rows": self._rows, "nnz": self._nnz, "index_bytes": self._index_bytes}
        index = (
            {"format": FORMAT, "version": VERSION}
            | {name: getattr(self, name) for name in _SETTINGS}
            | {name: column.tolist() for name, column in counts.items()}
            | {"bytes": [extent.length for extent in self._extents]}
            | {"crc32c": [extent.crc32c for extent in self._extents]}
        )
        self._files.write(INDEX, seal(index))

    def rows(self, b: int) -> int:
        """Return the number of rows in bucket `b`."""
        return int(self._rows[b])

    def n_bytes(self, b: int) -> int:
        """Return the bytes of the rows of bucket `b` in memory."""
        rows, nnz = self.rows(b), int(self._nnz[b])
        matrix = nnz * np.dtype(self.dtype).itemsize
        if self.layout == "sparse":
            matrix += nnz * int(self._index_bytes[b]) + 8 * (rows + 1)
        return matrix + rows * (8 * (1 + self.has_weight + self.has_offset) + self.retained_bytes)

    def read(self, b: int, n_features: int | None = None) -> Table:
        """Return the rows of bucket `b` in the order of appending, every byte verified.

        Several threads may read at once.

        Parameters
        ----------
        b
            The bucket.
        n_features
            Columns of sparse rows, if known: larger column numbers are refused.

        Raises
        ------
        DamagedSpill
            The bucket's file is missing or has been changed.
        """
        table, path = self._empty(b), self._path(b)
        if not self.rows(b):
            return table
        try:
            with _opened(path) as file:
                _read_file(file, table, b, self._extents[b])
            if n_features is not None and isinstance(table, SparseTable):
                _require_columns(table, n_features)
        except (FileNotFoundError, ValueError) as error:
            raise _damaged(path, error) from error
        return table

    def delete(self, b: int) -> None:
        """Remove the file of bucket `b`, if there is one."""
        self._path(b).unlink(missing_ok=True)

    def _clean(self) -> None:
        self._files.delete(INDEX)
        for key in self._files.list():
            if key.endswith(BUCKET):
                self._files.delete(key)

    def _path(self, b: int) -> Path:
        return self.folder / f"{b:06d}{BUCKET}"

    def _require_index(self) -> None:
        """Refuse invalid settings, and counts that are not one per bucket."""
        if self.layout not in ("dense", "sparse") or self.dtype not in ("float32", "float64"):
            raise ValueError("its rows are of no layout or type")
        flags = (self.has_weight, self.has_offset)
        numbers = isinstance(self.n_features, int | None) and isinstance(self.retained_bytes, int)
        if not numbers or not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("its settings are of other types")
        counts = [self._rows, self._nnz, self._index_bytes, np.array(self._extents, np.int64).T]
        shapes = [(self.n_buckets,)] * 3 + [(2, self.n_buckets)]
        for count, shape in zip(counts, shapes, strict=True):
            if count.shape != shape or (count < 0).any():
                raise ValueError(f"it does not count {self.n_buckets} buckets")
        if not np.isin(self._index_bytes, (4, 8)).all():
            raise ValueError("its column numbers are not of 4 or 8 bytes")
        if ((self._rows > 0) != (counts[3][0] > 0)).any():
            raise ValueError("it counts rows where there are no bytes, or bytes of no rows")

    def _require_fitting(self, table: Table, ends: NDArray[np.integer]) -> None:
        values = table.X if isinstance(table, DenseTable) else table.data
        retained = 0 if table.retained is None else table.retained.shape[1]
        actual = (
            type(table), values.dtype, table.weight is not None, table.offset is not None, retained
        )  # fmt: skip
        kind = DenseTable if self.layout == "dense" else SparseTable
        flags = (self.has_weight, self.has_offset)
        expected = (kind, np.dtype(self.dtype), *flags, self.retained_bytes)
        if actual != expected:
            raise ValueError(f"A table came as {actual}, where {expected} was expected.")
        rising = ends.shape == (self.n_buckets,) and bool((np.diff(ends, prepend=0) >= 0).all())
        if not rising or ends[-1] != table.n_rows:
            raise ValueError(
                f"{table.n_rows} rows came with ends {ends.tolist()}, where {self.n_buckets} "
                "buckets were to have all of them. Group them by bucket first."
            )

    def _count(self, table: Table, ends: NDArray[np.integer]) -> None:
        self._rows += np.diff(ends, prepend=0)
        if isinstance(table, DenseTable):
            self._nnz += np.diff(ends, prepend=0) * table.X.shape[1]
        else:
            self._nnz += np.diff(table.indptr[ends], prepend=0)
            width = np.where(np.diff(ends, prepend=0) > 0, table.indices.itemsize, 0)
            self._index_bytes = np.maximum(self._index_bytes, width)

    def _flush(self) -> None:
        for b, tables in enumerate(self._waiting):
            if tables:
                self._append(b, concatenate(tables))
                tables.clear()
        self._waiting_bytes = 0

    def _append(self, b: int, table: Table) -> None:
        path = self._path(b)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                self._extents[b] = write_block(file, table, self._extents[b])
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}. Free some space or put the spill elsewhere, then start anew.",
                str(path),
            ) from error

    def _empty(self, b: int) -> Table:
        rows, nnz = self.rows(b), int(self._nnz[b])
        target = np.empty(rows)
        weight = np.empty(rows) if self.has_weight else None
        offset = np.empty(rows) if self.has_offset else None
        retained = np.empty((rows, self.retained_bytes), np.uint8) if self.retained_bytes else None
        if self.n_features is not None and self.layout == "dense":
            X = np.empty((rows, self.n_features), self.dtype)
            return DenseTable(X, target, weight, offset, retained)
        indices = np.empty(nnz, f"i{self._index_bytes[b]}")
        indptr = np.zeros(rows + 1, np.int64)
        data = np.empty(nnz, self.dtype)
        return SparseTable(data, indices, indptr, target, weight, offset, retained)


def _index(raw: bytes) -> dict[str, Any]:
    index = unseal(raw)
    if (index["format"], index["version"]) != (FORMAT, VERSION):
        raise ValueError(f"it is {index['format']!r} version {index['version']!r}")
    return index


def _opened(path: Path) -> FileIO:
    """Open a bucket for reading, without waiting for a pipe in its place."""
    return FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def _read_file(file: FileIO, table: Table, b: int, expected: Extent) -> None:
    """Fill the table from the file of bucket `b`; ValueError for another extent."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no file")
    length = status.st_size
    if length != expected.length:
        raise ValueError(f"it has {length} bytes, where {expected.length} were expected")
    actual = read_blocks(file, table, b)
    if actual != expected:
        raise ValueError(
            f"its checksum is {actual.crc32c:08x}, where {expected.crc32c:08x} was expected"
        )


def _require_columns(table: SparseTable, n_features: int) -> None:
    """Refuse column numbers with which compiled code would read outside its arrays."""
    unsigned = table.indices.view(f"u{table.indices.itemsize}")  # a negative one is too large
    if unsigned.size and int(unsigned.max()) >= n_features:
        raise ValueError(f"it names a column beyond the {n_features} that there are")


def _damaged(path: Path, error: Exception) -> DamagedSpill:
    return DamagedSpill(f"{path} is not as it was written ({error}). {PARTITION_AGAIN}")
