"""What the spans of walks and gathers have in common: what they are given, and what they cost."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, NamedTuple

from pipeline.memory import peak_memory_bytes
from pipeline.streaming.reader import ReadingStatistics, RowStateSource, WindowReader
from pipeline.streaming.targets import TargetRule
from pipeline.streaming.windows import WindowPlan
from solvers.losses import Problem
from solvers.protocol import Facts
from storage.dataset import Dataset
from storage.row_state import RowStateStore


class Job(NamedTuple):
    """Everything that a span needs to know; small, so that each task may carry it."""

    dataset: Dataset
    problem: Problem
    facts: Facts
    rule: TargetRule
    windows: WindowPlan
    row_state: RowStateStore | None = None  # where a method's numbers per row are kept
    row_numbers: int = 1  # how many per row


def this_worker() -> str:
    """Name the process that a span runs in."""
    return f"{socket.gethostname()}:{os.getpid()}"


def cost_of(read: ReadingStatistics, began: float) -> tuple[int, float, float, float, int]:
    """Bytes read, seconds in all, of reading and of waiting, and the process's peak memory."""
    seconds = time.perf_counter() - began
    return read.bytes_read, seconds, read.read_s, read.wait_s, peak_memory_bytes()


def window_reader(job: Job, capacity: tuple[int, int], kept: RowStateSource | None) -> WindowReader:
    """Return a reader for windows of so many rows and non-zeros, and what is kept per row."""
    return WindowReader(job.dataset, job.windows, job.rule, capacity, kept)


def row_state_source(job: Job, use: str, versions: tuple[int, ...]) -> RowStateSource | None:
    """Return where a walk or a gather that uses numbers per row finds them."""
    if use == "none":
        return None
    assert job.row_state is not None, "numbers per row need a place to be kept in"
    return RowStateSource(job.row_state, versions, job.row_numbers)


def state_of(result: tuple[Any, Any]) -> Any:
    """Return the state or the part that a span came to."""
    return result[0]


def report_of(result: tuple[Any, Any]) -> Any:
    """Return the report of a span: small, so that it can be fetched without the state."""
    return result[1]
