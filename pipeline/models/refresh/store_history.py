"""What happened in a store, in the order of time: who decided or published what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fewpass.pipeline.models.refresh.generations import GenerationList, GenerationState
from fewpass.pipeline.models.refresh.publications import Publication


class StoreEvent(NamedTuple):
    """One thing that happened."""

    when: str  # UTC
    what: str
    generation: int | None
    by: str
    why: str


def store_history(listed: GenerationList, moves: Sequence[Publication]) -> list[StoreEvent]:
    """Return decisions, refused drift, failed gates, publications, refused files; the oldest first.

    Of a decision that was carried out the publication is part.
    """
    events = [event for state in listed for event in _of_decision(state)]
    carried_out = {(one.generation, one.why) for one in events if one.what == "decided to publish"}
    for move in moves:
        is_own = (move.generation, move.why.removeprefix("refresh: ")) in carried_out
        if not (is_own and move.why.startswith("refresh: ")):
            what = f"published (number {move.number})"
            events.append(StoreEvent(move.published_at, what, move.generation, move.by, move.why))
    events += [
        StoreEvent(one.refused_at, f"set aside {one.file}", None, "-", one.reason)
        for one in listed.refused
    ]
    return sorted(events, key=lambda event: event.when)


def _of_decision(state: GenerationState) -> Iterator[StoreEvent]:
    for when, by, reason in state.drift_refusals:
        yield StoreEvent(when, "drift refused", state.generation, by, reason)
    made = state.decision
    if made is None:
        return
    when, by = made["decided_at"], made["decided_by"]
    what = "decided to publish" if made["published"] else "kept back"
    what = "abandoned" if made.get("abandoned") else what
    yield StoreEvent(when, what, state.generation, by, made["reason"])
    for gate in made.get("gates") or ():
        if not gate["passed"]:
            yield StoreEvent(
                when, f"gate {gate['gate']} failed", state.generation, by, gate["reason"]
            )
