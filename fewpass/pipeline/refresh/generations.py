"""The generations of a store: a folder for each refresh, with what became of its model.

STORE/generations/000007/files.json     the files of one refresh, written first
/data           the data set made of them
/run            the training on it, from the published model on
/decision.json  whether its model is to be published, and why
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.refresh.publishing import (
    NONE_YET,
    Publication,
    PublishedMeanwhile,
    history,
    publish,
    published,
)
from fewpass.solvers.refused import shown
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import command, instead

T = TypeVar("T")

FILES, DECISION = "files.json", "decision.json"


class Generation(NamedTuple):
    """One refresh's folder."""

    number: int
    folder: Folder
    files: tuple[str, ...]

    @property
    def data(self) -> str:
        """Where its data set is."""
        return f"{self.folder.url}/data"

    @property
    def run(self) -> str:
        """Where its run is."""
        return f"{self.folder.url}/run"

    @property
    def is_decided(self) -> bool:
        """Whether its refresh is over."""
        return self.folder.exists(DECISION)


class Decision(NamedTuple):
    """What became of a generation's model."""

    published: bool
    reason: str
    loss: float  # of the new model on the held-out rows
    loss_before: float | None  # of the model published then
    rows: int  # of all generations so far
    after: int  # the publication that was followed then
    objective: float | None  # of the training, as in its result
    certificate: float | None  # at most this far above the optimum
    decided_at: str  # UTC
    decided_by: str
    converged: bool | None = None  # as of the training: fewpass.pipeline.runs.outcome.Convergence


class GenerationState(NamedTuple):
    """A generation as a list of models shows it."""

    generation: int
    state: str  # published, published before, kept back, not decided
    files: tuple[str, ...]
    decision: dict[str, Any] | None  # the members of `Decision`
    publications: tuple[Publication, ...]  # of its model


def generations(store: Folder) -> list[Generation]:
    """Return all generations of a store, in order."""
    found: list[Generation] = []
    while True:
        folder = store.child(f"generations/{len(found) + 1:06d}")
        if not folder.exists(FILES):
            return found
        found.append(Generation(len(found) + 1, folder, _files_in(folder)))


def begin_generation(store: Folder, number: int, files: tuple[str, ...]) -> Generation:
    """Write down which files a generation is made of."""
    folder = store.child(f"generations/{number:06d}")
    folder.write(FILES, (json.dumps(files, indent=1) + "\n").encode())
    return Generation(number, folder, files)


def _files_in(folder: Folder) -> tuple[str, ...]:
    """Return the files of a generation; BadInput when its record names none."""
    try:
        files = json.loads(folder.read(FILES))
    except (ValueError, RecursionError):
        files = None
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise BadInput(
            f"{folder.address(FILES)} is no list of files. Remove the folder that it is in "
            "to take its files anew."
        )
    return tuple(files)


def newest_run(store: str) -> str | None:
    """Return where the newest generation is trained; None before the first one."""
    known = generations(Folder(store))
    return known[-1].run if known else None


def write_decision(store: str, generation: Generation, made: Decision) -> None:
    """Write a decision down and carry it out."""
    generation.folder.write(DECISION, (json.dumps(made._asdict()) + "\n").encode())
    carry_out(store, generation)


def carry_out(store: str, generation: Generation) -> None:
    """Publish what was decided to be published, unless that is done.

    Raises PublishedMeanwhile when the decision was made by a model that is not followed any more:
    then it is withdrawn, and the next refresh decides anew.
    """
    after = decided(generation.folder, "after", int)
    if not decided(generation.folder, "published", bool) or _is_done(store, generation, after):
        return
    why, by = (decided(generation.folder, name, str) for name in ("reason", "decided_by"))
    try:
        publish(store, generation.number, after=after, why=f"refresh: {why}", by=by)
    except PublishedMeanwhile:  # nobody is to find a decision that did not come about
        generation.folder.delete(DECISION)
        raise


def _is_done(store: str, generation: Generation, after: int) -> bool:
    return any(p.number == after + 1 and p.generation == generation.number for p in history(store))


def decided(folder: Folder, member: str, kind: type[T]) -> T:
    """Return a member of a generation's decision; BadInput when that has none of its type."""
    told = _told(folder)
    found = told.get(member) if told else None
    if type(found) is not kind:
        raise BadInput(
            f"{folder.address(DECISION)} decides nothing ({member} is {found!r:.60}). "
            "Remove it, and refresh again."
        )
    return found


def _told(folder: Folder) -> dict[str, Any] | None:
    """Return a generation's decision as it is written; None when it is no object."""
    try:
        told = json.loads(folder.read(DECISION))
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def models(store: str) -> list[GenerationState]:
    """Return how the models of a store stand, oldest generation first.

    Raises BadInput where no refresh has made a generation, or a decision is none.
    """
    known, moves = generations(Folder(store)), history(store)
    if not known:
        raise BadInput(instead(Folder(store), "store"))
    return [_state_of(generation, moves) for generation in known]


def _state_of(generation: Generation, moves: Sequence[Publication]) -> GenerationState:
    own = tuple(move for move in moves if move.generation == generation.number)
    decision = _told(generation.folder) if generation.is_decided else None
    if generation.is_decided and decision is None:
        decided(generation.folder, "published", bool)  # says what is wrong
    state = "kept back" if decision else "not decided"
    if own:
        state = "published" if own[-1] is moves[-1] else "published before"
    return GenerationState(generation.number, state, generation.files, decision, own)


def publish_generation(
    store: str, number: int, *, after: int | None = None, why: str = ""
) -> Publication:
    """Make the model of a generation the one to use, newer or older than the one used now.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    number
        The generation, from 1.
    after
        Number of the publication that is followed now, as `models` told it; another one since then
        is an error.  Default: whichever is followed when this is called.
    why
        Kept with the publication.

    Raises
    ------
    BadInput
        When there is no such generation, its refresh is not over, or its model is published.
    PublishedMeanwhile
        When somebody else published at the same time; nothing was changed.
    """
    for name, given in (("generation", number), ("after", NONE_YET if after is None else after)):
        if not isinstance(given, int) or isinstance(given, bool):
            raise BadInput(f"{name} is {shown(given)}. Give a whole number, such as 7.")
    known = generations(Folder(store))
    if not known:
        raise BadInput(instead(Folder(store), "store"))
    if not 1 <= number <= len(known):
        raise BadInput(
            f"There is no generation {shown(number).zfill(6)} at {Folder(store).url}. "
            f"{command('models', store)} lists those that are there."
        )
    if not known[number - 1].is_decided:
        raise BadInput(f"Generation {number:06d} is not decided yet. The next refresh finishes it.")
    current = published(store)
    if current and current.generation == number and after in (None, current.number):
        raise BadInput(f"Nothing was changed: it is the one that is used ({current.sentence()}).")
    newest = current.number if current else NONE_YET
    return publish(store, number, after=newest if after is None else after, why=why)
