"""Ingest of a generation's files; unreadable ones are refused.

An ingest refuses all of its sources for the sake of one.  Where that happens every file is ingested
by itself, as it would be among the others.  A refused file gets a record (refused_files.py) and
leaves the generation; the rest is ingested.  The record is written first: a refresh that dies
between the two finds the same files bad again.

A file that was written to since its state was recorded leaves the generation as well; the next
refresh takes it.

Files of a first generation may be readable, but have different columns.  The first file defines the
columns, unless most others do not match it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.models.refresh.file_states import FileState, looked
from fewpass.pipeline.models.refresh.generations import Generation, leave_out
from fewpass.pipeline.models.refresh.refreshing import first_of, ingest_plan
from fewpass.pipeline.models.refresh.refused_files import (
    Refused,
    forget,
    reading_of,
    record_refused,
    refusal,
)
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.progress import IngestResult
from fewpass.pipeline.tables.ingest.work_dir import remove_leftovers
from fewpass.pipeline.tables.readers.finding import find
from fewpass.storage.addresses import READ_ONLY, protocol_of
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY
from fewpass.storage.source_files import SourceChanged

TRIAL = "trial"  # folder inside a generation for the ingest of a single file
SHOWN = 3  # most refused files in a message; `models` lists all


class AllRefused(BadInput):
    """New files that were all refused, each recorded with its reason."""


class TakenFiles(NamedTuple):
    """A generation with its data set."""

    generation: Generation  # of the remaining files
    refused: tuple[Refused, ...]  # by this call
    left_out: tuple[str, ...] = ()  # columns that the first generation does not have


class _Trial(NamedTuple):
    """A file that is tried: its state before, and its fault."""

    name: str
    state: FileState | None  # None: missing
    error: Exception | None = None


def take(
    plan: RefreshPlan,
    generation: Generation,
    make: Callable[[IngestPlan], IngestResult] = ingest,
) -> TakenFiles:
    """Ingest a generation's files, refusing those that cannot be read.

    A complete data set is not changed, also if files have changed since.

    Parameters
    ----------
    plan, generation
        The refresh plan, and its undecided generation.
    make
        Function that ingests, such as one with a progress display.

    Raises
    ------
    AllRefused
        No file is left; the generation is deleted.
    BadInput
        The files are refused together, though each is good: settings, or too few rows.  The
        generation is deleted.
    OSError
        A full disk, a lost connection.  No file is refused for that; call again.
    """
    refused_so_far: list[Refused] = []
    left_out: tuple[str, ...] = ()
    while not Folder(generation.data).exists(KEY):
        try:
            left_out = make(ingest_plan(plan, generation)).left_out
        except Exception as error:
            bad = _refused_of(plan, generation, error)
            if not bad:
                if isinstance(error, ValueError) and not isinstance(error, BusyPlace):
                    leave_out(
                        generation, generation.files
                    )  # the next refresh takes the files that exist then
                raise
            generation = _without(plan, generation, bad)
            refused_so_far += bad
    remove_leftovers(ingest_plan(plan, generation))
    forget(Folder(plan.store), generation.files)
    return TakenFiles(generation, tuple(refused_so_far), left_out)


def _without(plan: RefreshPlan, generation: Generation, bad: Sequence[Refused]) -> Generation:
    record_refused(Folder(plan.store), bad)
    left = leave_out(generation, {one.file for one in bad})
    if left is None:
        raise AllRefused(_all_refused(plan.store, bad))
    return left


def _all_refused(store: str, bad: Sequence[Refused]) -> str:
    all_of = "The new file was" if len(bad) == 1 else f"All {len(bad)} new files were"
    reasons = " ".join(f"{one.file}: {one.reason}" for one in bad[:SHOWN])
    return (
        f"{all_of} refused and set aside, and no generation was made. {reasons} What is mended "
        f"is tried again by the next refresh; fewpass models {store} lists what is set aside."
    )


def _refused_of(plan: RefreshPlan, generation: Generation, error: Exception) -> list[Refused]:
    """Return the files that made an ingest fail; none if it was for another reason."""
    if _is_of_the_machine(error) and not isinstance(error, SourceChanged):
        return []
    states = [_looked_at(name) for name in generation.files]
    written = [
        refusal(one.state, "it was written to while it was read. The next refresh takes it.")
        for one, then in zip(states, generation.states, strict=True)
        if one.state is not None and one.state.differs(then)
    ]
    if written or isinstance(error, SourceChanged):
        return written
    with _place_of_trials(generation) as place:
        trials = [_tried(plan, generation, place, one) for one in states]
        bad = [one for one in trials if one.error is not None]
        if not bad and generation.number == first_of(plan.store):
            bad = _unlike_most(plan, generation, place, trials)
    return [_record(plan, one) for one in bad]


def _looked_at(name: str) -> _Trial:
    """Record the state of a file before it is read, to detect changes."""
    with suppress(BadInput):  # a folder may have its name by now
        return _Trial(name, next((one for one in looked([name]) if one.name == name), None))
    return _Trial(name, None)


def _tried(
    plan: RefreshPlan, generation: Generation, place: Folder, one: _Trial, first: str | None = None
) -> _Trial:
    """Ingest a file by itself, or together with another; raises errors not due to the file."""
    files = (one.name,) if first is None else (first, one.name)
    alone = ingest_plan(plan, generation).model_copy(
        update={
            "sources": files, "dataset": place.url, "test_fraction": 0.0, "columns": False,
            "overwrite": True,
        }
    )  # fmt: skip
    try:
        ingest(alone)
    except Exception as error:
        if _is_of_the_machine(error) or not _is_of_the_file(error, one):
            raise
        return one._replace(error=error)
    return one


def _unlike_most(
    plan: RefreshPlan, generation: Generation, place: Folder, trials: Sequence[_Trial]
) -> list[_Trial]:
    """Return the files that do not match the first, or the first if most others do not match it."""
    if len(trials) < 2:
        return []
    first, *others = trials
    tried = [_tried(plan, generation, place, one, first.name) for one in others]
    misfits = [one for one in tried if one.error is not None]
    if len(misfits) > len(trials) / 2:
        return [first._replace(error=misfits[0].error)]
    return misfits


def _is_of_the_machine(error: Exception) -> bool:
    """Whether an error is due to a disk, the network, memory or another process, not to a file."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    return isinstance(error, OSError | MemoryError | BusyPlace)


def _is_of_the_file(error: Exception, one: _Trial) -> bool:
    """Whether an error is due to the file: invalid, missing or not readable."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return True
    if protocol_of(one.name) in READ_ONLY:  # for which a lost connection looks the same
        return False
    if one.state is None:
        return True
    try:
        (address,) = find([one.name], inbox=True)
        with address.store.open(address.path, "rb") as file:
            file.read(1)
    except (FileNotFoundError, PermissionError):
        return True
    return False


def _record(plan: RefreshPlan, one: _Trial) -> Refused:
    readable = not isinstance(one.error, FileNotFoundError | PermissionError)
    state = one.state or FileState.named(one.name)
    return refusal(state, _reason(one), reading_of(plan.ingest) if readable else "")


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
