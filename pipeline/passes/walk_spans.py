"""The tasks of a walk: spans of windows that a state is carried over, and joins of streams.

They run on workers.  `walk_span` is a pure function of its arguments that reads its own rows;
`arrival_span` takes rows that come once.  Span boundaries change no bit, as the state is carried
exactly.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.passes.span import (
    CountedStep,
    Job,
    SpanReport,
    cost_of,
    row_state_source,
    stored_by,
    window_reader,
)
from fewpass.pipeline.passes.sum_tree import added_up
from fewpass.pipeline.rows.reader import chunk_rows
from fewpass.pipeline.rows.stream import Arrival
from fewpass.pipeline.rows.windows import Order, Window, largest_window, windows_between
from fewpass.solvers.drive import visit, visit_again
from fewpass.solvers.protocol import (
    Block,
    JoinByPairs,
    Part,
    State,
    Walk,
    copy_state,
    row_versions,
    with_row_version,
)
from fewpass.storage.row_state_store import NO_RECORDS, NOTHING_YET, Records


def walk_span(
    job: Job, walk: Walk, sweep: int, stream: int, first: int, stop: int, state: State,
    records: Records = NO_RECORDS,
) -> tuple[State, SpanReport]:  # fmt: skip
    """Carry a copy of `state` over windows first <= k < stop of a stream, or to its end.

    A job in place carries the state itself: there is no other, and its tasks run once.

    Numbers per row are read in the version that the state names, and checked against `records`;
    where the walk updates them they are written as the version of this sweep.
    """
    return_freed_memory(job.memory)
    began = time.perf_counter()
    windows = windows_to_visit(job, walk, sweep, stream, first, stop, state)
    row_state = row_state_source(job, walk.row_state, row_versions(state), records)
    reader = window_reader(job, largest_window(job.dataset.manifest, job.windows), row_state)
    step = CountedStep(walk)

    def read() -> Generator[Block]:
        with closing(reader.blocks(windows)) as blocks:
            for window, (block, places, _) in zip(windows, blocks, strict=False):
                # and that is the last one where its loss explodes
                yield block._replace(threads=job.threads)
                if row_state is not None and walk.row_state == "update":
                    row_state.write(sweep, window, places, block)

    with closing(read()) as blocks:
        state, rows = visit(
            walk, job.problem, job.stats, state, blocks, in_place=job.in_place, step=step
        )
    return state, SpanReport(
        stream=stream, windows=step.windows, rows=rows, **cost_of(reader, began),
        metrics=walk.metrics(state), diverged=walk.diverged(state),
        arrived=walk.rows is not None and walk.rows(state) <= 0, row_state=stored_by(row_state),
        losses=tuple(step.losses),
    )  # fmt: skip


def met_span(
    job: Job, walk: Walk, sweep: int, stream: int, first: int, stop: int, state: State,
    records: Records, total: Part, *, own: bool,
) -> tuple[State, SpanReport]:  # fmt: skip
    """Give a stream's state what all streams add up to, then do the same.

    `own`: nobody else needs the state.
    """
    merge = walk.merge
    assert merge is not None, "streams meet"
    state = state if own else merge.copied(state)
    state = merge.end(job.problem, job.stats, state, total, job.stats.streams)
    job = job._replace(in_place=True)
    return walk_span(job, walk, sweep, stream, first, stop, state, records)


def arrival_span(
    job: Job, walk: Walk, number: int, state: State, *, in_place: bool
) -> tuple[State, SpanReport]:
    """Carry a state over the buffer of rows that comes next; in place, or else a copy.

    The state gets the columns that these rows have more, and newer moments.  Where their loss
    explodes they are visited again, from what the walk recovers: the rows before do not come again.
    """
    began, rows = time.perf_counter(), job.source_rows
    assert rows is not None, "the rows come once"
    walk = walk._replace(reports=False)  # spans are short
    step, restarts, visited = CountedStep(walk), list[dict[str, float]](), 0
    arrival: Arrival | None = None
    with closing(rows.blocks([Window((number,), "permuted", 0, 0)])) as blocks:
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
        **cost_of(rows, began), metrics=walk.metrics(state), arrived=arrival is None,
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
    """Return a span's windows, up to the number of rows that the state is to visit."""
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
    """Return the walk's order; rows that are not shuffled are all permuted.

    Those of a view's parts lie part by part: as they are shuffled there, blocks of them are drawn.
    """
    if job.stats.shuffled:
        return walk.order
    return "permuted" if job.dataset.manifest.shuffle.seed is None else "random"


def join_streams(job: Job, walk: Walk, version: int, *states: State) -> State:
    """Make one state of copies of the streams'."""
    return join_own_streams(job, walk, version, *map(copy_state, states))


def join_own_streams(job: Job, walk: Walk, version: int, *states: State) -> State:
    """Make one state of the streams', which nobody else needs.

    Note which numbers per row it goes with, if any.
    """
    joined = walk.join(job.problem, job.stats, list(states))
    return joined if version == NOTHING_YET else with_row_version(joined, version)


def stream_part(job: Job, sum_of: JoinByPairs, state: State) -> Part:
    """Return what a stream's state adds to the sum that a merge or a join is made of."""
    return sum_of.part(job.problem, job.stats, state)


def added_stream_parts(*parts: Part) -> Part:
    """Add up neighbouring streams' parts, in the order of the tree."""
    return added_up(parts, own=False)


def join_parts(
    job: Job, walk: Walk, version: int, first: State, total: Part, streams: int
) -> State:
    """Make one state of a copy of the first stream's and the sum of all streams' parts."""
    assert walk.pairs is not None, "streams are joined by a sum"
    state = walk.pairs.end(job.problem, job.stats, walk.pairs.copied(first), total, streams)
    return state if version == NOTHING_YET else with_row_version(state, version)
