"""Ingest of a generation's files; unreadable ones are refused.

An ingest refuses all of its sources for the sake of one.  Where that happens every file is ingested
by itself, as it would be among the others.  An event in the store's log takes a refused file
out of the generation; the rest is ingested.  So does one where a file was written to since its
state was recorded; the next refresh takes that one.

A generation that is to replace the rows of a night does so with all of its files, or not at all.

Files of a first generation may be readable, but have different columns.  The first file defines the
columns, unless most others do not match it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.models.refresh.file_states import FileState, looked
from fewpass.pipeline.models.refresh.store_events import Dropped, RefusedFile
from fewpass.pipeline.models.refresh.store_log import write_event
from fewpass.pipeline.models.refresh.store_state import Generation, Store
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.progress import IngestResult
from fewpass.pipeline.tables.ingest.work_dir import remove_leftovers
from fewpass.pipeline.tables.readers.finding import find
from fewpass.storage.addresses import READ_ONLY, command, protocol_of
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY
from fewpass.storage.source_file import SourceChanged

TRIAL = "trial"  # folder inside a generation for the ingest of a single file
WRITTEN = "it was written to while it was read. The next refresh takes it."
SHOWN = 3  # most refused files in a message; `models` lists all


class AllRefused(BadInput):
    """New files that were all refused, each recorded with its reason."""


class NotReplaced(BadInput):
    """Files that changed and cannot be read: the rows of their night stay as they were taken."""


class TakenFiles(NamedTuple):
    """Result of a generation's files, whose data set is stored."""

    refused: tuple[RefusedFile, ...]  # by this call
    left_out: tuple[str, ...] = ()  # columns that the first generation does not have
    notes: tuple[str, ...] = ()  # what somebody should look at


class _Trial(NamedTuple):
    """A file that is tried: its state before, and its fault."""

    name: str
    state: FileState  # as it is now, or was where it is missing
    is_there: bool = True
    error: Exception | None = None


def take(
    plan: RefreshPlan,
    store: Store,
    generation: Generation,
    make: Callable[[IngestPlan], IngestResult] = ingest,
) -> TakenFiles:
    """Ingest a generation's files, refusing those that cannot be read.

    A complete data set is not changed, also if files have changed since.

    Parameters
    ----------
    plan, store, generation
        The refresh plan, the store, and its open generation.
    make
        Function that ingests, such as one with a progress display.

    Raises
    ------
    AllRefused
        No file is left; the generation is dropped.
    BadInput
        The files are refused together, though each is good: settings, or too few rows.  The
        generation is dropped.
    OSError
        A full disk, a lost connection.  No file is refused for that; call again.
    """
    refused: list[RefusedFile] = []
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    while not Folder(generation.data).exists(KEY):
        try:
            made = make(ingest_plan(plan, store, generation))
            left_out, notes = made.left_out, made.notes
        except Exception as error:
            bad = _refused_of(plan, store, generation, error)
            if not bad:
                if isinstance(error, ValueError) and not isinstance(error, BusyPlace):
                    _drop(store, generation)  # the next refresh takes the files that exist then
                raise
            generation = _without(store, generation, bad)
            refused += bad
    remove_leftovers(ingest_plan(plan, store, generation))
    return TakenFiles(tuple(refused), left_out, notes)


def ingest_plan(plan: RefreshPlan, store: Store, generation: Generation) -> IngestPlan:
    """Return the ingest plan of a generation, with the columns of those before."""
    files = tuple(file.name for file in generation.files)
    values = plan.ingest.model_dump() | {"sources": files, "dataset": generation.data}
    before = store.before(generation)
    if before is not None:
        values |= {"like": before.data, "scale": "auto"}
    return IngestPlan.model_validate(values)


def _without(store: Store, generation: Generation, bad: Sequence[RefusedFile]) -> Generation:
    """Refuse files, and return the generation without them; AllRefused where none is left."""
    for event in bad:
        write_event(store.folder, event)
    names = {event.file.name for event in bad}
    left = tuple(file for file in generation.files if file.name not in names)
    if generation.night in store.nights:
        _drop(store, generation)
        raise NotReplaced(
            f"Files of generation {store.of_night(generation.night).number:06d} have changed and "
            "cannot be read as they are now. Its rows stay as they were taken."
        )
    if not left:
        _drop(store, generation)
        raise AllRefused(_all_refused(store.folder.url, bad))
    return generation._replace(files=left)


def _drop(store: Store, generation: Generation) -> None:
    write_event(store.folder, Dropped(generation=generation.number))
    generation.folder.delete_tree()


