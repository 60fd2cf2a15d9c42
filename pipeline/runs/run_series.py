"""The runs of a schedule: folders of one address with a date in it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.lease import KEY as LEASE
from fewpass.pipeline.lease import holder_of
from fewpass.pipeline.runs.run_folder import KEY, RunFolder
from fewpass.pipeline.runs.run_log import LOG, SEGMENTS
from fewpass.pipeline.runs.saved import Saved, is_of_model
from fewpass.storage.folder import Damaged, Folder

#: What may stand in a run's address for the scheduled start, and how that is written.
PLACEHOLDERS = {"{date}": r"\d{4}-\d\d-\d\d(T\d{4})?", "{time}": r"\d\dB?\d{4}"}
_PLACEHOLDER = re.compile(r"(\{date\}|\{time\})")
REMOVED = "removed.json"  # in what is being removed, or was
OF_A_RUN = (KEY, LOG, SEGMENTS, LEASE, REMOVED, "snapshots", "rows", "report")

logger = logging.getLogger(__name__)


class Removed(NamedTuple):
    """Runs that were removed, or would be."""

    what: str
    address: str
    objects: int
    bytes: int | None  # None: not looked up, in object stores


def runs_of(pattern: str) -> Iterator[RunFolder]:
    """Yield the runs whose address is a pattern's with a date in it, newest first."""
    below, names = _names_of(pattern, KEY)
    return (RunFolder(f"{below.url}/{name}") for name in names)


def _names_of(pattern: str, key: str) -> tuple[Folder, list[str]]:
    """Return the folder of a schedule's runs, and the names of those with an object."""
    if "{date}" not in pattern:
        raise BadInput(f"{pattern} is one run. Name a schedule's, with {{date}} in its address.")
    parts = _PLACEHOLDER.split(pattern.rstrip("/"))
    place, _, first = parts[0].rpartition("/")
    below = Folder(place or ".")
    shape = "".join(PLACEHOLDERS.get(part, re.escape(part)) for part in [first, *parts[1:]])
    objects = [each.rpartition("/") for each in below.list()]
    being_removed = {folder for folder, _, name in objects if name == REMOVED}
    names = {folder for folder, _, name in objects if name == key}
    names -= being_removed if key == KEY else set()
    return below, sorted((n for n in names if re.fullmatch(shape, n)), reverse=True)


def is_finished(run: RunFolder) -> bool:
    """Say whether a run's training came to its end."""
    newest, _ = run.snapshots.latest(is_of_model)
    return newest is not None and Saved.of(newest).finished


def remove_old_runs(pattern: str, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove the runs of a schedule but the newest finished ones, and what is not finished.

    A run that another one, which is not finished, starts from stays; so does one that is in use.

    Parameters
    ----------
    pattern
        Address of the schedule's runs, with {date} in it.
    keep
        How many finished runs stay.
    dry_run
        Only look.
    """
    every = list(runs_of(pattern))
    finished = [run for run in every if is_finished(run)]
    starts = {_start_of(run) for run in every if run not in finished}
    old = [one for one in finished[keep:] if one.url not in starts and is_free(one)]
    below, begun = _names_of(pattern, REMOVED)  # a removal that was killed goes on
    old += [RunFolder(f"{below.url}/{name}") for name in begun]
    return [
        removed(one.folder, f"run {one.folder.name}", dry_run=dry_run)
        for one in old
        if not _has_others(one.folder)
    ]


def _has_others(folder: Folder) -> bool:
    """Say whether somebody keeps other files in a run's folder; tells of it."""
    others = (key for key in folder.list() if key.partition("/")[0] not in OF_A_RUN)
    other = next(others, None)
    if other is not None:
        logger.warning("%s stays, as %s is not of a run.", folder.url, other)
    return other is not None


def _start_of(run: RunFolder) -> str | None:
    try:
        start = run.record().plan.start_from
    except (Damaged, ValueError):
        return None
    return None if start is None else Folder(start).url


def is_free(run: RunFolder) -> bool:
    """Say whether no living process is at work in a run."""
    holder = holder_of(run.folder)
    return holder is None or holder.is_dead()


def removed(
    folder: Folder, what: str, *, dry_run: bool, keep: frozenset[str] = frozenset()
) -> Removed:
    """Remove a folder, and say what it held; a removal that is killed goes on with the next one.

    Parameters
    ----------
    keep
        Names in it that stay; its mark does, too, then.
    """
    keys = [key for key in folder.list() if key.partition("/")[0] not in keep | {REMOVED}]
    size = sum(map(folder.size, keys)) if folder.is_local else None
    if not dry_run:
        folder.create(REMOVED, b"{}\n")
        for name in sorted({key.partition("/")[0] for key in keys}):
            folder.delete(name) if name in keys else folder.delete_tree(name)
        if not keep:
            folder.delete_tree()
    return Removed(what, folder.url, len(keys), size)
