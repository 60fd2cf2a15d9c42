"""How fast a method goes over the data here: an epoch over a few chunks, timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.forecast import Forecast
from fewpass.pipeline.rows.buffers import NO_NUMBERS, dataset_block
from fewpass.solvers.drive import add_up, visit_again
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import appraisal
from fewpass.solvers.protocol import (
    Block,
    ProblemStats,
    Reduce,
    Solver,
    State,
    Sum,
    Walk,
)

MOST_CHUNKS = 4
WARM_UP_ROWS = 1000  # to compile kernels and choose a first step on, untimed
TYPICAL_EPOCH = 1  # the first may begin in a way of its own


class Speed(NamedTuple):
    """Seconds that every row of the data set takes one thread."""

    rows: int  # that it was tried on
    read_s: float
    walk_s: float
    reduce_s: float


def try_out(solver: Solver, job: Job) -> Speed:
    """Read the first chunks and carry a state over them; nothing is written.

    Raises
    ------
    Damaged
        When a chunk is not intact.
    """
    began = time.perf_counter()
    blocks = list(_first_blocks(job))
    read_s = time.perf_counter() - began
    start = blocks[0]._replace(order=blocks[0].order[:WARM_UP_ROWS])
    state, _, _ = _epoch(solver, job, [start], solver.init(job.problem, job.stats))
    _, walk_s, reduce_s = _epoch(solver, job, blocks, state)
    rows = sum(block.order.shape[0] for block in blocks)
    return Speed(rows, read_s * job.stats.n / rows, walk_s * job.stats.n, reduce_s * job.stats.n)


def seconds_of(predicted: Forecast, speed: Speed, streams: int, threads: int) -> float:
    """Return the seconds of the predicted passes.

    A walk reads ahead while it steps, a reduction is shared out among threads.  Rows that stay in
    memory are read once.
    """
    walks = predicted.passes + predicted.certifying_passes - predicted.reduce_passes
    once, each = (speed.read_s, 0.0) if predicted.resident else (0.0, speed.read_s)
    walk = max(each, speed.walk_s) / min(streams, threads)
    reduce = (each + speed.reduce_s) / threads
    return once + walks * walk + predicted.reduce_passes * reduce


def _first_blocks(job: Job) -> Iterator[Block]:
    chunks = min(MOST_CHUNKS, job.windows.chunks_per_window, job.windows.n_chunks)
    for chunk in range(chunks):
        table = job.dataset.read_stored(chunk)
        order = np.random.default_rng(chunk).permutation(table.n_rows)
        numbers = np.zeros((table.n_rows, job.row_state_size)[: min(job.row_state_size, 2)])
        yield dataset_block(table, job.dataset, job.rule, order, numbers)


def _epoch(
    solver: Solver, job: Job, blocks: Sequence[Block], state: State
) -> tuple[State, float, float]:
    """Return the state after the sweeps of an epoch, and seconds per row of its walk and reduce."""
    walk_s = reduce_s = 0.0
    program = solver.program(TYPICAL_EPOCH)
    if not any(isinstance(sweep, Reduce) for sweep in program):
        what = appraisal(solver)
        _, reduce_s = _add_up(what.sum, what.at(state), job, blocks)
    for sweep in program:
        if isinstance(sweep, Walk):
            state, walk_s = step_over(
                sweep, job.problem, job.stats, blocks, state, in_place=job.in_place
            )
        else:
            part, reduce_s = _add_up(sweep.sum, sweep.at(state), job, blocks)
            state = sweep.absorb(job.problem, job.stats, state, part, 0)
    return state, walk_s, reduce_s


def step_over(
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    blocks: Sequence[Block],
    state: State,
    *,
    in_place: bool,
) -> tuple[State, float]:
    """Return the state after these blocks, and seconds per row; see `drive.visit_again`."""
    began = time.perf_counter()

    def begin_again(_state: State) -> None:
        nonlocal began
        began = time.perf_counter()
        for block in blocks:
            block.row_state[:] = 0.0

    state, rows = visit_again(
        walk, problem, stats, state, blocks, in_place=in_place, on_restart=begin_again
    )
    return state, (time.perf_counter() - began) / max(rows, 1)


def _add_up(what: Sum, at: object, job: Job, blocks: Sequence[Block]) -> tuple[object, float]:
    if (
        what.row_state == "none"
    ):  # where blocks have numbers per row, a gradient would write its slopes
        blocks = [block._replace(row_state=NO_NUMBERS) for block in blocks]
    began = time.perf_counter()
    part = add_up(what, job.problem, at, blocks)
    return part, (time.perf_counter() - began) / sum(block.order.shape[0] for block in blocks)
