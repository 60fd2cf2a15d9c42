"""The generations of a store: a folder for each refresh, with the fate of its model.

STORE/generations/000007/files.json     the files of one refresh as they were, written first
/data           the data set made of them
/run            the training on it, from the published model on
/decision.json  whether its model is published, and why; or that it was abandoned
/drift.json     how far its rows are from those before; drift-refused.json: that it was too far
/removed.json   where data set and run were removed, as it is old

Both files are created exclusively, so that of two refreshes that begin, or end, at once one wins
and the other fails.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.drift_refusals import DriftRefusal, drift_refusals
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.publications import (
    Publication,
    PublishedMeanwhile,
    history,
    is_published,
    publish,
)
from fewpass.pipeline.models.refresh.refused_files import Refused, refused
from fewpass.pipeline.runs.run_series import REMOVED
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import instead

T = TypeVar("T")

FILES, DECISION = "files.json", "decision.json"
_STATES = TypeAdapter(tuple[FileState | str, ...])  # earlier versions wrote names alone


class Generation(NamedTuple):
    """The folder of one refresh."""

    number: int
    folder: Folder
    states: tuple[FileState, ...]  # of its files, from before they were read

    @property
    def files(self) -> tuple[str, ...]:
        """Names of its files."""
        return tuple(one.name for one in self.states)

    @property
    def data(self) -> str:
        """Address of its data set."""
        return f"{self.folder.url}/data"

    @property
    def run(self) -> str:
        """Address of its run."""
        return f"{self.folder.url}/run"

    @property
    def is_decided(self) -> bool:
        """Whether its refresh is finished."""
        return self.folder.exists(DECISION)

    @property
    def is_removed(self) -> bool:
        """Whether its model was removed, as it was old."""
        return self.folder.exists(REMOVED)

    @property
    def is_abandoned(self) -> bool:
        """Whether it was abandoned: its files count as new then, and it has no model."""
        decision = _decision(self.folder) if self.is_decided else None
        return decision is not None and decision.get("abandoned") is True


class Decision(NamedTuple):
    """The decision on a generation's model."""

    published: bool
    reason: str
    loss: float | None  # of the new model on the held-out rows; None: abandoned
    loss_before: float | None  # of the model published before
    rows: int  # of all generations so far
    after: int  # number of the newest publication at that time
    objective: float | None  # of the training, as in its result
    certificate: float | None  # objective minus optimum, at most
    decided_at: str  # UTC
    decided_by: str
    converged: bool | None = None  # as of the training: fewpass.pipeline.runs.outcome.Convergence
    abandoned: bool = False  # its files are new for the next refresh
    drift: float | None = None  # the largest of a column, from the generation before
    gates: tuple[dict[str, Any], ...] = ()  # each gate, whether it was passed, and why


class BegunMeanwhile(BadInput):
    """A generation that another refresh began or finished at the same time; nothing was changed."""


class GenerationState(NamedTuple):
    """State of a generation in a list of models."""

    generation: int
    state: str  # published, published before, kept back, not decided, abandoned, removed
    files: tuple[str, ...]
    decision: dict[str, Any] | None  # the members of `Decision`
    publications: tuple[Publication, ...]  # of its model
    drift_refusals: tuple[DriftRefusal, ...] = ()  # why its rows were not learnt from


def generations(store: Folder) -> list[Generation]:
    """Return all generations of a store, oldest first."""
    every: list[Generation] = []
    while True:
        folder = store.child(f"generations/{len(every) + 1:06d}")
        if not folder.exists(FILES):
            return every
        every.append(Generation(len(every) + 1, folder, _states_in(folder)))


def begin_generation(store: Folder, number: int, files: tuple[FileState, ...]) -> Generation:
    """Record the files of a new generation; BegunMeanwhile if another refresh did."""
    folder = store.child(f"generations/{number:06d}")
    if not folder.create(FILES, _written(files)):
        raise BegunMeanwhile(
            f"Nothing was changed: another refresh of {store.url} has just begun generation "
            f"{number:06d}. Wait until it ends, and refresh again for what came since."
        )
    return Generation(number, folder, files)


def leave_out(generation: Generation, files: Collection[str]) -> Generation | None:
    """Remove files from a generation; None if none is left, and the generation is deleted."""
    left = tuple(one for one in generation.states if one.name not in files)
    if not left:
        generation.folder.delete(FILES)
        generation.folder.delete_tree()
        return None
    return with_states(generation, left)


def with_states(generation: Generation, states: tuple[FileState, ...]) -> Generation:
    """Record other files, or other states of them."""
    if states != generation.states:
        generation.folder.write(FILES, _written(states))
    return generation._replace(states=states)


