"""Delete rows of a data set for good: a new generation without them, and nothing of any other.

Rows keep their order, and chunks before the first row that goes stay as they are.  Once the
manifest is replaced, the objects of all earlier generations are removed, which the next change sees
to where this one was killed between.  Test rows that the ingest held out go the same way, first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.rows.column_statistics import NAMES
from fewpass.pipeline.settings.change_plans import ForgetPlan
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.changing.condition import Condition
from fewpass.pipeline.tables.changing.dealing import rewritten
from fewpass.pipeline.tables.changing.one_change import (
    NextGeneration,
    changing,
    held_out_by,
    staging_of,
)
from fewpass.pipeline.tables.changing.row_summary import RowSummary
from fewpass.pipeline.tables.changing.stored_rows import StoredRows
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import ChangeRecord
from fewpass.storage.ordered import ordered_map
from fewpass.storage.set_generations import prune_generations
from fewpass.storage.table import Table
from fewpass.storage.writer import DatasetWriter

ShowShare = Callable[[float, str], None]
Rows = NDArray[np.int64]


class ForgetResult(BaseModel):
    """What came of a forget.

    `rows` are those of the data set now, `forgotten` those that went, `unmatched` how many values
    of the list no row had.  `learnt_from` are the fingerprints of the generations that had them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    generation: int
    rows: int
    forgotten: int
    test_dataset: str | None = None
    test_rows: int = 0
    test_forgotten: int = 0
    unmatched: int = 0
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    learnt_from: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Runs that have learnt from one of these; they are as they were."""
    retrained: tuple[str, ...] = ()
    """Runs trained anew."""
    fingerprint: str


def forget(plan: ForgetPlan, *, progress: ShowShare = lambda _share, _said: None) -> ForgetResult:
    """Delete rows of a data set, and of its test rows; finish a deletion that was cut short.

    Parameters
    ----------
    plan
        Which rows of which data set.
    progress
        Called with the share that is done, and words for it.

    Returns
    -------
    ForgetResult
        With nothing forgotten where no row is meant.

    Raises
    ------
    BadInput
        A condition that cannot be read, or on a column that is not kept; no row would be left.
    NotADataset, BusyPlace, FileNotFoundError, PermissionError, OSError
        As for `ingest`.
    """
    began = time.perf_counter()
    threads = plan.threads or len(os.sched_getaffinity(0))
    opened = Dataset.open(plan.dataset, plan.storage_options)
    retained, place = opened.manifest.retained, opened.folder.url
    condition = Condition(plan.where, retained, place, plan.storage_options)
    test = held_out_by(opened, plan.storage_options)
    sets = [opened] if test is None else [test, opened]
    done: list[tuple[Dataset, int]] = []
    for each in sets:
        with changing(plan.model_copy(update={"dataset": each.folder.url})):
            now = Dataset.open(each.folder)
            done.append(_without(now, condition, threads, progress))
            for unfinished in staging_of(now):  # an append that was cut short may have such rows
                unfinished.delete_tree()
    now, forgotten = done[-1]
    tested = done[0] if test is not None else None
    changes = now.manifest.changes
    return ForgetResult(
        dataset=now.folder.url,
        generation=now.manifest.generation,
        rows=now.n_rows,
        forgotten=forgotten,
        test_dataset=tested[0].folder.url if tested else None,
        test_rows=tested[0].n_rows if tested else 0,
        test_forgotten=tested[1] if tested else 0,
        unmatched=condition.unmatched,
        seconds=time.perf_counter() - began,
        peak_memory_bytes=peak_memory_bytes(),
        learnt_from=tuple(change.parent for change in changes),
        fingerprint=now.manifest.fingerprint,
    )


def _without(
    before: Dataset, condition: Condition, threads: int, progress: ShowShare
) -> tuple[Dataset, int]:
    """Return a data set without the rows that are meant, and how many there were."""
    stay = _staying(before, condition, threads)
    gone = [before.manifest.rows_of(k) - len(own) for k, own in enumerate(stay)]
    if not sum(gone):
        return before, 0
    made = NextGeneration.after(before)
    writer = made.writer(before.n_rows - sum(gone))
    first = next(k for k, n in enumerate(gone) if n)
    summary = RowSummary(before)
    records = _written(before, writer, stay, first, summary, threads, progress)
    _finish(before, writer, records, summary, sum(gone))
    now = Dataset.open(before.folder)
    prune_generations(now.folder, now.manifest)
    return now, sum(gone)


def _staying(dataset: Dataset, condition: Condition, threads: int) -> list[Rows]:
    """Return the rows of every chunk that stay."""
    with ThreadPoolExecutor(threads, "forget-look") as pool:
        every = ordered_map(pool, dataset.read_retained, range(dataset.n_chunks), threads + 1)
        return [np.flatnonzero(~condition.of(retained)) for retained in every]


def _written(
    before: Dataset,
    writer: DatasetWriter,
    stay: list[Rows],
    first: int,
    summary: RowSummary,
    threads: int,
    progress: ShowShare,
) -> list[ChunkRecord]:
    """Have the chunks before the first row that goes as they are, and write all others."""
    records = {
        k: writer.link_chunk(k, before.generation_folder, before.facts_of(k), k)
        for k in range(first)
    }
    form = StoredRows(before)

    def rest(tables: Iterator[Table]) -> Iterator[Selection]:
        """Yield what stays of all rows, from the first row that goes on; all of it is counted."""
        for number, table in enumerate(tables):
            left = Selection(table, stay[number]).rows()
            summary.add(form.values(left))
            progress((number + 1) / before.n_chunks, f"rewriting, {counted(summary.n_rows, 'row')}")
            if number >= first and left.n_rows:
                yield Selection(left, np.arange(left.n_rows))

    with ThreadPoolExecutor(threads, "forget-read") as pool:
        tables = ordered_map(pool, form.read, range(before.n_chunks), threads + 1)
        records |= dict(rewritten(rest(tables), form, writer, first, threads))
    return [records[k] for k in range(writer.n_chunks)]


def _finish(
    before: Dataset,
    writer: DatasetWriter,
    records: list[ChunkRecord],
    summary: RowSummary,
    gone: int,
) -> None:
    """Write the statistics, and replace the manifest."""
    manifest, order = before.manifest, before.column_order
    for name in NAMES:
        numbers = summary.columns.column(name, before.n_features)
        writer.write_columns({name: order.sourced(numbers)})
    for name in ("scale", "shift"):
        if name in manifest.columns:
            writer.write_columns({name: before.column(name)})
    writer.write_column_order(order)
    change = ChangeRecord(change="forget", parent=manifest.fingerprint, rows=gone)
    writer.commit(
        records,
        targets=summary.targets,
        weights=summary.weights,
        offsets=summary.offsets,
        scaling=manifest.scaling,
        shuffle=manifest.shuffle,
        sources=manifest.sources,
        bad_rows=manifest.bad_rows,
        versions=manifest.versions,
        schema=before.schema,
        hashed_names=before.hashed_names,
        own_norms=summary.norms,
        changes=(*manifest.changes, change),
        home=before.folder,
    )
