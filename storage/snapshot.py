"""Snapshots: named arrays and numbers, visible to readers only when complete."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fewpass.storage.end_to_end import EndToEnd
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import (
    RESTORE,
    ArrayLayout,
    DtypeName,
    StoredObject,
    fault,
    get,
    get_array,
    missing,
    put,
    put_array,
    require_keys,
)
from fewpass.storage.seal import seal, unseal
from fewpass.storage.zarr_documents import group_document

FORMAT: Final = "fewpass-snapshot"
FORMAT_VERSION: Final = 1
KEY = "manifest.json"
ROOT = "zarr.json"  # of the snapshot's Zarr group, with the snapshot's attributes
ARRAYS = "arrays/zarr.json"
MOST_MANIFEST_BYTES = 16 << 20
ARRAY_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$"


class SnapshotManifest(BaseModel):
    """The manifest of a snapshot."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    format: Literal["fewpass-snapshot"] = FORMAT
    version: Literal[1] = FORMAT_VERSION
    arrays: dict[Annotated[str, Field(pattern=ARRAY_NAME)], ArrayLayout]
    objects: dict[str, StoredObject]  # all objects of the snapshot, except this manifest
    fingerprint: str = Field(default="", exclude=True)  # SHA-256 of all of the above

    @model_validator(mode="after")
    def _has_groups(self) -> SnapshotManifest:
        inside = tuple(f"arrays/{name}/" for name in self.arrays)
        outside = {key for key in self.objects if not key.startswith(inside)}
        if outside != {ROOT, ARRAYS}:
            raise ValueError(f"it has {sorted(outside)}, where {[ROOT, ARRAYS]} were expected")
        return self


@dataclass(frozen=True)
class Snapshot:
    """A snapshot in memory."""

    name: str
    attributes: dict[str, Any]  # JSON values
    arrays: dict[str, NDArray[Any]]
    address: str = ""


class StoredArrays(NamedTuple):
    """Arrays of a snapshot that were written before its manifest, by this process or another."""

    arrays: dict[str, ArrayLayout]
    objects: dict[str, StoredObject]


class SnapshotStore:
    """Snapshots ``000001``, ``000002``, ... in one folder, for one writer at a time."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self._returned = folder, 0

    def next_name(self) -> str:
        """Return the name of the next snapshot.

        Never one twice: whoever was to write part of one that was given up may do so later.
        """
        self._returned = max(self._last(), self._returned) + 1
        return f"{self._returned:06d}"

    def write(self, name: str, arrays: Mapping[str, NDArray[Any] | EndToEnd]) -> StoredArrays:
        """Write some arrays of a snapshot that `save` completes; ValueError, OSError as there."""
        folder = self.folder.child(name)
        stored = _put_arrays(folder, _all_storable(arrays))
        folder.sync(stored.objects)
        return stored

    def save(
        self,
        attributes: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any] | EndToEnd],
        name: str = "",
        stored: Iterable[StoredArrays] = (),
    ) -> str:
        """Write a snapshot, its manifest last, and return its name.

        Parameters
        ----------
        attributes
            JSON values; numbers must be finite.
        arrays
            Numbers or booleans of any shape, by name: letters, digits and ``_ . -``.
        name
            As `next_name` returned it; that by default.
        stored
            What was written under this name before.

        Raises
        ------
        ValueError
            An attribute or an array cannot be stored.
        OSError
            Writing fails; older snapshots are unchanged.
        """
        root = _root_document(attributes)
        native = _all_storable(arrays)
        name = name or self.next_name()
        folder = self.folder.child(name)
        objects = {ROOT: put(folder, ROOT, root), ARRAYS: put(folder, ARRAYS, group_document())}
        own = _put_arrays(folder, native)
        layouts, objects = own.arrays, objects | own.objects
        folder.sync(objects)
        for each in stored:
            layouts |= each.arrays
            objects |= each.objects
        manifest = SnapshotManifest(arrays=layouts, objects=objects)
        folder.write(KEY, seal(manifest.model_dump(mode="json")))
        return name

    def names(self) -> list[str]:
        """Return the names of all complete snapshots, oldest first."""
        return _whole(self.folder.list())

    def load(self, name: str, wanted: Callable[[str], bool] = lambda _name: True) -> Snapshot:
        """Read a snapshot, with the arrays whose names are wanted; all bytes read are verified.

        Raises
        ------
        Damaged
            An object is missing or was changed, or the manifest needs more memory than its objects
            can fill.
        """
        folder = self.folder.child(name)
        manifest = _read_manifest(folder)
        attributes = _attributes(folder, manifest.objects[ROOT])
        for key, stored in manifest.objects.items():
            if key.endswith("/zarr.json"):
                get(folder, key, stored)
        arrays = {
            key: get_array(folder, f"arrays/{key}", layout, manifest.objects)
            for key, layout in manifest.arrays.items()
            if wanted(key)
        }
        return Snapshot(name, attributes, arrays, folder.url)

    def attributes(self, name: str) -> dict[str, Any]:
        """Read a snapshot's attributes only; Damaged as in `load`."""
        folder = self.folder.child(name)
        return _attributes(folder, _read_manifest(folder).objects[ROOT])

    def latest(self) -> tuple[Snapshot | None, list[str]]:
        """Return the newest intact snapshot, and a sentence on each newer damaged one."""
        problems: list[str] = []
        for name in reversed(self.names()):
            try:
                return self.load(name), problems
            except Damaged as error:
                problems.append(str(error))
        return None, problems

    def verify(self, name: str) -> list[str]:
        """Read every object of a snapshot and return a sentence on each damaged one."""
        folder = self.folder.child(name)
        try:
            objects = _read_manifest(folder).objects
        except Damaged as error:
            return [str(error)]
        faults = (fault(folder, key, stored) for key, stored in objects.items())
        return [problem for problem in faults if problem is not None]

    def prune(self, keep: int) -> None:
        """Delete all but the newest `keep` intact snapshots.

        Damaged and unfinished ones do not count.
        """
        if keep < 1:
            raise ValueError(f"prune was asked to keep {keep} snapshots. Keep at least one.")
        keys = self.folder.list()
        whole = _whole(keys)
        old, intact = whole.copy(), 0
        while old and intact < keep:
            intact += not self.verify(old.pop())
        for name in old:
            # first the manifest, without which it is no snapshot
            self.folder.delete(f"{name}/{KEY}")
        for name in sorted(_begun(keys).difference(whole[len(old) :])):
            self.folder.delete_tree(name)

    def _last(self) -> int:
        """Return the highest number used so far: numbers are not used again."""
        return max((int(name) for name in _begun(self.folder.list())), default=0)


