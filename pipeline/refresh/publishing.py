"""The published model: a pointer that readers follow and that moves only when told to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NamedTuple

from pipeline.errors import BadInput
from pipeline.training.model import load_model
from pipeline.training.run_folder import RunFolder
from pipeline.training.saved import weights_digest
from storage.folder import Folder

POINTER = "published.json"


class Published(NamedTuple):
    """Which run's model is the one to use."""

    run: str
    weights_sha256: str
    published_at: str


def published(store: str) -> Published | None:
    """Return what a store has published; None when nothing is."""
    folder = Folder(store)
    if not folder.exists(POINTER):
        return None
    try:
        return _pointer_in(folder.read(POINTER))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(
            f"{folder.address(POINTER)} names no run ({error}). Remove it, and refresh again."
        ) from error


def _pointer_in(raw: bytes) -> Published:
    found = Published(**json.loads(raw))
    if not all(isinstance(value, str) for value in found):
        raise TypeError("its members are not all text")
    return found


def publish(store: str, run: str) -> Published:
    """Make a run's newest model the one to use, at one stroke."""
    digest = weights_digest(load_model(RunFolder(run)).weights)
    made = Published(run, digest, datetime.now(UTC).isoformat(timespec="seconds"))
    Folder(store).write(POINTER, (json.dumps(made._asdict(), indent=2) + "\n").encode())
    return made


def run_at(url: str) -> RunFolder:
    """Return the run at an address, or the one that a store at that address has published."""
    found = published(url)
    return RunFolder(found.run if found else url)
