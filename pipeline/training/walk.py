"""A walk: a state carried from window to window, in spans that follow each other.

What runs on a worker is `walk_span`, a pure function of its arguments that reads its own data;
`WalkDriver` drives it.  Span boundaries change no bit, as the state is carried exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.rows.reader import chunk_rows
from fewpass.pipeline.rows.stream import Arrival
from fewpass.pipeline.rows.windows import (
    Order,
    Window,
    largest_window,
    windows_between,
    windows_per_turn,
)
from fewpass.pipeline.training.span import (
    HeardStep,
    Job,
    LossSoFar,
    Stopwatch,
    cost_of,
    is_small,
    row_state_source,
    stored_by,
    window_reader,
)
from fewpass.solvers.drive import visit, visit_again
from fewpass.solvers.protocol import Block, State, Walk, row_versions, same
from fewpass.storage.row_state_store import NO_RECORDS, Records, StoredRowState

SPAN_SECONDS = 1.0  # what a span should take: a thousand times what Dask asks for a task
FASTER = 16  # times as many windows, at most, in a span as in the one before
ENDLESS = 1 << 62  # windows of a walk whose end its own state knows
SPANS_SUBMITTED = 2  # per stream: one runs, one waits for its result


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
    permute_s: float = 0.0  # of read_s: drawing the rows' order
    step_s: float = 0.0  # of the method itself
    ahead: bool = False  # whether a thread read, beside the steps
    row_state: tuple[
        StoredRowState, ...
    ] = ()  # what was written of numbers per row; not for the log
    losses: tuple[LossSoFar, ...] = ()  # the losses inside it, where the method tells them
    arrival: Arrival | None = None  # of rows that come once; not for the log, ...
    restarts: tuple[dict[str, float], ...] = ()  # ... as are the metrics of each restart on them


class Position(NamedTuple):
    """How far one stream of a walk is."""

    state: Any  # handle on the state after `windows` windows; None while a span goes on from there
    windows: int
    arrived: bool = False


def walk_span(
    job: Job, walk: Walk, sweep: int, stream: int, first: int, stop: int, state: State,
    records: Records = NO_RECORDS,
) -> tuple[State, SpanReport]:  # fmt: skip
    """Carry a copy of `state` over windows first <= k < stop of a stream, if it has that far to go.

    A job in place carries the state itself: there is no other, and its tasks run once.

    Numbers kept per row are read in the version that the state names, and checked against
    `records`; where the walk updates them they are written as the version of this sweep.
    """
    return_freed_memory(job.memory)
    began = time.perf_counter()
    windows = windows_to_visit(job, walk, sweep, stream, first, stop, state)
    row_state = row_state_source(job, walk.row_state, row_versions(state), records)
    reader = window_reader(job, largest_window(job.dataset.manifest, job.windows), row_state)
    step = HeardStep(walk)

    def read() -> Generator[Block]:
        with closing(reader.blocks(windows)) as blocks:
            for window, (block, places, _) in zip(windows, blocks, strict=False):
                yield block  # and that is the last one where its loss explodes
                if row_state is not None and walk.row_state == "update":
                    row_state.write(sweep, window, places, block)

    with closing(read()) as blocks:
        state, rows = visit(
            walk, job.problem, job.stats, state, blocks, in_place=job.in_place, step=step
        )
    return state, SpanReport(
        stream=stream, windows=step.windows, rows=rows, **cost_of(reader, began, step.watch),
        metrics=walk.metrics(state), diverged=walk.diverged(state),
        arrived=walk.rows is not None and walk.rows(state) <= 0, row_state=stored_by(row_state),
        losses=tuple(step.losses),
    )  # fmt: skip


def arrival_span(
    job: Job, walk: Walk, number: int, state: State, *, in_place: bool
) -> tuple[State, SpanReport]:
    """Carry a state over the buffer of rows that comes next; in place, or else a copy.

    The state gets the columns that these rows have more, and newer moments.  Where their loss
    explodes they are visited again, from what the walk recovers: the rows before do not come again.
    """
    began, rows = time.perf_counter(), job.once
    assert rows is not None, "the rows come once"
    walk = walk._replace(telling=None)  # spans are short
    step, restarts, visited = HeardStep(walk), list[dict[str, float]](), 0
    arrival: Arrival | None = None
    with closing(rows.blocks([Window((number,), "random", 0, 0)])) as blocks:
        for block, _, arrival in blocks:
            assert arrival is not None, "the rows come once"
            d, before = arrival.position.room_for, job.stats.d
            state, job = _resized(job, walk, state, arrival), job.with_columns(d)
            state, visited = visit_again(
                walk, job.problem, job.stats, state, [block], in_place=in_place and d == before,
                step=step, on_restart=lambda state: restarts.append(walk.metrics(state)),
            )  # fmt: skip
    return state, SpanReport(
        stream=0, windows=int(arrival is not None), rows=visited,
        **cost_of(rows, began, step.watch), metrics=walk.metrics(state), arrived=arrival is None,
        arrival=arrival, restarts=tuple(restarts),
    )  # fmt: skip


def _resized(job: Job, walk: Walk, state: State, arrival: Arrival) -> State:
    d = arrival.position.room_for
    if d == job.stats.d and arrival.moments is None:
        return state
    assert walk.resize is not None, "methods of one pass take columns as they come"
    try:
        return walk.resize(job.problem, state, d, arrival.moments)
    except ValueError as error:
        raise BadInput(str(error)) from error


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
    """Return the walk's order; rows that lie in no random order are all permuted."""
    return walk.order if job.stats.shuffled else "permuted"


