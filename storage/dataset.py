"""Data sets on disk: opening one and reading its chunks, every byte verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from fewpass.storage.array_layout import (
    CODE_PARTS,
    RETAINED_KEY,
    SPARSE_PARTS,
    chunk_parts,
    chunk_templates,
    root_keys,
)
from fewpass.storage.column_order import ColumnOrder, is_order
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.column_schema import Groups, Schema
from fewpass.storage.folder import Damaged, Folder, NotADataset
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.hashed_names import read as read_names
from fewpass.storage.kinds import instead, kind_of
from fewpass.storage.manifest import (
    COLUMN_ORDER,
    KEY,
    RETAINED_BYTES,
    Manifest,
    UnknownVersion,
    read_manifest,
)
from fewpass.storage.objects import RESTORE, fault, get, get_array, get_chunk, require_keys
from fewpass.storage.row_expansion import RowExpansion, expansion_of
from fewpass.storage.set_generations import generation_of, what_became
from fewpass.storage.table import DenseTable, Table, cut
from fewpass.storage.table_buffer import Arrays, ChunkBuffer, TableBuffer
from fewpass.storage.writer import DatasetWriter

__all__ = ["Dataset", "DatasetWriter", "TableBuffer"]


class Dataset:
    """A complete data set.

    Use `Dataset.open`.  A pickle has only the address and the fingerprint; unpickling opens the set
    again and raises ValueError if it was replaced by another one.

    Attributes
    ----------
    folder : Folder
        Where the data set is.
    generation_folder : Folder
        Where its objects are: in `folder`, or in the folder of its generation.
    in_memory : bool
        Whether the rows are in the memory of this process, decoded.
    """

    in_memory = False

    def __init__(self, folder: Folder, manifest: Manifest) -> None:
        self.folder = folder
        self.generation_folder = folder.child(manifest.place) if manifest.place else folder
        self.manifest = manifest
        self._parts = chunk_parts(manifest.layout, manifest.row_parts, coded=manifest.coded)

    @classmethod
    def open(
        cls,
        url: str | Folder,
        storage_options: dict[str, Any] | None = None,
        *,
        like: str | None = None,
    ) -> Dataset:
        """Open a data set by its address.

        Parameters
        ----------
        url, storage_options
            As for `Folder`.
        like
            The data set whose columns it should have; for the error message.

        Raises
        ------
        NotADataset
            There is no manifest, or one of another format.
        Damaged
            The manifest has been changed.
        """
        folder = url if isinstance(url, Folder) else Folder(url, storage_options)
        try:
            manifest = read_manifest(folder.read(KEY))
            _require_objects(manifest)
        except FileNotFoundError as error:
            raise NotADataset(instead(folder, "data set", like)) from error
        except UnknownVersion as error:
            _refuse_snapshot(folder, like)
            raise NotADataset(
                f"{folder.address(KEY)} cannot be read: {error}. Use the version of fewpass that "
                "wrote it, or ingest the source again."
            ) from error
        except ValueError as error:
            _refuse_snapshot(folder, like)
            raise Damaged(f"{folder.address(KEY)} is damaged: {error}. {RESTORE}") from error
        return cls(folder, manifest)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.folder, self.manifest.fingerprint)

    def __repr__(self) -> str:
        return f"Dataset({self.folder.url!r}, {self.n_rows} x {self.n_features})"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.manifest.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.manifest.n_features

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.manifest.n_chunks

    @cached_property
    def column_order(self) -> ColumnOrder:
        """Order of the stored columns, which only `read_into` and `read_stored` show.

        Raises
        ------
        Damaged
            As for `read_into`, or it is not a permutation of the columns.
        """
        if COLUMN_ORDER not in self.manifest.columns:
            return ColumnOrder()
        source = self._column(COLUMN_ORDER)
        if not is_order(source, self.n_features):
            raise Damaged(
                f"columns/{COLUMN_ORDER} of {self.folder.url} is no order of its "
                f"{self.n_features} columns. Do not use this data set; ingest the source again."
            )
        return ColumnOrder(source)

    @cached_property
    def schema(self) -> Schema | None:
        """Schema of the source's columns; None if unknown.

        Raises
        ------
        Damaged
            It is missing, has been changed, or has other features than the set.
        """
        if not self.manifest.has_schema:
            return None
        raw = get(self.generation_folder, SCHEMA, self.manifest.objects[SCHEMA])
        try:
            schema = Schema.model_validate_json(raw)
        except ValidationError as error:
            raise Damaged(
                f"{self.generation_folder.address(SCHEMA)} is no schema: {error}. {RESTORE}"
            ) from error
        if schema.n_features != self.n_features:
            raise Damaged(
                f"{self.generation_folder.address(SCHEMA)} has {schema.n_features} features, where "
                f"{self.n_features} were expected. {RESTORE}"
            )
        return schema

    @cached_property
    def feature_groups(self) -> Groups | None:
        """The group of every feature (d,), in stored order; None where there are none.

        Raises
        ------
        Damaged
            As for `schema` and `column_order`.
        """
        groups = self.schema.feature_groups if self.schema is not None else None
        return None if groups is None else self.column_order.stored(groups)

    @cached_property
    def expansion(self) -> RowExpansion:
        """What makes rows of the codes that they are stored as.

        Raises
        ------
        Damaged
            As for `schema`, or it takes other codes, or makes other rows.
        """
        assert self.schema is not None, "the manifest was checked"
        expansion = expansion_of(self.schema)
        actual = (expansion.n_codes, expansion.n_outputs)
        if actual != (self.manifest.codes, self.n_features):
            raise Damaged(
                f"{self.folder.address(SCHEMA)} makes {actual[1]} features of {actual[0]} codes, "
                f"where {self.n_features} of {self.manifest.codes} were expected. {RESTORE}"
            )
        return expansion

    @cached_property
    def hashed_names(self) -> HashedNames:
        """Names of hashed columns, as far as known.

        Raises
        ------
        Damaged
            They are missing or have been changed.
        """
        if NAMES not in self.manifest.objects:
            return {}
        raw = get(self.generation_folder, NAMES, self.manifest.objects[NAMES])
        try:
            return read_names(raw, self.n_features)
        except ValueError as error:
            raise Damaged(f"{self.generation_folder.address(NAMES)}: {error}. {RESTORE}") from error

    def read_chunk(self, k: int) -> Table:
        """Return the rows of chunk `k` in new memory, columns in the source's order."""
        return self.column_order.sourced_rows(self.read_stored(k))

    def read_stored(self, k: int) -> Table:
        """Return the rows of chunk `k` in new memory, columns in stored order."""
        chunks = self.manifest.chunks
        buffer = TableBuffer(self.manifest, chunks.rows[k], chunks.nnz[k])
        self.read_into(k, buffer)
        return buffer.table()

    def read_retained(self, k: int) -> NDArray[np.uint8]:
        """Return the kept columns of chunk `k` as (rows, bytes); no bytes where none is kept.

        Raises
        ------
        Damaged
            As for `read_into`.
        """
        manifest = self.manifest
        retained = np.zeros(
            (manifest.chunks.rows[k], RETAINED_BYTES * len(manifest.retained)), np.uint8
        )
        if manifest.retained and (stored := manifest.chunks.objects[RETAINED_KEY][k]) is not None:
            scratch = np.empty(stored.length, np.uint8)
            key, size = RETAINED_KEY.format(chunk=k), self._full_size(retained)
            get_chunk(self.generation_folder, key, stored, retained, scratch, size)
        return retained

    def with_retained(self, k: int, table: Table) -> Table:
        """Return the rows of chunk `k` with its kept columns, where there are any."""
        return table._replace(retained=self.read_retained(k)) if self.manifest.retained else table

    def read_codes(self, k: int) -> DenseTable:
        """Return the rows of chunk `k` of a set that stores codes, as these: X is (rows, codes).

        Raises
        ------
        Damaged
            As for `read_into`.
        """
        manifest = self.manifest
        assert manifest.codes is not None, "the set stores codes"
        rows, chunks = manifest.chunks.rows[k], manifest.chunks
        codes = np.empty((manifest.codes, manifest.chunk_rows))
        parts: Arrays = {"codes": codes} | {name: np.empty(rows) for name in manifest.row_parts}
        for name, key in self._parts.items():
            stored = chunks.objects[key][k]
            assert stored is not None, "each chunk has all of these"
            scratch = np.empty(stored.length, np.uint8)
            padded = 0 if name in CODE_PARTS else self._full_size(parts[name])
            place = self.generation_folder
            get_chunk(place, key.format(chunk=k), stored, parts[name], scratch, padded)
        X = np.ascontiguousarray(codes[:, :rows].T)
        return DenseTable(X, parts["target"], parts.get("weight"), parts.get("offset"))

    def sample(self, n: int) -> Table:
        """Return the first n rows of the first chunk, or all of it, columns in stored order."""
        return cut(self.read_stored(0), 0, min(n, self.manifest.chunks.rows[0]))

    def read_into(self, k: int, buffer: ChunkBuffer) -> int:
        """Append the rows of chunk `k` to the buffer, which is unchanged on failure.

        Columns are in stored order.

        Several threads may read at once, each into its own buffer; the GIL is released while bytes
        are read, verified and decompressed.

        Returns
        -------
        int
            Bytes read from the store.

        Raises
        ------
        Damaged
            An object is missing, or its length or checksum is not that of the manifest.
        """
        chunks = self.manifest.chunks
        rows, nnz = chunks.rows[k], chunks.nnz[k]
        arrays = buffer.allocate(rows, nnz)
        if self.manifest.codes is not None:
            arrays = arrays | {"codes": np.empty((self.manifest.codes, self.manifest.chunk_rows))}
        n_bytes = 0
        for name, key in self._parts.items():
            stored = chunks.objects[key][k]
            if stored is None:
                continue
            fits = name in SPARSE_PARTS or name in CODE_PARTS
            padded = 0 if fits else self._full_size(arrays[name])
            try:
                buffer.fetch_s += get_chunk(
                    self.generation_folder, key.format(chunk=k), stored, arrays[name],
                    buffer.scratch, padded,
                )  # fmt: skip
            except Damaged as error:
                raise self._replaced(error) from error
            n_bytes += stored.length
        if self.manifest.coded:
            self._expand(k, arrays)
        if self.manifest.layout == "sparse":
            self._require_rows(k, arrays["indptr"], arrays["indices"])
        buffer.commit(rows, nnz)
        return n_bytes

    def _expand(self, k: int, arrays: Arrays) -> None:
        """Make a chunk's values of its codes."""
        codes = np.ascontiguousarray(arrays["codes"][:, : self.manifest.chunks.rows[k]])
        parts = (arrays[name] for name in ("indptr", "indices", "data"))
        nnz = self.expansion.expand(codes, *parts)
        if nnz != self.manifest.chunks.nnz[k]:
            raise Damaged(
                f"Chunk {k} of {self.folder.url} has codes of other rows than were stored. Do not "
                "use this data set; ingest the source again."
            )

    def prefetch(self, k: int) -> None:
        """Announce that chunk `k` will be read: a disk can fetch it while others are decoded."""
        for key in self._parts.values():
            if self.manifest.chunks.objects[key][k] is not None:
                self.generation_folder.prefetch(key.format(chunk=k))

    def column(self, name: str) -> NDArray[np.float64]:
        """Return the statistic `name` of every feature: ``count``, ``mean``, ``variance``, ...

        In the source's order.

        Returns
        -------
        numpy.ndarray
            (n_features,) float64.

        Raises
        ------
        KeyError
            The set does not have it.
        Damaged
            As for `read_into`.
        """
        names = [each for each in self.manifest.columns if each != COLUMN_ORDER]
        if name not in names:
            raise KeyError(f"{self.folder.url} has no column statistic {name!r}, but {names}.")
        return self._column(name)

    def _column(self, name: str) -> NDArray[Any]:
        layout, objects = self.manifest.columns[name], self.manifest.objects
        return get_array(self.generation_folder, f"columns/{name}", layout, objects)

    def verify(self, on_read: Callable[[int], None] = lambda _: None) -> Iterator[str]:
        """Read every object and yield a sentence for each damaged one.

        `on_read` is called with the bytes of each after it was read.
        """
        every = [self.manifest.objects]
        every += [self.manifest.chunks.objects_of(k) for k in range(self.n_chunks)]
        for objects in every:
            for key, stored in objects.items():
                problem = fault(self.generation_folder, key, stored)
                on_read(stored.length)
                if problem is not None:
                    yield problem

    def became(self) -> str | None:
        """Say what came after this generation of the data set; None while it is the present one."""
        try:
            now = read_manifest(self.folder.read(KEY))
        except (OSError, ValueError):
            return None
        return what_became(now, self.manifest.fingerprint)

    def _replaced(self, error: Damaged) -> Damaged:
        """Return the error, or what it comes of: a later generation in place of this one."""
        became = self.became()
        if became is None:
            return error
        return Damaged(
            f"{self.folder.url} has changed while it was read: this was {became}, and its objects "
            "are gone. Start anew with the data set as it is now."
        )

    def _full_size(self, out: NDArray[Any]) -> int:
        """Return the items of a chunk as Zarr stores it: the last one is padded."""
        return self.manifest.chunk_rows * (out.shape[1] if out.ndim == 2 else 1)

    def _require_rows(self, k: int, indptr: NDArray[Any], indices: NDArray[Any]) -> None:
        """Refuse indices with which compiled code would access memory outside its arrays."""
        ends = (
            indptr[0] == 0
            and indptr[-1] == indices.size
            and bool((indptr[1:] >= indptr[:-1]).all())
        )
        unsigned = indices.view(f"u{indices.itemsize}")  # what is negative becomes too large
        if not ends or (indices.size and int(unsigned.max()) >= self.n_features):
            raise Damaged(
                f"Chunk {k} of {self.folder.url} points outside its {self.n_features} columns or "
                f"its {indices.size} values. Do not use this data set; ingest the source again."
            )


