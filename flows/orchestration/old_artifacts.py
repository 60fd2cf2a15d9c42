"""Removing old versions of the artifacts that our flows make: each hour of a refresh adds some."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import ArtifactSort

from fewpass.flows.orchestration.server import answering
from fewpass.pipeline.runs.run_series import Removed

AT_ONCE = 200
#: Of the keys that `artifact_key` makes: the end of an address, its hash, what is shown.
OWN_KEY = re.compile(r"[a-z0-9-]*-[0-9a-f]{8}-[a-z-]+")


def remove_old_artifacts(keep: int, *, dry_run: bool = False) -> list[Removed]:
    """Remove all but the newest versions of each of our artifacts from the server."""
    removed = []
    with answering(), get_client(sync_client=True) as client:
        versions: dict[str, list[Artifact]] = defaultdict(list)
        for artifact in _every(client):
            if artifact.key and OWN_KEY.fullmatch(artifact.key):
                versions[artifact.key].append(artifact)
        for key, newest_first in sorted(versions.items()):
            old = newest_first[keep:]
            if old:
                removed.append(Removed("artifact", key, len(old), None))
            for artifact in () if dry_run else old:
                client.delete_artifact(artifact.id)
    return removed


def _every(client: SyncPrefectClient) -> Iterator[Artifact]:
    """Yield all artifacts of a server, the newest first.

    Those that flows make meanwhile push others onto the next page, where these come again.
    """
    seen, offset = set[UUID](), 0
    while True:
        page = client.read_artifacts(limit=AT_ONCE, offset=offset, sort=ArtifactSort.CREATED_DESC)
        yield from (one for one in page if one.id not in seen)
        seen |= {one.id for one in page}
        offset += len(page)
        if len(page) < AT_ONCE:
            return
