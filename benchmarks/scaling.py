"""What tasks cost on a Dask cluster, measured, and what that makes of 1, 16 and 256 workers.

    python -m benchmarks.scaling

Records the measured costs; the tables that evidence.py makes of them are a model of clusters, no
measurement.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import distributed

from testing.results import EVIDENCE, conclude, recorded

WORKERS = (1, 16, 256)
TASKS = 200
STATE_BYTES = 16_000_000  # a state of a million columns with its average


class Costs(NamedTuple):
    """Seconds."""

    scheduled: float  # of the scheduler's one thread, per task of a batch
    linked: float  # from the end of a task to the start of the next one of a chain
    moved: float  # to bring 16 MB from one worker to another


def measured(client):
    def nothing(x=None):
        return None

    client.gather(client.map(nothing, range(20), pure=False))
    began = time.perf_counter()
    client.gather(client.map(nothing, range(TASKS), pure=False))
    scheduled = (time.perf_counter() - began) / TASKS
    began, link = time.perf_counter(), None
    for _ in range(TASKS):
        link = client.submit(nothing, link, pure=False)
    link.result()
    linked = (time.perf_counter() - began) / TASKS
    first, second = list(client.scheduler_info(n_workers=-1)["workers"])[:2]
    moves = []
    for _ in range(5):
        state = client.submit(bytes, STATE_BYTES, workers=[first], pure=False)
        state.result()
        began = time.perf_counter()
        client.submit(len, state, workers=[second], pure=False).result()
        moves.append(time.perf_counter() - began)
    return Costs(scheduled, linked, min(moves))


def reduce_seconds(workers, costs, work, spans):
    """A reduction of `work` seconds in so many spans: each has a task, a report and a sum."""
    waves = -(-spans // workers)
    computing = work / spans * waves
    return max(computing, 3 * spans * costs.scheduled) + costs.linked + costs.moved


def walk_seconds(workers, streams, costs, work):
    """A walk of K streams in spans of a second: a chain per stream, then one join."""
    at_once = min(workers, streams)
    spans = work / streams
    chain = work / at_once + spans * costs.linked * streams / at_once
    return max(chain, 3 * work * costs.scheduled) + costs.moved * (streams > 1) * streams


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--results", type=Path, default=EVIDENCE, help="file of JSON lines")
    chosen = options.parse_args()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        recorded(chosen.results, "scaling", [measured(client)._asdict()], json.dumps)
    conclude(chosen.results, "scaling", [], ("dask", "distributed"))


if __name__ == "__main__":
    main()