def _refuse_snapshot(folder: Folder, like: str | None) -> None:
    """Refuse a snapshot, whose manifest has the same name."""
    if kind_of(folder) == "snapshot":
        raise NotADataset(instead(folder, "data set", like))


def _require_objects(manifest: Manifest) -> None:
    """Require every array of every chunk, except values of rows without any."""
    columns = {f"columns/{name}": layout for name, layout in manifest.columns.items()}
    require_keys(columns, manifest.objects)
    inside = tuple(f"{prefix}/" for prefix in columns)
    outside = {key for key in manifest.objects if not key.startswith(inside)}
    objects = manifest.chunks.objects
    templates = chunk_templates(
        manifest.layout, manifest.row_parts, coded=manifest.coded, retained=bool(manifest.retained)
    )
    if outside != set(root_keys(manifest)) or list(objects) != templates:
        raise ValueError("it names other objects than its layout has")
    for key, column in objects.items():
        may_lack = key in (SPARSE_PARTS["data"], SPARSE_PARTS["indices"])
        for stored, nnz in zip(column, manifest.chunks.nnz, strict=True):
            if (stored is None) != (may_lack and nnz == 0):
                raise ValueError("it has chunks without the objects they need")


def _reopen(folder: Folder, fingerprint: str) -> Dataset:
    now = Dataset.open(folder).manifest
    manifest = generation_of(folder, now, fingerprint)
    if manifest is None:
        became = what_became(now, fingerprint)
        after = f" ({became})" if became else ""
        raise ValueError(
            f"{folder.url} now holds data set {now.fingerprint[:12]}, but {fingerprint[:12]} was "
            f"meant{after}. Put the old one back, or start anew with the new one."
        )
    _require_objects(manifest)
    return Dataset(folder, manifest)
