"""Whose a folder is: which hold a data set or a run of ours, and nothing else."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, Final

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import COMPRESSIONS, EXTENSIONS, STANDARD_INPUT_WORDS
from fewpass.storage.addresses import READ_ONLY
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.locations import Location
from fewpass.storage.manifest import FORMAT, KEY
from fewpass.storage.redaction import without_secrets

StorageOptions = dict[str, Any] | None

RUN_KEY: Final = "run.json"
RUN_FORMAT: Final = "fewpass-run"
#: Of a data set that is being made, and ever after.
INGEST_KEY: Final = "ingest.json"
#: What marks a folder as one of ours: an object, and what its first bytes say.
MARKS = (
    (KEY, f'"{FORMAT}"', "the data set"),
    (RUN_KEY, f'"{RUN_FORMAT}"', "the run"),
    (INGEST_KEY, '"plan_digest"', "the data set"),
)
ELSEWHERE = "Choose another place."
_HEAD_BYTES = 4096


def require_outside(here: Location, storage_options: StorageOptions = None) -> None:
    """Refuse a place inside a data set or a run; BadInput."""
    for folder in here.folders():
        what = what_is_at(folder, storage_options)
        if what is not None:
            raise BadInput(
                f"{shown(here.url)} lies in {what} {shown(folder)}, which holds nothing else. "
                f"{ELSEWHERE}"
            )


def what_is_at(folder: str, storage_options: StorageOptions = None) -> str | None:
    """Say which of ours an address holds, by the first bytes of its mark; None for neither."""
    place = Folder(folder, storage_options)
    return next((what for key, says, what in MARKS if says in head_of(place, key)), None)


def head_of(folder: Folder, key: str) -> str:
    """Return how an object begins; nothing where there is none, or it is not ours to read."""
    buffer = bytearray(_HEAD_BYTES)
    try:
        size = folder.read_into(key, memoryview(buffer))
    except (FileNotFoundError, PermissionError, Damaged):
        return ""
    return buffer[:size].decode("latin-1")


def is_data_set(address: str, storage_options: StorageOptions = None) -> bool:
    """Whether an address names a data set, and no file."""
    if address in STANDARD_INPUT_WORDS or shown(address) != address:  # then it names a single file
        return False
    if is_file_on_web(address):
        return False
    return Folder(address, storage_options).exists(KEY)


def is_file_on_web(address: str) -> bool:
    """Say whether a web address ends as files of rows do.

    It is not looked for what a data set has there: some servers have an answer to every address.
    """
    protocol, found, rest = without_secrets(address).partition("://")
    if not found or protocol not in READ_ONLY:
        return False
    suffixes = PurePosixPath(rest).suffixes[-2:]
    return any(suffix.lower() in (*EXTENSIONS, *COMPRESSIONS) for suffix in suffixes)


def shown(address: str) -> str:
    """Return an address as messages have it."""
    return without_secrets(address)
