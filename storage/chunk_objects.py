"""The objects of a chunk, decoded to rows: what is checked before compiled code sees them."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.array_layout import (
    CODE_PARTS,
    DENSE_PARTS,
    RETAINED_KEY,
    SPARSE_PARTS,
    chunk_parts,
)
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.codec import LEAST_SAVED_OF_VALUES
from fewpass.storage.dataset_columns import DatasetColumns
from fewpass.storage.dataset_objects import faults_of
from fewpass.storage.folder import Damaged
from fewpass.storage.manifest import RETAINED_BYTES
from fewpass.storage.objects import NEVER, StoredObject, get_chunk
from fewpass.storage.row_expansion import RowExpansion
from fewpass.storage.table import DenseTable
from fewpass.storage.table_buffer import Arrays, ChunkBuffer

NO_OBJECT = -1  # as a version: there is none, and none is read
#: By the template of their keys; None: the chunk has no values.
Objects = Mapping[str, StoredObject | None]


class VerifiedFiles(NamedTuple):
    """The files of a data set's chunks as this process has read them."""

    versions: NDArray[np.int64]  # (n_chunks, parts) verified last, or NEVER
    cached: NDArray[np.bool_]  # (n_chunks,): the system had the bytes in memory when last asked


@lru_cache(maxsize=256)
def verified_files(_url: str, _fingerprint: str, n_chunks: int, parts: int) -> VerifiedFiles:
    """Return this process's record of a data set; at first no file is verified."""
    return VerifiedFiles(np.full((n_chunks, parts), NEVER), np.zeros(n_chunks, np.bool_))


