"""Publications of a store's models: the newest one names the model in use.

    STORE/publications/000003.json   the third publication: generation, time, author and reason

Publications are numbered, and files are created exclusively, so that of two concurrent publications
one wins and the other fails.  An unreadable one, as a power cut could leave with an earlier
version, is reported and skipped: the newest before it counts, and the next publication is numbered
after both.
"""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import weights_digest
from fewpass.storage.addresses import command
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal, unseal

logger = logging.getLogger(__name__)

PUBLICATIONS = "publications"
EARLIER = "published.json"  # the pointer in stores of earlier versions
NONE_YET = 0  # the number before the first publication

Number = Annotated[int, Field(ge=1, lt=1_000_000)]


class PublishedMeanwhile(BadInput):
    """A publication that failed because of a concurrent one; nothing was changed."""


class Publication(NamedTuple):
    """One publication: a change of the model in use."""

    number: Number
    generation: Number
    weights_sha256: str
    published_at: str  # UTC
    by: str
    why: str

    def run_in(self, store: str) -> str:
        """Return the address of the run of its model."""
        return run_of(store, self.generation)

    def sentence(self) -> str:
        """Return a sentence on the publication."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.by} published generation {self.generation:06d} at {self.published_at}{why}"


_PUBLICATION = TypeAdapter(Publication, config=ConfigDict(strict=True))


def run_of(store: str, generation: int) -> str:
    """Return the address of a generation's run."""
    return f"{Folder(store).url}/generations/{generation:06d}/run"


def history(store: str) -> list[Publication]:
    """Return all readable publications of a store, oldest first; warn of others."""
    folder = Folder(store)
    return list(_readable(folder, _numbers(folder)))


def published(store: str) -> Publication | None:
    """Return a store's newest readable publication; None if there is none yet.

    Raises Damaged if none of them is readable.
    """
    folder = Folder(store)
    numbers = _numbers(folder)
    newest = _newest(folder, numbers)
    if newest is None and numbers:
        try:
            return _read(folder, numbers[-1])
        except (Damaged, FileNotFoundError) as error:
            raise Damaged(
                f"{error} No other publication of {folder.url} can be read. Publish a model again: "
                f"fewpass publish {folder.url} NUMBER."
            ) from error
    return newest


def newest_readable(store: str) -> Publication | None:
    """Return the newest readable publication; None also if none is readable."""
    folder = Folder(store)
    return _newest(folder, _numbers(folder))


def _newest(folder: Folder, numbers: list[int]) -> Publication | None:
    return next(_readable(folder, reversed(numbers)), None)


def _readable(folder: Folder, numbers: Iterable[int]) -> Iterator[Publication]:
    """Yield readable publications; warn of each unreadable one."""
    for number in numbers:
        try:
            yield _read(folder, number)
        except (Damaged, FileNotFoundError) as error:
            _warn(f"{error} It is passed over. Publish again what it was to publish, or remove it.")


@cache
def _warn(sentence: str) -> None:
    """Warn once per process, as the newest publication is read again and again."""
    logger.warning(sentence)


def _numbers(folder: Folder) -> list[int]:
    names = [key.rpartition("/")[2] for key in folder.list(PUBLICATIONS)]
    numbers = sorted(int(n[:-5]) for n in names if n.endswith(".json") and n[:-5].isdecimal())
    if not numbers and folder.exists(EARLIER):
        raise BadInput(
            f"{folder.address(EARLIER)} was written by an earlier version, and is not followed any "
            f"more. Look which generation it names, remove it, and say "
            f"{command('publish', folder.url, 'NUMBER')}."
        )
    return numbers


def _key(number: int) -> str:
    return f"{PUBLICATIONS}/{number:06d}.json"


def _read(folder: Folder, number: int) -> Publication:
    try:
        document = unseal(folder.read(_key(number)))
        del document["fingerprint"]
        publication = _PUBLICATION.validate_python(document)
        if publication.number != number:
            raise ValueError(f"it is number {publication.number}")  # noqa: TRY301 - told as the others
    except ValueError as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise Damaged(f"{folder.address(_key(number))} is no publication ({said}).") from error
    return publication


def publish(
    store: str, generation: int, *, after: int, why: str = "", by: str | None = None
) -> Publication:
    """Publish a generation's model atomically.

    Parameters
    ----------
    after
        Number of the newest publication that the caller knows; `NONE_YET` if there is none.
    why, by
        Recorded with it; by default the user of this process.

    Raises
    ------
    PublishedMeanwhile
        There is a newer publication.
    """
    folder = Folder(store)
    digest = weights_digest(load_model(RunFolder(run_of(store, generation))).weights)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    numbers = _numbers(folder)
    current = _newest(folder, numbers)
    if (current.number if current else NONE_YET) != after:
        raise _overtaken(store, after, current)
    number = max(numbers, default=NONE_YET) + 1  # unreadable ones count, too
    made = Publication(number, generation, digest, now, by or user_and_host(), why)
    if not folder.create(_key(number), seal(made._asdict(), indent=1)):
        raise _overtaken(store, after, newest_readable(store))
    return made


def is_published(store: str, generation: int, after: int) -> bool:
    """Whether a generation's model was published after publication number `after`."""
    return any(p.number > after and p.generation == generation for p in history(store))


def _overtaken(store: str, after: int, current: Publication | None) -> PublishedMeanwhile:
    newest = f"is number {current.number} ({current.sentence()})" if current else "was removed"
    return PublishedMeanwhile(
        f"Nothing was changed: the newest publication {newest}, where number {after} was expected. "
        f"Look with {command('models', Folder(store).url)}, and publish again if that is still "
        "meant."
    )


def user_and_host() -> str:
    """Return user@machine of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # users of containers may have no name
        user = "somebody"
    return f"{user}@{socket.gethostname() or 'localhost'}"


def run_at(url: str) -> RunFolder:
    """Return the run at an address, or the published run of a store at that address."""
    current = published(url)
    return RunFolder(current.run_in(url) if current else url)
