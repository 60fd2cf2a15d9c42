"""Numbers that a method keeps per row: on disk, or in this process until a snapshot needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.row_state_store import (
    NOTHING_YET,
    RowStatePart,
    RowStateStore,
    StoredRowState,
)

Values = NDArray[np.float64]


class RowStates(Protocol):
    """Versions of numbers per row, chunk by chunk; see `storage.row_state_store.RowStateStore`."""

    def write(self, version: int, chunk: int, values: Values) -> RowStatePart | None:
        """Retain the numbers of a chunk's rows, which do not change any more.

        Returns their record, None where nothing was written yet.
        """

    def read_into(self, version: int, chunk: int, out: Values, stored: RowStatePart | None) -> int:
        """Fill `out` from a version, check it against its record, and return the bytes read."""


class RowStateInMemory:
    """Versions that stay in this process; only those of a snapshot are written.

    For trainings whose spans all run here: after the death of the process they go on from a
    snapshot, which has the versions that it needs.  A training without snapshots has no store.
    """

    def __init__(self, store: RowStateStore | None) -> None:
        self._store = store
        self._chunks: dict[tuple[int, int], Values] = {}  # by version and chunk
        self._written: set[tuple[int, int]] = set()

    def write(self, version: int, chunk: int, values: Values) -> None:
        """Keep the numbers of a chunk's rows, which do not change any more."""
        self._chunks[version, chunk] = values

    def read_into(self, version: int, chunk: int, out: Values, stored: RowStatePart | None) -> int:
        """Fill `out` from a version; one of an earlier session is read from disk."""
        values = self._chunks.get((version, chunk))
        if values is None and self._store is not None:
            return self._store.read_into(version, chunk, out, stored)
        assert values is not None or version == NOTHING_YET, "every later version is in memory"
        out[:] = 0.0 if values is None else values
        return 0

    def flush(self, version: int) -> Iterator[StoredRowState]:
        """Write the chunks of a version that are not on disk yet; yield their records."""
        if self._store is None:
            return
        for key in [key for key in self._chunks if key[0] == version and key not in self._written]:
            stored = self._store.write(*key, self._chunks[key])
            self._written.add(key)
            yield StoredRowState(key[1], stored)

    def keep_only(self, versions: Iterable[int]) -> None:
        """Free all other versions."""
        retained = set(versions)
        self._chunks = {key: values for key, values in self._chunks.items() if key[0] in retained}
        self._written &= self._chunks.keys()
