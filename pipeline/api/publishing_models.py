"""Models of a store: refreshed, listed, published, given up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, addresses, require_execution
from fewpass.pipeline.models.refresh import listing, publishing, refreshing
from fewpass.pipeline.models.refresh.listing import StoreModels
from fewpass.pipeline.models.refresh.refresh_result import RefreshResult
from fewpass.pipeline.models.refresh.store_events import Published, Taken
from fewpass.pipeline.models.refresh.store_state import Generation
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.refresh_plan import RefreshPlan


def refresh(
    sources: Address | Sequence[Address],
    store: Address,
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> RefreshResult:
    """Learn from new files, and publish a model of them, as `prefect run refresh` does.

    A refresh that was killed is finished by the next one.

    Parameters
    ----------
    sources
        A file, folder, glob or address where new files appear, or a list of them.
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
    require_execution(execution)
    places = {"sources": addresses(sources), "store": os.fspath(store)}
    return refreshing.refresh(plan_of(RefreshPlan, settings | places), RefreshWork(execution))


def models(store: Address) -> StoreModels:
    """Return the models of a store that refreshes write to, and what happened in it.

    Parameters
    ----------
    store
        Folder or address of the store.

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
    return listing.models(os.fspath(store))


def publish(
    store: Address, generation: int, *, after: int | None = None, why: str = ""
) -> Published:
    """Make the model of a generation the one that readers of a store use.

    It may be newer or older than the present one; nights after an older one are set apart.
    `fewpass store publish` does the same.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, from 1.
    after
        Number of the publication that this one replaces; by default the newest.
    why
        A reason, stored with the publication.

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
    return publishing.publish(os.fspath(store), generation, after=after, why=why)


def take(store: Address, generation: int, *, why: str = "") -> Taken:
    """Have a generation learnt from that waits or is set apart, as `fewpass store take` does.

    The next refresh does; rows of files that changed take the place of the old ones.

    Raises
    ------
    BadInput
        If it neither waits nor is set apart, or a refresh is at work.
    """
    return publishing.take_night(os.fspath(store), generation, why=why)


def abandon(store: Address, *, why: str = "") -> Generation:
    """Give up the generation of a store that is not finished, as `fewpass store abandon` does.

    What was made of it is not used.  The next refresh takes its files anew, those that are still
    there.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    why
        A reason, stored with the generation.

    Returns
    -------
    Generation
        number, night, files, data.

    Raises
    ------
    BadInput
        If there is no generation, if all are finished, or if a refresh is at work.
    """
    return publishing.abandon(os.fspath(store), why=why)
