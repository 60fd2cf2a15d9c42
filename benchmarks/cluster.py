"""What a cluster's scheduler and client do for each span of a reduction: CPU, bytes, memory.

    python -m benchmarks.cluster --workers 64 --spans 1024 --span-seconds .01 --json

A real scheduler in a process of its own, many workers of one thread in a few processes, and the
product's own `reduce()` over spans that sleep: they take time and next to no processor.  What the
scheduler takes when nobody asks anything (workers report every half second) is measured first, and
subtracted.  `--walk` walks over such spans instead, in a stream for each worker; `--map` maps them
as an ingest does.  `--ingest FILE` ingests a file instead, with threads and with two and four
workers in turns, and tells the CPU seconds of each.  With `--kernels`
a real data set of so many chunks (8 MB each, in the temporary folder) is read, summed over and
walked instead, and the busy shares are the spans' own seconds:

    python -m benchmarks.cluster --workers 16 --processes 16 --spans 256 --kernels 512 --json

`--profile` says what the scheduler's processor did meanwhile, by group, and what it does in the
same time when idle (scheduler_profile.py).

On a machine with few cores CPU seconds, bytes and memory are sound; wall time, and
with it the busy share, is only as good as the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client
from threadpoolctl import threadpool_limits

from benchmarks.cluster_ingest import ingested, mapped_asleep
from benchmarks.cluster_processes import (
    Processes,
    SleepingState,
    bytes_sent,
    count_bytes,
    processes,
    sleeping_job,
    sleeping_sum,
    sleeping_walk,
)
from benchmarks.cluster_rows import reduced as reduced_rows
from benchmarks.cluster_rows import walked, write_rows
from benchmarks.scheduler_profile import begin_sampling, end_sampling, table_of
from fewpass.pipeline.passes import reduce as reductions
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.training import walk as walks
from fewpass.solvers.protocol import Weights, same

IDLE_SECONDS = 4.0


def cpu_of(process: psutil.Process) -> float:
    """Return a process's CPU seconds so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Meter:
    """Reads what the processes of a cluster have taken so far."""

    def __init__(self, client: Client, started: Processes) -> None:
        self._client = client
        self.scheduler = psutil.Process(started.scheduler.pid)
        self._workers = [psutil.Process(process.pid) for process in started.workers]
        self._own = psutil.Process()

    def bytes_sent(self) -> int:
        """Return the bytes written to connections, by all."""
        own = {pid: at for at, pid in self._client.run(os.getpid).items()}
        sent = self._client.run(bytes_sent, workers=list(own.values()))
        return sum(sent.values()) + self._client.run_on_scheduler(bytes_sent) + bytes_sent()

    def cpu(self) -> np.ndarray:
        """Return CPU seconds: of the scheduler, this client, all workers; and the clock."""
        workers = sum(map(cpu_of, self._workers))
        return np.array([cpu_of(self.scheduler), cpu_of(self._own), workers, time.perf_counter()])


def idle_share(meter: Meter) -> np.ndarray:
    """Return the cores that scheduler, client and workers take while nothing is asked."""
    before = meter.cpu()
    time.sleep(IDLE_SECONDS)
    taken = meter.cpu() - before
    return taken / taken[-1]


def reduced(client: Client, spans: int, seconds: float, columns: int) -> int:
    """Add up over spans that sleep; return the number of reports that came."""
    executor = OnDask(client, None)
    reports: list[Any] = []
    at = Weights(np.ones(columns), 0.0)
    total = executor.result(reductions.reduce(
        executor, sleeping_job(spans, columns), sleeping_sum(seconds), at, reports.append
    ))  # fmt: skip
    assert total.blocks == spans, "every span was added once"
    assert sum(report.rows for report in reports) == spans, "every span was told of once"
    return len(reports)


def walked_asleep(client: Client, spans: int, seconds: float, columns: int) -> int:
    """Walk over spans that sleep, in a stream for each worker; return how many there were."""
    executor, streams = OnDask(client, None), len(client.nthreads())
    walks.SPAN_SECONDS = seconds or 1e-9  # a window takes longer, so each span is one
    state = executor.submit("state", same, SleepingState(np.ones((columns, 2)), 0))
    driver = walks.WalkDriver(
        executor, sleeping_job(spans, columns, streams), sleeping_walk(seconds), 0,
        [walks.StreamPosition(state, 0)] * streams,
    )  # fmt: skip
    reports = list(driver)
    assert sum(report.windows for report in reports) == spans, "every window was visited once"
    return len(reports)


