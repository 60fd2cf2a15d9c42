"""Generations of a data set: what `append` and `forget` make of it, one after the other.

Each generation has a Zarr group of the chunks that were written for it, the first one in the folder
of the data set, each later one in a folder below ``generations/``.  Its manifest says which chunks
it has, of its own group and of earlier ones.  The manifest of the data set names the present one,
and replacing it is the only step that a reader sees.  After an append the generation before stays
until the next change, for trainings under way.

What is removed follows from manifests alone.  That of each generation is kept, as long as anything
is there that only it names, below ``generations/``, and is removed when that is durably gone:

- a group that no generation that stays has a chunk in goes as a whole;
- of any other group those chunks go which a generation that goes has, and none that stays;
- what tells of all rows of a generation that goes (statistics of its columns) goes with it.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from fewpass.storage.chunk_places import not_among
from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.local_files import is_partial
from fewpass.storage.manifest import (
    GENERATIONS,
    KEY,
    Manifest,
    place_of_generation,
    read_manifest,
)

BY_COLUMN: Final = "by-column"
#: Everything of a generation but sparse rows.
OBJECTS: Final = (
    "X", "codes", "target", "weight", "offset", "retained", COLUMNS, BY_COLUMN,
    "zarr.json", SCHEMA, NAMES,
)  # fmt: skip
#: Folders of its chunks of sparse rows.
SPARSE_ROWS: Final = re.compile(r"rows-\d{6,}")
#: What a generation has that is made of all its rows, whichever groups they lie in.
OF_ALL_ROWS: Final = (COLUMNS, SCHEMA, NAMES, BY_COLUMN)
DELETED_AT_ONCE: Final = 8  # of an object store, where each takes a request
_MANIFEST: Final = re.compile(r"\d{6,}\.json")


def earlier_key(number: int) -> str:
    """Return where the manifest of a generation is kept while its objects are still there."""
    return f"{GENERATIONS}/{number:06d}.json"


def stays(now: Manifest) -> set[int]:
    """Return the numbers of the generations that stay: the present one; after an append, two."""
    appended = bool(now.changes) and now.changes[-1].change == "append"
    return {now.generation, now.generation - 1} if appended else {now.generation}


def generation_of(folder: Folder, now: Manifest, fingerprint: str) -> Manifest | None:
    """Return the generation of a data set with a fingerprint, if it is still there.

    `now` is the manifest of the present one.
    """
    if now.fingerprint == fingerprint:
        return now
    for number in stays(now) - {now.generation}:
        if now.changes[number - 1].parent == fingerprint and folder.exists(earlier_key(number)):
            return read_manifest(folder.read(earlier_key(number)))
    return None


def what_became(now: Manifest, fingerprint: str) -> str | None:
    """Say which generation a fingerprint was of, and what came after; None: of none."""
    after = {"append": "rows were appended", "forget": "rows were forgotten"}
    for number, change in enumerate(now.changes, 1):
        if change.parent == fingerprint:
            said = dict.fromkeys(after[later.change] for later in now.changes[number - 1 :])
            return f"generation {number} of it, and {' and '.join(said)} since"
    return None


def retain(folder: Folder, manifest: Manifest) -> None:
    """Keep the manifest of the present generation next to that which is to come after it."""
    folder.write(earlier_key(manifest.generation), folder.read(KEY))


def roll_back(folder: Folder, now: Manifest) -> None:
    """Make the generation before the present one again, which an append leaves; prune then."""
    earlier = earlier_key(now.generation - 1)
    folder.write(KEY, folder.read(earlier))
    folder.delete(earlier)


def prune_generations(folder: Folder, now: Manifest) -> None:
    """Remove all generations but the present one and, after an append, the one before.

    Also what an append or a forget wrote that was cut short.  A store is asked for the names of
    generations, and for no more than what goes.
    """
    _Pruning(folder, now).run()


class _Pruning:
    """One call of `prune_generations`; cut short anywhere, the next one goes on."""

    def __init__(self, folder: Folder, now: Manifest) -> None:
        self.folder, self.now = folder, now
        names = folder.child(GENERATIONS).names()
        here = folder.names() if folder.is_local else ()
        written = [*here, *(f"{GENERATIONS}/{name}" for name in names)]
        self.unfinished = [key for key in written if is_partial(key)]
        self.manifests = {int(name[:-5]) for name in names if _MANIFEST.fullmatch(name)}
        self.groups = {1, *(int(name) for name in names if name.isdecimal())}
        self.stays = stays(now)

    def run(self) -> None:
        """Remove what no generation that stays has; the manifests of those that go come last."""
        for key in self.unfinished:
            self.folder.delete(key)
        goes = sorted(self.manifests - self.stays)
        if not goes and self.groups <= _groups_of(self.now):
            return
        stay = [self.now, *(self._manifest(k) for k in self.manifests & self.stays)]
        needed = set[int]().union(*(_groups_of(one) for one in stay))
        removed = [self._group(k) for k in sorted(self.groups - needed)]
        for number in goes:
            removed += self._chunks(self._manifest(number), stay, needed)
            removed += self._statistics(number) if number in needed else []
        self.folder.sync_deleted(removed)
        for number in goes:
            self.folder.delete(earlier_key(number))
        self.folder.sync_deleted([earlier_key(number) for number in goes])

    def _manifest(self, number: int) -> Manifest:
        return read_manifest(self.folder.read(earlier_key(number)))

    def _group(self, number: int) -> str:
        """Remove a group; return its key."""
        if number == 1:
            delete_objects(self.folder)
            return KEY
        self.folder.delete_tree(place_of_generation(number))
        return place_of_generation(number)

    def _chunks(self, gone: Manifest, stay: list[Manifest], needed: set[int]) -> list[str]:
        """Remove the chunks that only a generation which goes has; return their keys."""
        at = not_among(gone.chunk_places, [one.chunk_places for one in stay])
        own = [int(k) for k in at if gone.place_of(k).generation in needed]
        keys = {key for k in own for key in map(_removed_at, gone.objects_of(k))}
        with ThreadPoolExecutor(1 if self.folder.is_local else DELETED_AT_ONCE, "delete") as pool:
            list(pool.map(self._delete, keys))
        return sorted(keys)

    def _statistics(self, number: int) -> list[str]:
        """Remove what tells of all rows of a generation; return the keys."""
        place = place_of_generation(number)
        keys = [f"{place}/{name}" if place else name for name in OF_ALL_ROWS]
        for key in keys:
            self._delete(key)
        return keys

    def _delete(self, key: str) -> None:
        """Remove an object, or all that lies in the folder of a sparse chunk or column copy."""
        name = key.rpartition("/")[2]
        if name == BY_COLUMN or SPARSE_ROWS.fullmatch(name):
            self.folder.delete_tree(key)
        else:
            self.folder.delete(key)


def _groups_of(manifest: Manifest) -> set[int]:
    """Return the generations in whose groups a generation has something: its own, at least."""
    return {manifest.generation, *np.unique(manifest.chunk_places["generation"]).tolist()}


def _removed_at(key: str) -> str:
    """Return what is removed where an object goes: of a sparse chunk its folder."""
    at = SPARSE_ROWS.search(key)
    return key if at is None else key[: at.end()]


def delete_objects(folder: Folder) -> None:
    """Remove all objects of the generation that lies in a folder, and nothing else there."""
    for name in folder.names():
        if name in OBJECTS or SPARSE_ROWS.fullmatch(name):
            folder.delete_tree(name)
            folder.delete(name)
