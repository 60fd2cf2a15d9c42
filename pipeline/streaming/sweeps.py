"""The two ways over the data: a walk carries a state along, a gather adds parts up.

What runs on a worker is `walk_span` and `gather_span`, pure functions of their arguments that read
their own data; the rest drives them.  Span boundaries change no bit: a walk's state is carried
exactly, and a gather's spans are whole subtrees of one fixed binary tree over chunk numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from pipeline.memory import peak_memory_bytes
from pipeline.streaming.executor import Executor
from pipeline.streaming.reader import ReadingStatistics, Window, WindowReader
from pipeline.streaming.targets import TargetRule
from pipeline.streaming.windows import Order, WindowPlan, deal_windows, largest_window
from solvers.losses import Problem
from solvers.protocol import Block, Facts, Part, State, Walk, add_parts, copy_state
from storage.dataset import Dataset

SPAN_SECONDS = 1.0  # what a span should take: a thousand times what Dask asks for a task
SPAN_VALUES = 1e8  # values that a gather adds up in about that time
SPANS_SUBMITTED = 2  # per stream: one runs, one waits for its result


class Job(NamedTuple):
    """Everything that a span needs to know; small, so that each task may carry it."""

    dataset: Dataset
    problem: Problem
    facts: Facts
    rule: TargetRule
    windows: WindowPlan


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


class Position(NamedTuple):
    """How far one stream of a walk is."""

    state: Any  # handle on the state after `windows` windows
    windows: int


def walk_span(
    job: Job, walk: Walk, sweep: int, stream: int, first: int, stop: int, state: State
) -> tuple[State, SpanReport]:
    """Carry a copy of `state` over windows first <= k < stop of a stream."""
    began = time.perf_counter()
    state = copy_state(state)
    order = legal_order(job, walk)
    dealt = deal_windows(job.windows, order, sweep, stream)[first:stop]
    reader = _reader(job, largest_window(job.dataset.manifest, job.windows))
    visited = rows = 0
    with closing(reader.blocks([Window(chunks, order, sweep) for chunks in dealt])) as blocks:
        for block in blocks:
            state = walk.step(job.problem, job.facts, state, block)
            visited, rows = visited + 1, rows + block.order.shape[0]
            if walk.diverged(state):
                break
    report = SpanReport(
        stream, visited, rows, *_cost(reader.statistics, began), walk.metrics(state)
    )
    return state, report._replace(diverged=walk.diverged(state))


def legal_order(job: Job, walk: Walk) -> Order:
    """Return the walk's order; rows that lie in no random order are never taken as they lie."""
    return walk.order if job.facts.shuffled else "random"


def _cost(read: ReadingStatistics, began: float) -> tuple[int, float, float, float, int]:
    seconds = time.perf_counter() - began
    return read.bytes_read, seconds, read.read_s, read.wait_s, peak_memory_bytes()


def _reader(job: Job, capacity: tuple[int, int]) -> WindowReader:
    return WindowReader(job.dataset, job.windows, job.rule, capacity)


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
        self.positions = positions
        self._lengths = [
            len(deal_windows(job.windows, legal_order(job, walk), sweep, stream))
            for stream in range(len(positions))
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
            self.positions[stream] = Position(state, done)
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
        return all(p.windows == n for p, n in zip(self.positions, self._lengths, strict=True))

    def _adapt(self, report: SpanReport) -> None:
        if report.windows:
            wanted = int(SPAN_SECONDS * report.windows / max(report.seconds, 1e-6))
            self._span_windows = min(max(1, wanted), 4 * self._span_windows)

    def _submit(self) -> None:
        """Keep every stream busy; while the first span compiles, nothing else runs."""
        compiling = not any(p.windows for p in self.positions) and self._span_windows == 1
        for stream in range(len(self.positions)):
            ahead = sum(1 for s, _, _ in self._pending if s == stream)
            while ahead < SPANS_SUBMITTED and self._submitted[stream] < self._lengths[stream]:
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


PartFunction = Callable[[Problem, Any, Block], Part]


class GatherReport(NamedTuple):
    """What one span of a gather read."""

    rows: int
    bytes_read: int
    seconds: float
    read_s: float
    wait_s: float
    peak_memory: int


def gather_span(
    job: Job, part: PartFunction, at: Any, first: int, stop: int
) -> tuple[Part, GatherReport]:
    """Add up the parts of chunks first <= k < stop; `first` is a multiple of the span's length."""
    began = time.perf_counter()
    manifest = job.dataset.manifest
    reader = _reader(job, (max(manifest.chunks.rows), max(manifest.chunks.nnz)))
    reader.ahead = 1  # every thread of the process may be at a span of its own
    windows = [Window((k,), "stored", 0) for k in range(first, stop)]
    rows = 0
    stack: list[tuple[int, Part]] = []  # subtree sizes and sums, as in binary counting
    for block in reader.blocks(windows):
        rows += block.order.shape[0]
        size, total = 1, part(job.problem, at, block)
        while stack and stack[-1][0] == size:
            size, total = 2 * size, add_parts(stack.pop()[1], total)
        stack.append((size, total))
    return fold([t for _, t in stack]), GatherReport(rows, *_cost(reader.statistics, began))


def fold(totals: list[Part]) -> Part:
    """Add ever smaller subtrees from the right: what pairing level by level would give."""
    result = totals[-1]
    for left in reversed(totals[:-1]):
        result = add_parts(left, result)
    return result


def gather(
    executor: Executor,
    job: Job,
    name: str,
    part: PartFunction,
    at: Any,
    on_report: Callable[[GatherReport], None],
) -> Part:
    """Add up part(problem, at, chunk) over all chunks; `at` may be a handle on a result.

    The tree is fixed by the number of chunks, so the sum has the same bits for any number of
    workers.
    """
    step, n_chunks = chunks_per_span(job), job.windows.n_chunks
    reports: list[Any] = []
    stack: list[tuple[int, Any]] = []  # as in gather_span: few sums wait for their neighbour
    for first in range(0, n_chunks, step):
        result = executor.submit(
            name, gather_span, job, part, at, first, min(first + step, n_chunks)
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
    return executor.result(total)


def chunks_per_span(job: Job) -> int:
    """Chunks of one gather span: a power of two worth about a second of work."""
    values = sum(job.dataset.manifest.chunks.nnz) / job.windows.n_chunks
    wanted = min(max(1, int(SPAN_VALUES / max(values, 1.0))), job.windows.n_chunks)
    return 1 << (wanted.bit_length() - 1)