def work_of(arguments: argparse.Namespace) -> Callable[[Client, int, float, int], int]:
    """Return what is done with spans that sleep."""
    if arguments.map:
        return mapped_asleep
    return walked_asleep if arguments.walk else reduced


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    """Start a cluster, and measure one reduction, or the median of several."""
    with (
        processes(arguments.workers, arguments.processes, arguments.deaths) as started,
        Client(started.address, set_as_default=False) as client,
        threadpool_limits(1),
    ):
        client.wait_for_workers(arguments.workers, timeout=300)
        if arguments.kernels:
            return {"workers": arguments.workers} | with_kernels(client, arguments)
        meter = Meter(client, started)
        work = work_of(arguments)
        work(client, arguments.workers, 0.0, arguments.columns)  # imports
        idle = idle_share(meter)
        found = [measured_once(client, meter, idle, arguments) for _ in range(arguments.repeat)]
        asked = ("workers", "spans", "span_seconds", "columns")
        medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
        idle_cores = {"scheduler_idle_cores": round(float(idle[0]), 3)}
        facts = {name: getattr(arguments, name) for name in asked} | idle_cores | medians
        return facts | ({"profile": profiled(client, arguments)} if arguments.profile else {})


def profiled(client: Client, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Do the same once more, with samples of the scheduler's stack, and what it does idle."""
    idle, waited = sampled(client, lambda: time.sleep(IDLE_SECONDS))
    work = work_of(arguments)
    asked = (client, arguments.spans, arguments.span_seconds, arguments.columns)
    busy, wall = sampled(client, lambda: work(*asked))
    return table_of(busy, {what: s * wall / waited for what, s in idle.items()}, arguments.spans)


def sampled(client: Client, work: Callable[[], Any]) -> tuple[dict[str, float], float]:
    """Return the scheduler's seconds by group while some work is done, and that of the clock."""
    client.run_on_scheduler(begin_sampling)
    began = time.perf_counter()
    work()
    return client.run_on_scheduler(end_sampling), time.perf_counter() - began


def with_kernels(client: Client, arguments: argparse.Namespace) -> dict[str, float]:
    """Reduce and walk over real rows; the walk has a stream for each worker."""
    executor, workers = OnDask(client, None), arguments.workers
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_rows(Path(folder, "set"), arguments.kernels, arguments.columns)
        found = {
            "reduce": reduced_rows(executor, dataset, arguments.spans),
            "walk": walked(executor, dataset, workers, Path(folder, "run")),
        }
    return {
        f"{what}_{name}": round(value, 3)
        for what, (busy, wall) in found.items()
        for name, value in (("busy_share", busy / (workers * wall)), ("wall_s", wall))
    } | {"million_values": arguments.kernels}


def measured_once(
    client: Client, meter: Meter, idle: np.ndarray, arguments: argparse.Namespace
) -> dict[str, float]:
    """Measure one reduction."""
    spans, seconds = arguments.spans, arguments.span_seconds
    sent, before = meter.bytes_sent(), meter.cpu()
    work_of(arguments)(client, spans, seconds, arguments.columns)
    taken = meter.cpu() - before
    sent = meter.bytes_sent() - sent
    scheduler, client_s, workers, wall = taken
    net = np.maximum(taken - idle * wall, 0.0)
    per_span = 1e3 / spans
    return {
        "scheduler_cpu_ms_per_span": round(float(net[0]) * per_span, 3),
        "client_cpu_ms_per_span": round(float(net[1]) * per_span, 3),
        "worker_cpu_ms_per_span": round(float(net[2]) * per_span, 3),
        "bytes_per_span": round(sent / spans),
        "busy_share": round(spans * seconds / (arguments.workers * float(wall)), 3),
        "scheduler_rss_mb": round(meter.scheduler.memory_info().rss / 1e6, 1),
        "scheduler_cpu_s": round(float(scheduler), 2),
        "client_cpu_s": round(float(client_s), 2),
        "worker_cpu_s": round(float(workers), 2),
        "wall_s": round(float(wall), 2),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=64, help="of one thread each")
    parser.add_argument("--processes", type=int, default=2, help="that these workers share")
    parser.add_argument("--spans", type=int, default=1024)
    parser.add_argument("--span-seconds", type=float, default=1.0)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--deaths", type=float, default=0.0, help="percent of workers a minute")
    parser.add_argument("--kernels", type=int, default=0, help="chunks of real rows")
    parser.add_argument("--walk", action="store_true", help="walk instead of summing")
    parser.add_argument("--map", action="store_true", help="map as an ingest does")
    parser.add_argument("--ingest", type=Path, help="a file, ingested instead")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="of the scheduler's processor")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments, options = parser.parse_known_args()  # of `fewpass ingest`
    if options and not arguments.ingest:
        parser.error(f"unrecognized arguments: {' '.join(options)}")
    count_bytes()
    if arguments.ingest:
        found = ingested(arguments.ingest, tuple(options), arguments.repeat)
    else:
        found = measured(arguments)
    if arguments.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:28} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
