"""Numbers per row of a method: float64, one object per chunk, in versions.

A version belongs to one sweep over the data.  Objects of older versions are never written again, so
that a version named by a snapshot is unchanged until it is deleted.

An object is bound to its key twice.  Its checksum covers the key, so that an object at another key
is refused; and a snapshot has records with length and checksum of each object that it refers to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.codec import TRAILER_BYTES, checksum, decode_into, encode
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import StoredObject, get_unchecked

NOTHING_YET = -1  # the version before the first: every number is 0
ARRAY = "rows."  # and the version: the array of a snapshot with the records of that version
GO_BACK = (
    "Delete the newest snapshot, and its folder with it, to go on from the one before, "
    "or train again."
)


class StoredRowState(NamedTuple):
    """Record of the numbers of a chunk's rows."""

    chunk: int
    stored: StoredObject


Records = Mapping[tuple[int, int], StoredObject]  # by version and chunk
NO_RECORDS: Records = {}


class RowStateStore:
    """Versions ``000000``, ``000001``, ... in one folder; one writer per version and chunk."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def write(self, version: int, chunk: int, values: NDArray[np.float64]) -> StoredObject:
        """Write the numbers of a chunk's rows, and return their record.

        `sync` makes them durable.
        """
        key = _key(version, chunk)
        data = encode(values, _bound_to(key))
        self.folder.write(key, data, durable=False)
        return StoredObject(len(data), int.from_bytes(data[-TRAILER_BYTES:], "little"))

    def sync(self, version: int) -> None:
        """Make a version durable."""
        self.folder.sync(self.folder.list(f"{version:06d}"))

    def read_into(
        self, version: int, chunk: int, out: NDArray[np.float64], stored: StoredObject | None
    ) -> int:
        """Fill `out` (rows of the chunk,) from a version and return the bytes read.

        Raises
        ------
        Damaged
            The object is missing, has no record, differs from it, or is another chunk's or
            version's.
        """
        if version == NOTHING_YET:
            out[:] = 0.0
            return 0
        key = _key(version, chunk)
        if stored is None:
            raise Damaged(f"{self.folder.address(key)} is on no record. {GO_BACK}")
        raw = get_unchecked(self.folder, key, stored, GO_BACK)
        try:
            decode_into(raw, out, expected=stored.crc32c, before=_bound_to(key))
        except ValueError as error:
            raise self._damaged(key, error) from error
        return len(raw)

    def fault(self, version: int, chunk: int, stored: StoredObject) -> str | None:
        """Read an object and return a sentence on its fault, if any."""
        key = _key(version, chunk)
        try:
            raw = get_unchecked(self.folder, key, stored, GO_BACK)
        except Damaged as error:
            return str(error)
        actual = checksum(raw[:-TRAILER_BYTES], _bound_to(key))
        if {actual, int.from_bytes(raw[-TRAILER_BYTES:], "little")} == {stored.crc32c}:
            return None
        reason = f"its checksum is {actual:08x}, where {stored.crc32c:08x} was expected"
        return str(self._damaged(key, ValueError(reason)))

    def _damaged(self, key: str, error: ValueError) -> Damaged:
        return Damaged(
            f"{self.folder.address(key)} is damaged, or the numbers of other rows or of another "
            f"time: {error}. {GO_BACK}"
        )

    def versions(self) -> list[int]:
        """Return the versions with any object, oldest first."""
        heads = {key.partition("/")[0] for key in self.folder.list()}
        return sorted(int(head) for head in heads if head.isdecimal())

    def keep_only(self, versions: Collection[int]) -> None:
        """Delete all other versions."""
        for version in self.versions():
            if version not in versions:
                self.folder.delete_tree(f"{version:06d}")


class RowRecords:
    """Records of the objects of some versions: for each version, one line per chunk.

    Parameters
    ----------
    n_chunks
        Of the data set.
    tables
        By version, (n_chunks, 2) length and checksum; length 0 for no object.
    """

    def __init__(
        self, n_chunks: int, tables: Mapping[int, NDArray[np.uint32]] | None = None
    ) -> None:
        self._n_chunks = n_chunks
        self._tables = dict(tables or {})

    @classmethod
    def read(cls, n_chunks: int, arrays: Mapping[str, NDArray[Any]]) -> RowRecords:
        """Read a snapshot's records for a data set of n_chunks chunks.

        Raises
        ------
        ValueError
            An array has not the shape and type of records, or its name has no version.
        """
        tables = {}
        for name, table in arrays.items():
            if name.startswith(ARRAY):
                version = name.removeprefix(ARRAY)
                actual = table.dtype.name, table.shape, version.isdecimal()
                if actual != ("uint32", (n_chunks, 2), True):
                    raise ValueError(
                        f"array {name} is {table.dtype} {table.shape}, where the records of a "
                        f"sweep, uint32 {(n_chunks, 2)}, were expected"
                    )
                tables[int(version)] = table
        return cls(n_chunks, tables)

    def arrays(self, versions: Collection[int]) -> dict[str, NDArray[np.uint32]]:
        """Return the arrays that a snapshot stores."""
        every = sorted(self._tables.items())
        return {f"{ARRAY}{version:06d}": table for version, table in every if version in versions}

    def note(self, version: int, written: Iterable[StoredRowState]) -> None:
        """Add records of a version."""
        for chunk, stored in written:
            if version not in self._tables:
                self._tables[version] = np.zeros((self._n_chunks, 2), np.uint32)
            self._tables[version][chunk] = stored

    def of(self, versions: Collection[int], chunks: Iterable[int]) -> Records:
        """Return the records of some chunks in some versions."""
        tables = [(version, self._tables[version]) for version in versions if self.has(version)]
        if not tables:
            return NO_RECORDS
        numbers = list(chunks)
        return {
            (version, chunk): StoredObject(*line)
            for version, table in tables
            for chunk, line in zip(numbers, table[numbers].tolist(), strict=True)
            if line[0]
        }

    def every(self) -> Iterator[tuple[int, int, StoredObject]]:
        """Yield version, chunk and record of each object."""
        for version, table in sorted(self._tables.items()):
            for chunk in np.flatnonzero(table[:, 0]).tolist():
                yield version, chunk, StoredObject(*table[chunk].tolist())

    @property
    def is_empty(self) -> bool:
        """Whether there are no records."""
        return not self._tables

    def has(self, version: int) -> bool:
        """Whether there are records of a version."""
        return version in self._tables

    def missing(self, version: int) -> int:
        """Return the number of chunks without a record in a version."""
        table = self._tables.get(version)
        return self._n_chunks if table is None else int(np.count_nonzero(table[:, 0] == 0))

    def keep_only(self, versions: Collection[int]) -> None:
        """Forget all other versions."""
        self._tables = {v: table for v, table in self._tables.items() if v in versions}


def _key(version: int, chunk: int) -> str:
    return f"{version:06d}/{chunk:06d}"


def _bound_to(key: str) -> int:
    """Return the initial checksum of an object: that of its key."""
    return checksum(key.encode())
