"""Removing what is old of a store; its log of events stays, so that no file is taken twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress

from fewpass.pipeline.errors import BusyPlace
from fewpass.pipeline.models.refresh.drift_watch import DRIFT
from fewpass.pipeline.models.refresh.store_events import Event, GenerationRemoved
from fewpass.pipeline.models.refresh.store_log import append_event, write_event
from fewpass.pipeline.models.refresh.store_state import (
    Generation,
    Store,
    existing_store,
    publications,
    refresh_lock,
    store_of,
)
from fewpass.pipeline.models.refresh.window_models import ROWS, RUN
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import Removed, is_free, removed
from fewpass.pipeline.tables.ingest.work_dir import all_owned, work_dirs_of
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY

RECORDS = frozenset({DRIFT})  # what stays of a generation


def clean_store(store: str, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove what old generations consist of, alone in the store; see `remove_old_generations`."""
    before = existing_store(store)
    if dry_run:
        return remove_old_generations(before, keep, dry_run=True)
    with refresh_lock(store):
        return remove_old_generations(existing_store(store), keep)


def remove_old_generations(store: Store, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove data sets and runs of all nights before the newest ones that are learnt from.

    So a night that waits or is set apart takes no other's place.  Rows go, too, that those of a
    file that changed have replaced.  The published model stays, the one published before it, and
    what is not finished.  Nights that go are not learnt from any more.

    Parameters
    ----------
    store
        The store.
    keep
        How many of the newest nights stay, 1 at least.
    dry_run
        Only look.
    """
    done: list[Removed] = []
    models = set(_models_in_use(store))
    for one in store.generations:
        if one.ended is None or not _is_old(store, one, keep) or not _is_free(one):
            continue
        own = RECORDS
        if one.number in models and one.learnt is not None:
            own |= {one.learnt.run, one.learnt.run.replace(RUN, ROWS)}
        name = f"generation {one.number:06d}"
        taken = removed(one.folder, name, dry_run=True, keep=own)
        if not taken.objects or dry_run:
            done.append(taken)
            continue
        with suppress(BusyPlace), _unchanged(one.data):
            if one.has_rows:
                _forget_night(store.folder, one)
            removed(one.folder, name, dry_run=False, keep=own)
            done.append(taken)
    return [taken for taken in done if taken.objects]


def _is_old(store: Store, one: Generation, keep: int) -> bool:
    newest = store.past.used[-keep:]
    return _is_replaced(store, one) or (len(newest) == keep and one.night < newest[0])


def _is_replaced(store: Store, one: Generation) -> bool:
    """Whether the rows of its night are another generation's by now."""
    return one.has_rows and store.of_night(one.night).number != one.number


def remove_unused(store: Store) -> None:
    """Remove models of windows, and rows of nights, that are not used any more.

    Of every generation its own model stays, of the newest one those of all windows; of a night the
    rows that were read last.
    """
    newest = store.generations[-1]
    for one in store.generations[:-1]:
        if one.night == newest.night and one.has_rows and newest.has_rows:
            with suppress(BusyPlace), _unchanged(one.data):
                one.folder.delete_tree("data")
                replaced = GenerationRemoved(
                    generation=one.number, why=f"{newest.number:06d} has its rows, read anew"
                )
                write_event(store.folder, replaced)
    learnt = [one for one in store.generations if one.learnt is not None]
    for one in store.generations[-1:]:
        scores = one.judged.scores if one.judged else None
        windows = set(one.learnt.runs.values()) if one.learnt else set()
        tried = {RUN + name for name in scores.names} if scores else set()
        _remove(one, tried - windows)
    if len(learnt) > 1 and learnt[-1].number == store.generations[-1].number:
        before = learnt[-2]
        assert before.learnt is not None, "it has a model"
        _remove(before, set(before.learnt.runs.values()) - {before.learnt.run})


def _remove(one: Generation, runs: set[str]) -> None:
    for run in runs:
        if is_free(RunFolder(f"{one.folder.url}/{run}")):
            one.folder.delete_tree(run)
            one.folder.delete_tree(run.replace(RUN, ROWS))


def _forget_night(folder: Folder, one: Generation) -> None:
    """Have nothing learnt from a generation's rows any more, which go now."""

    def event(events: list[Event]) -> GenerationRemoved:
        store = store_of(folder, events)
        past = None if _is_replaced(store, one) else store.past.without(one.night)
        return GenerationRemoved(generation=one.number, past=past)

    append_event(folder, event)


def _is_free(one: Generation) -> bool:
    return one.run is None or is_free(RunFolder(one.run))


def _unchanged(url: str) -> AbstractContextManager[None]:
    """Keep changes out of a data set, if there is one; BusyPlace while there is one at work."""
    folder = Folder(url)
    return all_owned(work_dirs_of([folder])) if folder.exists(KEY) else nullcontext()


def _models_in_use(store: Store) -> Iterator[int]:
    """Yield the generations whose models somebody may want."""
    moves = [one.generation for one in publications(store.events)]
    yield from moves[-1:]
    yield from [one for one in reversed(moves) if one != moves[-1]][:1]
