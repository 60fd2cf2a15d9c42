"""What benchmarks/cluster.py measures of an ingest: its CPU seconds, and tasks that only sleep."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from distributed import Client

from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.passes.ordered_tasks import ordered_results

#: Where it runs, by name: threads of one process, and workers of one thread.
PLACES = {
    "threads": ("--threads", "2"),
    "2 workers": ("--workers", "2", "--threads", "1"),
    "4 workers": ("--workers", "4", "--threads", "1"),
}


def cpu_of_ingest(file: Path, *options: str) -> float:
    """Return the CPU seconds of an ingest and of all processes that it has started."""
    with tempfile.TemporaryDirectory() as folder:
        command = ("ingest", str(file), f"{folder}/set", "--quiet", *options)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "fewpass", *command], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ingested(file: Path, options: tuple[str, ...], repeat: int) -> dict[str, float]:
    """Return the CPU seconds of ingests of a file, least and median, of each place in turns."""
    seconds: dict[str, list[float]] = {place: [] for place in PLACES}
    for _ in range(repeat + 1):  # the first compiles
        for place, where in PLACES.items():
            seconds[place].append(cpu_of_ingest(file, *where, *options))
    return {
        f"{place}, {name}": round(of(taken[1:]), 2)
        for place, taken in seconds.items()
        for name, of in (("least", min), ("median", statistics.median))
    }


def mapped_asleep(client: Client, spans: int, seconds: float, _columns: int) -> int:
    """Map spans by tasks that sleep, as an ingest submits them; return how many there were."""
    executor = OnDask(client, None)
    items = ((number,) for number in range(spans))
    return sum(ordered_results(executor, "map", _slept, seconds, items))


def _slept(seconds: float, _number: int) -> Any:
    time.sleep(seconds)
    return 1
