"""A reduction: parts added up over all chunks, whatever their order.

What runs on a worker is `reduce_span`, a pure function of its arguments that reads its own data.
Spans are fixed by the data set, and so is the tree that adds them.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.rows.windows import Window
from fewpass.pipeline.training.spans.span import (
    Job,
    LossSoFar,
    Stopwatch,
    cost_of,
    is_small,
    note,
    row_state_source,
    stored_by,
    window_reader,
)
from fewpass.solvers.loss_monitor import section_rows
from fewpass.solvers.protocol import (
    Part,
    Reduce,
    State,
    Sum,
    add_parts,
    add_to_part,
    array_bytes,
    copy_state,
)
from fewpass.storage.row_state_store import NO_RECORDS, Records, RowRecords, StoredRowState

SPAN_VALUES = 1e8  # values at most that a span adds up, in a few tenths of a second ...
SMALL_SPAN_VALUES = 4e6  # ... unless there are fewer than 16 spans of at least as many
READ_TOGETHER = 1e6  # values; a thread's hand-over costs more than a smaller chunk's sum
MOST_SPANS = 64  # few sums wait for their neighbour, however much is read
LEAST_SPANS = 16  # so that as many workers find work
SPANS_AHEAD = 2  # of those that the processor's cores work on
PARTS_IN_HAND = 2  # the one waited for, and one that is being added to another
SMALL_PARTS_BYTES = 1 << 24  # of parts that are not added yet: always available
SHORT_SPAN_VALUES = 2e7  # a tenth of a second: not much more than Dask's cost of a task


class ReduceReport(NamedTuple):
    """Cost of a span of a reduction; the fields are those of a walk's SpanReport."""

    rows: int
    bytes_read: int
    seconds: float
    read_s: float
    wait_s: float
    peak_memory: int
    fetch_s: float = 0.0
    worker: str = ""
    permute_s: float = 0.0
    step_s: float = 0.0
    ahead: bool = False
    row_state: tuple[StoredRowState, ...] = ()
    losses: tuple[LossSoFar, ...] = ()  # the losses inside it, where the sum reports them


def reduce_span(
    job: Job, what: Sum, at: Any, sweep: int, versions: tuple[int, ...], ahead: int,
    first: int, stop: int, records: Records = NO_RECORDS,
) -> tuple[Part, ReduceReport]:  # fmt: skip
    """Add up chunks first <= k < stop, one after the other into one part.

    Numbers per row are read in the given versions, and checked against `records`, or written as
    the version of this sweep.
    """
    return_freed_memory(job.memory)
    began = time.perf_counter()
    read = versions if what.row_state == "read" else ()
    row_state = row_state_source(job, what.row_state, read, records)
    chunks = job.dataset.manifest.chunks
    windows = [Window(group, "stored", sweep, 0) for group in small_groups(chunks.nnz, first, stop)]
    sizes = [
        [sum(count[k] for k in window.chunks) for window in windows]
        for count in (chunks.rows, chunks.nnz)
    ]
    reader = window_reader(job, (roomy(max(sizes[0])), roomy(max(sizes[1]))), row_state)
    reader.ahead = ahead
    rows, part, stepping, losses = 0, what.zero(at), Stopwatch(), list[LossSoFar]()
    every = section_rows(job.stats.n)
    for window, (block, places, _) in zip(windows, reader.blocks(windows), strict=True):
        before, rows = rows, rows + block.order.shape[0]
        with stepping:
            if what.telling is None:
                part = what.add(job.problem, at, block, part)
            else:
                tell = partial(note, losses, before)
                part = what.telling(job.problem, at, block, part, tell, every)
        if row_state is not None and what.row_state == "write":
            row_state.write(sweep, window, places, block)
    cost = cost_of(reader, began, stepping)
    return part, ReduceReport(
        rows=rows, **cost, row_state=stored_by(row_state), losses=tuple(losses)
    )


