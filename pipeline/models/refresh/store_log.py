"""The log of a store's events; nothing else decides what a store is.

    STORE/events/000017.json   the seventeenth event, sealed

Events are numbered, and files are created exclusively: of two processes that write at once one
wins, and the other looks at the store as it is now before it writes again.  An event that cannot be
read, as a power cut may leave one, is reported and passed over; the next one is numbered after it.
"""

from __future__ import annotations

import getpass
import json
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError

from fewpass.pipeline.drawing.safe_text import without_control
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.store_events import EVENT, Event, StoreEvent
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal, unseal

logger = logging.getLogger(__name__)

EVENTS = "events"
READERS = 16  # events that are read at a time: object stores answer slowly
E = TypeVar("E", bound=StoreEvent)


class Overtaken(BadInput):
    """Somebody else changed the store at the same time; nothing was changed."""


def events_of(store: Folder, read_before: Sequence[Event] = ()) -> list[Event]:
    """Return all readable events, oldest first; warn of others.

    Those that are `read_before` are not read again: what is written stays as it is.
    """
    return _events(store, _numbers(store), read_before)


def _events(store: Folder, numbers: Sequence[int], read_before: Sequence[Event]) -> list[Event]:
    read = {event.number: event for event in read_before}
    new = _read_all(store, [number for number in numbers if number not in read])
    read |= {event.number: event for event in new}
    return [read[number] for number in numbers if number in read]


def _read_all(store: Folder, numbers: Sequence[int]) -> list[Event]:
    if store.is_local or len(numbers) < READERS:
        return [*_readable(store, numbers)]
    with ThreadPoolExecutor(READERS) as pool:
        parts = pool.map(lambda number: [*_readable(store, [number])], numbers)
        return [event for part in parts for event in part]


def newest_first(store: Folder) -> Iterator[Event]:
    """Yield the readable events, newest first, each when it is asked for."""
    return _readable(store, reversed(_numbers(store)))


def append_event(
    store: Folder, make: Callable[[list[Event]], E], read_before: Sequence[Event] = ()
) -> E:
    """Write the event that `make` makes of all events so far; again if another came between.

    Those that are `read_before` are not read again.

    Raises
    ------
    What `make` raises, where the event does not fit what happened meanwhile.
    """
    while True:
        numbers = _numbers(store)
        event = make(_events(store, numbers, read_before))
        number = max(numbers, default=0) + 1  # unreadable ones count, too
        now = datetime.now(UTC).isoformat(timespec="seconds")
        stamp = {"number": number, "at": now, "by": event.by or user_and_host()}
        made = event.model_copy(update=stamp)
        document = json.loads(made.model_dump_json(exclude_none=True))
        if store.create(_key(number), seal(document, indent=1)):
            return made


def write_event(store: Folder, event: E, read_before: Sequence[Event] = ()) -> E:
    """Write an event, whatever happened so far."""
    return append_event(store, lambda _so_far: event, read_before)


def user_and_host() -> str:
    """Return user@machine of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # users of containers may have no name
        user = "somebody"
    return f"{user}@{socket.gethostname() or 'localhost'}"


def _numbers(store: Folder) -> list[int]:
    names = [key.rpartition("/")[2] for key in store.list(EVENTS)]
    return sorted(int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdecimal())


def _key(number: int) -> str:
    return f"{EVENTS}/{number:06d}.json"


def _readable(store: Folder, numbers: Iterable[int]) -> Iterator[Event]:
    for number in numbers:
        try:
            yield _read(store, number)
        except (Damaged, FileNotFoundError) as error:
            _warn(f"{error} It is passed over.")


@cache
def _warn(sentence: str) -> None:
    """Warn once per process, as events are read again and again."""
    logger.warning(sentence)


def _read(store: Folder, number: int) -> Event:
    try:
        document: dict[str, Any] = unseal(store.read(_key(number)))
        del document["fingerprint"]
        event = EVENT.validate_python(document)
        if event.number != number:
            raise ValueError(f"it is number {event.number}")  # noqa: TRY301 - told as the others
    except ValueError as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        why = without_control(said)
        raise Damaged(f"{store.address(_key(number))} is no event ({why}).") from error
    return event
