"""The thread that reads and decodes the next windows while a kernel steps the current one."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from queue import Queue
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.streaming.row_numbers import RowNumbers
from pipeline.streaming.targets import TargetRule
from pipeline.streaming.windows import Window, WindowPlan, row_order
from solvers.protocol import Block
from solvers.rows import DenseRows, Rows, SparseRows
from storage.dataset import Dataset, TableBuffer
from storage.row_state import NOTHING_YET
from storage.table import DenseTable, Table


class WindowRows(NamedTuple):
    """The rows of a window's chunks, maybe among others."""

    rows: Rows
    y: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,)
    places: list[slice]  # where each chunk's rows are
    bytes_read: int
    fetch_s: float  # of reading them: the store's part


class RowSource(Protocol):
    """Something that has the rows of chunks."""

    def announce(self, chunk: int) -> None:
        """Say that a chunk is about to be asked for."""

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return the rows of these chunks."""


#: Where to read to; None: stop reading.
Free = Queue[RowSource | None]
#: Blocks read, in order; None: there are no more; an error: raise it.
Ready = Queue["tuple[RowSource, VisitedBlock] | BaseException | None"]


@dataclass
class ReadingStatistics:
    """What reading took, for the log: seconds of the reader's thread and of waiting for it."""

    bytes_read: int = 0
    read_s: float = 0.0
    wait_s: float = 0.0
    fetch_s: float = 0.0  # of read_s: the store's part, without checking and decoding
    permute_s: float = 0.0  # of read_s: drawing the rows' order
    ahead: bool = False  # whether a thread read, beside the steps


