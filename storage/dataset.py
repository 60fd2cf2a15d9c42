"""Data sets on disk: opening one and reading its chunks, every file verified once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.chunk_objects import ChunkObjects
from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.dataset_columns import DatasetColumns
from fewpass.storage.dataset_objects import faults_of, require_objects
from fewpass.storage.folder import Damaged, Folder, NotADataset
from fewpass.storage.kinds import instead, kind_of
from fewpass.storage.manifest import KEY, Manifest, UnknownVersion, read_manifest
from fewpass.storage.objects import RESTORE
from fewpass.storage.part_chunks import PartChunks
from fewpass.storage.set_generations import generation_of, what_became
from fewpass.storage.table import DenseTable, Table, cut
from fewpass.storage.table_buffer import ChunkBuffer, TableBuffer


class Dataset(DatasetColumns):
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
        super().__init__(folder, manifest)
        self._chunks: ChunkObjects | PartChunks
        if manifest.is_view:
            self._chunks = PartChunks(folder, manifest, _reopen)
        elif not self.in_memory:
            self._chunks = ChunkObjects(self)

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
            There is no manifest, or one of another format; or it is that of a view, and one of the
            sets whose chunks it has is gone, or has changed.
        Damaged
            The manifest has been changed.
        """
        folder = url if isinstance(url, Folder) else Folder(url, storage_options)
        dataset = cls(folder, _manifest_of(folder, like))
        if isinstance(dataset._chunks, PartChunks):
            dataset._chunks.open_all()
        return dataset

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.folder, self.manifest.fingerprint)

    def __repr__(self) -> str:
        return f"Dataset({self.folder.url!r}, {self.n_rows} x {self.n_features})"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.manifest.n_rows

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return self.manifest.n_chunks

    def read_chunk(self, k: int) -> Table:
        """Return the rows of chunk `k` in new memory, columns in the source's order."""
        return self.column_order.sourced_rows(self.read_stored(k))

    def read_stored(self, k: int) -> Table:
        """Return the rows of chunk `k` in new memory, columns in stored order."""
        chunks = self.manifest.chunks
        buffer = TableBuffer(self.manifest, int(chunks.rows[k]), int(chunks.nnz[k]))
        self.read_into(k, buffer)
        return buffer.table()

    def read_retained(self, k: int) -> NDArray[np.uint8]:
        """Return the kept columns of chunk `k` as (rows, bytes); no bytes where none is kept.

        Raises
        ------
        Damaged
            As for `read_into`.
        """
        if not self.manifest.retained:
            return np.zeros((self.manifest.rows_of(k), 0), np.uint8)
        with self._telling_of_changes():
            return self._chunks.retained(k)

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
        with self._telling_of_changes():
            return self._chunks.codes(k)

    def sample(self, n: int) -> Table:
        """Return the first n rows of the first chunk, or all of it, columns in stored order."""
        return cut(self.read_stored(0), 0, min(n, self.manifest.rows_of(0)))

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
        with self._telling_of_changes():
            return self._chunks.read_into(k, buffer)

    def are_copied(self, chunks: Sequence[int]) -> bool:
        """Return whether reading these chunks only copies rows: there is nothing to wait for."""
        return self._chunks.are_copied(chunks)

    def prefetch(self, k: int) -> None:
        """Announce that chunk `k` will be read: a disk can fetch it while others are decoded."""
        self._chunks.prefetch(k)

    def verify(self, on_read: Callable[[int], None] = lambda _: None) -> Iterator[str]:
        """Read every object and yield a sentence for each damaged one.

        `on_read` is called with the bytes of each after it was read.
        """
        others = {key: each for key, each in self.manifest.objects.items() if key != COLUMNS}
        each = itertools.chain(
            faults_of(self.generation_folder, others, on_read),
            self.column_faults(on_read),
            self._chunks.faults(on_read),
        )
        return self._unless_changed(each)

    def chunk_faults(self, on_read: Callable[[int], None]) -> Iterator[str]:
        """Yield sentences as `verify`, of chunks alone."""
        return self._unless_changed(self._chunks.faults(on_read))

    def _unless_changed(self, faults: Iterator[str]) -> Iterator[str]:
        """Yield faults; of a set that has changed meanwhile, whose objects go, that alone."""
        for fault in faults:
            became = self.became()
            yield str(self._replaced(became)) if became else fault
            if became:
                return

    @contextmanager
    def _telling_of_changes(self) -> Iterator[None]:
        """Have what is damaged be said to be gone, where a later generation has replaced it."""
        try:
            yield
        except Damaged as error:
            if became := self.became():
                raise self._replaced(became) from error
            raise

    def _column(self, name: str) -> NDArray[Any]:
        with self._telling_of_changes():
            return super()._column(name)

    def became(self) -> str | None:
        """Say what came after this generation of the data set; None while it is the present one."""
        own = self.manifest.fingerprint
        try:
            now = read_manifest(self.folder.read(KEY))
        except (OSError, ValueError):
            return None
        if now.fingerprint == own:
            return None
        return what_became(now, own) or f"data set {own[:12]}, and it was made anew since"

    def _replaced(self, became: str) -> Damaged:
        """Return the error for chunks that a later generation has replaced."""
        return Damaged(
            f"{self.folder.url} has changed while it was read: this was {became}, and its objects "
            "are gone. Start anew with the data set as it is now."
        )


def _manifest_of(folder: Folder, like: str | None = None) -> Manifest:
    """Read the manifest of the data set in a folder; raises as `Dataset.open`."""
    try:
        manifest = read_manifest(folder.read(KEY))
        require_objects(manifest)
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
    return manifest


def _refuse_snapshot(folder: Folder, like: str | None) -> None:
    """Refuse a snapshot, whose manifest has the same name."""
    if kind_of(folder) == "snapshot":
        raise NotADataset(instead(folder, "data set", like))


def _reopen(folder: Folder, fingerprint: str, *, present: bool = False) -> Dataset:
    """Open the data set of a fingerprint: an earlier generation, too, unless `present`."""
    now = _manifest_of(folder)
    manifest = generation_of(folder, now, fingerprint)
    if manifest is None or (present and manifest is not now):
        became = what_became(now, fingerprint)
        after = f" ({became})" if became else ""
        raise NotADataset(
            f"{folder.url} now holds data set {now.fingerprint[:12]}, but {fingerprint[:12]} was "
            f"meant{after}. Put the old one back, or start anew with the new one."
        )
    if manifest is not now:
        require_objects(manifest)
    return Dataset(folder, manifest)
