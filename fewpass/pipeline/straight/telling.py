"""Whether an address names a source of rows or a data set that was made of one."""

from __future__ import annotations

from pathlib import PurePosixPath

from fewpass.pipeline.settings.formats import EXTENSIONS
from fewpass.pipeline.sources.standard_input import WORDS
from fewpass.pipeline.sources.streams import COMPRESSIONS
from fewpass.storage.addresses import READ_ONLY, local_path
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY
from fewpass.storage.redaction import without_secrets

GLOB = "*?["
#: What a data set has, and an ingest that was interrupted.
MARKS = (KEY, "ingest.json", "zarr.json")


def is_file_on_web(address: str) -> bool:
    """Say whether a web address ends as files of rows do.

    It is not looked for what a data set has there: some servers have an answer to every address.
    """
    protocol, found, rest = without_secrets(address).partition("://")
    if not found or protocol not in READ_ONLY:
        return False
    suffixes = PurePosixPath(rest).suffixes[-2:]
    return any(suffix.lower() in (*EXTENSIONS, *COMPRESSIONS) for suffix in suffixes)


def is_source(address: str) -> bool:
    """Say whether rows are to be read from an address: a file, a glob, a folder of files.

    What is not there is taken for a data set that is not there, unless it is a glob.
    """
    if address in WORDS:
        return True
    path = local_path(address)
    if is_file_on_web(address):
        return True
    if path is None:
        return not any(Folder(address).exists(mark) for mark in MARKS)
    if path.is_dir():
        inside = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        return bool(inside) and not set(inside) & set(MARKS)
    return path.exists() or any(mark in address for mark in GLOB)
