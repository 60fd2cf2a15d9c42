"""Rows dealt to bucket files on local disk: half of shuffling more rows than fit in memory.

A bucket's file is a sequence of blocks (`spill_blocks`). The file ``spill.json`` is written when
all rows are dealt, so that a process can go on with what an earlier one dealt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from storage.folder import Damaged, Folder
from storage.spill_blocks import read_blocks, write_block
from storage.table import DenseTable, SparseTable, Table, concatenate, cut, n_bytes

INDEX = "spill.json"
BUCKET = ".bucket"
FORMAT = "fewpass-spill"
VERSION = 1


class Spill:
    """Bucket files in one local directory; rows come grouped, and by one thread.

    Parameters
    ----------
    folder
        The directory; it is made if needed.
    n_buckets
        Number of buckets.
    layout, dtype, n_features, has_weight
        What the tables look like; `n_features` may be None for sparse rows.
    memory_bytes
        Rows are kept in memory up to this size, then written; writing takes one bucket's more.
    clean
        Whether to remove what an earlier spill left in the directory (the default).
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
        *,
        clean: bool = True,
    ) -> None:
        if layout == "dense" and n_features is None:
            raise ValueError("Dense rows need a known number of features. Give `n_features`.")
        self.folder = folder
        self.n_buckets = n_buckets
        self.layout = layout
        self.dtype = dtype
        self.n_features = n_features
        self.has_weight = has_weight
        self.memory_bytes = memory_bytes
        self._rows = np.zeros(n_buckets, np.int64)
        self._nnz = np.zeros(n_buckets, np.int64)
        self._index_bytes = np.full(n_buckets, 4, np.int64)
        self._waiting: list[list[Table]] = [[] for _ in range(n_buckets)]
        self._waiting_bytes = 0
        self._files = Folder(str(folder))
        if clean:
            self._clean()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a spill that was finished, by this process or an earlier one.

        Raises
        ------
        FileNotFoundError
            When there is none.
        Damaged
            When its bucket files are not as `finish` left them.
        """
        index = json.loads(Folder(str(folder)).read(INDEX))
        if (index.pop("format"), index.pop("version")) != (FORMAT, VERSION):
            raise Damaged(f"{folder / INDEX} is of another format. Delete the folder, start anew.")
        counts = [np.array(index.pop(name), np.int64) for name in ("rows", "nnz", "index_bytes")]
        spill = cls(folder, **index, clean=False)
        spill._rows, spill._nnz, spill._index_bytes = counts
        return spill

    def deal(self, table: Table, ends: NDArray[np.integer]) -> None:
        """Append rows that are grouped by bucket, after all rows dealt before.

        Parameters
        ----------
        table
            Those of bucket 0, then those of bucket 1, ...; kept as they are until they are written.
        ends
            (n_buckets,) where each bucket's rows end.

        Raises
        ------
        OSError
            When rows cannot be written; the file is named.
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
        """Write what is still in memory, and the index that `open` needs."""
        self._flush()
        names = ("n_buckets", "layout", "dtype", "n_features", "has_weight", "memory_bytes")
        index = {"format": FORMAT, "version": VERSION} | {
            name: getattr(self, name) for name in names
        }
        counts = {"rows": self._rows, "nnz": self._nnz, "index_bytes": self._index_bytes}
        index |= {name: column.tolist() for name, column in counts.items()}
        self._files.write(INDEX, json.dumps(index).encode())

    def rows(self, b: int) -> int:
        """Return the number of rows dealt to bucket `b`."""
        return int(self._rows[b])

    def n_bytes(self, b: int) -> int:
        """Return the bytes of memory that the rows of bucket `b` take."""
        rows, nnz = self.rows(b), int(self._nnz[b])
        matrix = nnz * np.dtype(self.dtype).itemsize
        if self.layout == "sparse":
            matrix += nnz * int(self._index_bytes[b]) + 8 * (rows + 1)
        return matrix + 8 * rows * (1 + self.has_weight)

    def read(self, b: int) -> Table:
        """Return the rows of bucket `b` in the order in which they were dealt.

        Several threads may read at once, after `finish`.

        Raises
        ------
        Damaged
            When the bucket's file is missing, or shorter or longer than what was written.
        """
        table = self._room(b)
        path = self._path(b)
        if not self.rows(b):
            return table
        try:
            with path.open("rb", buffering=0) as file:
                read_blocks(file, table)
        except (FileNotFoundError, ValueError) as error:
            raise Damaged(
                f"{path} is not as it was written ({error}). Delete {self.folder} and start anew."
            ) from error
        return table

    def delete(self, b: int) -> None:
        """Remove the file of bucket `b`; nothing happens when there is none."""
        self._path(b).unlink(missing_ok=True)

    def _clean(self) -> None:
        self._files.delete(INDEX)
        for key in self._files.list():
            if key.endswith(BUCKET):
                self._files.delete(key)

    def _path(self, b: int) -> Path:
        return self.folder / f"{b:06d}{BUCKET}"

    def _require_fitting(self, table: Table, ends: NDArray[np.integer]) -> None:
        values = table.X if isinstance(table, DenseTable) else table.data
        found = (type(table), values.dtype, table.weight is not None)
        kind = DenseTable if self.layout == "dense" else SparseTable
        expected = (kind, np.dtype(self.dtype), self.has_weight)
        if found != expected:
            raise ValueError(f"A table came as {found}, where {expected} was expected.")
        rising = ends.shape == (self.n_buckets,) and bool((np.diff(ends, prepend=0) >= 0).all())
        if not rising or ends[-1] != table.n_rows:
            raise ValueError(
                f"{table.n_rows} rows came with ends {ends.tolist()}, where {self.n_buckets} "
                "buckets were to have all of them. Group them by bucket first."
            )

    def _count(self, dealt: Table, ends: NDArray[np.integer]) -> None:
        self._rows += np.diff(ends, prepend=0)
        if isinstance(dealt, DenseTable):
            self._nnz += np.diff(ends, prepend=0) * dealt.X.shape[1]
        else:
            self._nnz += np.diff(dealt.indptr[ends], prepend=0)
            width = np.where(np.diff(ends, prepend=0) > 0, dealt.indices.itemsize, 0)
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
                write_block(file, table)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}. Free some space or put the spill elsewhere, then start anew.",
                str(path),
            ) from error

    def _room(self, b: int) -> Table:
        rows, nnz = self.rows(b), int(self._nnz[b])
        target = np.empty(rows)
        weight = np.empty(rows) if self.has_weight else None
        if self.n_features is not None and self.layout == "dense":
            return DenseTable(np.empty((rows, self.n_features), self.dtype), target, weight)
        indices = np.empty(nnz, f"i{self._index_bytes[b]}")
        indptr = np.zeros(rows + 1, np.int64)
        return SparseTable(np.empty(nnz, self.dtype), indices, indptr, target, weight)
