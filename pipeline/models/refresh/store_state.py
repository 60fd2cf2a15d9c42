"""A store as its log of events says: generations, what is published, which files were refused.

    STORE/events/            the log (store_log.py)
    STORE/generations/000007/data       the rows of one refresh, a data set
                             rows-4     the rows of the newest 4 nights: a view of their data sets
                             run-4      the training on them; of equal windows there is one
                             drift.json how far its rows are from those before

A *generation* is one refresh that found files.  Its *night* is the place of its rows in time: its
own number, or that of the generation whose files had changed, and whose rows it replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.lease import Lease
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.night_rule import REPLACES, TO_REPLACE
from fewpass.pipeline.models.refresh.past_nights import Past
from fewpass.pipeline.models.refresh.store_events import (
    Abandoned,
    Begun,
    Cleared,
    DriftReported,
    Dropped,
    Event,
    FileMoved,
    GenerationRemoved,
    ModelLearnt,
    NotPublished,
    Published,
    RefusedFile,
    RowsEvaluated,
    Settled,
    Taken,
)
from fewpass.pipeline.models.refresh.store_log import events_of, newest_first
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import instead

LEASE = "refresh.lease.json"
NONE_YET = 0  # the number before the first publication

Ended = Published | NotPublished | Settled | Abandoned


class Generation(NamedTuple):
    """One refresh that found files."""

    number: int
    night: int
    folder: Folder
    files: tuple[FileState, ...]
    begun: str  # UTC
    before: Past  # what the rule remembered before it
    evaluated: RowsEvaluated | None = None
    learnt: ModelLearnt | None = None  # its model, where it has one
    ended: Ended | None = None
    drift: tuple[DriftReported, ...] = ()
    is_removed: bool = False

    @property
    def data(self) -> str:
        """Address of its data set."""
        return f"{self.folder.url}/data"

    @property
    def run(self) -> str | None:
        """Address of the run of its model; None before there is one."""
        return None if self.learnt is None else f"{self.folder.url}/{self.learnt.run}"

    @property
    def has_rows(self) -> bool:
        """True if its rows are those of its night, or were before another one replaced them."""
        return self.took and not self.is_removed and not self.waits_to_replace

    @property
    def waits_to_replace(self) -> bool:
        """True if its files have changed, and its rows are odd: those of its night stay."""
        return self.evaluated is not None and self.evaluated.verdict == TO_REPLACE

    @property
    def took(self) -> bool:
        """True if its files were taken; those of one without files, and of abandoned ones not."""
        done = self.evaluated is not None or self.ended is not None
        return bool(self.files) and done and not self.is_abandoned

    @property
    def is_abandoned(self) -> bool:
        """True if it was given up: its files count as new."""
        return isinstance(self.ended, Abandoned)


class Store(NamedTuple):
    """State of a store."""

    folder: Folder
    events: tuple[Event, ...]
    generations: tuple[Generation, ...]  # oldest first
    past: Past
    published: Published | None
    refused: tuple[RefusedFile, ...]  # files that were not taken since
    next_number: int  # of a generation

    @property
    def open(self) -> Generation | None:
        """The generation that is not finished."""
        last = self.generations[-1] if self.generations else None
        return last if last is not None and last.ended is None else None

    @property
    def nights(self) -> list[int]:
        """The nights whose rows there are, oldest first."""
        return sorted({one.night for one in self.generations if one.has_rows})

    def numbered(self, number: int) -> Generation | None:
        """Return the generation of a number; None if there is none, or its beginning is lost."""
        return next((one for one in self.generations if one.number == number), None)

    def data_of(self, night: int) -> str:
        """Return the address of the rows of a night: those that were read last."""
        return self.of_night(night).data

    def of_night(self, night: int) -> Generation:
        """Return the generation whose rows a night has."""
        those = (one for one in reversed(self.generations) if one.night == night)
        return next(one for one in those if one.has_rows)

    def before(self, generation: Generation) -> Generation | None:
        """Return the newest generation before, of which there are rows: columns are like its."""
        those = (one for one in reversed(self.generations) if one.number < generation.number)
        return next((one for one in those if one.has_rows), None)

    def versions(self, night: int) -> list[Generation]:
        """Return the generations that took the files of a night, oldest first."""
        return [one for one in self.generations if one.night == night and one.took]

    @property
    def to_replace(self) -> list[Generation]:
        """The generations whose rows wait to take the place of others: the newest of their nights.

        Older ones were odd, too, and their files have changed since.
        """
        newest = {one.night: one for one in self.generations if one.took}
        return [one for one in newest.values() if one.waits_to_replace and not one.is_removed]

    @property
    def replaced(self) -> list[Generation]:
        """The generations whose files have changed since, and whose rows are others' by now."""
        used = {one.night: one.number for one in self.generations if one.has_rows}
        stay = {*used.values(), *(one.number for one in self.to_replace)}
        every = (one for one in self.generations if one.took and not one.is_removed)
        return [one for one in every if one.number not in stay]

    @property
    def newest_learnt(self) -> ModelLearnt | None:
        """The model that was learnt last, or published last by somebody."""
        learnt = (event for event in reversed(self.events) if isinstance(event, ModelLearnt))
        return next(learnt, None)

    @property
    def is_stale(self) -> bool:
        """True if somebody had a night taken since a refresh learnt, or somebody published, last.

        A model that is made anew for rows that are forgotten has the nights of the one before.
        """
        both = (one for one in reversed(self.events) if isinstance(one, ModelLearnt | Taken))
        last = next((one for one in both if not is_made_anew(one)), None)
        return isinstance(last, Taken)

    @property
    def window(self) -> str | None:
        """The window of the published model."""
        return None if self.published is None else self.published.window

    @property
    def published_before(self) -> Published | None:
        """The model that was published before, of another generation."""
        current = None if self.published is None else self.published.generation
        moves = reversed([*publications(self.events)])
        return next((one for one in moves if one.generation != current), None)

    @property
    def scorer(self) -> str:
        """The run that new rows are scored by: the published one, or the newest where none is."""
        made = self.published or self.newest_learnt
        assert made is not None, "the first generation was learnt"
        return run_of(self.folder.url, made)


