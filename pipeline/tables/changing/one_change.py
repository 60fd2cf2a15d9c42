"""One change of a data set at a time: who makes it, where it writes, and what it leaves.

A data set and its test rows are locked, the training set first, and then opened; nothing that was
read before the locks is changed.  All of the new generation is written and durable before the
manifest is replaced, which is the one step that readers see; whatever kills a change before leaves
the old generation, and the next change removes what was written of a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.rows.row_summary import RowSummary, joined_bad_rows
from fewpass.pipeline.settings.change_plans import ChangePlan
from fewpass.pipeline.tables.ingest.set_pair import IngestRecord, record_of, test_rows_of
from fewpass.pipeline.tables.ingest.work_dir import WorkDir, all_owned, work_dirs_of
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.column_file import Column
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.locations import Location
from fewpass.storage.manifest import ChangeRecord, Manifest, place_of_generation
from fewpass.storage.set_generations import prune_generations, roll_back
from fewpass.storage.writer import DatasetWriter


class Change(NamedTuple):
    """Data sets that no other process changes, as they are now."""

    training: Dataset
    test: Dataset | None  # of its test rows
    record: IngestRecord  # of the training set
    work_dir: WorkDir  # for unfinished work; it is emptied at the end
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
    before = _opened(Folder(place, plan.storage_options))
    folders = [one.folder for one in before[:2] if one is not None]
    for folder in folders:
        folder.require_writable()
    work_dirs = work_dirs_of(folders)
    with all_owned(work_dirs):
        training, test, notes = _opened(folders[0])
        if [one.folder.url for one in (training, test) if one] != [one.url for one in folders]:
            raise BusyPlace(f"{place} was ingested anew just now. Give the command again.")
        training, test = _without_leftovers(training, test)
        try:
            yield Change(training, test, record_of(training), work_dirs[0], notes)
        except BadInput:
            _clear(work_dirs)
            raise
        _clear(work_dirs)


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
    prune_generations(training.folder, training.manifest)
    if test is None:
        return training, None
    last = test.manifest.changes[-1] if test.manifest.changes else None
    if last is not None and last.training == training.manifest.fingerprint:
        roll_back(test.folder, test.manifest)
        test = Dataset.open(test.folder)
    prune_generations(test.folder, test.manifest)
    return training, test


def _clear(work_dirs: list[WorkDir]) -> None:
    for work_dir in work_dirs:
        work_dir.clear()


class NextGeneration:
    """The generation after the present one, in the making: nothing of it is there yet.

    Parameters
    ----------
    before
        The present one.
    n_rows
        Rows of the next one.
    """

    def __init__(self, before: Dataset, n_rows: int) -> None:
        self.before, manifest = before, before.manifest
        place = place_of_generation(manifest.generation + 1)
        before.folder.delete_tree(place)
        self.writer = DatasetWriter(
            before.folder.child(place), manifest.layout, manifest.n_features, n_rows,
            manifest.chunk_rows, manifest.dtype, manifest.has_weight, manifest.has_offset,
            manifest.codes, manifest.retained,
        )  # fmt: skip

    def commit(
        self, records: Sequence[ChunkRecord], rows: RowSummary, columns: Mapping[str, Column],
        change: ChangeRecord, added: Manifest | None = None,
    ) -> Dataset:  # fmt: skip
        """Write the statistics, and replace the manifest; remove generations not retained.

        Parameters
        ----------
        records
            Of all chunks.
        rows
            Statistics of all rows.
        columns
            What makes the statistics of columns, in the source's order.
        change
            What made this generation of the one before.
        added
            Of a data set whose rows came in addition.
        """
        before, one, writer = self.before, self.before.manifest, self.writer
        scaling = [name for name in ("scale", "shift") if name in one.columns]
        same: dict[str, Column] = {name: partial(before.column, name) for name in scaling}
        writer.write_columns({**columns, **same}, before.column_order)
        every = [one] if added is None else [one, added]
        writer.commit(
            records,
            targets=rows.targets(one.targets),
            weights=rows.weights,
            offsets=rows.offsets,
            scaling=one.scaling,
            shuffle=one.shuffle,
            sources=[source for each in every for source in each.sources],
            bad_rows=joined_bad_rows(every),
            versions=every[-1].versions,
            schema=before.schema,
            hashed_names=before.hashed_names,
            changes=(*one.changes, change),
            home=before.folder,
        )
        now = Dataset.open(before.folder)
        prune_generations(now.folder, now.manifest)
        return now
