"""Numbers that a method keeps per row: float64, one object per chunk, in versions.

A version belongs to one sweep over the data.  Objects of an older version are never written again,
so whatever a snapshot names by its version stays as it was until that version is let go.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from storage.codec import decode_into, encode
from storage.folder import Damaged, Folder

NOTHING_YET = -1  # the version before the first: every number is 0


class RowStateStore:
    """Versions ``000000``, ``000001``, ... in one folder; one writer per version and chunk."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def write(self, version: int, chunk: int, values: NDArray[np.float64]) -> None:
        """Write the numbers of a chunk's rows; `sync` makes them durable."""
        self.folder.write(_key(version, chunk), encode(values), durable=False)

    def sync(self, version: int) -> None:
        """Make what was written of a version survive a power cut."""
        self.folder.sync(self.folder.list(f"{version:06d}"))

    def read_into(self, version: int, chunk: int, out: NDArray[np.float64]) -> int:
        """Fill `out` (rows of the chunk,) from a version and return the bytes read.

        Raises
        ------
        Damaged
            When the object is missing or not as it was written.
        """
        if version == NOTHING_YET:
            out[:] = 0.0
            return 0
        key = _key(version, chunk)
        try:
            raw = self.folder.read(key)
            decode_into(raw, out)
        except (FileNotFoundError, ValueError) as error:
            raise Damaged(
                f"{self.folder.address(key)} is missing or damaged ({error}). "
                "Delete the newest snapshot to go on from the one before, or train again."
            ) from error
        return len(raw)

    def versions(self) -> list[int]:
        """Return the versions of which anything is there, oldest first."""
        heads = {key.partition("/")[0] for key in self.folder.list()}
        return sorted(int(head) for head in heads if head.isdecimal())

    def keep_only(self, versions: Collection[int]) -> None:
        """Delete all other versions."""
        for version in self.versions():
            if version not in versions:
                self.folder.delete_tree(f"{version:06d}")


def _key(version: int, chunk: int) -> str:
    return f"{version:06d}/{chunk:06d}"