def store_at(url: str, read_before: Sequence[Event] = ()) -> Store:
    """Read a store; of its log what was not read before."""
    folder = Folder(url)
    return store_of(folder, events_of(folder, read_before))


def existing_store(url: str) -> Store:
    """Read a store in which something has happened; BadInput otherwise."""
    store = store_at(url)
    if not store.events:
        raise BadInput(instead(store.folder, "store"))
    return store


def store_of(folder: Folder, events: Sequence[Event]) -> Store:
    """Return what events make of a store; BadInput where a generation has no beginning."""
    every: dict[int, Generation] = {}
    past, published, newest = Past(), None, 0
    for event in events:
        number = event.generation
        newest = max(newest, number)
        if isinstance(event, Begun):
            own = folder.child(f"generations/{number:06d}")
            every[number] = Generation(number, event.night, own, event.files, event.at, past)
        elif isinstance(event, Dropped):  # its number is free again
            every.pop(number, None)
            newest = number - 1
        if number in every:
            every[number] = _after(every[number], event)
        elif number and isinstance(event, RowsEvaluated | Ended):
            raise _unknown(folder, number)
        if isinstance(event, Published):
            published = event
        if event.past is not None:
            past = event.past
            _after_decision(every, event)
    own_order = tuple(every[number] for number in sorted(every))
    return Store(folder, tuple(events), own_order, past, published, _refused(events), newest + 1)


def _refused(events: Sequence[Event]) -> tuple[RefusedFile, ...]:
    """Return the files that were not taken, and have not been since."""
    refused: dict[str, RefusedFile] = {}
    for event in events:
        if isinstance(event, RefusedFile):
            refused[event.file.name] = event
        elif isinstance(event, Cleared):
            refused.pop(event.file, None)
        elif isinstance(event, Begun):
            for file in event.files:
                refused.pop(file.name, None)
    return tuple(refused[name] for name in sorted(refused))


