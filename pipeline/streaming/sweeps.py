"""The two ways over the data: a walk carries a state along, a gather adds parts up.

What runs on a worker is `walk_span` and `gather_span`, pure functions of their arguments that read
their own data; the rest drives them.  A walk's span boundaries change no bit, as its state is
carried exactly; a gather's spans are fixed by the data set, and so is the tree that adds them.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from pipeline.memory import peak_memory_bytes, return_freed_memory
from pipeline.streaming.executor import Executor
from pipeline.streaming.reader import (
    ReadingStatistics,
    RowStateSource,
    WindowReader,
    chunk_rows,
)
from pipeline.streaming.targets import TargetRule
from pipeline.streaming.windows import (
    Order,
    Window,
    WindowPlan,
    largest_window,
    windows_between,
    windows_per_turn,
)
from solvers.losses import Problem
from solvers.protocol import (
    Facts,
    Part,
    State,
    Sum,
    Walk,
    add_parts,
    row_versions,
)
from storage.dataset import Dataset
from storage.row_state import RowStateStore

SPAN_SECONDS = 1.0  # what a span should take: a thousand times what Dask asks for a task
SPAN_VALUES = 1e8  # values at most that a gather's span adds up, in a few tenths of that time ...
SMALL_SPAN_VALUES = 4e6  # ... unless there are fewer than 16 spans of at least so many
READ_TOGETHER = 1e6  # values; a thread's hand-over costs more than a smaller chunk's sum
MOST_SPANS = 64  # of a gather: few sums wait for their neighbour, however much is read
LEAST_SPANS = 16  # so that as many workers find work
ENDLESS = 1 << 62  # windows of a walk whose end its own state knows
SPANS_SUBMITTED = 2  # per stream: one runs, one waits for its result


class Job(NamedTuple):
    """Everything that a span needs to know; small, so that each task may carry it."""

    dataset: Dataset
    problem: Problem
    facts: Facts
    rule: TargetRule
    windows: WindowPlan
    row_state: RowStateStore | None = None  # where a method's numbers per row are kept
    row_numbers: int = 1  # how many per row


class SpanReport(NamedTuple):
    """What a span did, for the log and the live display."""

    stream: int
    windows: int  # visited
    rows: int
    bytes_read: int
    seconds: float
    read_s: float  # of the reading thread: fetch, check, decode
    wait_s: float  # of the kernel's thread, for the reader
    peak_memory: int  # bytes, of the process that the span ran in
    metrics: dict[str, float]
    diverged: bool = False
    arrived: bool = False  # at the number of rows that the walk was to visit
    fetch_s: float = 0.0  # of read_s: the store's part
    worker: str = ""  # the process that did it


class Position(NamedTuple):
    """How far one stream of a walk is."""

    state: Any  # handle on the state after `windows` windows
    windows: int
    arrived: bool = False


def walk_span(
    job: Job, walk: Walk, sweep: int, stream: int, first: int, stop: int, state: State
) -> tuple[State, SpanReport]:
    """Carry a copy of `state` over windows first <= k < stop of a stream, if it has that far to go.

    Numbers kept per row are read in the version that the state names; where the walk updates them
    they are written as the version of this sweep.
    """
    return_freed_memory()
    began = time.perf_counter()
    state = walk.enter(state)
    windows = windows_to_visit(job, walk, sweep, stream, first, stop, state)
    kept = _row_state(job, walk.row_state, row_versions(state))
    reader = _reader(job, largest_window(job.dataset.manifest, job.windows), kept)
    visited = rows = 0
    with closing(reader.blocks(windows)) as blocks:
        for window, block in zip(windows, blocks, strict=False):
            wanted = block.order.shape[0] if walk.rows is None else walk.rows(state)
            state = walk.step(job.problem, job.facts, state, block)
            visited, rows = visited + 1, rows + min(wanted, block.order.shape[0])
            if walk.diverged(state):
                break
            if kept is not None and walk.row_state == "update":
                kept.write(sweep, window, chunk_rows(job.dataset, window), block)
    state = walk.leave(state)
    report = SpanReport(
        stream, visited, rows, *_cost(reader.statistics, began), walk.metrics(state)
    )
    left = walk.rows is None or walk.rows(state) > 0
    report = report._replace(diverged=walk.diverged(state), arrived=not left)
    return state, report._replace(fetch_s=reader.statistics.fetch_s, worker=this_worker())


def windows_to_visit(
    job: Job, walk: Walk, sweep: int, stream: int, first: int, stop: int, state: State
) -> list[Window]:
    """Return a span's windows, cut where the state has visited all the rows that it wants."""
    windows = windows_between(job.windows, legal_order(job, walk), sweep, stream, first, stop)
    if walk.rows is None:
        return list(windows)
    wanted, chosen = walk.rows(state), []
    for window in windows:
        if wanted <= 0:
            break
        chosen.append(window)
        wanted -= sum(chunk_rows(job.dataset, window))
    return chosen


