"""Rows of a source that is read once, as a stream of blocks: a buffer of rows for each window.

The buffers are made by readers of files (`tables/stream`).  Here they are read ahead of the steps
and put in random order, and new columns are announced: a state is resized before it is stepped by
rows that have more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol, Self

import numpy as np

from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.running_moments import GROWTH, Sums, moments_of, resized
from fewpass.pipeline.rows.source_position import LeftOut, SourcePosition
from fewpass.pipeline.rows.stream import Arrival, ReadingStatistics, VisitedBlock
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import Window, WindowPlan, row_order
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.protocol import ColumnMoments
from fewpass.storage.dataset import Dataset
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table

FEW_COLUMNS = 512  # up to here a state has no more than rows have


class Buffer(NamedTuple):
    """Rows that are shuffled together, targets and features ready to be learnt from."""

    table: Table
    bytes_read: int
    position: SourcePosition  # after it
    sums: Sums | None = None  # of the values of every column so far, where they are counted


class OpenedSource(Protocol):
    """A source whose first rows were read, as a training uses it (`tables/stream`)."""

    @property
    def plan(self) -> TrainingPlan:
        """The plan, its source found from anywhere."""

    @property
    def dataset(self) -> MemoryDataset:
        """The first rows, described as the data set that all of them could become."""

    @property
    def first(self) -> Buffer:
        """The first rows."""

    @property
    def may_grow(self) -> bool:
        """Return whether rows to come may have columns that the first do not."""

    @property
    def likely_columns(self) -> int:
        """Return the number of columns that a state should have to begin with."""

    @property
    def reserved_bytes(self) -> int:
        """Memory of pieces being parsed, and of held-out rows."""

    @property
    def endless(self) -> bool:
        """Return whether the number of rows to come is unknown."""

    def notes(self) -> tuple[str, ...]:
        """Return remarks on the rows that were read so far, in sentences."""

    def encoded(self) -> dict[str, str]:
        """Return a description of every encoded column, by name."""

    def require_seekable(self) -> None:
        """Raise BadInput where it cannot be read again."""

    def count_columns(self) -> Sums:
        """Count the values of every column from the first row on; return the sums so far."""

    def count_on(self, sums: Sums) -> None:
        """Count on from the sums of an earlier session."""

    def buffers(self, start: SourcePosition, buffer_bytes: int) -> Generator[Buffer]:
        """Yield the buffers after a position that is not the beginning; once."""

    def free_first_rows(self) -> None:
        """Free the memory of the first rows."""

    @property
    def left_out(self) -> LeftOut:
        """Rows left out of the pieces that were read."""

    def held_out(self, n_features: int) -> Dataset | None:
        """Return the rows that nothing is learnt from; None where there are none."""

    def close(self) -> None:
        """Read no further."""


class SourceRows:
    """The stream of blocks of an opened source; its rows come once.

    Attributes
    ----------
    n_columns : int
        Of states.
    sums : numpy.ndarray or None
        Of the values of every column up to the newest block, where they are counted.

    Parameters
    ----------
    source
        Where they come from.
    rule
        How targets are read.
    buffer_bytes
        Most that the rows of a buffer take.
    n_columns
        Of the state to begin with.
    require_memory
        Called with a number of columns before a state gets them; raises BadInput where they do not
        fit.
    sums
        Of the first rows.
    """

    def __init__(
        self, source: OpenedSource, rule: TargetRule, buffer_bytes: int, n_columns: int,
        require_memory: Callable[[int], None], sums: Sums | None,
    ) -> None:  # fmt: skip
        self.source, self.n_columns, self.sums = source, n_columns, sums
        self.statistics = ReadingStatistics()
        self._rule, self._buffer_bytes = rule, buffer_bytes
        self._require_memory = require_memory
        self._start = SourcePosition()
        self._moments: ColumnMoments | None = None  # written over from block to block
        self._ahead: _ReadAhead | None = None
        self._ended = False

    def start_at(self, position: SourcePosition, sums: Sums | None) -> None:
        """Go on from the position of an earlier session."""
        self._start = position
        self._resize(position.room_for)
        self.sums = sums
        if sums is not None:
            self.source.count_on(sums)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ahead is not None:
            self._ahead.close()

    def blocks(self, windows: Sequence[Window]) -> Generator[VisitedBlock]:
        for window in windows:
            self.statistics = ReadingStatistics()
            buffer, waited = self._next()
            if buffer is None:
                return
            self.statistics.wait_s, self.statistics.bytes_read = waited, buffer.bytes_read
            yield self._arrived(window, buffer)
            del buffer

    def _next(self) -> tuple[Buffer | None, float]:
        source, begins = self.source, self._ahead is None and not self._start.windows
        if self._ahead is None:
            after = source.first.position if begins else self._start
            self._ahead = _ReadAhead(source.buffers(after, self._buffer_bytes))
        if begins:
            return source.first, 0.0
        source.free_first_rows()
        buffer, waited = self._ahead.next()
        self._ended = buffer is None
        return buffer, waited

    def finish(self) -> LeftOut:
        """Read to the end without learning; return the rows left out of all."""
        while not self._ended:
            self._next()
        return self.source.left_out

    def _arrived(self, window: Window, buffer: Buffer) -> VisitedBlock:
        """See a buffer as kernels do, its rows in a random order drawn by its number."""
        at, source = buffer.position, self.source
        if at.n_features > self.n_columns:
            many = at.n_features > FEW_COLUMNS  # few cost little, and a method may take no more
            self._resize(max(at.n_features, int(GROWTH * self.n_columns) if many else 0))
        if buffer.sums is not None:
            self.sums = resized(buffer.sums, self.n_columns)
            self._moments = moments_of(self.sums, at.rows, self._moments)
        rows, plan = np.arange(buffer.table.n_rows), WindowPlan(1, 1, 1, source.plan.seed)
        order = row_order(plan, window, rows)
        block = dataset_block(buffer.table, source.dataset, self._rule, order)
        position = at._replace(room_for=self.n_columns)
        return VisitedBlock(block, [], Arrival(position, self._moments))

    def _resize(self, n_columns: int) -> None:
        if n_columns != self.n_columns:
            self._require_memory(n_columns)
            self.n_columns = n_columns


class _ReadAhead:
    """Buffers in their order, made by a thread from now on: one ahead of the one that is stepped.

    While a buffer is stepped one more is made, and no third one is begun.
    """

    def __init__(self, buffers: Generator[Buffer]) -> None:
        self._buffers = buffers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fewpass-source")
        self._ready = self._made()

    def _made(self) -> Future[Buffer | None]:
        return self._thread.submit(next, self._buffers, None)

    def close(self) -> None:
        """Make no more, and wait for the thread."""
        self._thread.shutdown(cancel_futures=True)
        self._buffers.close()

    def next(self) -> tuple[Buffer | None, float]:
        """Return the next buffer, None after the last, and the seconds that it was waited for."""
        asked = time.perf_counter()
        made = self._ready.result()
        self._ready = self._made()
        return made, time.perf_counter() - asked
