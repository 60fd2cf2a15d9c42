"""A walk: a state carried from window to window, in spans (`walk_spans.py`) one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.passes.awaited_spans import (
    AwaitedSpans,
    SpansInTurn,
    SpansOnCluster,
    SpanUnderWay,
)
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce_on_cluster import tree_of
from fewpass.pipeline.passes.span import Job, SpanReport, is_small
from fewpass.pipeline.passes.sum_tree import SumTree
from fewpass.pipeline.passes.together import Task, Together
from fewpass.pipeline.passes.walk_spans import (
    added_stream_parts,
    arrival_span,
    join_own_streams,
    join_parts,
    join_streams,
    legal_order,
    met_span,
    stream_part,
    walk_span,
)
from fewpass.pipeline.rows.windows import windows_between, windows_per_turn
from fewpass.solvers.protocol import JoinByPairs, Walk, add_parts
from fewpass.storage.row_state_store import NO_RECORDS, Records

SPAN_SECONDS = 1.0  # of a span: a thousand times Dask's cost of a task
FASTER = 16  # times as many windows, at most, in a span as in the one before
ENDLESS = 1 << 62  # windows of a walk that ends by its own state
SPANS_SUBMITTED = 2  # per stream: one runs, one waits for its result


class StreamPosition(NamedTuple):
    """The position of one stream of a walk."""

    state: Any  # handle on the state after `windows` windows; None while a span goes on from there
    windows: int
    arrived: bool = False


class SpanTasks:
    """Makes the functions of a walk's spans and their arguments.

    It knows nothing of the driver: a cycle of the two would hold the last states until Python
    looks for cycles.

    Attributes
    ----------
    job : Job
        Given to spans.

    Parameters
    ----------
    began
        Windows of the first stream that the walk had visited when the driver took it up.
    records_of
        As for `WalkDriver`.
    totals
        By stream, what its first span begins with, where streams have met.
    near
        Whether states are in this process.
    """

    def __init__(
        self, job: Job, walk: Walk, sweep: int, began: int,
        records_of: Callable[[Iterable[int]], Records] | None, totals: dict[int, Any], *,
        near: bool,
    ) -> None:  # fmt: skip
        self.job, self._walk, self._sweep = job, walk, sweep
        self._began, self._records_of = began, records_of
        self._totals, self._near = totals, near

    def __call__(self, stream: int, first: int, stop: int, head: Any) -> tuple[Any, ...]:
        """Return the function of windows first <= k < stop of a stream, and its arguments."""
        job, walk = self.job, self._walk
        if job.source_rows is None:
            records = self._records(stream, first, stop)
            given = job, walk, self._sweep, stream, first, stop, head, records
            if stream in self._totals:
                return partial(met_span, own=self._near), *given, self._totals.pop(stream)
            return walk_span, *given
        own = first > self._began  # from the second span on the state is this walk's
        return partial(arrival_span, in_place=own), job, walk, first, head

    def _records(self, stream: int, first: int, stop: int) -> Records:
        """Return the records of the chunks of a span's windows, visited or not."""
        if self._records_of is None:
            return NO_RECORDS
        order, plan = legal_order(self.job, self._walk), self.job.windows
        windows = windows_between(plan, order, self._sweep, stream, first, stop)
        return self._records_of(chunk for window in windows for chunk in window.chunks)