@dataclass(frozen=True)
class RowStateSource:
    """Where the numbers kept per row come from; without a version they are 0.

    Several models have a version each, and as many numbers each.
    """

    store: RowNumbers
    versions: tuple[int, ...] = ()
    numbers: int = 1  # per row

    def read(self, window: Window, found: WindowRows) -> tuple[NDArray[np.float64], int]:
        """Return the numbers of a window's rows, each where its row is, and the bytes read."""
        shape = (found.y.shape[0], self.numbers)[: min(self.numbers, 2)]
        values = np.zeros(shape)  # no memory is taken where nothing is written
        each = zip(window.chunks, found.places, strict=True)
        return values, sum(self._read_chunk(chunk, values[place]) for chunk, place in each)

    def _read_chunk(self, chunk: int, out: NDArray[np.float64]) -> int:
        newest, *older = sorted(set(self.versions), reverse=True) or [NOTHING_YET]
        size = self.store.read_into(newest, chunk, out)
        for version in older:
            kept = np.empty_like(out)
            size += self.store.read_into(version, chunk, kept)
            mine = np.repeat(np.array(self.versions) == version, self.numbers // len(self.versions))
            out[:, mine] = kept[:, mine]
        return size

    def write(self, sweep: int, window: Window, places: Sequence[slice], block: Block) -> None:
        """Write the numbers of a window's rows as the version of a sweep."""
        for chunk, place in zip(window.chunks, places, strict=True):
            self.store.write(sweep, chunk, block.row_state[place])


class DecodedRows:
    """A window's rows, decoded one chunk after the other into a buffer that is used again."""

    def __init__(self, dataset: Dataset, rule: TargetRule, capacity: tuple[int, int]) -> None:
        self._dataset, self._rule = dataset, rule
        self._buffer = TableBuffer(dataset.manifest, *capacity)

    def announce(self, chunk: int) -> None:
        """Let the disk fetch what will be decoded."""
        self._dataset.announce(chunk)

    def load(self, chunks: Sequence[int]) -> WindowRows:
        """Return the rows of these chunks; those asked for before are overwritten."""
        buffer, fetched = self._buffer, self._buffer.fetch_s
        buffer.clear()
        size, ends = 0, [0]
        for chunk in chunks:
            size += self._dataset.read_into(chunk, buffer)
            ends.append(buffer.n_rows)
        table = buffer.table()
        return WindowRows(
            rows=row_view(table),
            y=np.ascontiguousarray(self._rule.read(table.target)),
            weight=unit_weights(table, self._dataset, self._rule),
            places=[slice(a, b) for a, b in pairwise(ends)],
            bytes_read=size,
            fetch_s=buffer.fetch_s - fetched,
        )


class VisitedBlock(NamedTuple):
    """A block, and where in it the rows of its window's chunks are."""

    block: Block
    places: list[slice]


@dataclass
class WindowReader:
    """Yields one block per window, read ahead by a thread.

    A block is valid until the next one is asked for.  Errors of the reading thread are raised
    where the block would have come.
    """

    dataset: Dataset
    plan: WindowPlan
    rule: TargetRule
    capacity: tuple[int, int]  # rows and non-zeros that every window fits in
    row_state: RowStateSource | None = None
    resident: RowSource | None = None  # has all rows; None: windows are decoded into buffers
    ahead: int = 2  # windows read before they are asked for; 0: no thread
    statistics: ReadingStatistics = field(default_factory=ReadingStatistics)

    def blocks(self, windows: Sequence[Window]) -> Generator[VisitedBlock]:
        """Read the windows in turn."""
        if self.ahead == 0 or len(windows) == 1:
            return self._one_by_one(windows)
        self.statistics.ahead = True
        return self._read_ahead(windows)

    def _one_by_one(self, windows: Sequence[Window]) -> Generator[VisitedBlock]:
        source = self._source()
        for window, new in with_new_chunks(windows):
            asked = time.perf_counter()
            found = self._read(window, new, source)
            self.statistics.wait_s += time.perf_counter() - asked
            yield found

    def _read_ahead(self, windows: Sequence[Window]) -> Generator[VisitedBlock]:
        free: Free = Queue()
        ready: Ready = Queue()
        for _ in range(min(self.ahead + 1, len(windows))):
            free.put(self._source())
        thread = threading.Thread(
            target=self._read_all, args=(windows, free, ready), name="fewpass-reader"
        )
        thread.start()
        try:
            yield from self._hand_out(free, ready)
        finally:
            free.put(None)  # a reader that waits for a buffer waits no longer
            thread.join()

    def _source(self) -> RowSource:
        return self.resident or DecodedRows(self.dataset, self.rule, self.capacity)

    def _hand_out(self, free: Free, ready: Ready) -> Iterator[VisitedBlock]:
        while True:
            asked = time.perf_counter()
            item = ready.get()
            self.statistics.wait_s += time.perf_counter() - asked
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            source, found = item
            try:
                yield found
            finally:
                free.put(source)

    def _read_all(self, windows: Sequence[Window], free: Free, ready: Ready) -> None:
        try:
            for window, new in with_new_chunks(windows):
                source = free.get()
                if source is None:
                    return
                ready.put((source, self._read(window, new, source)))
            ready.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the block is awaited
            ready.put(error)

    def _read(self, window: Window, new: Sequence[int], source: RowSource) -> VisitedBlock:
        began = time.perf_counter()
        for chunk in new:
            source.announce(chunk)
        found = source.load(window.chunks)
        values, size = np.empty(0), 0
        if self.row_state is not None:
            values, size = self.row_state.read(window, found)
        loaded = time.perf_counter()
        order = row_order(self.plan, window, numbers_in(found.places))
        self.statistics.permute_s += time.perf_counter() - loaded
        block = Block(found.rows, found.y, found.weight, order, values)
        self.statistics.bytes_read += found.bytes_read + size
        self.statistics.read_s += time.perf_counter() - began
        self.statistics.fetch_s += found.fetch_s
        return VisitedBlock(block, found.places)


def with_new_chunks(windows: Sequence[Window]) -> Iterator[tuple[Window, list[int]]]:
    """Yield every window with the chunks to announce before it is read.

    Those of the window after it, so that the disk never waits for the decoding; its own are among
    them only where it is the first.
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
    return [dataset.manifest.chunks.rows[chunk] for chunk in window.chunks]


def cut_rows(rows: Rows, start: int, stop: int) -> Rows:
    """See rows start <= i < stop; no copy."""
    if isinstance(rows, DenseRows):
        return DenseRows(rows.X[start:stop])
    return rows._replace(indptr=rows.indptr[start : stop + 1])


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
