"""A reduction: parts added up over all chunks, whatever their order.

Leaves are fixed by the data set, and so is the tree that adds them (sum_tree.py).  In this process
every leaf is a task; a cluster is given all of them at once (reduce_on_cluster.py).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce_on_cluster import reduce_on_cluster
from fewpass.pipeline.passes.reduce_span import reduce_span
from fewpass.pipeline.passes.span import Job, SpanReport, is_small
from fewpass.pipeline.passes.subtrees import Addends
from fewpass.pipeline.passes.sum_tree import SumTree
from fewpass.solvers.protocol import (
    Part,
    Reduce,
    State,
    Sum,
    add_to_part,
    array_bytes,
    copy_state,
)
from fewpass.storage.row_state_store import NO_RECORDS, Records, RowRecords

SPAN_VALUES = 1e8  # values at most that a leaf adds up, in a few tenths of a second ...
SMALL_SPAN_VALUES = 4e6  # ... unless there are fewer than 16 leaves of at least as many
MOST_LEAVES = 1024  # so that 256 workers have four each, and few sums wait for their neighbour
LEAST_SPANS = 16  # so that as many workers find work
SPANS_AHEAD = 2  # of those that the processor's cores work on
PARTS_IN_HAND = 2  # the one waited for, and one that is being added to another
SHORT_SPAN_VALUES = 2e7  # a tenth of a second: not much more than Dask's cost of a task


def reduce(
    executor: Executor,
    job: Job,
    what: Sum,
    at: Any,
    on_report: Callable[[SpanReport], None],
    sweep: int = 0,
    versions: tuple[int, ...] = (),
    records: RowRecords | None = None,
    check: Callable[[], None] = lambda: None,
    label: str = "",
) -> Any:
    """Add up `what` over all chunks and return a handle on the sum; `at` may be a handle, too.

    Numbers per row that it reads are those of `versions`, checked against `records`.  `check` is
    called between spans; an error of it ends the sum.  `label` is what a dashboard shows.

    Leaves and the tree that adds them are fixed by the data set, so the sum has the same bits for
    any number of workers, threads and tasks.
    """
    addends = Addends(job, what, sweep, versions, read_ahead(executor, job))
    step, n_chunks = chunks_per_span(job), job.windows.n_chunks
    leaves = [(first, min(first + step, n_chunks)) for first in range(0, n_chunks, step)]

    def records_of(chunks: range) -> Records:
        return records.of(versions, chunks) if records else NO_RECORDS

    if executor.together is not None:
        budget = max(job.sum_bytes, Budget.small_parts)
        on_rows = partial((records or RowRecords(n_chunks)).note, sweep)
        return reduce_on_cluster(
            executor, addends, at, leaves, records_of, budget, on_report, on_rows, check,
            label or what.name,
        )  # fmt: skip
    submit = executor.submit_small if is_short(job, step) else executor.submit

    def submitted(first: int, stop: int) -> tuple[Any, Any]:
        check()
        result = submit(
            label or what.name, reduce_span, job, what, at, sweep, versions, addends.ahead,
            first, stop, records_of(range(first, stop)),
        )  # fmt: skip
        span = executor.item("part", result, 0), executor.item("report", result, 1)
        if what.name not in executor.compiled:
            executor.result(span[1])
            executor.compiled.add(what.name)
        return span

    def finished(report: Any) -> None:
        on_report(executor.result(report))
        check()

    # in this process a task runs once, and the parts added are no other task's
    tree = SumTree(partial(executor.submit_small, "add", add_to_part))
    return add_in_order(leaves, submitted, finished, tree, spans_at_once(executor, job, what, at))


def add_in_order(
    leaves: Sequence[tuple[int, int]],
    submitted: Callable[[int, int], tuple[Any, Any]],
    finished: Callable[[Any], None],
    tree: SumTree,
    at_once: tuple[int, int],
) -> Any:
    """Add up leaves in their order; `at_once`: most spans under way, and most parts in memory."""
    todo, (most, parts) = deque(leaves), at_once
    spans: deque[tuple[Any, Any]] = deque()
    while todo or spans:
        while todo and len(spans) < max(1, min(most, parts - len(tree))):
            spans.append(submitted(*todo.popleft()))
        part, report = spans.popleft()
        finished(report)
        tree.push(part)
    return tree.total()


def absorb_sum(job: Job, sweep: Reduce, state: State, total: Part, number: int) -> State:
    """Give a sum to a copy of the state."""
    return sweep.absorb(job.problem, job.stats, copy_state(state), total, number)


def spans_at_once(executor: Executor, job: Job, what: Sum, at: Any) -> tuple[int, int]:
    """Return the most spans under way, and the most parts in memory.

    In this process all parts that are not added yet share its memory.
    """
    size = executor.result(executor.submit_small("part", part_bytes, what, at))
    budget = max(job.sum_bytes, Budget.small_parts)
    return (os.cpu_count() or 1) + SPANS_AHEAD, budget // max(1, size) - PARTS_IN_HAND


def part_bytes(what: Sum, at: Any) -> int:
    """Return the bytes of the arrays of a part."""
    return array_bytes(what.zero(at))


def is_short(job: Job, step: int) -> bool:
    """Return whether spans of `step` chunks take little longer than Dask's cost of a task."""
    values = job.dataset.manifest.nnz * step / job.windows.n_chunks
    return is_small(job) or values <= SHORT_SPAN_VALUES


def read_ahead(executor: Executor, job: Job) -> int:
    """Return the number of windows that a span reads ahead of the one that it adds up.

    None where every core has a span of its own, or nothing to read.
    """
    near = job.dataset.folder.is_local and not executor.alone
    return 0 if job.resident or near else 1


def chunks_per_span(job: Job) -> int:
    """Chunks of one leaf: some tenths of a second of work, in 16 to 1,024 leaves at best."""
    nnz, n_chunks = job.dataset.manifest.nnz, job.windows.n_chunks
    values = min(max(nnz / LEAST_SPANS, SMALL_SPAN_VALUES), SPAN_VALUES)
    wanted = min(int(values * n_chunks / max(nnz, 1)), n_chunks)
    return max(1, wanted, -(-n_chunks // MOST_LEAVES))
