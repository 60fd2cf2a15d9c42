"""What a scheduler's processor does: its stack, every two milliseconds that it is at work.

`python -m benchmarks.cluster --profile` has it.  A sample counts for the group of its innermost
frame that has one, and as much as the processor was at work since the sample before.  The timer
counts processor time, so waiting costs nothing; collections of garbage are timed apart.
"""

from __future__ import annotations

import gc
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from types import FrameType
from typing import Any

SECONDS = 0.002  # of processor between two samples
GARBAGE, THREADS, REST = "collecting garbage", "other threads", "event loop, the rest"
PRODUCT = "fewpass"

#: The group of a frame by the end of its file's path, and by the start of its function's name.
GROUPS: tuple[tuple[str, str, str], ...] = (
    ("/distributed/stealing.py", "", "work stealing"),
    ("/distributed/active_memory_manager.py", "", "active memory manager"),
    ("/distributed/protocol/", "load", "deserialising messages"),
    ("/distributed/protocol/", "dump", "serialising messages"),
    ("/distributed/comm/utils.py", "from_", "deserialising messages"),
    ("/distributed/comm/utils.py", "to_", "serialising messages"),
    ("/distributed/comm/", "", "connections"),
    ("/distributed/batched.py", "", "connections"),
    ("/tornado/iostream.py", "", "connections"),
    ("/asyncio/selector_events.py", "", "connections"),
    ("/distributed/scheduler.py", "heartbeat_worker", "heartbeats"),
    ("/distributed/scheduler.py", "log_event", "events of tasks"),
    ("/distributed/scheduler.py", "log_worker_event", "events of tasks"),
    ("/distributed/broker.py", "", "events of tasks"),
    ("/distributed/scheduler.py", "update_graph", "taking a graph"),
    ("/distributed/scheduler.py", "_create_taskstate", "taking a graph"),
    ("/distributed/scheduler.py", "_generate_taskstates", "taking a graph"),
    ("/distributed/scheduler.py", "_materialize_graph", "taking a graph"),
    ("/distributed/scheduler.py", "gather", "results that are fetched"),
    ("/distributed/system_monitor.py", "", "monitors"),
    ("/distributed/diagnostics/", "", "monitors"),
    ("/distributed/http/", "", "monitors"),
    ("/distributed/scheduler.py", "check_", "monitors"),
    ("/distributed/scheduler.py", "", "transitions of tasks"),
)


def group_of(frame: FrameType | None) -> str:
    """Return the group of the innermost frame that has one."""
    while frame is not None:
        path, name = frame.f_code.co_filename.replace("\\", "/"), frame.f_code.co_name
        for ending, begins, group in GROUPS:
            if ending in path and name.startswith(begins):
                return group
        if f"/{PRODUCT}/" in path:
            return PRODUCT
        frame = frame.f_back
    return REST


class Samples:
    """Processor seconds of this process's main thread, by group."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._began, self._all = time.thread_time(), time.process_time()
        self._last = self._began
        self._collecting = self._garbage = 0.0

    def take(self, _number: int, frame: FrameType | None) -> None:
        """Count the time since the sample before."""
        now = time.thread_time()
        garbage, self._garbage = self._garbage, 0.0
        self.seconds[group_of(frame)] += max(0.0, now - self._last - garbage)
        self.seconds[GARBAGE] += garbage
        self._last = now

    def collect(self, phase: str, _facts: Mapping[str, int]) -> None:
        """Time a collection."""
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._garbage += time.thread_time() - self._collecting

    def all(self) -> dict[str, float]:
        """Return the seconds of all groups."""
        own, whole = time.thread_time() - self._began, time.process_time() - self._all
        return dict(self.seconds) | {THREADS: max(0.0, whole - own)}


_under_way: list[Samples] = []


def begin_sampling() -> None:
    """Begin, in the main thread of a scheduler's process."""
    samples = Samples()
    _under_way.append(samples)
    gc.callbacks.append(samples.collect)
    signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)


def end_sampling() -> dict[str, float]:
    """End; return processor seconds by group."""
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    samples = _under_way.pop()
    gc.callbacks.remove(samples.collect)
    return samples.all()


def table_of(
    busy: Mapping[str, float], idle: Mapping[str, float], spans: int
) -> list[dict[str, Any]]:
    """Return the groups, the largest first: milliseconds of each span, of which idle; the share."""
    whole, ms = sum(busy.values()), 1e3 / spans
    return [
        {
            "what": what, "ms_per_span": round(took * ms, 3),
            "idle_ms_per_span": round(idle.get(what, 0.0) * ms, 3), "share": round(took / whole, 3),
        }
        for what, took in sorted(busy.items(), key=lambda item: -item[1])
    ]  # fmt: skip
