"""The threads that read and decode the next windows while a kernel steps the current one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import RowSource, WindowRows, borrow_rows, return_buffer
from fewpass.pipeline.rows.row_state import RowStates
from fewpass.pipeline.rows.stream import ReadingStatistics, VisitedBlock
from fewpass.pipeline.rows.targets import TargetRule, folds_in
from fewpass.pipeline.rows.windows import Window, WindowPlan, row_order
from fewpass.solvers.protocol import Block
from fewpass.storage.dataset import Dataset
from fewpass.storage.row_state_store import NOTHING_YET, Records, StoredRowState


@dataclass(frozen=True)
class RowStateSource:
    """The store of numbers per row; without a version they are 0.

    Several models have a version each, and as many numbers each.

    Attributes
    ----------
    written : list of StoredRowState
        Parts written so far, for the records.
    """

    store: RowStates
    versions: tuple[int, ...] = ()
    numbers: int = 1  # per row
    records: Records = field(default_factory=dict)  # of what is going to be read
    written: list[StoredRowState] = field(default_factory=list)

    def read(self, window: Window, rows: WindowRows) -> tuple[NDArray[np.float64], int]:
        """Return the numbers of a window's rows, at the rows' places, and the bytes read."""
        shape = (rows.y.shape[0], self.numbers)[: min(self.numbers, 2)]
        values = np.zeros(shape)  # untouched pages take no memory
        each = zip(window.chunks, rows.places, strict=True)
        return values, sum(self._read_chunk(chunk, values[place]) for chunk, place in each)

    def _read_chunk(self, chunk: int, out: NDArray[np.float64]) -> int:
        newest, *older = sorted(set(self.versions), reverse=True) or [NOTHING_YET]
        size = self.store.read_into(newest, chunk, out, self.records.get((newest, chunk)))
        for version in older:
            stored_values, stored = np.empty_like(out), self.records.get((version, chunk))
            size += self.store.read_into(version, chunk, stored_values, stored)
            mine = np.repeat(np.array(self.versions) == version, self.numbers // len(self.versions))
            out[:, mine] = stored_values[:, mine]
        return size

    def write(self, sweep: int, window: Window, places: Sequence[slice], block: Block) -> None:
        """Write the numbers of a window's rows as the version of a sweep."""
        for chunk, place in zip(window.chunks, places, strict=True):
            stored = self.store.write(sweep, chunk, block.row_state[place])
            if stored is not None:
                self.written.append(StoredRowState(chunk, stored))


@dataclass
class WindowReader:
    """The stream of blocks of a data set's rows, stored or in memory, read ahead by threads.

    A block is valid until the next one is asked for.  Errors of the reading threads are raised
    where the block would have come.
    """

    dataset: Dataset
    plan: WindowPlan
    rule: TargetRule
    capacity: tuple[int, int]  # rows and non-zeros that every window fits in
    row_state: RowStateSource | None = None
    resident: RowSource | None = None  # all rows; None: windows are decoded into buffers
    ahead: int = 2  # windows at most that threads read while another one is stepped
    statistics: ReadingStatistics = field(default_factory=ReadingStatistics)

    def blocks(self, windows: Sequence[Window]) -> Generator[VisitedBlock]:
        ahead = 0 if self._are_copied(windows) else min(self.ahead, len(windows) - 1)
        sources = [self._source() for _ in range(ahead + 1)]
        read = self._read_ahead if ahead > 0 else self._one_by_one
        try:
            yield from read(windows, sources)
        finally:
            for source in sources:
                return_buffer(source)

    def _are_copied(self, windows: Sequence[Window]) -> bool:
        """Return whether these windows only have to be copied, which another thread does for more.

        The thread that steps them finds them in its cache then, and there is one buffer.
        """
        chunks = [chunk for window in windows for chunk in window.chunks]
        return self.resident is None and self.dataset.are_copied(chunks)

    def _source(self) -> RowSource:
        return self.resident or borrow_rows(self.dataset, self.rule, self.capacity)

    def _one_by_one(
        self, windows: Sequence[Window], sources: Sequence[RowSource]
    ) -> Iterator[VisitedBlock]:
        for window, new in with_new_chunks(windows):
            yield self._counted(partial(self._read, window, new, sources[0]))

    def _read_ahead(
        self, windows: Sequence[Window], sources: Sequence[RowSource]
    ) -> Generator[VisitedBlock]:
        """Have all sources but one filled at any time, each by a thread."""
        upcoming, free = with_new_chunks(windows), deque(sources)
        pending: deque[tuple[RowSource, Future[tuple[VisitedBlock, int]]]] = deque()
        pool = ThreadPoolExecutor(len(sources) - 1, thread_name_prefix="fewpass-reader")

        def go_on() -> None:
            for window, new in islice(upcoming, len(free)):
                source = free.popleft()
                pending.append((source, pool.submit(self._read, window, new, source)))

        try:
            go_on()
            while pending:
                source, reading = pending.popleft()
                yield self._counted(reading.result)
                free.append(source)
                go_on()
        finally:
            pool.shutdown(cancel_futures=True)

    def _counted(self, read: Callable[[], tuple[VisitedBlock, int]]) -> VisitedBlock:
        """Wait for a window, and count its cost."""
        asked = time.perf_counter()
        visited, n_bytes = read()
        self.statistics.wait_s += time.perf_counter() - asked
        self.statistics.bytes_read += n_bytes
        return visited

    def _read(
        self, window: Window, new: Sequence[int], source: RowSource
    ) -> tuple[VisitedBlock, int]:
        """Return a window's block, and the bytes that were read."""
        for chunk in new:
            source.prefetch(chunk)
        rows = source.load(window.chunks)
        values, size = np.empty(0), 0
        if self.row_state is not None:
            values, size = self.row_state.read(window, rows)
        order = row_order(self.plan, window, numbers_in(rows.places))
        folds = self._folds(window, rows) if self.rule.fold_rows else None
        block = Block(rows.rows, rows.y, rows.weight, order, values, rows.offset, folds)
        return VisitedBlock(block, rows.places), rows.bytes_read + size

    def _folds(self, window: Window, read: WindowRows) -> NDArray[np.int64]:
        """Return the fold of every row that is there, (n,); -1 of those of no chunk."""
        folds, manifest = np.full(len(read.y), -1), self.dataset.manifest
        for chunk, place in zip(window.chunks, read.places, strict=True):
            folds[place] = folds_in(manifest, chunk, len(self.rule.fold_rows))
        return folds


def with_new_chunks(windows: Sequence[Window]) -> Iterator[tuple[Window, list[int]]]:
    """Yield every window with the chunks to prefetch before it is read.

    Those of the window after it, so that the disk never waits for the decoding; the first window's
    own, too.
    """
    for k, window in enumerate(windows):
        upcoming = windows[k + min(k, 1) : k + 2]
        yield window, [chunk for other in upcoming for chunk in other.chunks]


def numbers_in(places: Sequence[slice]) -> NDArray[np.int64]:
    """Return the numbers of the rows that are there, place after place."""
    if all(a.stop == b.start for a, b in pairwise(places)):
        return np.arange(places[0].start, places[-1].stop)
    return np.concatenate([np.arange(place.start, place.stop) for place in places])


def chunk_rows(dataset: Dataset, window: Window) -> list[int]:
    """Return the rows of each of a window's chunks."""
    return [dataset.manifest.rows_of(chunk) for chunk in window.chunks]
