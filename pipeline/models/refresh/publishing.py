"""Decisions of persons on a store: publish a generation's model, take a night, give one up."""

from __future__ import annotations

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.listing import state_in
from fewpass.pipeline.models.refresh.past_nights import Past
from fewpass.pipeline.models.refresh.store_events import Abandoned, Event, Published, Taken
from fewpass.pipeline.models.refresh.store_log import Overtaken, append_event, write_event
from fewpass.pipeline.models.refresh.store_state import (
    NONE_YET,
    Generation,
    Store,
    existing_store,
    refresh_lock,
    run_of,
    store_of,
)
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import weights_digest
from fewpass.solvers.bad_input import shown
from fewpass.storage.addresses import command


def publish(store: str, number: int, *, after: int | None = None, why: str = "") -> Published:
    """Publish the model of a generation, newer or older; see `fewpass.publish`.

    Nights after it that were learnt from are quarantined: else the next refresh would publish what
    they taught again.  Their rows stay, and compete.
    """
    for name, given in (("generation", number), ("after", NONE_YET if after is None else after)):
        _require_number(name, given)
    before = existing_store(store)
    current = before.published
    newest = NONE_YET if current is None else current.number
    made = _publication(before, number, why)
    if current is not None and current.generation == number and after in (None, newest):
        raise BadInput(f"Nothing was changed: it is the one that is used ({current.sentence()}).")
    expected = newest if after is None else after

    def unless_overtaken(events: list[Event]) -> Published:
        store = store_of(before.folder, events)
        now = store.published
        if (NONE_YET if now is None else now.number) != expected:
            said = f"is number {now.number} ({now.sentence()})" if now else "is not there"
            raise Overtaken(
                f"Nothing was changed: the newest publication {said}, where number {expected} was "
                f"expected. Look with {command('store', 'list', before.folder.url)}, and publish "
                "again if that is still meant."
            )
        return made.model_copy(update={"past": _as_of(store, number)})

    return append_event(before.folder, unless_overtaken)


def _publication(store: Store, number: int, why: str) -> Published:
    one = _generation(store, number)
    if one.ended is None:
        raise BadInput(f"Generation {number:06d} is not finished. The next refresh finishes it.")
    if one.learnt is None:
        state = state_in(store, one)
        raise BadInput(f"Generation {number:06d} has no model ({state}). Publish another one.")
    run = RunFolder(run_of(store.folder.url, one.learnt))
    if not run.exists():
        raise BadInput(f"The model of generation {number:06d} was removed. Publish another one.")
    facts = one.learnt.model_dump(exclude={"what", "number", "at", "by", "why", "past"})
    digest = weights_digest(load_model(run).weights)
    return Published.model_validate(facts | {"weights_sha256": digest, "why": why})


def _as_of(store: Store, number: int) -> Past:
    """Return what the rule remembers once a generation is published again."""
    learnt = _generation(store, number).learnt
    assert learnt is not None, "it has a model"
    until = [event for event in store.events if event.number <= learnt.number]
    then = store_of(store.folder, until).past
    every = {*store.past.used, *store.past.waiting, *store.past.quarantined}
    later = every - {*then.used, *then.waiting, *then.quarantined}
    gone = ({*then.used, *then.waiting, *then.quarantined}) - every
    for night in gone:
        then = then.without(night)
    return then.quarantine(sorted(later))


def take_night(store: str, number: int, *, why: str = "") -> Taken:
    """Have the next refresh learn from a waiting or quarantined generation; see `fewpass.take`.

    Rows of files that changed take the place of the old ones.
    """
    _require_number("generation", number)
    existing_store(store)
    with refresh_lock(store):
        before = existing_store(store)
        one, past = _generation(before, number), before.past
        if number in [other.number for other in before.to_replace]:
            return write_event(before.folder, Taken(generation=number, why=why))
        if one.is_abandoned or one.night not in (*past.waiting, *past.quarantined):
            raise BadInput(
                f"Generation {number:06d} neither waits nor is quarantined. "
                f"{command('store', 'list', before.folder.url)} lists what is."
            )
        made = Taken(generation=number, why=why, past=past.taken(one.night))
        return write_event(before.folder, made)


def abandon(store: str, *, why: str = "") -> Generation:
    """Give up the generation that is not finished; see `fewpass.abandon`."""
    existing_store(store)
    with refresh_lock(store):
        before = existing_store(store)
        last = before.open
        if last is None:
            newest = before.generations[-1].number if before.generations else 0
            raise BadInput(
                f"Nothing was changed: generation {newest:06d}, the newest one, is finished. "
                f"{command('store', 'publish', before.folder.url, 'NUMBER')} goes back to an older "
                "model."
            )
        made = Abandoned(generation=last.number, why=why, past=_past_without(before, last))
        write_event(before.folder, made)
    return last


def _past_without(store: Store, last: Generation) -> Past:
    """Return what the rule remembers without a generation: nights taken or removed since stay so.

    Until it was evaluated, what it is evaluated by has that already.
    """
    past, evaluated = last.before, store.events[-1] if last.evaluated is None else last.evaluated
    for event in store.events:
        one = store.numbered(event.generation)
        if event.number <= evaluated.number or event.past is None or one in (None, last):
            continue
        assert one is not None, "it was looked at"
        past = past.taken(one.night) if isinstance(event, Taken) else past.without(one.night)
    return past


def _generation(store: Store, number: int) -> Generation:
    one = store.numbered(number)
    if one is None:
        raise BadInput(
            f"There is no generation {shown(number).zfill(6)} at {store.folder.url}. "
            f"{command('store', 'list', store.folder.url)} lists those that are there."
        )
    return one


def _require_number(name: str, given: object) -> None:
    if not isinstance(given, int) or isinstance(given, bool):
        raise BadInput(f"{name} is {shown(given)}. Give a whole number, such as 7.")
