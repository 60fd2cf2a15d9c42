"""A generation's model is published by its number: forward, or back."""

from __future__ import annotations

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.generations import generations
from fewpass.pipeline.models.refresh.publications import (
    NONE_YET,
    Publication,
    newest_readable,
    publish,
)
from fewpass.solvers.bad_input import shown
from fewpass.storage.addresses import command
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import instead


def publish_generation(
    store: str, number: int, *, after: int | None = None, why: str = ""
) -> Publication:
    """Publish the model of a generation, newer or older than the present one.

    Parameters
    ----------
    store
        Folder or address of the store.
    number
        The generation, from 1.
    after
        Number of the newest publication, as reported by `models`; a newer one is an error.
        Default: no check.
    why
        Recorded with the publication.

    Raises
    ------
    BadInput
        The generation does not exist, is not finished, or is published already.
    PublishedMeanwhile
        Somebody else published at the same time; nothing was changed.
    """
    for name, given in (("generation", number), ("after", NONE_YET if after is None else after)):
        if not isinstance(given, int) or isinstance(given, bool):
            raise BadInput(f"{name} is {shown(given)}. Give a whole number, such as 7.")
    every = generations(Folder(store))
    if not every:
        raise BadInput(instead(Folder(store), "store"))
    if not 1 <= number <= len(every):
        raise BadInput(
            f"There is no generation {shown(number).zfill(6)} at {Folder(store).url}. "
            f"{command('models', store)} lists those that are there."
        )
    if not every[number - 1].is_decided:
        raise BadInput(f"Generation {number:06d} is not decided yet. The next refresh finishes it.")
    if every[number - 1].is_abandoned:
        raise BadInput(f"Generation {number:06d} was abandoned. Publish another one.")
    if every[number - 1].is_removed:
        raise BadInput(f"The model of generation {number:06d} was removed. Publish another one.")
    current = newest_readable(store)
    if current and current.generation == number and after in (None, current.number):
        raise BadInput(f"Nothing was changed: it is the one that is used ({current.sentence()}).")
    newest = current.number if current else NONE_YET
    return publish(store, number, after=newest if after is None else after, why=why)