class WalkDriver:
    """Runs the streams of one walk span by span; the states stay where they were computed.

    Iterating yields a report per finished span.  `positions` has the place of every stream; after
    `rest` all of them are at rest and can be saved.

    Attributes
    ----------
    span_windows : int
        Windows of the next span, for about a second.
    exploded : list of int
        Streams whose loss exploded.  The others go on to their end, and do not rest: which of them
        is found first is a question of time, and which ones there are is none.

    Parameters
    ----------
    records_of
        Returns the records of the numbers per row of some chunks; None where none are read.
    ends
        Windows of each stream that this drive ends after; by default all of the turn.
    total
        Handle on what streams that have met add up to, which each takes first; None: nothing.
    """

    def __init__(
        self, executor: Executor, job: Job, walk: Walk, sweep: int, positions: list[StreamPosition],
        span_windows: int = 1, records_of: Callable[[Iterable[int]], Records] | None = None,
        ends: list[int] | None = None, total: Any = None,
    ) -> None:  # fmt: skip
        self._executor, self._walk, self._sweep = executor, walk, sweep
        totals = {} if total is None else dict.fromkeys(range(len(positions)), total)
        began, near = positions[0].windows, executor.near
        self._tasks = SpanTasks(job, walk, sweep, began, records_of, totals, near=near)
        self._is_stored = job.source_rows is None  # and not those of a source
        counted = walk.rows is None and self._is_stored
        self._lengths = ends or [
            windows_per_turn(job.windows, stream) if counted else ENDLESS
            for stream in range(len(positions))
        ]
        self._ahead = SPANS_SUBMITTED if self._is_stored else 1
        self.positions = [
            p._replace(arrived=p.windows == length)
            for p, length in zip(positions, self._lengths, strict=True)
        ]
        self.span_windows = span_windows  # 1 to begin with: the first span also compiles
        self._submitted = [p.windows for p in positions]
        self._heads = [p.state for p in positions]
        self._began_at = self._submitted[:]
        self.exploded: list[int] = []  # streams
        self._resting = False
        self._spans = self._awaited()

    @property
    def job(self) -> Job:
        """Return the job of all spans; of rows that come once, with the columns so far."""
        return self._tasks.job

    def _awaited(self) -> AwaitedSpans:
        """Return what waits for spans."""
        if self._executor.together is not None:
            return SpansOnCluster(self._executor, self._tasks)
        small = is_small(self.job) and self._is_stored
        submit = self._executor.submit_small if small else self._executor.submit
        return SpansInTurn(self._executor, submit, self._tasks)

    def __iter__(self) -> Iterator[SpanReport]:
        """Yield the reports of spans as they finish, stream by stream in turn."""
        self._resting = False
        with self._spans.listening():
            yield from self._reports()

    def _reports(self) -> Iterator[SpanReport]:
        self._submit()
        while any(map(self._under_way, self._going)):
            span, report = self._spans.next()
            stream, state = span.stream, span.state
            if stream in self.exploded:
                continue  # a span that was under way, from a state that is lost
            done = self.positions[stream].windows + report.windows
            arrived = report.arrived or report.diverged or done == self._lengths[stream]
            last = state if report.diverged or not self._under_way(stream) else None
            self.positions[stream] = StreamPosition(last, done, arrived)
            self._adapt(report)
            if report.arrival is not None:
                self._tasks.job = self.job.with_columns(report.arrival.position.room_for)
            if report.diverged:
                self.exploded.append(stream)
                self._resting = False
            if self._is_stored:
                self._go_on()
            yield report
            if not self._is_stored:  # a training that is to stop waits for no more rows
                self._go_on()

    @property
    def _going(self) -> Iterator[int]:
        """The streams whose loss has not exploded."""
        return (k for k in range(len(self.positions)) if k not in self.exploded)

    def _go_on(self) -> None:
        if not self._resting:
            self._submit()

    def rest(self) -> None:
        """Submit no further span, so that iteration ends with every stream at rest."""
        self._resting = True

    @property
    def finished(self) -> bool:
        """Return whether every stream has visited all of its windows."""
        return all(p.arrived for p in self.positions)

    def _adapt(self, report: SpanReport) -> None:
        if report.windows and self._is_stored:
            wanted = int(SPAN_SECONDS * report.windows / max(report.seconds, 1e-6))
            self.span_windows = min(max(1, wanted), FASTER * self.span_windows)

    def _submit(self) -> None:
        """Keep every stream busy; in this process nothing else runs while the first span compiles.

        Elsewhere one process of each machine compiles, and the others wait (dispatch.py).
        """
        near = self._executor.together is None
        compiling = near and not any(p.windows for p in self.positions) and self.span_windows == 1
        for stream in range(len(self.positions)):
            ahead = self._under_way(stream)
            length = 0 if self.positions[stream].arrived else self._lengths[stream]
            while ahead < self._ahead and self._submitted[stream] < length:
                if compiling and len(self._spans):
                    return
                self._submit_span(stream)
                ahead += 1

    def _under_way(self, stream: int) -> int:
        """Return how many spans of a stream are under way."""
        return self._spans.under_way(stream)

    def _submit_span(self, stream: int) -> None:
        first = self._submitted[stream]
        stop = min(first + self.span_windows, self._lengths[stream])
        if self._lengths[stream] - stop < self.span_windows // 2:
            stop = self._lengths[stream]  # the first window of a span is not read ahead
        head, label = self._heads[stream], self._label(stream)
        begins = first == self._began_at[stream]
        state = self._spans.submit(SpanUnderWay(stream, first, stop, label, head, begins))
        self._submitted[stream], self._heads[stream] = stop, state
        # without a handle a state is freed as soon as the next span ends
        self.positions[stream] = self.positions[stream]._replace(state=None)

    def _label(self, stream: int) -> str:
        """Return what a dashboard shows: the pass, and which tenths of it are done."""
        length, done = self._lengths[stream], self._submitted[stream]
        share = "" if length == ENDLESS else f" at {done * 10 // length * 10} %"
        return f"pass {self._sweep + 1}{share}, {self._walk.name}"


