"""The processes of benchmarks/cluster.py: a scheduler, and many workers in a few processes."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from distributed import Scheduler, Worker
from distributed.comm.tcp import TCP

from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.rows.buffers import WindowRows
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import WindowPlan
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.protocol import Block, Sum, Walk, Weights

CHUNK_VALUES = 100_000_000  # of a stand-in chunk: as many as a span of a reduction has
STATE_BYTES = 80  # of a column, reserved for sums by averaged SGD
_sent = [0]


# -- what travels ----------------------------------------------------------------------------------


def count_bytes() -> None:
    """Count what this process writes to connections from now on, and log no more than errors."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    write = TCP.write

    async def counted(self: TCP, *args: Any, **named: Any) -> int:
        size: int = await write(self, *args, **named)
        _sent[0] += size
        return size

    TCP.write = counted  # type: ignore[method-assign]


def bytes_sent() -> int:
    """Return the bytes that this process has written to connections."""
    return _sent[0]


# -- processes -------------------------------------------------------------------------------------


def run_scheduler(tell: Any) -> None:
    """Run a scheduler until this process is ended; `tell` its address."""
    count_bytes()

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as made:
            tell.send(made.address)
            await made.finished()

    asyncio.run(run())


def run_workers(scheduler: str, n: int, deaths_per_s: float) -> None:
    """Run n workers of one thread each; some die, and others come in their place."""
    count_bytes()

    async def worker() -> Worker:
        return await Worker(scheduler, nthreads=1, memory_limit=0, dashboard=False)

    async def run() -> None:
        workers = [await worker() for _ in range(n)]
        while True:
            await asyncio.sleep(1.0)
            if random.random() < deaths_per_s:
                victim = workers.pop(random.randrange(len(workers)))
                await victim.close(nanny=False, executor_wait=False, reason="a death, on purpose")
                workers.append(await worker())

    asyncio.run(run())


class Processes(NamedTuple):
    """A scheduler and its workers."""

    address: str
    scheduler: Any
    workers: list[Any]


@contextmanager
def processes(workers: int, in_processes: int, deaths_per_minute: float) -> Iterator[Processes]:
    """Start them for a `with` block; of each worker so many percent a minute die."""
    spawned = multiprocessing.get_context("spawn")
    here, there = spawned.Pipe()
    scheduler = spawned.Process(target=run_scheduler, args=(there,), daemon=True)
    scheduler.start()
    address = here.recv()
    started = []
    for own in (len(part) for part in np.array_split(np.arange(workers), in_processes)):
        deaths_per_s = own * deaths_per_minute / 100.0 / 60.0
        started.append(spawned.Process(
            target=run_workers, args=(address, own, deaths_per_s), daemon=True
        ))  # fmt: skip
        started[-1].start()
    try:
        yield Processes(address, scheduler, started)
    finally:
        for process in [*started, scheduler]:
            process.kill()
            process.join()


# -- spans that sleep ------------------------------------------------------------------------------


class NoRows:
    """One row, whatever chunks are asked for."""

    def prefetch(self, chunk: int) -> None:
        """Do nothing."""

    def load(self, chunks: Any) -> WindowRows:
        """Return the row."""
        rows = DenseRows(np.zeros((1, 1), np.float32))
        places = [slice(0, int(k == 0)) for k in range(len(chunks))]
        return WindowRows(rows, np.zeros(1), np.ones(1), places[:1], 0, 0.0)


class SleepingPart(NamedTuple):
    """As large as a gradient."""

    G: Any
    blocks: float


def no_sleep(at: Weights) -> SleepingPart:
    """Return the part of no rows."""
    return SleepingPart(np.zeros(len(at.coef)), 0.0)


def slept(
    seconds: float, _problem: Any, _at: Weights, _block: Block, part: SleepingPart
) -> SleepingPart:
    """Sleep for a block."""
    time.sleep(seconds)
    return part._replace(blocks=part.blocks + 1.0)


def sleeping_sum(seconds: float) -> Sum:
    """Return a sum over chunks each of which takes so long, and next to no processor."""
    return Sum("reduce-sleep", no_sleep, partial(slept, seconds))


class SleepingState(NamedTuple):
    """As large as averaged SGD's."""

    W: Any
    steps: int


def stepped_asleep(
    seconds: float, _problem: Any, _stats: Any, state: SleepingState, _block: Block
) -> SleepingState:
    """Sleep for a block."""
    time.sleep(seconds)
    return state._replace(steps=state.steps + 1)


def first_state(_problem: Any, _stats: Any, states: list[SleepingState]) -> SleepingState:
    """Return one of several states."""
    return states[0]


def no_metrics(_state: SleepingState) -> dict[str, float]:
    """Return nothing for the log."""
    return {}


def sleeping_walk(seconds: float) -> Walk:
    """Return a walk each of whose windows takes so long, and next to no processor."""
    step = partial(stepped_asleep, seconds)
    return Walk("walk-sleep", step, first_state, "stored", no_metrics)


def one_row(_chunk: int) -> int:
    """Return the rows of a chunk."""
    return 1


def largest_of_chunks(_together: int) -> tuple[int, int]:
    """Return the rows and values of the largest window."""
    return 1, 1


def sleeping_job(spans: int, columns: int, streams: int = 1) -> Job:
    """Return a job on a data set of so many chunks, each a span, of which nothing is stored."""
    manifest = SimpleNamespace(
        nnz=CHUNK_VALUES * spans, n_chunks=spans, fingerprint="", n_rows=spans, rows_of=one_row,
        chunks=SimpleNamespace(
            largest_together=largest_of_chunks, nnz=np.full(spans, CHUNK_VALUES)
        ),
    )  # fmt: skip
    dataset = SimpleNamespace(manifest=manifest, folder=SimpleNamespace(is_local=True))
    plan = WindowPlan(spans, 1, streams, 0)
    return Job(
        dataset, problem=None, stats=SimpleNamespace(n=spans, d=1, shuffled=True),
        rule=TargetRule(), windows=plan, rows=NoRows(), sum_bytes=STATE_BYTES * columns,
    )  # fmt: skip
