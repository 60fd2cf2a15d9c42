"""Snapshots: named arrays and numbers, each a file that appears whole or not at all.

States that workers write are files of their own, which the snapshot's metadata names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.snapshot_file import (
    KEY,
    SUFFIX,
    Arrays,
    SnapshotHeader,
    StoredPart,
    damaged,
    read_arrays,
    read_header,
    write_file,
)


@dataclass(frozen=True)
class Snapshot:
    """A snapshot in memory."""

    name: str
    attributes: dict[str, Any]  # JSON values
    arrays: dict[str, NDArray[Any]]
    address: str = ""


class SnapshotStore:
    """Snapshots ``000001``, ``000002``, ... in one folder, for one writer at a time."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self._returned = folder, 0

    def next_name(self) -> str:
        """Return the name of the next snapshot.

        Never one twice: whoever was to write part of one that was given up may do so later.
        """
        last = max(map(_number, self._keys()), default=0)
        self._returned = max(last, self._returned) + 1
        return f"{self._returned:06d}"

    def write(self, name: str, number: int, arrays: Arrays) -> StoredPart:
        """Write some arrays of a snapshot that `save` completes; ValueError, OSError as there."""
        return write_file(self.folder, f"{name}.{number}{SUFFIX}", "{}", arrays)

    def save(
        self,
        attributes: Mapping[str, Any],
        arrays: Arrays,
        name: str = "",
        parts: Iterable[StoredPart] = (),
    ) -> str:
        """Write a snapshot, whose other parts are there, and return its name.

        Parameters
        ----------
        attributes
            JSON values; numbers must be finite.
        arrays
            Numbers or booleans of any shape, or vectors that become one, by name: letters, digits
            and ``_ . -``.
        name
            As `next_name` returned it; that by default.
        parts
            What was written under this name before.

        Raises
        ------
        ValueError
            An attribute or an array cannot be stored.
        OSError
            Writing fails; older snapshots are unchanged.
        """
        text = _as_json(attributes)
        name = name or self.next_name()
        write_file(self.folder, name + SUFFIX, text, arrays, parts)
        return name

    def names(self) -> list[str]:
        """Return the names of all snapshots, oldest first."""
        return _names(self._keys())

    def files(self, name: str) -> list[str]:
        """Return the keys of a snapshot's files; Damaged as in `load`."""
        header = read_header(self.folder, name + SUFFIX)
        return [name + SUFFIX, *(part.key for part in header.metadata.parts)]

    def load(self, name: str, wanted: Callable[[str], bool] = lambda _name: True) -> Snapshot:
        """Read a snapshot, with the arrays whose names are wanted; all bytes used are verified.

        Raises
        ------
        Damaged
            A file is missing or was changed, or its header has more arrays than it has bytes.
        """
        key = name + SUFFIX
        header = read_header(self.folder, key)
        arrays = read_arrays(self.folder, key, header, wanted)
        for part in header.metadata.parts:
            if any(map(wanted, part.arrays)):
                own = self._header_of(part)
                arrays |= read_arrays(self.folder, part.key, own, wanted)
        return Snapshot(name, header.metadata.attributes, arrays, self.folder.address(key))

    def attributes(self, name: str) -> dict[str, Any]:
        """Read a snapshot's attributes only; Damaged as in `load`."""
        return read_header(self.folder, name + SUFFIX).metadata.attributes

    def latest(
        self, wanted: Callable[[str], bool] = lambda _name: True
    ) -> tuple[Snapshot | None, list[str]]:
        """Return the newest snapshot whose wanted arrays are whole, and faults of newer ones."""
        problems: list[str] = []
        for name in reversed(self.names()):
            try:
                return self.load(name, wanted), problems
            except Damaged as error:
                problems.append(str(error))
        return None, problems

    def verify(self, name: str) -> list[str]:
        """Read all of a snapshot and return a sentence on its fault, if there is one."""
        try:
            self.load(name)
        except Damaged as error:
            return [str(error)]
        return []

    def prune(self, keep: int) -> None:
        """Delete all but the newest `keep` snapshots, and parts of older ones never finished."""
        if keep < 1:
            raise ValueError(f"prune was asked to keep {keep} snapshots. Keep at least one.")
        keys = self._keys()
        retained = [int(name) for name in _names(keys)[-keep:]]
        for key in sorted(keys, key=len):  # a snapshot before its parts
            if _number(key) not in retained and _number(key) < max(retained, default=0):
                self.folder.delete(key)

    def _keys(self) -> list[str]:
        return [key for key in self.folder.list() if re.fullmatch(KEY, key)]

    def _header_of(self, part: StoredPart) -> SnapshotHeader:
        header = read_header(self.folder, part.key)
        if header.metadata.fingerprint != part.fingerprint:
            reason = "it is not the part that its snapshot was saved with"
            raise damaged(self.folder, part.key, reason)
        return header


def _number(key: str) -> int:
    """Return the number of the snapshot that a file is of."""
    return int(key.partition(".")[0])


def _names(keys: Iterable[str]) -> list[str]:
    """Return the names of the snapshots among files, oldest first."""
    names = (key.removesuffix(SUFFIX) for key in keys)
    return sorted((name for name in names if name.isdecimal()), key=int)


def _as_json(attributes: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(attributes), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The attributes of a snapshot cannot be stored as JSON ({error}). "
            "Use text, true or false, whole and finite numbers, lists and objects."
        ) from error
