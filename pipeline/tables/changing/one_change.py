"""One change of a data set at a time: who makes it, where it writes, and what it leaves.

A data set and its test rows are locked, the training set first, and then opened; nothing that was
read before the locks is changed.  All of the new generation is written and durable before the
manifest is replaced, which is the one step that readers see; whatever kills a change before leaves
the old generation, and the next change removes what was written of a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.pipeline.settings.change_plans import ChangePlan
from fewpass.pipeline.tables.encoding.expansion import Expansion, expansion_in
from fewpass.pipeline.tables.ingest.set_pair import (
    IngestRecord,
    record_of,
    test_rows_of,
    training_set_of,
)
from fewpass.pipeline.tables.ingest.work_dir import WorkDir, all_owned, looked_at, work_dirs_of
from fewpass.storage.chunk_places import ChunkPlace
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.column_file import Column
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.locations import Location
from fewpass.storage.manifest import ChangeRecord, SourceRecord, place_of_generation
from fewpass.storage.new_file import sync_folder
from fewpass.storage.set_generations import prune_generations, retain, roll_back
from fewpass.storage.table import Table
from fewpass.storage.writer import DatasetWriter


class Change(NamedTuple):
    """Data sets that no other process changes, as they are now."""

    training: Dataset
    test: Dataset | None  # of its test rows
    record: IngestRecord  # of the training set
    work_dirs: list[WorkDir]  # the first for unfinished work; they are emptied at the end
    notes: tuple[str, ...]  # what the user should know of the test rows


@contextmanager
def changing(plan: ChangePlan) -> Iterator[Change]:
    """Keep other changes and ingests out of a data set and its test rows; remove what they left.

    Raises
    ------
    NotADataset
        There is no data set.
    BadInput
        Its test rows are not there.
    BusyPlace
        Another process is changing one of the two.
    PermissionError
        Nothing can be written there.
    """
    place = Location.of(plan.dataset).resolved
    folders = _changed_folders(Folder(place, plan.storage_options))
    for folder in folders:
        folder.require_writable()
    work_dirs = work_dirs_of(folders)
    with all_owned(work_dirs):
        sync_folder(work_dirs[0].path)  # its lock says of what is durable there that it is ours
        training, test, notes = _opened(folders[0])
        if [one.folder.url for one in (training, test) if one] != [one.url for one in folders]:
            raise BusyPlace(f"{place} was ingested anew just now. Give the command again.")
        training, test = _without_leftovers(training, test)
        try:
            yield Change(training, test, record_of(training), work_dirs, notes)
        except BadInput:
            _clear(work_dirs)
            _without_leftovers(*_opened(folders[0])[:2])
            raise
        _clear(work_dirs)


def _changed_folders(folder: Folder) -> list[Folder]:
    """Return the folders of a data set and of its test rows; BusyPlace while they are replaced."""
    opened = looked_at(lambda: _opened(folder), work_dirs_of([folder]))
    return [one.folder for one in opened[:2] if one is not None]


def _opened(folder: Folder) -> tuple[Dataset, Dataset | None, tuple[str, ...]]:
    training = Dataset.open(folder)
    if training.manifest.is_view:
        raise BadInput(
            f"{folder.url} is a view, and has no rows of its own. Change the data set that has "
            "them, and make the view anew."
        )
    test, note = test_rows_of(training)
    return training, test, () if note is None else (note,)


def _without_leftovers(training: Dataset, test: Dataset | None) -> tuple[Dataset, Dataset | None]:
    """Remove what changes left that were killed, and take test rows back that came alone."""
    if test is None:  # perhaps test rows are changed alone
        return _with_whole_appends(training, None), None
    prune_generations(training.folder, training.manifest)
    return training, _with_whole_appends(test, training)


def _with_whole_appends(test: Dataset, training: Dataset | None) -> Dataset:
    """Return test rows without those of an append that the training set has not."""
    last = test.manifest.changes[-1] if test.manifest.changes else None
    if last is not None and last.training:
        training = training or training_set_of(test)
        if training is not None and last.training == training.manifest.fingerprint:
            roll_back(test.folder, test.manifest)
            test = Dataset.open(test.folder)
    prune_generations(test.folder, test.manifest)
    return test


def _clear(work_dirs: list[WorkDir]) -> None:
    for work_dir in work_dirs:
        work_dir.clear()


class PlacedChunk(NamedTuple):
    """A chunk of a generation: where it lies, and its record."""

    place: ChunkPlace
    record: ChunkRecord


class AddedFiles(NamedTuple):
    """The files whose rows came, as a manifest has them."""

    sources: Sequence[SourceRecord]
    bad_rows: Mapping[str, int]  # that were skipped, by file
    versions: Mapping[str, str]  # of the libraries that read them


class NextGeneration:
    """The generation after the present one, in the making: nothing of it is there yet.

    Parameters
    ----------
    before
        The present one.
    n_rows
        Rows that are written for it.
    work_dirs
        Of the change, which commits nothing once another process has taken it over.
    """

    def __init__(self, before: Dataset, n_rows: int, work_dirs: Sequence[WorkDir]) -> None:
        self.before, manifest = before, before.manifest
        self._work_dirs = work_dirs
        self.number = manifest.generation + 1
        place = place_of_generation(self.number)
        before.folder.delete_tree(place)
        self.writer = DatasetWriter(
            before.folder.child(place), manifest.layout, manifest.n_features, n_rows,
            manifest.chunk_rows, manifest.dtype, manifest.has_weight, manifest.has_offset,
            manifest.codes, manifest.retained,
        )  # fmt: skip

    def shared(self, k: int) -> PlacedChunk:
        """Return chunk `k` of the generation before, which this one has as well."""
        one = self.before.manifest
        return PlacedChunk(one.place_of(k), one.chunks.record(k))

    def fresh(self, number: int, record: ChunkRecord) -> PlacedChunk:
        """Return the chunk that was written as `number` for this generation."""
        return PlacedChunk(ChunkPlace(self.number, number), record)

    def commit(
        self, chunks: Sequence[PlacedChunk], rows: RowSummary, columns: Mapping[str, Column],
        change: ChangeRecord, added: AddedFiles | None = None,
    ) -> Dataset:  # fmt: skip
        """Write the statistics, and replace the manifest; remove generations not retained.

        Parameters
        ----------
        chunks
            All of them, in their order.
        rows
            Statistics of all rows.
        columns
            What makes the statistics of columns, in the source's order.
        change
            What made this generation of the one before.
        added
            What came; None: nothing.
        """
        before, one, writer = self.before, self.before.manifest, self.writer
        scaling = [name for name in ("scale", "shift") if name in one.columns]
        same: dict[str, Column] = {name: partial(before.column, name) for name in scaling}
        writer.write_columns({**columns, **same}, before.column_order)
        added = added or AddedFiles([], {}, one.versions)
        places, records = zip(*chunks, strict=True)
        for work_dir in self._work_dirs:
            work_dir.require_owned()
        retain(before.folder, one)
        writer.commit(
            records,
            targets=rows.targets(one.targets),
            weights=rows.weights,
            offsets=rows.offsets,
            scaling=one.scaling,
            shuffle=one.shuffle,
            sources=[*one.sources, *added.sources],
            bad_rows=dict(Counter(one.bad_rows) + Counter(added.bad_rows)),
            versions=added.versions,
            schema=before.schema,
            hashed_names=before.hashed_names,
            changes=(*one.changes, change),
            places=places,
            home=before.folder,
        )
        now = Dataset.open(before.folder)
        prune_generations(now.folder, now.manifest)
        return now


class StoredRows:
    """Reads and writes rows in the form of one data set, and with its retained columns.

    Parameters
    ----------
    dataset
        Whose form it is.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        coded, schema = dataset.manifest.coded, dataset.schema
        self._expansion: Expansion | None = None
        if coded and schema is not None:
            self._expansion = expansion_in(schema)

    def read(self, k: int) -> Table:
        """Return the rows of a chunk: columns in stored order, or codes in their place."""
        coded = self._expansion is not None
        table = self.dataset.read_codes(k) if coded else self.dataset.read_stored(k)
        return self.dataset.with_retained(k, table)

    def values(self, table: Table) -> Table:
        """Return rows with values in place of codes."""
        return self._with_values(table)[0]

    def write(self, writer: DatasetWriter, k: int, table: Table) -> ChunkRecord:
        """Write a chunk, which the commit makes durable."""
        return writer.write_chunk(k, *self._with_values(table))

    def _with_values(self, table: Table) -> tuple[Table, NDArray[np.float64] | None]:
        if self._expansion is None:
            return table, None
        return self._expansion.with_values(table, self.dataset.manifest.dtype)
