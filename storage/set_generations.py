"""Generations of a data set: what `append` and `forget` make of it, one after the other.

The first generation lies in the folder of the data set, each later one in a folder of its own below
``generations/``, a whole Zarr group; chunks that both have are one file of two names where files
have names.  The manifest of the data set names the present one, and replacing it is the only step
that a reader sees.  After an append the generation before stays until the next change, for
trainings under way; its manifest is kept, too.
"""

from __future__ import annotations

import re
from typing import Final

from fewpass.storage.column_file import KEY as COLUMNS
from fewpass.storage.column_schema import KEY as SCHEMA
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import KEY as NAMES
from fewpass.storage.manifest import (
    GENERATIONS,
    KEY,
    Manifest,
    place_of_generation,
    read_manifest,
)

#: Everything of a generation but sparse rows.
OBJECTS: Final = (
    "X", "codes", "target", "weight", "offset", "retained", COLUMNS, "by-column",
    "zarr.json", SCHEMA, NAMES,
)  # fmt: skip
#: Folders of its chunks of sparse rows.
SPARSE_ROWS: Final = re.compile(r"rows-\d{6,}")


def earlier_key(number: int) -> str:
    """Return where the manifest of a generation is kept while its objects are still there."""
    return f"{GENERATIONS}/{number:06d}.json"


def generation_of(folder: Folder, now: Manifest, fingerprint: str) -> Manifest | None:
    """Return the generation of a data set with a fingerprint, if it is still there.

    `now` is the manifest of the present one.
    """
    if now.fingerprint == fingerprint:
        return now
    for number, change in enumerate(now.changes, 1):
        if change.parent == fingerprint and folder.exists(earlier_key(number)):
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


def retain(folder: Folder, manifest: Manifest, raw: bytes) -> None:
    """Keep the manifest of the present generation, so that it can be read after a later one."""
    folder.write(earlier_key(manifest.generation), raw)


def roll_back(folder: Folder, now: Manifest) -> None:
    """Make the generation before the present one again, which an append leaves; prune then."""
    earlier = earlier_key(now.generation - 1)
    folder.write(KEY, folder.read(earlier))
    folder.delete(earlier)


def prune_generations(folder: Folder, now: Manifest) -> None:
    """Remove all generations but the present one and, after an append, the one before.

    Also what an append or a forget wrote that was cut short.
    """
    latest = now.generation
    last = now.changes[-1].change if now.changes else None
    stays = {latest, latest - 1} if last == "append" else {latest}
    for number in {*_there(folder), 1} - stays:
        _remove(folder, number)
    if now.changes:
        folder.sync([KEY, f"{now.place}/zarr.json"])  # else a power cut brings them back


def _there(folder: Folder) -> set[int]:
    """Return the numbers of the generations that there is anything of."""
    parts = (key.split("/")[1].removesuffix(".json") for key in folder.list(GENERATIONS))
    return {int(part) for part in parts if part.isdecimal()}


def _remove(folder: Folder, number: int) -> None:
    folder.delete(earlier_key(number))
    if number > 1:
        folder.delete_tree(place_of_generation(number))
        return
    delete_objects(folder)


def delete_objects(folder: Folder) -> None:
    """Remove all objects of the generation that lies in a folder, and nothing else there."""
    for name in folder.names():
        if name in OBJECTS or SPARSE_ROWS.fullmatch(name):
            folder.delete_tree(name)
            folder.delete(name)