# -- the end of a walk ----------------------------------------------------------------------------
#
# The states of its streams become one.  Few of them come together on a worker.  Of many each makes
# a part where it is, and parts are added in the tree of a reduction, pair by pair: no process holds
# all states.

MOST_JOINED = 16  # streams whose states come together
PARTS_ADDED = 4  # by one task of a cluster


def joined(
    executor: Executor, job: Job, walk: Walk, version: int, heads: list[Any], *,
    are_over: bool = True,
) -> Any:  # fmt: skip
    """Return a handle on the state that several streams' states make.

    Parameters
    ----------
    version
        Of the numbers per row that it goes with, if any.
    heads
        Handles on the streams' states.
    are_over
        Whether nobody needs these states any more; else they stay as they are.
    """
    if walk.pairs is None or len(heads) <= MOST_JOINED:
        # in this process a task runs once, and no other task has these states
        join = join_own_streams if executor.near and are_over else join_streams
        return executor.submit_small("join", join, job, walk, version, *heads)
    total, streams = added(executor, job, walk.pairs, heads), len(heads)
    return executor.submit_small("join", join_parts, job, walk, version, heads[0], total, streams)


def added(executor: Executor, job: Job, sum_of: JoinByPairs, heads: list[Any]) -> Any:
    """Return a handle on the sum of the streams' parts."""
    add = _added_here if executor.together is None else _added_on_cluster
    return add(executor, job, sum_of, heads)


def _added_here(executor: Executor, job: Job, sum_of: JoinByPairs, heads: list[Any]) -> Any:
    """Return a handle on the sum of the streams' parts."""
    tree = SumTree(partial(executor.submit_small, "add", add_parts))
    for head in heads:
        tree.push(executor.submit_small("part", stream_part, job, sum_of, head))
    return tree.total()


def _added_on_cluster(executor: Executor, job: Job, sum_of: JoinByPairs, heads: list[Any]) -> Any:
    """Return a handle on the same sum, of one graph."""
    together = executor.together
    assert isinstance(together, Together), "a cluster takes graphs"
    parts: list[Task] = [(stream_part, job, sum_of, head) for head in heads]
    tree = tree_of(together.named("join"), parts, PARTS_ADDED, added_stream_parts)
    (total,) = together.submit(tree.tasks, [tree.root])
    return total
