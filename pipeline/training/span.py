"""What spans of walks and of reductions have in common: what they get, and what they cost."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict
from typing import Any, NamedTuple

from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.rows.buffers import RowSource
from fewpass.pipeline.rows.reader import RowStateSource, WindowReader
from fewpass.pipeline.rows.resident import resident_rows
from fewpass.pipeline.rows.row_state import RowStates
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import WindowPlan
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats
from fewpass.storage.dataset import Dataset
from fewpass.storage.row_state_store import Records, StoredRowState


class Job(NamedTuple):
    """Everything that a span needs to know; small, so that each task may carry it."""

    dataset: Dataset
    problem: Problem
    stats: ProblemStats
    rule: TargetRule
    windows: WindowPlan
    row_state: RowStates | None = None  # where a method's numbers per row are kept
    row_state_size: int = 1  # how many per row
    resident: bool = False  # whether all rows stay in memory, decoded, where they were read
    memory: int = 0  # the plan's budget in bytes
    rows: RowSource | None = None  # all rows, where the data set is in this process's memory
    models: int = 1  # trained at once: all, or a group of classes where memory is short
    all_models: int = 1  # of the plan
    sum_bytes: int = 0  # kept for parts of sums over the rows that are not added yet
    in_place: bool = False  # whether a walk steps the one state there is, where memory is short


SMALL_VALUES = 4e7  # of a data set: a pass over it takes a few times Dask's way with a task


def is_small(job: Job) -> bool:
    """Whether a pass over the data takes no longer than a cluster to hear of it."""
    return job.dataset.manifest.nnz <= SMALL_VALUES


class LossSoFar(NamedTuple):
    """Losses of rows before they were learnt from, after some rows of a span."""

    rows: int  # visited in the span
    n_monitored: (
        float  # rows whose loss was taken, since the walk began, or the span of a reduction
    )
    loss_sum: float  # over them


def note(losses: list[LossSoFar], before: int, rows: int, so_far: tuple[float, float]) -> None:
    """Keep what is told of the losses after so many rows of a block, beside those before it."""
    losses.append(LossSoFar(before + rows, *so_far))


def told(report: Any) -> dict[str, Any]:
    """Return a span's report as the log tells it: without the records of what it wrote."""
    return {name: value for name, value in report._asdict().items() if name != "row_state"}


def this_worker() -> str:
    """Name the process that a span runs in."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Stopwatch:
    """Adds up the seconds of what is done within it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began


def cost_of(reader: WindowReader, began: float, stepping: Stopwatch) -> dict[str, Any]:
    """Return what a span of any kind took: fields of its report."""
    read = reader.statistics
    return asdict(read) | {
        "seconds": time.perf_counter() - began,
        "step_s": stepping.seconds,
        "peak_memory": peak_memory_bytes(),
        "worker": this_worker(),
    }


def window_reader(
    job: Job, capacity: tuple[int, int], row_state: RowStateSource | None
) -> WindowReader:
    """Return a reader for windows of so many rows and non-zeros, and what is kept per row."""
    held = job.rows
    if held is None and job.resident:
        held = resident_rows(job.dataset, job.rule)
    return WindowReader(job.dataset, job.windows, job.rule, capacity, row_state, held)


def stored_by(source: RowStateSource | None) -> tuple[StoredRowState, ...]:
    """Return what a span wrote of numbers per row, if any are kept."""
    return () if source is None else tuple(source.written)


def row_state_source(
    job: Job, use: str, versions: tuple[int, ...], records: Records
) -> RowStateSource | None:
    """Return where a walk or a reduction that uses numbers per row finds them."""
    if use == "none":
        return None
    assert job.row_state is not None, "numbers per row need a place to be kept in"
    return RowStateSource(job.row_state, versions, job.row_state_size, records)
