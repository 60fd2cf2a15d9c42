"""Numbers per row of a method: float64, in versions, each a file that all processes write parts of.

A version belongs to one sweep over the data, and a part to one chunk.  What was written is never
changed, so that the parts named by a snapshot stay as they are until their version is deleted.

A part is bound to its place twice.  Its checksum covers version and chunk, so that the numbers of
another place are refused; and a snapshot has records of each part that it refers to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.codec import checksum
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import missing

NOTHING_YET = -1  # the version before the first: every number is 0
ARRAY = "rows."  # and the version: the array of a snapshot with the records of that version
ITEM_BYTES = 8
#: Parts begin at pages of their own: systems write whole ones, also next to what is durable, and
#: those of several machines to one file.
PAGE_BYTES = 1 << 12
MOST_BYTES = 1 << 48  # of a file
GO_BACK = "Delete the newest snapshot to go on from the one before, or train again."


class RowStatePart(NamedTuple):
    """Record of a part of a version's file."""

    start: int  # byte
    length: int  # bytes
    crc32c: int  # of version and chunk, and the bytes


class StoredRowState(NamedTuple):
    """Record of the numbers of a chunk's rows."""

    chunk: int
    stored: RowStatePart


Records = Mapping[tuple[int, int], RowStatePart]  # by version and chunk
NO_RECORDS: Records = {}