class WalkDriver:
    """Runs the streams of one walk span by span; the states stay where they were computed.

    Iterating yields a report per finished span.  `positions` says how far every stream is; after
    `rest` they are all at rest and can be saved.

    Attributes
    ----------
    job : Job
        What spans are given; of rows that come once, with the columns of those that came.
    span_windows : int
        Windows of the next span: so many that it takes about a second.

    Parameters
    ----------
    records_of
        What is on record of the numbers per row of some chunks; None where none are read.
    """

    def __init__(
        self, executor: Executor, job: Job, walk: Walk, sweep: int, positions: list[Position],
        span_windows: int = 1, records_of: Callable[[Iterable[int]], Records] | None = None,
    ) -> None:  # fmt: skip
        self.watch = Stopwatch()  # of asking for spans and waiting for them
        self._executor, self.job = executor, job
        small = is_small(job) and job.once is None
        self._submit_to = executor.submit_small if small else executor.submit
        self._walk, self._sweep, self._records_of = walk, sweep, records_of
        counted = walk.rows is None and job.once is None
        self._lengths = [
            windows_per_turn(job.windows, stream) if counted else ENDLESS
            for stream in range(len(positions))
        ]
        self._ahead = SPANS_SUBMITTED if job.once is None else 1
        self.positions = [
            p._replace(arrived=p.windows == length)
            for p, length in zip(positions, self._lengths, strict=True)
        ]
        self.span_windows = span_windows  # 1 to begin with: the first span also compiles
        self._pending: list[tuple[int, Any, Any]] = []
        self._submitted = [p.windows for p in positions]
        self._heads = [p.state for p in positions]
        self._began = positions[0].windows
        self._resting = False

    def __iter__(self) -> Iterator[SpanReport]:
        """Yield the reports of spans as they finish, stream by stream in turn."""
        self._resting = False
        with self.watch:
            self._submit()
        while self._pending:
            stream, state, handle = self._pending.pop(0)
            with self.watch:
                report: SpanReport = self._executor.result(handle)
            done = self.positions[stream].windows + report.windows
            arrived = report.arrived or done == self._lengths[stream]
            kept = state if report.diverged or not self._under_way(stream) else None
            self.positions[stream] = Position(kept, done, arrived)
            self._adapt(report)
            if report.arrival is not None:
                self.job = self.job.with_columns(report.arrival.position.room_for)
            if report.diverged:
                self._resting = True
            if self.job.once is None:
                self._go_on()
            yield report
            if self.job.once is not None:  # who is to stop waits for no more of a source
                self._go_on()

    def _go_on(self) -> None:
        if not self._resting:
            with self.watch:
                self._submit()

    def rest(self) -> None:
        """Submit no further span, so that iteration ends with every stream at rest."""
        self._resting = True

    @property
    def finished(self) -> bool:
        """Whether every stream has visited all of its windows."""
        return all(p.arrived for p in self.positions)

    def _adapt(self, report: SpanReport) -> None:
        if report.windows and self.job.once is None:
            wanted = int(SPAN_SECONDS * report.windows / max(report.seconds, 1e-6))
            self.span_windows = min(max(1, wanted), FASTER * self.span_windows)

    def _submit(self) -> None:
        """Keep every stream busy; while the first span compiles, nothing else runs."""
        compiling = not any(p.windows for p in self.positions) and self.span_windows == 1
        for stream in range(len(self.positions)):
            ahead = self._under_way(stream)
            length = 0 if self.positions[stream].arrived else self._lengths[stream]
            while ahead < self._ahead and self._submitted[stream] < length:
                if compiling and self._pending:
                    return
                self._submit_span(stream)
                ahead += 1

    def _under_way(self, stream: int) -> int:
        """Return how many spans of a stream are under way."""
        return sum(1 for s, _, _ in self._pending if s == stream)

    def _submit_span(self, stream: int) -> None:
        first = self._submitted[stream]
        stop = min(first + self.span_windows, self._lengths[stream])
        if self._lengths[stream] - stop < self.span_windows // 2:
            stop = self._lengths[stream]  # a short span's first window is read beside nothing
        result = self._submit_to(self._walk.name, *self._span(stream, first, stop))
        state = self._executor.item("state", result, 0)
        self._pending.append((stream, state, self._executor.item("report", result, 1)))
        self._submitted[stream], self._heads[stream] = stop, state
        # who keeps no handle on a state has it gone as soon as the span that it was given to ends
        self.positions[stream] = self.positions[stream]._replace(state=None)

    def _span(self, stream: int, first: int, stop: int) -> tuple[Any, ...]:
        """Return the function of a span, and what it is given."""
        job, walk, head = self.job, self._walk, self._heads[stream]
        if job.once is None:
            records = self._records(stream, first, stop)
            return walk_span, job, walk, self._sweep, stream, first, stop, head, records
        # from the second span on the state is this walk's own
        own = walk.leave is same and first > self._began
        return partial(arrival_span, in_place=own), job, walk, first, head

    def _records(self, stream: int, first: int, stop: int) -> Records:
        """Return what is on record of the chunks of a span's windows, visited or not."""
        if self._records_of is None:
            return NO_RECORDS
        order, plan = legal_order(self.job, self._walk), self.job.windows
        windows = windows_between(plan, order, self._sweep, stream, first, stop)
        return self._records_of(chunk for window in windows for chunk in window.chunks)