def _begun(keys: Iterable[str]) -> set[str]:
    """Return the names of snapshots with any object."""
    return {key.split("/")[0] for key in keys if key.partition("/")[0].isdecimal() and "/" in key}


def _whole(keys: Iterable[str]) -> list[str]:
    """Return the names of snapshots that have a manifest, oldest first."""
    heads = (key.split("/") for key in keys)
    return sorted(p[0] for p in heads if len(p) == 2 and p[1] == KEY and p[0].isdecimal())


def _root_document(attributes: Mapping[str, Any]) -> bytes:
    try:
        return group_document(attributes)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The attributes of a snapshot cannot be stored as JSON ({error}). "
            "Use text, true or false, whole and finite numbers, lists and objects."
        ) from error


def _put_arrays(folder: Folder, arrays: Mapping[str, NDArray[Any] | EndToEnd]) -> StoredArrays:
    objects = dict[str, StoredObject]()
    for key, array in arrays.items():
        objects.update(put_array(folder, f"arrays/{key}", array))
    return StoredArrays({key: ArrayLayout.of(array) for key, array in arrays.items()}, objects)


def _all_storable(
    arrays: Mapping[str, NDArray[Any] | EndToEnd],
) -> dict[str, NDArray[Any] | EndToEnd]:
    return {name: _storable(name, array) for name, array in arrays.items()}


def _storable(name: str, array: NDArray[Any] | EndToEnd) -> NDArray[Any] | EndToEnd:
    if not re.fullmatch(ARRAY_NAME, name):
        raise ValueError(f"A snapshot's array is called {name!r}. Use letters, digits and _ . -")
    array = array if isinstance(array, EndToEnd) else np.asarray(array)
    if array.dtype.name not in get_args(DtypeName):
        raise ValueError(
            f"Array {name!r} of a snapshot has type {array.dtype}. "
            f"Store one of {get_args(DtypeName)}."
        )
    return array


def _attributes(folder: Folder, stored: StoredObject) -> dict[str, Any]:
    try:
        document = json.loads(get(folder, ROOT, stored), parse_constant=_not_finite)
        result: dict[str, Any] = dict(document["attributes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"{folder.address(ROOT)} is no Zarr group ({error}). {RESTORE}") from error
    return result


def _not_finite(text: str) -> float:
    raise ValueError(f"it has the number {text}")


def _read_manifest(folder: Folder) -> SnapshotManifest:
    try:
        size = folder.size(KEY)
        if size > MOST_MANIFEST_BYTES:
            raise Damaged(
                f"{folder.address(KEY)} has {size} bytes, more than any manifest. {RESTORE}"
            )
        manifest = SnapshotManifest.model_validate(unseal(folder.read(KEY)))
        require_keys({f"arrays/{name}": a for name, a in manifest.arrays.items()}, manifest.objects)
    except FileNotFoundError as error:
        raise missing(folder, KEY) from error
    except ValueError as error:
        raise Damaged(
            f"{folder.address(KEY)} is damaged or of another format: {error}. {RESTORE}"
        ) from error
    return manifest