def _unknown(folder: Folder, number: int) -> BadInput:
    return BadInput(
        f"The event by which generation {number:06d} began is not there, or cannot be read, and "
        f"without it nobody knows which files were taken. Put it back into "
        f"{folder.address('events')} from a copy; the model that is published can be used."
    )


def _after(one: Generation, event: Event) -> Generation:
    """Return a generation after an event that is about it."""
    if isinstance(event, RowsEvaluated):
        names = event.files
        files = tuple(file for file in one.files if names is None or file.name in names)
        one = one._replace(evaluated=event, files=files)
    elif isinstance(event, DriftReported):
        one = one._replace(drift=(*one.drift, event))
    elif isinstance(event, GenerationRemoved):
        one = one._replace(is_removed=True)
    elif isinstance(event, Taken) and one.evaluated is not None and one.waits_to_replace:
        one = one._replace(evaluated=one.evaluated.model_copy(update={"verdict": REPLACES}))
    elif isinstance(event, FileMoved):
        files = tuple(event.now if file == event.then else file for file in one.files)
        one = one._replace(files=files)
    elif isinstance(event, RefusedFile) and one.ended is None:
        files = tuple(file for file in one.files if file.name != event.file.name)
        one = one._replace(files=files)
    elif isinstance(event, ModelLearnt):
        ended = one.ended if isinstance(one.ended, NotPublished) else event
        one = one._replace(learnt=event, ended=ended)
    elif isinstance(event, Settled | Abandoned):
        one = one._replace(ended=event)
    return one


def _after_decision(every: dict[int, Generation], event: Event) -> None:
    """Make an open generation follow what somebody decided meanwhile."""
    one = every[max(every)] if every else None
    if one is None or one.ended is not None or one.number == event.generation:
        return
    past = event.past
    assert past is not None, "it was asked"
    if isinstance(event, Published):
        one = one._replace(evaluated=None)
        others = {other.night for other in every.values() if other.number != one.number}
        if one.night not in others:  # it has not been evaluated by then
            past = past.without(one.night)
    every[one.number] = one if one.evaluated else one._replace(before=past)


def last_runs(store: Store, generation: Generation) -> dict[str, str]:
    """Return the runs of all windows' models that were there before a generation, by window."""
    before = [one for one in store.events if isinstance(one, ModelLearnt)]
    last = next((one for one in reversed(before) if one.generation != generation.number), None)
    if last is None:
        return {}
    runs = {name: run_of(store.folder.url, last, folder) for name, folder in last.runs.items()}
    return {name: run for name, run in runs.items() if RunFolder(run).exists()}


# -- what is published ----------------------------------------------------------------------------


def published(url: str) -> Published | None:
    """Return a store's newest publication; None if there is none yet."""
    events = newest_first(Folder(url))
    return next((event for event in events if isinstance(event, Published)), None)


def run_of(url: str, made: ModelLearnt, folder: str | None = None) -> str:
    """Return the address of the run of a model, or of another window's."""
    return f"{Folder(url).url}/generations/{made.generation:06d}/{folder or made.run}"


def runs_in(url: str) -> list[str]:
    """Return the runs of the models of a store, the newest first."""
    store = store_at(url)
    made = [one for one in reversed(store.generations) if one.learnt is not None]
    runs = [one.run for one in made if one.run is not None]
    if store.open is not None:  # whatever it is at
        folders = {key.partition("/")[0] for key in store.open.folder.list()}
        own = sorted(name for name in folders if name.startswith("run-"))
        runs = [f"{store.open.folder.url}/{name}" for name in own] + runs
    return [run for run in runs if RunFolder(run).exists()]


def is_made_anew(made: ModelLearnt | Taken) -> bool:
    """Return whether a model is an earlier one without forgotten rows: nobody decided."""
    return isinstance(made, ModelLearnt) and made.choice is None and made.past is None


def publications(events: Sequence[Event]) -> Iterator[Published]:
    """Yield all publications, oldest first."""
    return (event for event in events if isinstance(event, Published))


def refresh_lock(url: str) -> Lease:
    """Lock a store against other refreshes during a `with` block.

    Raises
    ------
    InUse
        Another process is refreshing it.  A BadInput.
    """
    return Lease(Folder(url), LEASE, "refreshed")
