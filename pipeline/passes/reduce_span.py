"""A span of a reduction: chunks added up one after the other.

`reduce_span` runs on a worker, and is a pure function of its arguments that reads its own data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.span import (
    Job,
    LossSoFar,
    SpanReport,
    cost_of,
    note,
    row_state_source,
    stored_by,
    window_reader,
)
from fewpass.pipeline.rows.windows import Window
from fewpass.solvers.loss_monitor import section_rows
from fewpass.solvers.protocol import Part, Sum
from fewpass.storage.row_state_store import NO_RECORDS, Records

READ_TOGETHER = 1e6  # values; a thread's hand-over costs more than a smaller chunk's sum


def reduce_span(
    job: Job, what: Sum, at: Any, sweep: int, versions: tuple[int, ...], ahead: int,
    first: int, stop: int, records: Records = NO_RECORDS,
) -> tuple[Part, SpanReport]:  # fmt: skip
    """Add up chunks first <= k < stop, one after the other into one part.

    Numbers per row are read in the given versions, and checked against `records`, or written as
    the version of this sweep.
    """
    return_freed_memory(job.memory)
    began = time.perf_counter()
    read = versions if what.row_state == "read" else ()
    row_state = row_state_source(job, what.row_state, read, records)
    manifest = job.dataset.manifest
    nnz, rows_of = manifest.chunks.nnz[first:stop].tolist(), manifest.rows_of
    windows = [Window(group, "stored", sweep, 0) for group in small_groups(nnz, first)]
    sizes = [
        [sum(map(rows_of, window.chunks)) for window in windows],
        [sum(nnz[k - first] for k in window.chunks) for window in windows],
    ]
    reader = window_reader(job, (rounded_up(max(sizes[0])), rounded_up(max(sizes[1]))), row_state)
    reader.ahead = ahead
    rows, part, losses = 0, what.zero(at), list[LossSoFar]()
    every = section_rows(job.stats.n)
    with closing(reader.blocks(windows)) as blocks:
        for window, (block, places, _) in zip(windows, blocks, strict=True):
            before, rows = rows, rows + block.order.shape[0]
            report = (partial(note, losses, before), every) if what.reports else ()
            part = what.add(job.problem, at, block, part, *report)
            if row_state is not None and what.row_state == "write":
                row_state.write(sweep, window, places, block)
    return part, SpanReport(
        rows=rows, **cost_of(reader, began), row_state=stored_by(row_state), losses=tuple(losses)
    )


def rounded_up(n: int) -> int:
    """Round up by an eighth at most, so that buffers suit the next span, too."""
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step


def small_groups(nnz: Sequence[int], first: int) -> Iterator[tuple[int, ...]]:
    """Group chunks from `first` on, of these values each: small ones are read together."""
    group, values = list[int](), 0
    for k, own in enumerate(nnz, first):
        if group and values + own > READ_TOGETHER:
            yield tuple(group)
            group, values = [], 0
        group.append(k)
        values += own
    yield tuple(group)
