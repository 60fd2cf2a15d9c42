"""Whether an address names a source of rows or a data set that was made of one."""

from __future__ import annotations

from fewpass.pipeline.tables.readers.finding import is_file_on_web
from fewpass.pipeline.tables.readers.standard_input import WORDS
from fewpass.storage.addresses import local_path
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import OWN, kind_of

GLOB = "*?["


def is_source(address: str) -> bool:
    """Say whether rows are to be read from an address: a file, a glob, a folder of files.

    What is not there is taken for a data set that is not there, unless it is a glob; so are runs,
    stores of refreshes and the like, which whoever opens them as a data set refuses by their kind.
    """
    if address in WORDS:
        return True
    path = local_path(address)
    if is_file_on_web(address):
        return True
    if path is None:
        return kind_of(Folder(address)) not in OWN
    if path.is_dir():
        inside = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        return bool(inside) and kind_of(Folder(address)) not in OWN
    return path.exists() or any(mark in address for mark in GLOB)
