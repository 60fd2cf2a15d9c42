"""Recognition of what is at an address, and advice where it is not what was wanted.

Commands take data sets, runs, files of rows and the stores of refreshes, and people swap them: the
names of objects tell these apart.  Before anything is written or deleted the first bytes of an
object have to agree, as a `manifest.json` may be anybody's.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from fewpass.storage.addresses import READ_ONLY, command, local_path, open_store, protocol_of
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.locations import Location
from fewpass.storage.manifest import FORMAT, GENERATIONS, KEY
from fewpass.storage.redaction import without_secrets

Kind = Literal[
    "data set", "snapshot", "run", "generation", "store", "unfinished", "no manifest", "file",
    "folder", "nothing",
]  # fmt: skip
Wanted = Literal["data set", "run", "rows", "store", "any", "new run"]

RUN_KEY: Final = "run.json"
RUN_FORMAT: Final = "fewpass-run"
#: Of a data set that is being made, and ever after.
INGEST_KEY: Final = "ingest.json"
#: How it begins until the group of the data set is written.
NOT_YET: Final = '"plan_digest":""'
#: Where unfinished work lies inside a local data set.
INSIDE: Final = ".ingest"
ELSEWHERE = "Choose another place."
#: What the first bytes of an object say in folders that hold nothing but what fewpass wrote.
_BEGINS: dict[str, tuple[str, Kind]] = {
    KEY: (f'"{FORMAT}"', "data set"),
    RUN_KEY: (f'"{RUN_FORMAT}"', "run"),
    INGEST_KEY: ('"plan_digest"', "data set"),
}
_HEAD_BYTES = 4096

#: Objects that mark a kind; a folder is of the first kind whose mark it has.
_MARKS: tuple[tuple[str, Kind], ...] = (
    (KEY, "data set"),
    (RUN_KEY, "run"),
    ("snapshots/000001.safetensors", "run"),
    ("data/manifest.json", "generation"),
    ("events/000001.json", "store"),
    (INGEST_KEY, "unfinished"),
    ("zarr.json", "unfinished"),
)
#: Kinds of which fewpass itself wrote every byte: no rows of anybody's are read from these.
OWN: tuple[Kind, ...] = (
    "data set", "snapshot", "run", "generation", "store", "unfinished", "no manifest",
)  # fmt: skip
_GENERATION = re.compile(r"/generations/\d{6}$")  # elsewhere a folder may hold a data set
_SNAPSHOT = re.compile(r"/\d{6,}\.safetensors$")
_EXPORTED = (".onnx", ".safetensors", ".liblinear", ".skops")
_WEB_MARKS = (KEY,)  # a server of files is asked as little as can be
_CALLED: dict[Kind, str] = {
    "data set": "a data set",
    "snapshot": "a snapshot of a run",
    "run": "a run",
    "generation": "a generation of a refresh's store",
    "store": "the store of a refresh",
    "unfinished": "a data set whose ingest is not finished",
    "no manifest": f"a data set of which {KEY} is missing",
    "file": "a file",
    "folder": "a folder of other files",
}
_WANTED: dict[Wanted, str] = {
    "data set": "a data set was",
    "run": "a run was",
    "rows": "files of rows were",
    "store": "the store of a refresh was",
    "any": "a data set, a run or a snapshot was",
    "new run": "a folder for a new run was",
}


def kind_of(folder: Folder) -> Kind:
    """Return what kind of thing a folder, or the file of that address, is."""
    web = not folder.is_local and protocol_of(folder.url) in READ_ONLY
    for mark, kind in _MARKS:
        if kind == "generation" and not _GENERATION.search(folder.url):
            continue
        if (not web or mark in _WEB_MARKS) and folder.exists(mark):
            return "no manifest" if kind == "unfinished" and _was_whole(folder) else kind
    return _unmarked(folder)


def _was_whole(folder: Folder) -> bool:
    """Return whether a data set without a manifest had one.

    An ingest leaves its unfinished work, or a marker that says nothing, until the group is written.
    """
    if folder.exists(f"{INSIDE}/lock") or NOT_YET in head_of(folder, INGEST_KEY):
        return False
    group = f'"{FORMAT}"' in head_of(folder, "zarr.json")
    return group or bool(folder.list(GENERATIONS))


def _unmarked(folder: Folder) -> Kind:
    path = local_path(folder.url)
    if path is not None:
        if path.is_dir():
            return "folder" if any(path.iterdir()) else "nothing"
        return _file(folder) if path.exists() else "nothing"
    with folder.naming_errors(""):
        store, inside = open_store(folder.url, folder.storage_options)
        if not store.exists(inside):
            return "nothing"
        return "folder" if store.isdir(inside) else _file(folder)


def _file(folder: Folder) -> Kind:
    return "snapshot" if _SNAPSHOT.search(folder.url) else "file"


def owner_of(folder: Folder) -> Kind | None:
    """Return which of `data set` and `run` a folder is, by what an object in it begins with."""
    kinds = (kind for key, (_, kind) in _BEGINS.items() if begins_as_ours(folder, key))
    return next(kinds, None)


def begins_as_ours(folder: Folder, key: str) -> bool:
    """Say whether an object is a mark that fewpass wrote."""
    says, _ = _BEGINS[key]
    return says in head_of(folder, key)


def head_of(folder: Folder, key: str) -> str:
    """Return how an object begins; nothing where there is none, or it may not be read."""
    buffer = bytearray(_HEAD_BYTES)
    try:
        size = folder.read_into(key, memoryview(buffer)).size
    except (FileNotFoundError, PermissionError, Damaged):
        return ""
    return buffer[:size].decode("latin-1")


def inside_of_ours(here: Location, storage_options: dict[str, Any] | None = None) -> str | None:
    """Say in which data set or run a place lies, and what to do; None where it is in neither."""
    for url in here.folders():
        kind = owner_of(Folder(url, storage_options))
        if kind is not None:
            return (
                f"{without_secrets(here.url)} lies in the {kind} {without_secrets(url)}, which "
                f"holds nothing else. {ELSEWHERE}"
            )
    return None


def instead(folder: Folder, wanted: Wanted, like: str | None = None) -> str:
    """Say what lies where something else was expected, and what to do.

    Parameters
    ----------
    folder, wanted
        The place, and what was expected there.
    like
        The data set whose columns a data set to be made should have.
    """
    kind = kind_of(folder)
    if kind == "nothing":
        return (
            f"There is nothing at {folder.url}, and {_WANTED[wanted]} expected. "
            f"Check the address, or make one first: {_MADE_BY[wanted]}."
        )
    return (
        f"{folder.url} is {_CALLED[kind]}, and {_WANTED[wanted]} expected. "
        f"{_advice(folder, kind, wanted, like)}"
    )


_MADE_BY: dict[Wanted, str] = {
    "data set": command("ingest", "SOURCE", "DATASET"),
    "run": command("train", "DATASET", "RUN"),
    "rows": command("demo", "FOLDER"),
    "any": command("ingest", "SOURCE", "DATASET"),
    "new run": command("train", "DATASET", "RUN"),
    "store": "prefect run refresh -p sources=SOURCE -p store=STORE",
}
_IN_GENERATION = {"data set": "data", "run": "run-all", "rows": "data", "any": "run-all"}


def _advice(folder: Folder, kind: Kind, wanted: Wanted, like: str | None) -> str:
    url = folder.url
    inside = f"{url}/generations/000001" if kind == "store" else url
    if kind == "no manifest":
        return _without_manifest(folder)
    if wanted == "new run":
        return "Choose another place for the run."
    if wanted == "store":
        return f"Name the folder that refreshes write to: {_MADE_BY[wanted]} makes one."
    advice = {
        "unfinished": "Give the command that ingests into it again; it goes on where it stopped.",
        "store": f"Name what is in it, such as {inside}/{_IN_GENERATION[wanted]}.",
        "generation": f"Name what is in it, such as {inside}/{_IN_GENERATION[wanted]}.",
    }
    return advice.get(kind) or (_run_for if wanted == "run" else _rows_for)(url, kind, like)


def _without_manifest(folder: Folder) -> str:
    """Say how to come to a data set again."""
    again = (
        f"Put {folder.address(KEY)} back from a copy, or give the command that ingested it again"
    )
    if folder.list(GENERATIONS):
        return f"{again}, and repeat what was appended and forgotten since."
    return f"{again}: of the same files it makes the same bytes."


def _run_for(url: str, kind: Kind, _like: str | None) -> str:
    """Say how to come to a run."""
    if kind == "snapshot":
        return f"Name its run: {url.rpartition('/snapshots/')[0] or 'RUN'}."
    if kind == "file" and url.endswith(_EXPORTED):
        return "Name the run that it was exported from."
    return f"Train a model on it: {command('train', url, 'RUN')}."


def _rows_for(url: str, kind: Kind, like: str | None) -> str:
    """Say how to come to rows, or to a data set of them."""
    if kind in ("run", "snapshot"):
        return f"Name the data set that it was trained on; {command('inspect', url)} tells which."
    if kind == "data set":
        return f"Train on it as it is: {command('train', url, 'RUN')}."
    more = "" if like is None else f" `like={like}`"
    return f"Make a data set of it: {command('ingest', url, 'DATASET')}{more}."