class ChunkObjects:
    """The chunks of a data set, read from their objects."""

    def __init__(self, columns: DatasetColumns) -> None:
        self._columns = columns  # which codes are expanded to
        self.folder, self.manifest = columns.folder, columns.manifest
        form = self.manifest.layout, self.manifest.row_parts
        #: Templates of the keys of what a chunk's rows consist of, by name.
        self.parts = chunk_parts(*form, coded=self.manifest.coded)
        shape = self.manifest.n_chunks, len(self.parts)
        self._files_of_chunks = verified_files(self.folder.url, self.manifest.fingerprint, *shape)

    def are_copied(self, chunks: Sequence[int]) -> bool:
        """Return whether reading these chunks only copies their rows.

        They are verified files of this machine, in the system's memory when they were last read,
        and hold rows as memory does.
        """
        files = self._files_of_chunks
        if self.manifest.layout != "dense" or not files.cached[chunks].all():
            return False
        stored = self.manifest.chunks.bytes_of(DENSE_PARTS.values())
        decoded = self.manifest.nnz * np.dtype(self.manifest.dtype).itemsize
        is_plain = stored > (1.0 - LEAST_SAVED_OF_VALUES) * decoded
        return is_plain and bool((files.versions[chunks] != NEVER).all())

    def faults(self, on_read: Callable[[int], None]) -> Iterator[str]:
        """Read every object of a chunk and yield a sentence for each damaged one."""
        for k in range(self.manifest.n_chunks):
            yield from faults_of(self.folder, self.manifest.objects_of(k), on_read)

    def read_into(self, k: int, buffer: ChunkBuffer) -> int:
        """Append the rows of chunk `k` to a buffer; return the bytes that were read."""
        record, manifest = self.manifest.chunks.record(k), self.manifest
        arrays = buffer.allocate(record.rows, record.nnz)
        if manifest.codes is not None:
            arrays = arrays | {"codes": np.empty((manifest.codes, manifest.chunk_rows))}
        fetched = blocks_fetched()
        n_bytes, versions = self._decode(k, record.objects, arrays, buffer)
        is_verified = (versions != NEVER).all() and (
            versions == self._files_of_chunks.versions[k]
        ).all()
        chunk = f"Chunk {k} of {self._columns.folder.url}"
        if manifest.coded:
            expand(self._columns.expansion, record, arrays, chunk)
        if manifest.layout == "sparse" and not is_verified:
            require_inside(arrays, manifest.n_features, chunk)
        self._files_of_chunks.versions[k] = versions
        self._files_of_chunks.cached[k] &= blocks_fetched() == fetched
        buffer.commit(record.rows, record.nnz)
        return n_bytes

    def _decode(
        self, k: int, objects: Objects, arrays: Arrays, buffer: ChunkBuffer
    ) -> tuple[int, NDArray[np.int64]]:
        """Decode the rows of chunk `k` into arrays, verified unless these versions were before.

        The buffer lends memory for encoded bytes.  Returns the bytes that were read, and versions.
        """
        n_bytes, versions = 0, self._files_of_chunks.versions[k].copy()
        for part, (name, key) in enumerate(self.parts.items()):
            stored = objects[key]
            if stored is None:
                versions[part] = NO_OBJECT
                continue
            fits = name in SPARSE_PARTS or name in CODE_PARTS
            padded = 0 if fits else self._full_size(arrays[name])
            at = self.manifest.key_of(k, key)
            out, before = arrays[name], int(versions[part])
            versions[part] = get_chunk(self.folder, at, stored, out, buffer.scratch, padded, before)
            n_bytes += stored.length
        return n_bytes, versions

    def retained(self, k: int) -> NDArray[np.uint8]:
        """Return the kept columns of chunk `k` as (rows, bytes), of a set that keeps some."""
        objects = self.manifest.chunks.record(k).objects
        width = RETAINED_BYTES * len(self.manifest.retained)
        retained = np.zeros((self.manifest.rows_of(k), width), np.uint8)
        if (stored := objects[RETAINED_KEY]) is not None:
            scratch = np.empty(stored.length, np.uint8)
            key, size = self.manifest.key_of(k, RETAINED_KEY), self._full_size(retained)
            get_chunk(self.folder, key, stored, retained, scratch, size)
        return retained

    def codes(self, k: int) -> DenseTable:
        """Return the rows of chunk `k` as codes, X (rows, codes), of a set that stores these."""
        manifest = self.manifest
        objects = manifest.chunks.record(k).objects
        assert manifest.codes is not None, "the set stores codes"
        rows = manifest.rows_of(k)
        codes = np.empty((manifest.codes, manifest.chunk_rows))
        parts: Arrays = {"codes": codes} | {name: np.empty(rows) for name in manifest.row_parts}
        for name, key in self.parts.items():
            stored = objects[key]
            assert stored is not None, "each chunk has all of these"
            scratch = np.empty(stored.length, np.uint8)
            padded = 0 if name in CODE_PARTS else self._full_size(parts[name])
            at = manifest.key_of(k, key)
            get_chunk(self.folder, at, stored, parts[name], scratch, padded)
        X = np.ascontiguousarray(codes[:, :rows].T)
        return DenseTable(X, parts["target"], parts.get("weight"), parts.get("offset"))

    def prefetch(self, k: int) -> None:
        """Announce that chunk `k` will be read, unless the system had it in memory last time."""
        if self._files_of_chunks.cached[k]:
            return
        objects, before = self.manifest.chunks.record(k).objects, blocks_fetched()
        for key in self.parts.values():
            if objects[key] is not None:
                self.folder.prefetch(self.manifest.key_of(k, key))
        self._files_of_chunks.cached[k] = blocks_fetched() == before

    def _full_size(self, out: NDArray[Any]) -> int:
        """Return the items of a chunk as Zarr stores it: the last one is padded."""
        return self.manifest.chunk_rows * (out.shape[1] if out.ndim == 2 else 1)


def blocks_fetched() -> int:
    """Return how many blocks disks have fetched for this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock


def expand(expansion: RowExpansion, record: ChunkRecord, arrays: Arrays, chunk: str) -> None:
    """Make a chunk's values of its codes; `chunk` names it in messages."""
    codes = np.ascontiguousarray(arrays["codes"][:, : record.rows])
    parts = (arrays[name] for name in ("indptr", "indices", "data"))
    nnz = expansion.expand(codes, *parts)
    if nnz != record.nnz:
        raise Damaged(
            f"{chunk} has codes of other rows than were stored. Do not use this data set; ingest "
            "the source again."
        )


def require_inside(arrays: Arrays, n_features: int, chunk: str) -> None:
    """Refuse indices with which compiled code would access memory outside its arrays."""
    indptr, indices = arrays["indptr"], arrays["indices"]
    ends = indptr[0] == 0 and indptr[-1] == indices.size and bool((indptr[1:] >= indptr[:-1]).all())
    unsigned = indices.view(f"u{indices.itemsize}")  # what is negative becomes too large
    if not ends or (indices.size and int(unsigned.max()) >= n_features):
        raise Damaged(
            f"{chunk} points outside its {n_features} columns or its {indices.size} values. Do not "
            "use this data set; ingest the source again."
        )
