"""Removing what is old of a store; its log of events stays, so that no file is taken twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress

from fewpass.pipeline.errors import BusyPlace
from fewpass.pipeline.models.refresh.drift_watch import DRIFT
from fewpass.pipeline.models.refresh.store_events import Event, GenerationRemoved
from fewpass.pipeline.models.refresh.store_log import append_event
from fewpass.pipeline.models.refresh.store_state import (
    Generation,
    Store,
    existing_store,
    refresh_lock,
    store_at,
    store_of,
)
from fewpass.pipeline.models.refresh.window_models import ROWS, RUN
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import Removed, is_free, removed
from fewpass.pipeline.tables.ingest.work_dir import all_owned, work_dirs_of
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY, read_manifest

RECORDS = frozenset({DRIFT})  # what stays of a generation
REPLACED = "its files have changed, and were read anew"


def clean_store(store: str, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove what old generations consist of, alone in the store; see `remove_old_generations`."""
    before = existing_store(store)
    if dry_run:
        return remove_old_generations(before, keep, dry_run=True)
    with refresh_lock(store):
        return remove_old_generations(existing_store(store), keep)


def remove_old_generations(store: Store, keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove data sets and runs of all nights before the newest ones that are learnt from.

    So a night that waits or is quarantined takes no other's place, and one that waits stays
    until it is decided.  Rows that those of a changed file have replaced go, too.  The
    published model stays, the one published before it, and what is not finished.  Nights that
    go are not learnt from any more.

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
    models = _in_use(store)
    for one in _old(store, keep):
        if one.ended is None or not _is_free(one):
            continue
        own = RECORDS
        if one.number in models and one.learnt is not None:
            own |= {one.learnt.run, one.learnt.run.replace(RUN, ROWS)}
        name = f"generation {one.number:06d}{' but its model' if own != RECORDS else ''}"
        taken = removed(one.folder, name, dry_run=True, keep=own)
        if not taken.objects or dry_run:
            done.append(taken)
            continue
        if one.number in _in_use(store_at(store.folder.url, store.events)) - models:
            continue  # somebody publishes it just now: what is old is removed by the next call
        with suppress(BusyPlace), _unchanged(one.data):
            if one.took and not one.is_removed:
                _forget_night(store.folder, one)
            removed(one.folder, name, dry_run=False, keep=own)
            done.append(taken)
    return [taken for taken in done if taken.objects]


def _in_use(store: Store) -> set[int]:
    """Return the generations whose models stay: of what is published, and was before."""
    return {one.generation for one in (store.published, store.published_before) if one}


def _old(store: Store, keep: int) -> list[Generation]:
    newest, replaced = store.past.used[-keep:], _numbers(store.replaced)
    first = newest[0] if len(newest) == keep else 0
    old = {one.night for one in store.generations if one.night < first} - {*store.past.waiting}
    return [one for one in store.generations if one.night in old or one.number in replaced]


def _numbers(generations: Iterable[Generation]) -> set[int]:
    return {one.number for one in generations}


def remove_unused(store: Store) -> None:
    """Remove models of windows, and rows of files that have changed, that are not used any more.

    Of every generation its own model stays, of the newest one those of all windows; of a night the
    rows that were read last, and those that wait to replace others.
    """
    for one in store.replaced:
        with suppress(BusyPlace), _unchanged(one.data):
            remove_rows(store, one, REPLACED)
    _remove_models(store)


def remove_rows(store: Store, one: Generation, why: str, had: tuple[str, ...] = ()) -> None:
    """Remove the rows of a generation: nothing is learnt from them any more.

    `had` are the fingerprints of the data set that had them, where they were forgotten.
    """
    _forget_night(store.folder, one, why, had)
    one.folder.delete_tree("data")


def finish_removal(store: Store) -> None:
    """Remove what is left where `remove_unused` was killed: rows of its last event, and models."""
    gone = (one for one in reversed(store.events) if isinstance(one, GenerationRemoved))
    last = store.numbered(next((one.generation for one in gone), 0))
    if last is not None:
        last.folder.delete_tree("data")
    remove_unused(store)


def _remove_models(store: Store) -> None:
    """Remove those that the newest generation has tried, and those of the windows of the last."""
    for newest in store.generations[-1:]:
        scores = newest.evaluated.scores if newest.evaluated else None
        windows = set(newest.learnt.runs.values()) if newest.learnt else set()
        tried = {RUN + name for name in scores.names} if scores else set()
        _remove(newest, tried - windows)
    learnt = [one for one in store.generations if one.learnt is not None]
    for before in learnt[-2:-1]:
        assert before.learnt is not None, "it has a model"
        _remove(before, set(before.learnt.runs.values()) - {before.learnt.run})


def _remove(one: Generation, runs: set[str]) -> None:
    for run in runs:
        if is_free(RunFolder(f"{one.folder.url}/{run}")):
            one.folder.delete_tree(run)
            one.folder.delete_tree(run.replace(RUN, ROWS))


def _forget_night(
    folder: Folder, one: Generation, why: str = "", had: tuple[str, ...] = ()
) -> None:
    """Have nothing learnt from a generation's rows any more, which go now."""

    def event(events: list[Event]) -> GenerationRemoved:
        store = store_of(folder, events)
        is_used = one.has_rows and one.number not in _numbers(store.replaced)
        past = store.past.without(one.night) if is_used else None
        return GenerationRemoved(generation=one.number, past=past, why=why, had=had)

    append_event(folder, event)


def _is_free(one: Generation) -> bool:
    return one.run is None or is_free(RunFolder(one.run))


def remove_views(store: Store, had: Collection[str]) -> None:
    """Remove views of data sets that had rows which are forgotten: their statistics are of these.

    `had` are the fingerprints of these data sets. What a killed call left of a view goes, too.
    """
    for one in store.generations:
        for name in one.folder.names():
            if name.startswith(ROWS) and _is_of(one.folder.child(name), had):
                one.folder.delete_tree(name)


def _is_of(view: Folder, had: Collection[str]) -> bool:
    """Say whether a view is of one of some data sets; or is none, and cannot be read."""
    try:
        parts = read_manifest(view.read(KEY)).parts
    except (FileNotFoundError, ValueError):
        return True
    return not {part.fingerprint for part in parts}.isdisjoint(had)


def _unchanged(url: str) -> AbstractContextManager[None]:
    """Keep changes out of a data set, if there is one; BusyPlace while there is one at work."""
    folder = Folder(url)
    return all_owned(work_dirs_of([folder])) if folder.exists(KEY) else nullcontext()
