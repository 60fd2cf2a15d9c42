"""Removing the data sets and runs of old generations; what was decided stays on record.

A generation's list of files and its decision stay, so that no file is taken twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.models.refresh.drift_refusals import DRIFT_REFUSED
from fewpass.pipeline.models.refresh.generation_drift import DRIFT
from fewpass.pipeline.models.refresh.generations import DECISION, FILES, Generation, generations
from fewpass.pipeline.models.refresh.publications import history
from fewpass.pipeline.models.refresh.refreshing import first_of, refresh_lock
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import Removed, is_free, removed
from fewpass.pipeline.tables.ingest.work_dir import all_owned, work_dirs_of
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import instead
from fewpass.storage.manifest import KEY

#: What stays of a generation, and of the first one, whose columns all others have.
RECORDS = frozenset({FILES, DECISION, DRIFT, DRIFT_REFUSED})
DATA = frozenset({"data", "data-test"})


def clean_store(store: str, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove what old generations consist of, alone in the store; see `remove_old_generations`."""
    if not generations(Folder(store)):
        raise BadInput(instead(Folder(store), "store"))
    if dry_run:
        return remove_old_generations(store, keep, dry_run=True)
    with refresh_lock(store):
        return remove_old_generations(store, keep)


def remove_old_generations(store: str, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove the data sets and runs of all generations but the newest ones.

    Besides, the published model stays, the one published before it, the one that a generation which
    is not decided starts from, and the rows of the first generation, which define the columns.

    Parameters
    ----------
    store
        Folder or address of the store.
    keep
        How many of the newest generations stay, 1 at least.
    dry_run
        Only look.
    """
    every = generations(Folder(store))
    staying = {one.number for one in every[-keep:]} | set(_in_use(store, every))
    first = first_of(store)
    done = []
    for one in every:
        if one.number in staying or not one.is_decided or not is_free(RunFolder(one.run)):
            continue
        own = RECORDS | DATA if one.number == first else RECORDS
        name = f"generation {one.number:06d}"
        taken = removed(one.folder, name, dry_run=True, keep=own)
        if dry_run:
            done.append(taken)
            continue
        with suppress(BusyPlace), _unchanged(one.data):
            removed(one.folder, name, dry_run=False, keep=own)
            done.append(taken)
    return [taken for taken in done if taken.objects]


def _unchanged(url: str) -> AbstractContextManager[None]:
    """Keep changes out of a data set, if there is one; BusyPlace while there is one at work."""
    folder = Folder(url)
    return all_owned(work_dirs_of([folder])) if folder.exists(KEY) else nullcontext()


def _in_use(store: str, every: list[Generation]) -> Iterator[int]:
    """Yield the generations whose models somebody may want."""
    moves = [one.generation for one in history(store)]
    yield from moves[-1:]
    yield from [one for one in reversed(moves) if one != moves[-1]][:1]
    for one in every:
        run = RunFolder(one.run)
        if not one.is_decided and run.exists():
            start = run.record().plan.start_from
            yield from (other.number for other in every if other.run == start)
