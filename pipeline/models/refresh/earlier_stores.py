"""Stores that earlier versions wrote, as the events that this one would have written.

STORE/publications/000003.json                  the third publication, sealed
STORE/generations/000007/files.json             the files of a generation
decision.json          what became of it
removed.json           where its rows and its run were removed
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.past_nights import Past
from fewpass.pipeline.models.refresh.store_events import (
    Abandoned,
    Begun,
    Event,
    GenerationRemoved,
    Judged,
    NotPublished,
    Published,
)
from fewpass.pipeline.runs.run_series import REMOVED
from fewpass.storage.folder import Folder
from fewpass.storage.seal import unseal

PUBLICATIONS, FILES, DECISION = "publications", "files.json", "decision.json"
RUN = "run"  # the folder of a generation's only run


def earlier_events(store: Folder) -> list[Event]:
    """Return what happened in a store of an earlier version, oldest first; nothing in others.

    Raises BadInput where a record cannot be read, or a generation is not decided: the version that
    began it finishes it.
    """
    if not store.list(PUBLICATIONS):
        return []
    every = sorted(_events(store), key=lambda event: event.at)
    return [event.model_copy(update={"number": k}) for k, event in enumerate(every, 1)]


def _events(store: Folder) -> Iterator[Event]:
    used: tuple[int, ...] = ()
    number = 1
    while (own := store.child(f"generations/{number:06d}")).exists(FILES):
        made = _document(own, DECISION)
        at = {"generation": number, "at": made["decided_at"], "by": made["decided_by"]}
        named = tuple(FileState.named(name) for name in _document(own, FILES))
        yield Begun(files=named, night=number, **at)
        if made.get("abandoned"):
            yield Abandoned(why=made["reason"], **at)
        else:
            used = (*used, number)
            yield Judged(verdict="first", past=Past(used=used), **at)
            if not made["published"]:
                yield NotPublished(why=made["reason"], **_learnt(made, used), **at)
        if own.exists(REMOVED):
            yield GenerationRemoved(past=Past(used=tuple(n for n in used if n != number)), **at)
        number += 1
    yield from _publications(store)


def _publications(store: Folder) -> Iterator[Published]:
    for key in sorted(store.list(PUBLICATIONS)):
        made = unseal(store.read(key))
        own = store.child(f"generations/{made['generation']:06d}")
        nights = tuple(range(1, made["generation"] + 1))
        yield Published(
            generation=made["generation"], at=made["published_at"], by=made["by"], why=made["why"],
            **_learnt(_document(own, DECISION), nights),
        )  # fmt: skip


def _learnt(made: dict[str, Any], nights: tuple[int, ...]) -> dict[str, Any]:
    """Return the fields of `ModelLearnt` that a decision has."""
    own = {name: made.get(name) for name in ("objective", "certificate", "converged")}
    return own | {"run": RUN, "runs": {"all": RUN}, "nights": nights, "rows": made["rows"],
                  "window": "all"}  # fmt: skip


def _document(folder: Folder, key: str) -> Any:
    try:
        return json.loads(folder.read(key))
    except (FileNotFoundError, ValueError) as error:
        raise BadInput(
            f"{folder.address(key)} cannot be read ({error}). An earlier version wrote this store: "
            "finish its last generation with that, or refresh into another store."
        ) from error
