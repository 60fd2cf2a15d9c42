"""What benchmarks/cluster.py measures of an ingest: its CPU seconds, and tasks that only sleep."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from distributed import Client

from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.passes.ordered_tasks import ordered_results

FIRST_ROWS = 1000
#: Where it runs, by name: threads of one process, and workers of one thread.
PLACES = {
    "threads": ("--threads", "2"),
    "threads, rows in files": ("--threads", "2", "--memory", "256MB"),
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
    """Return the CPU seconds of ingests of a file, least and median, of each place in turns.

    `start`: those of its first rows, which are what processes take to start and to end.
    """
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, f"first{file.suffix}")
        with file.open("rb") as lines:
            first.write_bytes(b"".join(islice(lines, FIRST_ROWS)))
        for turn in range(repeat + 1):
            for place, where in PLACES.items():
                for name, rows in ((place, file), (f"{place}, start", first)):
                    taken = cpu_of_ingest(rows, *where, *options)
                    if turn:  # the first compiles
                        seconds.setdefault(name, []).append(taken)
    return {
        f"{name}, {what}": round(of(taken), 2)
        for name, taken in seconds.items()
        for what, of in (("least", min), ("median", statistics.median))
    }


def mapped_asleep(client: Client, spans: int, seconds: float, _columns: int) -> int:
    """Map spans by tasks that sleep, as an ingest submits them; return how many there were."""
    executor = OnDask(client, None)
    items = ((number,) for number in range(spans))
    return sum(ordered_results(executor, "map", _slept, seconds, items))


def _slept(seconds: float, _number: int) -> Any:
    time.sleep(seconds)
    return 1
