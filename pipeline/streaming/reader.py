"""The thread that reads and decodes the next windows while a kernel steps the current one."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Queue

import numpy as np
from numpy.typing import NDArray

from pipeline.streaming.targets import TargetRule
from pipeline.streaming.windows import Window, WindowPlan, row_order
from solvers.protocol import Block
from solvers.rows import DenseRows, Rows, SparseRows
from storage.dataset import Dataset, TableBuffer
from storage.row_state import NOTHING_YET, RowStateStore
from storage.table import DenseTable, Table

#: Buffers to read into; None: stop reading.
Free = Queue[TableBuffer | None]
#: Blocks read, in order; None: there are no more; an error: raise it.
Ready = Queue[tuple[TableBuffer, Block] | BaseException | None]


@dataclass
class ReadingStatistics:
    """What reading took, for the log: seconds of the reader's thread and of waiting for it."""

    bytes_read: int = 0
    read_s: float = 0.0
    wait_s: float = 0.0
    fetch_s: float = 0.0  # of read_s: the store's part, without checking and decoding


@dataclass(frozen=True)
class RowStateSource:
    """Where the numbers kept per row come from; without a version they are 0.

    Several models have a version each, and as many numbers each.
    """

    store: RowStateStore
    versions: tuple[int, ...] = ()
    numbers: int = 1  # per row

    def read(self, window: Window, rows: Sequence[int]) -> tuple[NDArray[np.float64], int]:
        """Return the numbers of a window's rows, chunk after chunk, and the bytes read."""
        shape = (sum(rows), self.numbers)[: min(self.numbers, 2)]
        values, done, size = np.empty(shape), 0, 0
        for chunk, count in zip(window.chunks, rows, strict=True):
            size += self._read_chunk(chunk, values[done : done + count])
            done += count
        return values, size

    def _read_chunk(self, chunk: int, out: NDArray[np.float64]) -> int:
        newest, *older = sorted(set(self.versions), reverse=True) or [NOTHING_YET]
        size = self.store.read_into(newest, chunk, out)
        for version in older:
            kept = np.empty_like(out)
            size += self.store.read_into(version, chunk, kept)
            mine = np.repeat(np.array(self.versions) == version, self.numbers // len(self.versions))
            out[:, mine] = kept[:, mine]
        return size

    def write(self, sweep: int, window: Window, rows: Sequence[int], block: Block) -> None:
        """Write the numbers of a window's rows as the version of a sweep."""
        done = 0
        for chunk, count in zip(window.chunks, rows, strict=True):
            self.store.write(sweep, chunk, block.row_state[done : done + count])
            done += count


@dataclass
class WindowReader:
    """Yields one Block per window, decoded ahead into buffers that are used again.

    A block is valid until the next one is asked for.  Errors of the reading thread are raised
    where the block would have come.
    """

    dataset: Dataset
    plan: WindowPlan
    rule: TargetRule
    capacity: tuple[int, int]  # rows and non-zeros that every window fits in
    row_state: RowStateSource | None = None
    ahead: int = 2  # windows decoded before they are asked for
    statistics: ReadingStatistics = field(default_factory=ReadingStatistics)

    def blocks(self, windows: Sequence[Window]) -> Generator[Block]:
        """Read the windows in turn."""
        free: Free = Queue()
        ready: Ready = Queue()
        for _ in range(min(self.ahead + 1, max(1, len(windows)))):
            free.put(TableBuffer(self.dataset.manifest, *self.capacity))
        thread = threading.Thread(
            target=self._read_all, args=(windows, free, ready), name="fewpass-reader"
        )
        thread.start()
        try:
            yield from self._hand_out(free, ready)
        finally:
            free.put(None)  # a reader that waits for a buffer waits no longer
            thread.join()

    def _hand_out(
        self,
        free: Free,
        ready: Ready,
    ) -> Iterator[Block]:
        while True:
            asked = time.perf_counter()
            item = ready.get()
            self.statistics.wait_s += time.perf_counter() - asked
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            buffer, block = item
            try:
                yield block
            finally:
                free.put(buffer)

    def _read_all(
        self,
        windows: Sequence[Window],
        free: Free,
        ready: Ready,
    ) -> None:
        try:
            for window in windows:
                buffer = free.get()
                if buffer is None:
                    return
                ready.put((buffer, self._read(window, buffer)))
            ready.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the block is awaited
            ready.put(error)

    def _read(self, window: Window, buffer: TableBuffer) -> Block:
        began, fetched = time.perf_counter(), buffer.fetch_s
        buffer.clear()
        for chunk in window.chunks:
            self.statistics.bytes_read += self.dataset.read_into(chunk, buffer)
        table = buffer.table()
        block = Block(
            rows=row_view(table),
            y=np.ascontiguousarray(self.rule.read(table.target)),
            weight=unit_weights(table, self.dataset, self.rule),
            order=row_order(self.plan, window, table.n_rows),
            row_state=self._row_state(window),
        )
        self.statistics.read_s += time.perf_counter() - began
        self.statistics.fetch_s += buffer.fetch_s - fetched
        return block

    def _row_state(self, window: Window) -> NDArray[np.float64]:
        if self.row_state is None:
            return np.empty(0)
        values, size = self.row_state.read(window, chunk_rows(self.dataset, window))
        self.statistics.bytes_read += size
        return values


def chunk_rows(dataset: Dataset, window: Window) -> list[int]:
    """Return the rows of each of a window's chunks."""
    return [dataset.manifest.chunks.rows[chunk] for chunk in window.chunks]


def row_view(table: Table) -> Rows:
    """See a table as kernels do; no copy."""
    if isinstance(table, DenseTable):
        return DenseRows(table.X)
    unsigned = np.uint32 if table.indices.itemsize == 4 else np.uint64
    return SparseRows(table.data, table.indices.view(unsigned), table.indptr)


def unit_weights(table: Table, dataset: Dataset, rule: TargetRule) -> NDArray[np.float64]:
    """Row weights scaled so that their mean over the whole set is 1, times their class's."""
    weights = dataset.manifest.weights
    if table.weight is None or weights is None:
        return rule.weigh(table.target)
    return rule.weigh(table.target) * table.weight * (dataset.manifest.n_rows / weights.total)
