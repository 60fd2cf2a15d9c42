"""Abandoning an unfinished generation: the next refresh may take its files."""

from __future__ import annotations

from datetime import UTC, datetime

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.generations import (
    Decision,
    Generation,
    generations,
    write_decision,
)
from fewpass.pipeline.models.refresh.publications import NONE_YET, newest_readable, user_and_host
from fewpass.pipeline.models.refresh.refreshing import refresh_lock, rows_before
from fewpass.storage.folder import Folder


def abandon(store: str, *, why: str = "") -> Generation:
    """Abandon the unfinished generation of a store.

    Its folder stays, but is not used.  The next refresh takes its files again, if they still exist.

    Parameters
    ----------
    store
        Folder or address of the store.
    why
        Recorded with the generation.

    Returns
    -------
    Generation
        number, files, data, run.

    Raises
    ------
    BadInput
        There is no generation, or all are finished, or a refresh is running.
    """
    if not generations(Folder(store)):
        raise BadInput(f"There is no generation at {Folder(store).url}. Check the address.")
    with refresh_lock(store):
        last = generations(Folder(store))[-1]
        if last.is_decided:
            raise BadInput(
                f"Nothing was changed: generation {last.number:06d}, the newest one, is finished. "
                f"fewpass publish {Folder(store).url} NUMBER goes back to an older model."
            )
        write_decision(store, last, _given_up(store, last, why))
    return last


def _given_up(store: str, generation: Generation, why: str) -> Decision:
    current = newest_readable(store)
    return Decision(
        published=False,
        reason=f"it was abandoned{f' ({why})' if why else ''}",
        loss=None,
        loss_before=None,
        rows=rows_before(store, generation),
        after=current.number if current else NONE_YET,
        objective=None,
        certificate=None,
        decided_at=datetime.now(UTC).isoformat(timespec="seconds"),
        decided_by=user_and_host(),
        abandoned=True,
    )