def _written(states: Sequence[FileState]) -> bytes:
    listed = [one.model_dump(exclude_none=True) for one in states]
    return (json.dumps(listed, indent=1) + "\n").encode()


def _states_in(folder: Folder) -> tuple[FileState, ...]:
    """Return the files of a generation; BadInput if its record is invalid."""
    try:
        read = _STATES.validate_json(folder.read(FILES))
        return tuple(FileState.named(one) if isinstance(one, str) else one for one in read)
    except ValueError as error:
        raise BadInput(
            f"{folder.address(FILES)} is no list of files. Remove the folder that it is in "
            "to take its files anew."
        ) from error


def newest_run(store: str) -> str | None:
    """Return the address of the newest generation's run; None before the first one."""
    every = generations(Folder(store))
    return every[-1].run if every else None


def write_decision(store: str, generation: Generation, made: Decision) -> None:
    """Record a decision and carry it out; BegunMeanwhile if there is one already."""
    if not generation.folder.create(DECISION, (json.dumps(made._asdict()) + "\n").encode()):
        raise BegunMeanwhile(
            f"Nothing was changed: {generation.folder.address(DECISION)} was written by another "
            f"refresh meanwhile. Look with fewpass models {Folder(store).url}."
        )
    carry_out(store, generation)


def carry_out(store: str, generation: Generation) -> None:
    """Publish a generation's model if that was decided and is not done yet.

    Raises PublishedMeanwhile if another model has been published since the decision: it is then
    withdrawn, and the next refresh decides again.
    """
    after = decided(generation.folder, "after", int)
    if not decided(generation.folder, "published", bool):
        return
    if is_published(store, generation.number, after):
        return
    why, by = (decided(generation.folder, name, str) for name in ("reason", "decided_by"))
    try:
        publish(store, generation.number, after=after, why=f"refresh: {why}", by=by)
    except PublishedMeanwhile:  # withdraw a decision that was not carried out
        generation.folder.delete(DECISION)
        raise


def decided(folder: Folder, member: str, kind: type[T]) -> T:
    """Return a field of a generation's decision; BadInput if it is missing or of another type."""
    decision = _decision(folder)
    value = decision.get(member) if decision else None
    if type(value) is not kind:
        raise BadInput(
            f"{folder.address(DECISION)} decides nothing ({member} is {value!r:.60}). "
            "Remove it, and refresh again."
        )
    return value


def _decision(folder: Folder) -> dict[str, Any] | None:
    """Return a generation's decision as a dictionary; None if it is none."""
    try:
        decision = json.loads(folder.read(DECISION))
    except (ValueError, RecursionError):
        return None
    return decision if isinstance(decision, dict) else None


class GenerationList(list[GenerationState]):
    """The generations of a store, oldest first.

    Attributes
    ----------
    refused : tuple of Refused
        The refused files, by name.
    """

    def __init__(
        self, generations: Iterable[GenerationState] = (), refused: Iterable[Refused] = ()
    ) -> None:
        super().__init__(generations)
        self.refused = tuple(refused)


def models(store: str) -> GenerationList:
    """Return the states of a store's generations, oldest first.

    Raises BadInput if there is no generation, or a decision is invalid.
    """
    folder = Folder(store)
    every, moves, refused = generations(folder), history(store), refused_now(folder)
    if not every and not refused:
        raise BadInput(instead(folder, "store"))
    return GenerationList((_state_of(generation, moves) for generation in every), refused)


def refused_now(store: Folder) -> list[Refused]:
    """Return the refused files that no generation has taken as they are."""
    files = (one for those in taken(generations(store)).values() for one in those)
    took = {one.name: one for one in files}
    return [
        one for one in refused(store)
        if one.file not in took or one.state.differs(took[one.file])
    ]  # fmt: skip


def taken(every: Iterable[Generation]) -> dict[int, tuple[FileState, ...]]:
    """Return the files of all generations, except abandoned ones."""
    return {one.number: one.states for one in every if not one.is_abandoned}


def _state_of(generation: Generation, moves: Sequence[Publication]) -> GenerationState:
    own = tuple(move for move in moves if move.generation == generation.number)
    decision = _decision(generation.folder) if generation.is_decided else None
    if generation.is_decided and decision is None:
        decided(generation.folder, "published", bool)  # says what is wrong
    state = "kept back" if decision else "not decided"
    if own:
        state = "published" if own[-1] is moves[-1] else "published before"
    elif generation.is_abandoned:
        state = "abandoned"
    if state != "published" and generation.is_removed:
        state = "removed"
    refusals = drift_refusals(generation.folder)
    return GenerationState(generation.number, state, generation.files, decision, own, refusals)
