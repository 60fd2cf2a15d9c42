"""The models of a store, as a list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.night_rule import TO_REPLACE
from fewpass.pipeline.models.refresh.past_nights import PUBLISHED
from fewpass.pipeline.models.refresh.store_events import (
    Event,
    Published,
    RefusedFile,
    Settled,
)
from fewpass.pipeline.models.refresh.store_state import (
    Generation,
    Store,
    existing_store,
    publications,
)
from fewpass.storage.kinds import instead


class GenerationState(NamedTuple):
    """State of a generation.

    Attributes
    ----------
    generation, night, files
        The number, the night whose rows it has (which events name), and the files that it took.
    state
        published, published before, kept back, waits, waits to replace (its files had changed),
        quarantined, learnt from (later: it has no model), abandoned, removed, or not finished.
    nights, rows, window
        Generations that its model has learnt from, and how many rows these have.
    loss, usual
        Mean loss of the model before on its rows before they were learnt, and the usual one.
    objective, certificate
        Of its model; the objective is at most `certificate` above the optimum.
    at, why
        When it was finished (UTC), and why it was kept back, or published by somebody.
    publications
        Numbers of the events that published its model.
    """

    generation: int
    night: int
    files: tuple[str, ...]
    state: str
    nights: tuple[int, ...]
    rows: int
    window: str
    loss: float | None
    usual: float | None
    objective: float | None
    certificate: float | None
    at: str | None
    why: str
    publications: tuple[int, ...]


class StoreModels(NamedTuple):
    """The models of a store, the one that is published, and what happened.

    Attributes
    ----------
    published
        Number of the published generation; None before the first one.
    generations
        The oldest first.
    refused
        Files that could not be read, each with the reason (`why`).
    events
        All that happened, the oldest first.
    """

    published: int | None
    generations: tuple[GenerationState, ...]
    refused: tuple[RefusedFile, ...]
    events: tuple[Event, ...]


def models(url: str) -> StoreModels:
    """Return the models of a store; BadInput if nothing has happened there."""
    return models_in(existing_store(url))


def models_in(store: Store) -> StoreModels:
    """Return the models of a store that was read."""
    if not store.generations and not store.refused:
        raise BadInput(instead(store.folder, "store"))
    current = store.published.generation if store.published else None
    took = [one for one in store.generations if one.took and not one.waits_to_replace]
    numbers = {one.night: one.number for one in took}
    moves: dict[int, list[int]] = defaultdict(list)
    for made in publications(store.events):
        moves[made.generation].append(made.number)
    states = tuple(
        _state_of(one, state_in(store, one), numbers, moves[one.number])
        for one in store.generations
    )
    return StoreModels(current, states, store.refused, store.events)


def _state_of(
    one: Generation, word: str, numbers: Mapping[int, int], moves: Sequence[int]
) -> GenerationState:
    """Return what became of a generation; `numbers` of those whose rows nights have, or had."""
    learnt, evaluated = one.learnt, one.evaluated
    nights = tuple(numbers[night] for night in learnt.nights if night in numbers) if learnt else ()
    return GenerationState(
        one.number, one.night, tuple(file.name for file in one.files), word,
        nights, learnt.rows if learnt else 0, learnt.window if learnt else "",
        evaluated.scores.of(PUBLISHED)[0] if evaluated and evaluated.scores else None,
        evaluated.usual if evaluated else None, learnt.objective if learnt else None,
        learnt.certificate if learnt else None, one.ended.at if one.ended else None,
        one.ended.why if one.ended else "", tuple(moves),
    )  # fmt: skip


def state_in(store: Store, one: Generation) -> str:
    """Return what became of a generation, in a word or two."""
    if one.ended is None:
        return "not finished"
    if store.published is not None and one.number == store.published.generation:
        return "published"
    if one.is_removed:
        return "removed"
    if one.took and one.night in (*store.past.waiting, *store.past.quarantined):
        return "waits" if one.night in store.past.waiting else "quarantined"
    if isinstance(one.ended, Settled):
        return TO_REPLACE if one.waits_to_replace else "learnt from"
    return "published before" if isinstance(one.ended, Published) else one.ended.what