def reduce(
    executor: Executor,
    job: Job,
    what: Sum,
    at: Any,
    on_report: Callable[[ReduceReport], None],
    sweep: int = 0,
    versions: tuple[int, ...] = (),
    records: RowRecords | None = None,
    check: Callable[[], None] = lambda: None,
) -> Any:
    """Add up `what` over all chunks and return a handle on the sum; `at` may be a handle, too.

    Numbers per row that it reads are those of `versions`, checked against `records`.  `check` is
    called between spans; an error of it ends the sum.

    Spans and the tree that adds them are fixed by the data set, so the sum has the same bits for
    any number of workers.
    """
    step, n_chunks, ahead = chunks_per_span(job), job.windows.n_chunks, read_ahead(executor, job)
    given = (job, what, at, sweep, versions, ahead)
    submit = executor.submit_small if is_short(job, step) else executor.submit

    def submitted(first: int) -> tuple[Any, Any]:
        check()
        stop = min(first + step, n_chunks)
        on_record = records.of(versions, range(first, stop)) if records else NO_RECORDS
        result = submit(what.name, reduce_span, *given, first, stop, on_record)
        span = executor.item("part", result, 0), executor.item("report", result, 1)
        if what.name not in executor.compiled:
            executor.result(span[1])
            executor.compiled.add(what.name)
        return span

    # in this process a task runs once, and the parts added are no other task's
    add = add_to_part if executor.near else add_parts
    todo = deque(range(0, n_chunks, step))
    most, parts = spans_at_once(executor, job, what, at) if executor.near else (len(todo),) * 2
    spans: deque[tuple[Any, Any]] = deque()
    stack: list[tuple[int, Any]] = []  # subtree sizes and sums, as in binary counting
    while todo or spans:
        while todo and len(spans) < max(1, min(most, parts - len(stack))):
            spans.append(submitted(todo.popleft()))
        total, report = spans.popleft()
        on_report(executor.result(report))
        check()
        size = 1
        while stack and stack[-1][0] == size:
            size, total = 2 * size, executor.submit_small("add", add, stack.pop()[1], total)
        stack.append((size, total))
    total = stack.pop()[1]
    while stack:
        total = executor.submit_small("add", add, stack.pop()[1], total)
    return total


def absorb_sum(job: Job, sweep: Reduce, state: State, total: Part, number: int) -> State:
    """Give a sum to a copy of the state."""
    return sweep.absorb(job.problem, job.stats, copy_state(state), total, number)


def spans_at_once(executor: Executor, job: Job, what: Sum, at: Any) -> tuple[int, int]:
    """Return the most spans under way, and the most parts in memory.

    In this process all parts that are not added yet share its memory.
    """
    size = executor.result(executor.submit_small("part", part_bytes, what, at))
    budget = max(job.sum_bytes, SMALL_PARTS_BYTES)
    return (os.cpu_count() or 1) + SPANS_AHEAD, budget // max(1, size) - PARTS_IN_HAND


def part_bytes(what: Sum, at: Any) -> int:
    """Return the bytes of the arrays of a part."""
    return array_bytes(what.zero(at))


def is_short(job: Job, step: int) -> bool:
    """Whether spans of `step` chunks take little longer than Dask's cost of a task."""
    values = job.dataset.manifest.nnz * step / job.windows.n_chunks
    return is_small(job) or values <= SHORT_SPAN_VALUES


def read_ahead(executor: Executor, job: Job) -> int:
    """Return the number of windows that a span reads ahead of the one that it adds up.

    None where every core has a span of its own, or nothing to read.
    """
    near = job.dataset.folder.is_local and not executor.alone
    return 0 if job.resident or near else 1


def roomy(n: int) -> int:
    """Round up by an eighth at most, so that buffers suit the next span, too."""
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step


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
    """Chunks of one reduce span: some tenths of a second of work, in 16 to 64 spans at best."""
    nnz, n_chunks = job.dataset.manifest.nnz, job.windows.n_chunks
    values = min(max(nnz / LEAST_SPANS, SMALL_SPAN_VALUES), SPAN_VALUES)
    wanted = min(int(values * n_chunks / max(nnz, 1)), n_chunks)
    return max(1, wanted, -(-n_chunks // MOST_SPANS))
