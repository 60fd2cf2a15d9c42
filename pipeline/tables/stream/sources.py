"""A test for addresses of sources, as against data sets; and a source opened to be read once.

Light to import: readers come when a source is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS, is_file_on_web
from fewpass.storage.addresses import is_table_server, local_path
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import OWN, kind_of

if TYPE_CHECKING:
    from fewpass.pipeline.settings.training_plan import TrainingPlan
    from fewpass.pipeline.tables.stream.first_rows import FirstRows

GLOB = "*?["


def is_source(address: str) -> bool:
    """Return whether rows are to be read from an address: a file, a glob, a folder of files.

    A missing address is taken for a missing data set, unless it is a glob.  Runs, stores of
    refreshes and the like count as data sets, too: opening them as one refuses them by their kind.
    """
    if address in STANDARD_INPUT_WORDS or is_table_server(address):
        return True
    path, is_glob = local_path(address), any(mark in address for mark in GLOB)
    if is_file_on_web(address):
        return True
    if path is None:
        kind = kind_of(Folder(address))
        return is_glob if kind == "nothing" else kind not in OWN
    if path.is_dir():
        inside = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
        return bool(inside) and kind_of(Folder(address)) not in OWN
    return path.exists() or is_glob


def read_first_rows(plan: TrainingPlan, *, again: bool = False) -> FirstRows:
    """Open the source of a plan and read its first rows.

    Parameters
    ----------
    plan
        Has a source.
    again
        Whether it was read before: BadInput where it cannot be read again.
    """
    from fewpass.pipeline.tables.stream.first_rows import FirstRows  # noqa: PLC0415 - and readers of text
    from fewpass.pipeline.tables.stream.source_plan import require_seekable, with_whole_addresses  # noqa: PLC0415 - likewise

    if again:
        require_seekable(plan)
    return FirstRows(with_whole_addresses(plan))