def _all_refused(store: str, bad: Sequence[RefusedFile]) -> str:
    all_of = "The new file was" if len(bad) == 1 else f"All {len(bad)} new files were"
    reasons = " ".join(f"{one.file.name}: {one.why}" for one in bad[:SHOWN])
    return (
        f"{all_of} refused, and no generation was made. {reasons} What is mended is tried again "
        f"by the next refresh; {command('store', 'list', store)} lists what is refused."
    )


def _refused_of(
    plan: RefreshPlan, store: Store, generation: Generation, error: Exception
) -> list[RefusedFile]:
    """Return the files that made an ingest fail; none if it was for another reason."""
    if _is_of_the_machine(error) and not isinstance(error, SourceChanged):
        return []
    states = [_looked_at(file) for file in generation.files]
    written = [
        RefusedFile(generation=generation.number, file=one.state, why=WRITTEN)
        for one, then in zip(states, generation.files, strict=True)
        if one.is_there and one.state.differs(then)
    ]
    if written or isinstance(error, SourceChanged):
        return written
    with _place_of_trials(generation) as place:
        each = _Trials(plan, store, generation, place)
        trials = [each.tried(one) for one in states]
        bad = [one for one in trials if one.error is not None]
        if not bad and store.before(generation) is None:
            bad = each.unlike_most(trials)
    return [_record(plan, generation, one) for one in bad]


def _looked_at(file: FileState) -> _Trial:
    """Record the state of a file before it is read, to detect changes."""
    with suppress(BadInput):  # a folder may have its name by now
        for state in looked([file.name]):
            if state.name == file.name:
                return _Trial(file.name, state)
    return _Trial(file.name, file, is_there=False)


class _Trials(NamedTuple):
    """Ingests of single files of a generation, into a place that goes afterwards."""

    plan: RefreshPlan
    store: Store
    generation: Generation
    place: Folder

    def tried(self, one: _Trial, first: _Trial | None = None) -> _Trial:
        """Ingest a file by itself, or with another; raises errors not due to the file."""
        files = (one.state,) if first is None else (first.state, one.state)
        own = ingest_plan(self.plan, self.store, self.generation._replace(files=files))
        alone = {"dataset": self.place.url, "columns": False, "overwrite": True}
        try:
            ingest(own.model_copy(update=alone))
        except Exception as error:
            if _is_of_the_machine(error) or not _is_of_the_file(error, one):
                raise
            return one._replace(error=error)
        return one

    def unlike_most(self, trials: Sequence[_Trial]) -> list[_Trial]:
        """Return the files that do not match the first; the first if most do not match it."""
        if len(trials) < 2:
            return []
        first, *others = trials
        tried = [self.tried(one, first) for one in others]
        misfits = [one for one in tried if one.error is not None]
        if len(misfits) > len(trials) / 2:
            return [first._replace(error=misfits[0].error)]
        return misfits


def _is_of_the_machine(error: Exception) -> bool:
    """Return whether an error is due to a disk, the network, memory or another process."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    return isinstance(error, OSError | MemoryError | BusyPlace)


def _is_of_the_file(error: Exception, one: _Trial) -> bool:
    """Return whether an error is due to the file: invalid, missing or not readable."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return True
    if protocol_of(one.name) in READ_ONLY:  # for which a lost connection looks the same
        return False
    return not one.is_there or cannot_open(one.name)


def cannot_open(name: str) -> bool:
    """Return whether a file is missing, or its first byte cannot be read."""
    try:
        (address,) = find([name], inbox=True)
        with address.store.open(address.path, "rb") as file:
            file.read(1)
    except (FileNotFoundError, PermissionError):
        return True
    return False


def _record(plan: RefreshPlan, generation: Generation, one: _Trial) -> RefusedFile:
    readable = not isinstance(one.error, FileNotFoundError | PermissionError)
    state = one.state if readable else one.state.model_copy(update={"version": None})
    return RefusedFile(
        generation=generation.number, file=state, why=_reason(one), reading=reading_of(plan.ingest)
    )


def _reason(one: _Trial) -> str:
    """Return the reason without the file's name."""
    said = str(one.error) or type(one.error).__name__
    if isinstance(one.error, OSError) and one.error.strerror:
        said = f"{one.error.strerror}."
    elif not isinstance(one.error, ValueError | OSError):
        said = f"{type(one.error).__name__}: {said}"
    return said.removeprefix(one.name).lstrip(":, ")


@contextmanager
def _place_of_trials(generation: Generation) -> Iterator[Folder]:
    place = generation.folder.child(TRIAL)
    place.delete_tree()  # left by a killed refresh
    try:
        yield place
    finally:
        place.delete_tree()


def reading_of(plan: IngestPlan) -> str:
    """Return the digest of the settings of reading, and of the version."""
    settings = plan.model_dump(mode="json", exclude={"sources", "dataset", "threads"})
    text = json.dumps([settings, version("fewpass")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
