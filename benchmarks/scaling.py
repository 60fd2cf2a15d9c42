"""What tasks cost on a Dask cluster, measured, and what that makes of 1, 16 and 256 workers.

    python benchmarks/scaling.py

Prints the measured costs and the tables of docs/scaling.md: of clusters a model, no measurement.
"""

import time
from dataclasses import dataclass

import distributed

from pipeline.streaming.gather import MOST_SPANS

WORKERS = (1, 16, 256)
TASKS = 200
STATE_BYTES = 16_000_000  # a state of a million columns with its average


@dataclass
class Costs:
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


def gather_seconds(workers, costs, work, spans):
    """A gather of `work` seconds in so many spans: a task each, one for its report, one to add."""
    waves = -(-spans // workers)
    computing = work / spans * waves
    return max(computing, 3 * spans * costs.scheduled) + costs.linked + costs.moved


def walk_seconds(workers, streams, costs, work, span=1.0):
    """A walk of K streams in spans of a second: a chain per stream, then one join."""
    at_once = min(workers, streams)
    spans = work / streams / span
    chain = work / at_once + spans * costs.linked * streams / at_once
    return max(chain, 3 * work / span * costs.scheduled) + costs.moved * (streams > 1) * streams


def main():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        costs = measured(client)
    print(f"a task of a batch {costs.scheduled * 1e3:.1f} ms")
    print(f"a link of a chain {costs.linked * 1e3:.1f} ms")
    print(f"16 MB to another worker {costs.moved * 1e3:.0f} ms")
    for work in (600.0, 36_000.0):
        table(costs, work)


def table(costs, work):
    print(f"\n| {work:.0f} s of work | {' | '.join(f'{w} workers' for w in WORKERS)} |")
    print("|---" * (len(WORKERS) + 1) + "|")
    row(
        f"gather, {MOST_SPANS} spans", [gather_seconds(w, costs, work, MOST_SPANS) for w in WORKERS]
    )
    for streams in WORKERS:
        row(f"walk, streams={streams}", [walk_seconds(w, streams, costs, work) for w in WORKERS])


def row(name, seconds):
    print(f"| {name} | " + " | ".join(f"{s:.0f} s" for s in seconds) + " |")


if __name__ == "__main__":
    main()
