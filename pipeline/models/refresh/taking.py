"""A generation's files become its data set; those that cannot be read are set aside.

An ingest refuses all of its sources for the sake of one.  Where that happens every file is ingested
by itself, as it would be among the others.  A refused file gets a record (refused_files.py) and
leaves the generation; the rest is ingested.  The record is written first: a refresh that dies
between the two finds the same files bad again.

Files of a first generation may be good alone, and not fit each other.  The first one decides,
unless most others do not fit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.models.refresh.generations import Generation, leave_out
from fewpass.pipeline.models.refresh.refreshing import first_of, ingest_plan
from fewpass.pipeline.models.refresh.refused_files import (
    Refused,
    forget,
    mark_of,
    refusal,
    set_aside,
)
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.progress import IngestResult
from fewpass.pipeline.tables.ingest.work_dir import tidy
from fewpass.pipeline.tables.readers.finding import Address, find
from fewpass.storage.addresses import READ_ONLY, protocol_of
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import KEY

TRIAL = "trial"  # where one file is ingested by itself, inside a generation
SHOWN = 3  # refused files that a sentence tells of; models tells of all


class AllRefused(BadInput):
    """New files none of which could be taken; each is set aside with its reason."""


class Taken(NamedTuple):
    """A generation whose data set is there."""

    generation: Generation  # of the files that were left
    refused: tuple[Refused, ...]  # by this call


class _Trial(NamedTuple):
    """One file that is tried: what it was like before, and what was wrong with it."""

    name: str
    address: Address | None  # None: it is not there
    mark: str | None
    error: Exception | None = None


def take(
    plan: RefreshPlan,
    generation: Generation,
    make: Callable[[IngestPlan], IngestResult] = ingest,
) -> Taken:
    """Ingest a generation's files, and set those aside that cannot be.

    A data set that is complete stays as it is, whatever became of the files since.

    Parameters
    ----------
    plan, generation
        The refresh, and its generation that is not decided.
    make
        Ingests; for who shows how far it is.

    Raises
    ------
    AllRefused
        When no file is left; there is no such generation then.
    BadInput
        When files are refused each of which is good: settings, or too few rows.  There is no such
        generation then, either.
    OSError
        A full disk, a lost connection.  Nothing is set aside for that; call again.
    """
    aside: list[Refused] = []
    while not Folder(generation.data).exists(KEY):
        try:
            make(ingest_plan(plan, generation))
        except Exception as error:
            found = _refused_of(plan, generation, error)
            if not found:
                if isinstance(error, ValueError) and not isinstance(error, BusyPlace):
                    leave_out(generation, generation.files)  # the next takes what is there by then
                raise
            generation = _without(plan, generation, found)
            aside += found
    tidy(ingest_plan(plan, generation))
    forget(Folder(plan.store), generation.files)
    return Taken(generation, tuple(aside))


def _without(plan: RefreshPlan, generation: Generation, found: Sequence[Refused]) -> Generation:
    set_aside(Folder(plan.store), found)
    left = leave_out(generation, {one.file for one in found})
    if left is None:
        raise AllRefused(_all_refused(plan.store, found))
    return left


def _all_refused(store: str, found: Sequence[Refused]) -> str:
    all_of = "The new file was" if len(found) == 1 else f"All {len(found)} new files were"
    reasons = " ".join(f"{one.file}: {one.reason}" for one in found[:SHOWN])
    return (
        f"{all_of} refused and set aside, and no generation was made. {reasons} What is mended "
        f"is tried again by the next refresh; fewpass models {store} lists what is set aside."
    )


def _refused_of(plan: RefreshPlan, generation: Generation, error: Exception) -> list[Refused]:
    """Return the files that an ingest was refused for; none where it was not for a file."""
    if _is_of_the_machine(error):
        return []
    looked = [_looked_at(name) for name in generation.files]
    with _place_of_trials(generation) as place:
        trials = [_tried(plan, generation, place, one) for one in looked]
        bad = [one for one in trials if one.error is not None]
        if not bad and generation.number == first_of(plan.store):
            bad = _unlike_most(plan, generation, place, trials)
    return [_record(plan, one) for one in bad]


def _looked_at(name: str) -> _Trial:
    """Remember what a file is like before it is read: a change meanwhile is one to be seen."""
    try:
        (address,) = find([name], {}, empty=True)
    except (FileNotFoundError, BadInput):
        return _Trial(name, None, None)
    return _Trial(name, address, mark_of(address))


def _tried(
    plan: RefreshPlan, generation: Generation, place: Folder, one: _Trial, beside: str | None = None
) -> _Trial:
    """Ingest a file by itself, or beside another; raises what is no fault of the file."""
    files = (one.name,) if beside is None else (beside, one.name)
    alone = ingest_plan(plan, generation._replace(files=files)).model_copy(
        update={
            "dataset": place.url, "test_fraction": 0.0, "columns": False, "overwrite": True,
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
    """Return the files that do not fit the first, or the first if it does not fit most others."""
    if len(trials) < 2:
        return []
    first, *others = trials
    tried = [_tried(plan, generation, place, one, first.name) for one in others]
    misfits = [one for one in tried if one.error is not None]
    if len(misfits) > len(trials) / 2:
        return [first._replace(error=misfits[0].error)]
    return misfits


def _is_of_the_machine(error: Exception) -> bool:
    """Whether an error is of a disk, the network, the memory or another process, not of a file."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    return isinstance(error, OSError | MemoryError | BusyPlace)


def _is_of_the_file(error: Exception, one: _Trial) -> bool:
    """Whether a file is bad, missing or not readable; a folder to write to is no fault of it."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return True
    if protocol_of(one.name) in READ_ONLY:  # where a lost connection looks the same
        return False
    if one.address is None:
        return True
    try:
        with one.address.store.open(one.address.path, "rb") as file:
            file.read(1)
    except (FileNotFoundError, PermissionError):
        return True
    return False


def _record(plan: RefreshPlan, one: _Trial) -> Refused:
    address = one.address or Address(None, one.name, one.name, None)
    readable = not isinstance(one.error, FileNotFoundError | PermissionError)
    return refusal(address, _reason(one), plan.ingest, one.mark if readable else None)


def _reason(one: _Trial) -> str:
    """Say why, without the name that stands beside it."""
    said = str(one.error) or type(one.error).__name__
    if isinstance(one.error, OSError) and one.error.strerror:
        said = f"{one.error.strerror}."
    elif not isinstance(one.error, ValueError | OSError):
        said = f"{type(one.error).__name__}: {said}"
    return said.removeprefix(one.name).lstrip(":, ")


@contextmanager
def _place_of_trials(generation: Generation) -> Iterator[Folder]:
    place = generation.folder.child(TRIAL)
    place.delete_tree()  # of a refresh that was killed
    try:
        yield place
    finally:
        place.delete_tree()