class RowStateStore:
    """Versions ``000000``, ``000001``, ... in one folder; one writer per version and chunk.

    Parameters
    ----------
    folder
        Where the files lie.
    chunk_bytes
        Most bytes of the numbers of a chunk's rows; for writing.
    """

    def __init__(self, folder: Folder, chunk_bytes: int = 0) -> None:
        self.folder, self._room = folder, -(-chunk_bytes // PAGE_BYTES) * PAGE_BYTES

    def write(self, version: int, chunk: int, values: NDArray[np.float64]) -> RowStatePart:
        """Write the numbers of a chunk's rows, and return their record.

        `sync` makes them durable.
        """
        data = np.ascontiguousarray(values, "<f8").reshape(-1).view(np.uint8)
        assert data.nbytes <= self._room, "no chunk has more rows"
        start = chunk * self._room
        self.folder.write_part(_key(version), start, data.data)
        return RowStatePart(start, data.nbytes, _checksum(version, chunk, data))

    def sync(self, versions: Collection[int]) -> None:
        """Make versions durable; on a store they are."""
        keys = {_key(version) for version in versions}
        self.folder.sync([key for key in self.folder.list() if key in keys])

    def read_into(
        self, version: int, chunk: int, out: NDArray[np.float64], stored: RowStatePart | None
    ) -> int:
        """Fill `out` (rows of the chunk,) from a version and return the bytes read.

        Raises
        ------
        Damaged
            The part is missing, has no record, differs from it, or is another chunk's or version's.
        """
        if version == NOTHING_YET:
            out[:] = 0.0
            return 0
        if stored is None:
            raise self._damaged(version, chunk, "there is no record of them")
        data = out.reshape(-1, copy=False).view(np.uint8)
        if stored.length != len(data):
            reason = f"{stored.length} bytes are on record, where {len(data)} were expected"
            raise self._damaged(version, chunk, reason)
        try:
            got = self.folder.read_part(_key(version), stored.start, data.data)
        except FileNotFoundError as error:
            raise missing(self.folder, _key(version), GO_BACK) from error
        if got != len(data):
            reason = f"there are {got} bytes of them, where {len(data)} were expected"
            raise self._damaged(version, chunk, reason)
        actual = _checksum(version, chunk, data)
        if actual != stored.crc32c:
            reason = f"their checksum is {actual:08x}, where {stored.crc32c:08x} was expected"
            raise self._damaged(version, chunk, reason)
        return got

    def _damaged(self, version: int, chunk: int, reason: str) -> Damaged:
        return Damaged(
            f"The numbers of chunk {chunk} in {self.folder.address(_key(version))} are damaged, or "
            f"those of other rows or of another time: {reason}. {GO_BACK}"
        )

    def fault(self, version: int, chunk: int, stored: RowStatePart) -> str | None:
        """Read a part and return a sentence on its fault, if any."""
        try:
            self.read_into(version, chunk, np.empty(stored.length // ITEM_BYTES), stored)
        except Damaged as error:
            return str(error)
        except MemoryError:
            return str(self._damaged(version, chunk, f"{stored.length} bytes are on record"))
        return None

    def versions(self) -> list[int]:
        """Return the versions that there is anything of, oldest first."""
        heads = {key.partition("/")[0] for key in self.folder.list()}
        return sorted(int(head) for head in heads if head.isdecimal())

    def keep_only(self, versions: Collection[int]) -> None:
        """Delete all other versions."""
        for version in self.versions():
            if version not in versions:
                self.folder.delete(_key(version))
                self.folder.delete_tree(_key(version))  # of a store


class RowRecords:
    """Records of the parts of some versions: for each version, one line per chunk.

    Parameters
    ----------
    n_chunks
        Of the data set.
    tables
        By version, (n_chunks, 3) start, length and checksum; length 0 for no part.
    """

    def __init__(
        self, n_chunks: int, tables: Mapping[int, NDArray[np.int64]] | None = None
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
                if actual != ("int64", (n_chunks, 3), True):
                    raise ValueError(
                        f"array {name} is {table.dtype} {table.shape}, where the records of a "
                        f"sweep, int64 {(n_chunks, 3)}, were expected"
                    )
                if table.size and not 0 <= table.min() <= table.max() < MOST_BYTES:
                    raise ValueError(f"array {name} has numbers that are no places in a file")
                tables[int(version)] = table
        return cls(n_chunks, tables)

    def arrays(self, versions: Collection[int]) -> dict[str, NDArray[np.int64]]:
        """Return the arrays that a snapshot stores."""
        every = sorted(self._tables.items())
        return {f"{ARRAY}{version:06d}": table for version, table in every if version in versions}

    def note(self, version: int, written: Iterable[StoredRowState]) -> None:
        """Add records of a version."""
        for chunk, stored in written:
            if version not in self._tables:
                self._tables[version] = np.zeros((self._n_chunks, 3), np.int64)
            self._tables[version][chunk] = stored

    def of(self, versions: Collection[int], chunks: Iterable[int]) -> Records:
        """Return the records of some chunks in some versions."""
        tables = [(version, self._tables[version]) for version in versions if self.has(version)]
        if not tables:
            return NO_RECORDS
        numbers = list(chunks)
        return {
            (version, chunk): RowStatePart(*line)
            for version, table in tables
            for chunk, line in zip(numbers, table[numbers].tolist(), strict=True)
            if line[1]
        }

    def every(self) -> Iterator[tuple[int, int, RowStatePart]]:
        """Yield version, chunk and record of each part."""
        for version, table in sorted(self._tables.items()):
            for chunk in np.flatnonzero(table[:, 1]).tolist():
                yield version, chunk, RowStatePart(*table[chunk].tolist())

    @property
    def is_empty(self) -> bool:
        """Return whether there are no records."""
        return not self._tables

    def has(self, version: int) -> bool:
        """Return whether there are records of a version."""
        return version in self._tables

    def missing(self, version: int) -> int:
        """Return the number of chunks without a record in a version."""
        table = self._tables.get(version)
        return self._n_chunks if table is None else int(np.count_nonzero(table[:, 1] == 0))

    def keep_only(self, versions: Collection[int]) -> None:
        """Forget all other versions."""
        self._tables = {v: table for v, table in self._tables.items() if v in versions}


def _key(version: int) -> str:
    return f"{version:06d}"


def _checksum(version: int, chunk: int, data: NDArray[np.uint8]) -> int:
    """Return the checksum of a part: over its place, as text, and its bytes."""
    return checksum(data, checksum(f"{version:06d}/{chunk:06d}".encode()))
