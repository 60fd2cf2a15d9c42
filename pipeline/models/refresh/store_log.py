"""What happened in a store: one log of events, and nothing else decides what a store is.

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
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.night_rule import Past, WindowChoice
from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal, unseal

logger = logging.getLogger(__name__)

EVENTS = "events"
EARLIER = "publications"  # of stores of earlier versions
READERS = 16  # events that are read at a time: object stores answer slowly
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Event(BaseModel):
    """One thing that happened.

    Attributes
    ----------
    number
        In the log, from 1.
    at, by
        UTC, and who: user@machine.
    generation
        Number of what it is about; 0: the whole store.
    why
        A reason, in words.
    past
        What the rule remembers from then on (night_rule.Past); None: what it did before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    number: Natural = 0
    at: str = ""
    by: str = ""
    generation: Natural = 0
    why: str = ""
    past: Past | None = None


class Begun(_Event):
    """A generation began, with these files; `night` is the one whose rows it has."""

    what: Literal["begun"] = "begun"
    files: tuple[FileState, ...]
    night: Positive


class SetAside(_Event):
    """A file was not taken, and will not be before it changes, or is read otherwise."""

    what: Literal["set aside"] = "set aside"
    file: FileState
    reading: str = ""  # digest of the settings of reading


class Cleared(_Event):
    """A file that was set aside is no longer there."""

    what: Literal["cleared"] = "cleared"
    file: str


class Moved(_Event):
    """A file of a generation has another name by now."""

    what: Literal["moved"] = "moved"
    then: str
    now: FileState


class Dropped(_Event):
    """A generation that had begun was dropped before it had rows; its number is free again."""

    what: Literal["dropped"] = "dropped"


class DriftTold(_Event):
    """Columns moved further than they usually do; `refused`: too far to learn from."""

    what: Literal["drift"] = "drift"
    refused: bool = False


class Judged(_Event):
    """What the rule made of a night before its rows were learnt."""

    what: Literal["judged"] = "judged"
    verdict: str
    nights: tuple[int, ...] = ()  # that were confirmed, set apart or taken by it
    scores: Scores | None = None
    deviations: float | None = None  # of the published model's loss from its usual one
    usual: float | None = None
    usual_error: float | None = None
    explained: bool | None = None  # of an odd night, whether a model of its own explains it


class GateFact(BaseModel):
    """What came of a gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gate: str
    passed: bool
    reason: str


class Learnt(_Event):
    """A generation's models were trained, and one of them chosen."""

    run: str  # folder below that of the generation
    runs: dict[str, str] = {}  # of the models of all windows, by their names
    weights_sha256: str = ""
    nights: tuple[int, ...] = ()  # that it has learnt from
    rows: Natural = 0
    window: str = ""
    choice: WindowChoice | None = None  # why this window
    objective: float | None = None
    certificate: float | None = None  # at most this far above the optimum
    converged: bool | None = None
    gates: tuple[GateFact, ...] = ()


class Published(Learnt):
    """A model is the one to use from now on."""

    what: Literal["published"] = "published"

    def sentence(self) -> str:
        """Say who published it, and why."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.by} published generation {self.generation:06d} at {self.at}{why}"


class KeptBack(Learnt):
    """A model is not published; its rows are learnt from all the same."""

    what: Literal["kept back"] = "kept back"


class Settled(_Event):
    """Nothing is to be learnt of a generation now: its night waits, or is apart."""

    what: Literal["settled"] = "settled"


class Abandoned(_Event):
    """A generation was given up: its files are new again."""

    what: Literal["abandoned"] = "abandoned"


class Taken(_Event):
    """Somebody says that a night that waits, or is apart, is right."""

    what: Literal["taken"] = "taken"


class Forgotten(_Event):
    """Rows were deleted."""

    what: Literal["forgotten"] = "forgotten"
    rows: Natural


class Removed(_Event):
    """Rows or models of an old generation were removed."""

    what: Literal["removed"] = "removed"


Event = (
    Begun | SetAside | Cleared | Moved | Dropped | DriftTold | Judged | Published | KeptBack
    | Settled | Abandoned | Taken | Forgotten | Removed
)  # fmt: skip
_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="what")])
E = TypeVar("E", bound=_Event)


class Overtaken(BadInput):
    """Somebody else changed the store at the same time; nothing was changed."""


def events_of(store: Folder) -> list[Event]:
    """Return all readable events, oldest first; warn of others."""
    numbers = _numbers(store)
    if not numbers:
        _refuse_earlier(store)
    return _events(store, numbers)


def _events(store: Folder, numbers: Sequence[int]) -> list[Event]:
    if store.is_local or len(numbers) < READERS:
        return [*_readable(store, numbers)]
    with ThreadPoolExecutor(READERS) as pool:
        parts = pool.map(lambda number: [*_readable(store, [number])], numbers)
        return [event for part in parts for event in part]


def newest_first(store: Folder) -> Iterator[Event]:
    """Yield the readable events, newest first, each when it is asked for."""
    numbers = _numbers(store)
    if not numbers:
        _refuse_earlier(store)
    return _readable(store, reversed(numbers))


def append_event(store: Folder, make: Callable[[list[Event]], E]) -> E:
    """Write the event that `make` makes of all events so far; again if another came between.

    Raises
    ------
    What `make` raises, where the event does not fit what happened meanwhile.
    """
    while True:
        numbers = _numbers(store)
        event = make(_events(store, numbers))
        number = max(numbers, default=0) + 1  # unreadable ones count, too
        now = datetime.now(UTC).isoformat(timespec="seconds")
        stamp = {"number": number, "at": now, "by": event.by or user_and_host()}
        made = event.model_copy(update=stamp)
        document = json.loads(made.model_dump_json(exclude_none=True))
        if store.create(_key(number), seal(document, indent=1)):
            return made


def user_and_host() -> str:
    """Return user@machine of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # users of containers may have no name
        user = "somebody"
    return f"{user}@{socket.gethostname() or 'localhost'}"


def _refuse_earlier(store: Folder) -> None:
    if store.list(EARLIER):
        raise BadInput(
            f"{store.url} was written by an earlier version, whose stores are not gone on with. "
            "Refresh into another store; its first generation may take the same files."
        )


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
        event = _EVENT.validate_python(document)
        if event.number != number:
            raise ValueError(f"it is number {event.number}")  # noqa: TRY301 - told as the others
    except ValueError as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise Damaged(f"{store.address(_key(number))} is no event ({said}).") from error
    return event
