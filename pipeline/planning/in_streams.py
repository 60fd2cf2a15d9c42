"""The number of streams that the workers of a cluster had better step, and how often these meet.

A meeting costs time, whatever the rows: tasks and messages of every stream, and what is sent of the
columns that moved.  Meetings may take a tenth of a pass; but those of streams that somebody asks
for are at least 16, as far as there are chunks for them: with fewer, passes are more.  Streams that
do not meet inside a pass may never come to a tolerance (docs/scaling.md).
"""

from __future__ import annotations

from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.row_costs import DUAL_ROW, NUMBER
from fewpass.solvers.protocol import ENOUGH_MERGES, MOST_MERGES
from fewpass.solvers.registry import DUAL, SMALLER_DUAL
from fewpass.storage.manifest import Manifest

ASCENT = (DUAL, SMALLER_DUAL)  # methods whose streams meet inside a pass
SHARE = 0.1  # of a pass, for meetings
#: What a meeting costs, in ns: a worker; the scheduler, for each stream; each column that moves.
WORKER, STREAM, COLUMN = 2e7, 1e7, 100.0
LEAST_MERGES = 2  # in a pass
MIXED_CHUNKS = 3  # of a window between two merges: rows of one alone meet in every pass


def pass_ns(manifest: Manifest) -> float:
    """Return what a pass of dual ascent costs one thread, in nanoseconds."""
    return DUAL_ROW * manifest.n_rows + NUMBER * manifest.nnz


def meeting_ns(manifest: Manifest, streams: int) -> float:
    """Return what a meeting costs, in nanoseconds."""
    moved = min(manifest.n_features, manifest.nnz / (streams * ENOUGH_MERGES))
    return WORKER + STREAM * streams + COLUMN * moved


def possible(manifest: Manifest, streams: int) -> int:
    """Return how often streams may meet in a pass, by the chunks that there are."""
    return min(MOST_MERGES, max(1, manifest.n_chunks // (MIXED_CHUNKS * streams)))


def affordable(manifest: Manifest, streams: int) -> int:
    """Return how often streams may meet in a pass, by what a meeting costs."""
    return int(SHARE * pass_ns(manifest) / streams / meeting_ns(manifest, streams))


def meetings_of(manifest: Manifest, streams: int) -> int:
    """Return how often streams meet in a pass, its end included."""
    if streams == 1:
        return 1
    worth = max(ENOUGH_MERGES, affordable(manifest, streams))
    return min(possible(manifest, streams), worth)


def streams_for(manifest: Manifest, workers: int) -> int:
    """Return the most streams, up to one a worker, that can afford to meet often enough; or 1."""

    def pays(streams: int) -> bool:
        often = min(possible(manifest, streams), affordable(manifest, streams))
        return often >= ENOUGH_MERGES

    return next(filter(pays, range(workers, 1, -1)), 1)


def require_meetings(kind: str, manifest: Manifest, streams: int) -> None:
    """Refuse streams of dual ascent that do not meet inside a pass: BadInput."""
    if streams == 1 or kind not in ASCENT or meetings_of(manifest, streams) >= LEAST_MERGES:
        return
    needed = LEAST_MERGES * MIXED_CHUNKS
    raise BadInput(
        f"{streams} streams of {kind} need {needed} chunks each to meet inside a pass, "
        f"{needed * streams} in all, and the data set has {manifest.n_chunks}: they may never come "
        "to a tolerance. Leave `streams` out, or ingest with smaller chunks (`chunk_bytes`)."
    )


def goes_in_streams(method: Any) -> bool:
    """Say whether a method of dual ascent, as it is set, goes in several streams."""
    return method.batch == "serial" and getattr(method, "columns", "auto") != "apart"


def because(streams: int, workers: int) -> str:
    """Say in how many streams the workers of a cluster step, and why."""
    if streams == 1:
        return f"one stream, as a pass is too short for {workers} workers to share"
    if streams == workers:
        return f"{streams} streams: the cluster has {workers} workers"
    return f"{streams} streams: for more of the cluster's {workers} workers a pass is too short"
