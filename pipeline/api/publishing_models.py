"""Models of a store: listed, published, given up."""

from __future__ import annotations

import os

from fewpass.pipeline.api.call_arguments import Address
from fewpass.pipeline.models.refresh import abandoning, generations, publishing
from fewpass.pipeline.models.refresh.publications import Publication


def models(store: Address) -> generations.GenerationList:
    """Return the models of a store that `prefect run refresh` writes to, oldest first.

    Parameters
    ----------
    store
        Folder or address of the store.

    Returns
    -------
    list of GenerationState
        generation, state, files, decision, publications.  The attribute `refused` of the list has
        the refused files: file, reason, size, changed, refused_at.

    Raises
    ------
    BadInput
        If there is none.
    """
    return generations.models(os.fspath(store))


def publish(
    store: Address, generation: int, *, after: int | None = None, why: str = ""
) -> Publication:
    """Make the model of a generation the one that readers of a store use.

    It may be newer or older than the present one.  `fewpass publish` does the same.

    Parameters
    ----------
    store
        Folder or address that `prefect run refresh` writes to.
    generation
        Number of the generation, from 1.
    after
        Number of the publication that this one replaces; by default the newest.
    why
        A reason, stored with the publication.

    Returns
    -------
    Publication
        number, generation, weights_sha256, published_at, by, why.

    Raises
    ------
    BadInput
        If there is no such generation, it is not finished, or its model is the published one.
    PublishedMeanwhile
        If somebody else has published since `after`.  A BadInput.
    """
    return publishing.publish_generation(os.fspath(store), generation, after=after, why=why)


def abandon(store: Address, *, why: str = "") -> generations.Generation:
    """Give up the generation of a store that is not finished, as `fewpass refresh --abandon` does.

    What was made of it is not used.  The next refresh takes its files anew, those that are still
    there.

    Parameters
    ----------
    store
        Folder or address that `prefect run refresh` writes to.
    why
        A reason, stored with the generation.

    Returns
    -------
    Generation
        number, files, data, run.

    Raises
    ------
    BadInput
        If there is no generation, if all are finished, or if a refresh is at work.
    """
    return abandoning.abandon(os.fspath(store), why=why)
