"""Models of a store: refreshed, listed, published, given up."""
# ruff: noqa: PLC0415 - what a function needs is imported when it is called

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, addresses, require_execution
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.refresh_plan import RefreshPlan

if TYPE_CHECKING:
    from fewpass.pipeline.models.refresh.listing import StoreModels
    from fewpass.pipeline.models.refresh.refresh_result import RefreshResult
    from fewpass.pipeline.models.refresh.store_events import Published, Taken
    from fewpass.pipeline.models.refresh.store_state import Generation


def refresh(
    sources: Address | Sequence[Address],
    store: Address,
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> RefreshResult:
    """Learn from files that are new or have changed, and publish the model that predicts best.

    `prefect run refresh` does the same. What was killed is finished by the next refresh.

    Parameters
    ----------
    sources
        File, folder, glob or address where new files appear, or several.
    store
        Folder or address for data sets, runs and the published model.
    execution
        Where to train: threads of this process, or Dask.  The model is the same, bit for bit.
    **settings
        Fields of `RefreshPlan` (windows, odd, gates, ...), of its `ingest` (label, drop, column,
        n_features, ...) and of its `training` (lam, tol, loss, ...).

    Returns
    -------
    RefreshResult
        state (published, kept back, waits, settled, unchanged), message, generation, model, nights,
        rows, window, loss, usual, deviations, certificate, ...

    Raises
    ------
    BadInput
        Settings that cannot be used, files that cannot be read, rows that drifted too far; or
        another process refreshes the store.
    """
    from fewpass.pipeline.models.refresh.refreshing import refresh as refreshed
    from fewpass.pipeline.models.refresh.work import RefreshWork

    require_execution(execution)
    places = {"sources": addresses(sources), "store": os.fspath(store)}
    return refreshed(plan_of(RefreshPlan, settings | places), RefreshWork(execution))


def models(store: Address) -> StoreModels:
    """List the models of a store, and which one is used.

    It tells what each has learnt from, how good it is, and what happened in the store. Files that a
    refresh could not read, and has refused, come with the reason.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.

    Returns
    -------
    StoreModels
        published, generations (generation, state, files, nights, rows, window, loss, ...),
        refused (files that could not be read, and why), events.

    Raises
    ------
    BadInput
        If there is none.
    """
    from fewpass.pipeline.models.refresh.listing import models as listed

    return listed(os.fspath(store))


def publish(
    store: Address, generation: int, *, after: int | None = None, because: str = ""
) -> Published:
    """Publish the model of a generation as the one to use.

    It may be newer or older than the present one. Whoever evaluates, predicts or exports with the
    store uses it from then on. Nights after it are quarantined: their rows stay and compete. Of two
    who publish at once one wins, the other fails.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, from 1; 000007 is 7.
    after
        Number of the event that published the present one. Where it is another one by now, nothing
        is changed [default: whichever it is].
    because
        Reason, stored with the publication.

    Returns
    -------
    Published
        number, generation, run, weights_sha256, at, by, why.

    Raises
    ------
    BadInput
        If there is no such generation, it has no model, or its model is the published one.
    Overtaken
        If somebody else has published since `after`.  A BadInput.
    """
    from fewpass.pipeline.models.refresh import publishing

    return publishing.publish(os.fspath(store), generation, after=after, why=because)


def take(store: Address, generation: int, *, because: str = "") -> Taken:
    """Have a generation learnt from that waits or is quarantined.

    Its rows are right. The next refresh learns from them, also without new files; rows of files
    that changed take the place of the old ones.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, from 1; 000007 is 7.
    because
        Reason, kept in the store's log.

    Raises
    ------
    BadInput
        If it neither waits nor is quarantined, or a refresh is at work.
    """
    from fewpass.pipeline.models.refresh import publishing

    return publishing.take_night(os.fspath(store), generation, why=because)


def abandon(store: Address, *, because: str = "") -> Generation:
    """Give up the generation of a store that is not finished.

    What was made of it is not used. The next refresh takes its files anew, those that are still
    there.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    because
        Reason, kept in the store's log.

    Returns
    -------
    Generation
        number, night, files, data.

    Raises
    ------
    BadInput
        If there is no generation, if all are finished, or if a refresh is at work.
    """
    from fewpass.pipeline.models.refresh import publishing

    return publishing.abandon(os.fspath(store), why=because)