def legal_order(job: Job, walk: Walk) -> Order:
    """Return the walk's order; rows that lie in no random order are never taken as they lie."""
    return walk.order if job.facts.shuffled else "random"


def this_worker() -> str:
    """Name the process that a span runs in."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _cost(read: ReadingStatistics, began: float) -> tuple[int, float, float, float, int]:
    seconds = time.perf_counter() - began
    return read.bytes_read, seconds, read.read_s, read.wait_s, peak_memory_bytes()


def _reader(job: Job, capacity: tuple[int, int], kept: RowStateSource | None) -> WindowReader:
    return WindowReader(job.dataset, job.windows, job.rule, capacity, kept)


def _row_state(job: Job, use: str, versions: tuple[int, ...]) -> RowStateSource | None:
    if use == "none":
        return None
    assert job.row_state is not None, "numbers per row need a place to be kept in"
    return RowStateSource(job.row_state, versions, job.row_numbers)


def state_of(result: tuple[State, SpanReport]) -> State:
    """Return the state that a span came to."""
    return result[0]


def report_of(result: tuple[State, SpanReport]) -> SpanReport:
    """Return the report of a span: small, so that it can be fetched without the state."""
    return result[1]


class WalkDriver:
    """Runs the streams of one walk span by span; the states stay where they were computed.

    Iterating yields a report per finished span.  `positions` says how far every stream is; after
    `settle` they are all at rest and can be saved.
    """

    def __init__(
        self, executor: Executor, job: Job, walk: Walk, sweep: int, positions: list[Position]
    ) -> None:
        self._executor, self._job, self._walk, self._sweep = executor, job, walk, sweep
        self._lengths = [
            windows_per_turn(job.windows, stream) if walk.rows is None else ENDLESS
            for stream in range(len(positions))
        ]
        self.positions = [
            p._replace(arrived=p.windows == length)
            for p, length in zip(positions, self._lengths, strict=True)
        ]
        self._span_windows = 1  # the first span is short: it also compiles
        self._pending: list[tuple[int, Any, Any]] = []
        self._submitted = [p.windows for p in positions]
        self._heads = [p.state for p in positions]
        self._resting = False

    def __iter__(self) -> Iterator[SpanReport]:
        """Yield the reports of spans as they finish, stream by stream in turn."""
        self._resting = False
        self._submit()
        while self._pending:
            stream, state, handle = self._pending.pop(0)
            report: SpanReport = self._executor.result(handle)
            done = self.positions[stream].windows + report.windows
            arrived = report.arrived or done == self._lengths[stream]
            self.positions[stream] = Position(state, done, arrived)
            self._adapt(report)
            if report.diverged:
                self._resting = True
            if not self._resting:
                self._submit()
            yield report

    def rest(self) -> None:
        """Submit no further span, so that iteration ends with every stream at rest."""
        self._resting = True

    @property
    def finished(self) -> bool:
        """Whether every stream has visited all of its windows."""
        return all(p.arrived for p in self.positions)

    def _adapt(self, report: SpanReport) -> None:
        if report.windows:
            wanted = int(SPAN_SECONDS * report.windows / max(report.seconds, 1e-6))
            self._span_windows = min(max(1, wanted), 4 * self._span_windows)

    def _submit(self) -> None:
        """Keep every stream busy; while the first span compiles, nothing else runs."""
        compiling = not any(p.windows for p in self.positions) and self._span_windows == 1
        for stream in range(len(self.positions)):
            ahead = sum(1 for s, _, _ in self._pending if s == stream)
            length = 0 if self.positions[stream].arrived else self._lengths[stream]
            while ahead < SPANS_SUBMITTED and self._submitted[stream] < length:
                if compiling and self._pending:
                    return
                self._submit_span(stream)
                ahead += 1

    def _submit_span(self, stream: int) -> None:
        first = self._submitted[stream]
        stop = min(first + self._span_windows, self._lengths[stream])
        submit = self._executor.submit
        result = submit(
            self._walk.name, walk_span, self._job, self._walk, self._sweep, stream, first, stop,
            self._heads[stream],
        )  # fmt: skip
        state = submit("state", state_of, result)
        self._pending.append((stream, state, submit("report", report_of, result)))
        self._submitted[stream], self._heads[stream] = stop, state


class GatherReport(NamedTuple):
    """What one span of a gather read."""

    rows: int
    bytes_read: int
    seconds: float
    read_s: float
    wait_s: float
    peak_memory: int
    fetch_s: float = 0.0
    worker: str = ""


def gather_span(
    job: Job, what: Sum, at: Any, sweep: int, versions: tuple[int, ...], first: int, stop: int
) -> tuple[Part, GatherReport]:
    """Add up chunks first <= k < stop, one after the other into one part.

    Numbers kept per row are read in the given versions, or written as that of this sweep.
    """
    return_freed_memory()
    began = time.perf_counter()
    kept = _row_state(job, what.row_state, versions if what.row_state == "read" else ())
    chunks = job.dataset.manifest.chunks
    windows = [Window(group, "stored", sweep, 0) for group in small_groups(chunks.nnz, first, stop)]
    sizes = [
        [sum(count[k] for k in window.chunks) for window in windows]
        for count in (chunks.rows, chunks.nnz)
    ]
    reader = _reader(job, (max(sizes[0]), max(sizes[1])), kept)
    reader.ahead = 1  # every thread of the process may be at a span of its own
    rows, part = 0, what.zero(at)
    for window, block in zip(windows, reader.blocks(windows), strict=True):
        rows += block.order.shape[0]
        part = what.add(job.problem, at, block, part)
        if kept is not None and what.row_state == "write":
            kept.write(sweep, window, chunk_rows(job.dataset, window), block)
    statistics = reader.statistics
    cost = _cost(statistics, began)
    return part, GatherReport(rows, *cost, statistics.fetch_s, this_worker())


def gather(
    executor: Executor,
    job: Job,
    what: Sum,
    at: Any,
    on_report: Callable[[GatherReport], None],
    sweep: int = 0,
    versions: tuple[int, ...] = (),
) -> Any:
    """Add up `what` over all chunks and return a handle on the sum; `at` may be a handle, too.

    Spans and the tree that adds them are fixed by the data set, so the sum has the same bits for
    any number of workers.
    """
    step, n_chunks = chunks_per_span(job), job.windows.n_chunks
    reports: list[Any] = []
    stack: list[tuple[int, Any]] = []  # subtree sizes and sums, as in binary counting
    for first in range(0, n_chunks, step):
        stop = min(first + step, n_chunks)
        result = executor.submit(
            what.name, gather_span, job, what, at, sweep, versions, first, stop
        )
        reports.append(executor.submit("report", report_of, result))
        size, total = 1, executor.submit("part", state_of, result)
        del result
        while stack and stack[-1][0] == size:
            size, total = 2 * size, executor.submit("add", add_parts, stack.pop()[1], total)
        stack.append((size, total))
        if first == 0:  # compiles once before the work fans out
            executor.result(reports[0])
    for report in reports:
        on_report(executor.result(report))
    total = stack.pop()[1]
    while stack:
        total = executor.submit("add", add_parts, stack.pop()[1], total)
    return total


def small_groups(nnz: Sequence[int], first: int, stop: int) -> Iterator[tuple[int, ...]]:
    """Group chunks first <= k < stop so that small ones are read together."""
    group: list[int] = []
    for k in range(first, stop):
        if group and sum(nnz[j] for j in group) + nnz[k] > READ_TOGETHER:
            yield tuple(group)
            group = []
        group.append(k)
    yield tuple(group)


def chunks_per_span(job: Job) -> int:
    """Chunks of one gather span: some tenths of a second of work, in 16 to 64 spans at best."""
    nnz, n_chunks = job.dataset.manifest.chunks.nnz, job.windows.n_chunks
    values = min(max(sum(nnz) / LEAST_SPANS, SMALL_SPAN_VALUES), SPAN_VALUES)
    wanted = min(int(values * n_chunks / max(sum(nnz), 1)), n_chunks)
    return max(1, wanted, -(-n_chunks // MOST_SPANS))
