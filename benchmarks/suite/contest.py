"""Contestants that do the same work in turns, each in a process of its own.

A contestant is a function that makes everything ready and returns another one, the work.  Its
process makes it ready, rehearses the work (which compiles and fills caches), and then does it once
per turn; turns go round, so that whatever else happens on the machine happens to all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MB = 1e6


class Contestant(NamedTuple):
    """Who competes: `make` names a function of this package, as "module:function"."""

    name: str
    make: str
    options: dict[str, Any]
    threads: int = 1  # that BLAS, OpenMP and numba may use
    is_limit: bool = False  # what the machine can do at best, not a competitor


class Target(NamedTuple):
    """What a ratio should be: the peer's over ours, of the medians."""

    number: int  # in the list of targets
    ours: str
    peer: str
    at_least: float
    measure: str = "cpu_s"
    limit: float = 0.0  # what counts as the peer's, where it is no contestant


class Contest(NamedTuple):
    """The same work for all."""

    name: str
    title: str
    workload: str
    contestants: tuple[Contestant, ...]
    targets: tuple[Target, ...] = ()
    unit: str = ""  # of what a cost is told per piece: "row", "value", "MB"
    pieces: float = 0.0  # how many of them
    turns: int = 7

    def held(self, *, rehearsed: bool = True) -> dict[str, Any]:
        """Run it; returns its results, JSON values.

        Without a rehearsal the first turn compiles and fills caches.
        """
        with ExitStack() as stack:
            all_ = [stack.enter_context(running(c, rehearsed)) for c in self.contestants]
            for process in all_:
                process.ready = process.answer()
            for _ in range(self.turns):
                for process in all_:
                    process.take_turn()
        rows = {process.contestant.name: row_of(process) for process in all_}
        return {
            "contest": self.name,
            "title": self.title,
            "workload": self.workload,
            "unit": self.unit,
            "count": self.pieces,
            "turns": self.turns,
            "contestants": rows,
            "targets": [evaluated(target, rows) for target in self.targets],
        }


class LostError(RuntimeError):
    """A contestant that did not come through."""


class Running:
    """A contestant's process."""

    def __init__(self, contestant: Contestant, rehearsed: bool, checkout: Path = ROOT) -> None:
        self.contestant = contestant
        threads = str(contestant.threads)
        limits = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
            threads,
        )
        command = [sys.executable, "-m", "benchmarks.suite.child", contestant.make]
        self._process = subprocess.Popen(
            [*command, json.dumps(contestant.options), json.dumps(rehearsed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=checkout,
            env={**os.environ, **limits},
        )  # fmt: skip
        self.ready: dict[str, Any] = {}
        self.turns: list[dict[str, Any]] = []

    def answer(self) -> dict[str, Any]:
        """Wait for a line of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LostError(f"{self.contestant.name} ended with status {self._process.wait()}.")
        return json.loads(line)

    def take_turn(self) -> None:
        """Let it do the work once."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self.turns.append(self.answer())

    def close(self) -> None:
        """Let it go."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


@contextmanager
def running(contestant: Contestant, rehearsed: bool, checkout: Path = ROOT) -> Iterator[Running]:
    """Start a contestant of a checkout; it is ready once it has answered."""
    process = Running(contestant, rehearsed, checkout)
    try:
        yield process
    finally:
        process.close()


def row_of(process: Running) -> dict[str, Any]:
    """Return what is kept of a contestant's turns."""
    turns, row = process.turns, {}
    for measure in ("wall_s", "cpu_s"):
        # Where the work says how much of it there was (passes, say), its cost is told for one.
        taken = [turn[measure] / turn["found"].get("pieces", 1.0) for turn in turns]
        row[measure] = middle(taken)
    if "later_s" in turns[0]["found"]:  # a pass after the first one
        row["later_s"] = middle([turn["found"]["later_s"] for turn in turns])
    peak = turns[-1]["peak_rss"]
    return row | {
        "threads": process.contestant.threads,
        "is_limit": process.contestant.is_limit,
        "peak_rss_mb": peak / MB,
        "beyond_imports_mb": (peak - process.ready["imported"]) / MB,
        "found": turns[-1]["found"],
    }


def middle(taken: list[float]) -> dict[str, float]:
    """Return what is told of several turns."""
    return {"median": median(taken), "least": min(taken)}


def evaluated(target: Target, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the ratio that came out; None if the peer did not arrive where ours did."""
    if not target.limit and not rows[target.peer]["found"].get("arrived", True):
        return target._asdict() | {"ratio": None}
    ours = measured(rows[target.ours], target.measure)
    peer = target.limit or measured(rows[target.peer], target.measure)
    return target._asdict() | {"ratio": peer / ours}


def measured(row: dict[str, Any], measure: str) -> float:
    """Read a number of a row: the median where there were several."""
    found = row[measure]
    return float(found["median"] if isinstance(found, dict) else found)
