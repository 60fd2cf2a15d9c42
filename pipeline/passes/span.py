"""Input and cost of spans, of walks as of reductions."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.rows.buffers import RowSource
from fewpass.pipeline.rows.from_source import SourceRows
from fewpass.pipeline.rows.reader import RowStateSource, WindowReader
from fewpass.pipeline.rows.resident import resident_rows
from fewpass.pipeline.rows.row_state import RowStates
from fewpass.pipeline.rows.stream import Arrival, RowStream
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import WindowPlan
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, ProblemStats, State, Walk, rows_visited
from fewpass.storage.dataset import Dataset
from fewpass.storage.row_state_store import Records, StoredRowState


@unpickled_once
class Job(NamedTuple):
    """Everything that a span needs to know; small, so that each task may carry it."""

    dataset: Dataset
    problem: Problem
    stats: ProblemStats
    rule: TargetRule
    windows: WindowPlan
    row_state: RowStates | None = None  # the store of a method's numbers per row
    row_state_size: int = 1  # numbers per row
    resident: bool = False  # whether all rows stay in memory, decoded, where they were read
    memory: int = 0  # the plan's budget in bytes
    rows: RowSource | None = None  # all rows, where the data set is in this process's memory
    models: int = 1  # trained at once: all, or a group of classes where memory is short
    all_models: int = 1  # of the plan
    sum_bytes: int = 0  # reserved for parts of sums over the rows that are not added yet
    in_place: bool = False  # whether a walk steps the one state there is, where memory is short
    streams_per_process: int = 0  # streams that a process has the memory for; 0: all of them
    source_rows: SourceRows | None = None  # the rows of a source that is read once, in this process
    threads: int = 1  # that a step may take: no other task runs beside a walk of one stream

    def with_columns(self, d: int) -> Job:
        """Return the same for states of d columns."""
        return self if d == self.stats.d else self._replace(stats=self.stats._replace(d=d))


SMALL_VALUES = 4e7  # of a data set: a pass over it takes a few times Dask's cost of a task


def is_small(job: Job) -> bool:
    """Return whether a pass over the data takes no longer than Dask's cost of a task."""
    return job.dataset.manifest.nnz <= SMALL_VALUES


class LossSoFar(NamedTuple):
    """Losses of rows before they were learnt from, after some rows of a span."""

    rows: int  # visited in the span
    n_monitored: float  # rows whose loss was taken since the walk, or the span of a sum, began
    loss_sum: float  # over them


def note(losses: list[LossSoFar], before: int, rows: int, so_far: tuple[float, float]) -> None:
    """Append the losses after some rows of a block that comes after `before` rows."""
    losses.append(LossSoFar(before + rows, *so_far))


class SpanReport(NamedTuple):
    """Progress and cost of a span of a walk or a reduction, for the log and the live display."""

    rows: int
    bytes_read: int
    seconds: float
    wait_s: float  # of the kernel's thread, for the reader
    peak_memory: int  # bytes, of the process that the span ran in
    worker: str = ""  # that process
    losses: tuple[LossSoFar, ...] = ()  # inside the span, where the walk or the sum reports them
    row_state: tuple[StoredRowState, ...] = ()  # numbers per row that were written; not for the log

    # of a walk
    stream: int = 0
    windows: int = 0  # visited
    metrics: dict[str, float] = {}  # noqa: RUF012 - nobody writes to it
    diverged: bool = False
    arrived: bool = False  # at the number of rows that the walk was to visit
    arrival: Arrival | None = None  # of rows that come once; not for the log, ...
    restarts: tuple[dict[str, float], ...] = ()  # ... as are the metrics of each restart on them


def counting(n_rows: int, show: Callable[[float, str], None]) -> Callable[[SpanReport], None]:
    """Return what takes the reports of spans, and shows the share of rows that were read."""
    rows = 0

    def count(report: SpanReport) -> None:
        nonlocal rows
        rows += report.rows
        show(rows / n_rows, f"{rows:,} of {n_rows:,} rows")

    return count


class CountedStep:
    """A walk's step; collects the losses inside blocks where the walk reports them.

    Attributes
    ----------
    windows : int
        Blocks that were stepped.
    losses : list of LossSoFar
        The losses.
    """

    def __init__(self, walk: Walk) -> None:
        self._walk, self._rows = walk, 0
        self.windows, self.losses = 0, list[LossSoFar]()

    def __call__(self, problem: Problem, stats: ProblemStats, state: State, block: Block) -> State:
        """Step a block."""
        walk, before = self._walk, self._rows
        self._rows += rows_visited(walk, state, block)
        self.windows += 1
        if not walk.reports:
            return walk.step(problem, stats, state, block)
        return walk.step(problem, stats, state, block, partial(note, self.losses, before))


def this_worker() -> str:
    """Name the process that a span runs in."""
    return f"{socket.gethostname()}:{os.getpid()}"


def cost_of(reader: RowStream, began: float) -> dict[str, Any]:
    """Return the cost of a span: fields of its report."""
    return asdict(reader.statistics) | {
        "seconds": time.perf_counter() - began,
        "peak_memory": peak_memory_bytes(),
        "worker": this_worker(),
    }


def window_reader(
    job: Job, capacity: tuple[int, int], row_state: RowStateSource | None
) -> WindowReader:
    """Return a reader for windows of up to `capacity` rows and non-zeros."""
    rows = job.rows
    if rows is None and job.resident:
        rows = resident_rows(job.dataset, job.rule)
    return WindowReader(job.dataset, job.windows, job.rule, capacity, row_state, rows)


def stored_by(source: RowStateSource | None) -> tuple[StoredRowState, ...]:
    """Return the numbers per row that a span wrote."""
    return () if source is None else tuple(source.written)


def row_state_source(
    job: Job, use: str, versions: tuple[int, ...], records: Records
) -> RowStateSource | None:
    """Return the source of the numbers per row that a walk or a reduction uses."""
    if use == "none":
        return None
    assert job.row_state is not None, "numbers per row need a store"
    return RowStateSource(job.row_state, versions, job.row_state_size, records)
