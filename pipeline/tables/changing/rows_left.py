"""A generation without some rows: the others in their order, and their statistics.

Chunks before the first row that goes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.pipeline.rows.windows import chunk_bytes
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.changing.one_change import NextGeneration, PlacedChunk, StoredRows
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import RETAINED_BYTES, ChangeRecord
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import Table, concatenate, cut

ShowShare = Callable[[float, str], None]
Rows = NDArray[np.int64]


class ChunksAtOnce(NamedTuple):
    """Numbers of chunks that are read and written at a time: as memory allows."""

    threads: int
    in_flight: int  # chunks that are read, or written, at a time

    @classmethod
    def of(cls, dataset: Dataset, budget: Budget, threads: int) -> ChunksAtOnce:
        """Return them for a data set; one at least."""
        one = dataset.manifest
        chunk = chunk_bytes(one) + one.chunk_rows * RETAINED_BYTES * len(one.retained)
        left = budget.rows - Budget.written_chunk * chunk  # those between reading and writing
        in_flight = int(np.clip(left // ((1 + Budget.written_chunk) * chunk), 1, threads + 1))
        return cls(min(threads, in_flight), in_flight)


def rewrite_without(
    before: Dataset, gone: list[Rows], work_dirs: Sequence[WorkDir], at_once: ChunksAtOnce,
    progress: ShowShare,
) -> None:  # fmt: skip
    """Make a generation without some rows the present one, and remove all others."""
    n_gone = sum(len(own) for own in gone)
    first = _first_written(before, gone)
    chunk_rows = before.manifest.chunk_rows
    n_written = before.n_rows - n_gone - first * chunk_rows
    made = NextGeneration(before, n_written, work_dirs)
    left = RowsLeft(before, gone, first, at_once, progress)
    with ThreadPoolExecutor(at_once.threads, "forget") as pool:

        def write(numbered: tuple[int, Table]) -> PlacedChunk:
            return made.fresh(numbered[0], left.form.write(made.writer, *numbered))

        chunks = enumerate(_in_chunks(left.tables(), chunk_rows))
        fresh = [*ordered_map(pool, write, chunks, at_once.in_flight)]
    change = ChangeRecord(change="forget", parent=before.manifest.fingerprint, rows=n_gone)
    assert left.rows is not None, "rows are left"
    made.commit(
        [*map(made.shared, range(first)), *fresh],
        left.rows,
        left.columns.sourced(before.column_order, before.n_features),
        change,
    )


def _first_written(before: Dataset, gone: list[Rows]) -> int:
    """Return the first chunk that is written anew: the first with a row that goes.

    Where no row is left from there on it is the one before, as a group of chunks has rows.
    """
    n_left = before.n_rows - sum(len(own) for own in gone)
    first = next(k for k, own in enumerate(gone) if own.size)
    return min(first, (n_left - 1) // before.manifest.chunk_rows)


def _in_chunks(tables: Iterable[Table], size: int) -> Iterator[Table]:
    """Yield tables of `size` rows, the last one of fewer, of rows that follow each other."""
    left: list[Table] = []
    missing = size
    for table in tables:
        start = 0
        while table.n_rows - start >= missing:
            yield concatenate([*left, cut(table, start, start + missing)])
            left, start, missing = [], start + missing, size
        if start < table.n_rows:
            left.append(cut(table, start, table.n_rows))
            missing -= table.n_rows - start
    if left:
        yield concatenate(left)


class RowsLeft:
    """Rows of a data set without some, and their statistics once all were read.

    Parameters
    ----------
    before
        The data set.
    gone
        Rows of every chunk that go.
    first
        The first chunk that is written anew.
    """

    def __init__(
        self,
        before: Dataset,
        gone: list[Rows],
        first: int,
        at_once: ChunksAtOnce,
        progress: ShowShare,
    ) -> None:
        self.before, self.gone, self.first = before, gone, first
        self.at_once, self.progress = at_once, progress
        self.form = StoredRows(before)
        self.rows: RowSummary | None = None
        self.columns = ColumnStatistics(before.manifest.layout, before.n_features)

    def tables(self) -> Iterator[Table]:
        """Yield what stays from the first row that goes on; count all that stays."""
        n_chunks = self.before.n_chunks
        with ThreadPoolExecutor(self.at_once.threads, "forget-read") as pool:
            tables = ordered_map(pool, self.form.read, range(n_chunks), self.at_once.in_flight)
            for number, table in enumerate(tables):
                stay = np.delete(np.arange(table.n_rows), self.gone[number])
                left = Selection(table, stay).rows()
                self._count(self.form.values(left), (number + 1) / n_chunks)
                if number >= self.first and left.n_rows:
                    yield left

    def _count(self, table: Table, share: float) -> None:
        if table.n_rows:
            self.columns.add(table)
            own = RowSummary.of(table, self.before.manifest.targets)
            self.rows = own if self.rows is None else self.rows.joined(own)
        n_rows = 0 if self.rows is None else self.rows.n_rows
        self.progress(share, f"rewriting, {counted(n_rows, 'row')}")
