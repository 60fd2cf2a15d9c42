"""Append rows to a data set: a new generation, of the old rows and of new ones.

1. The new rows are ingested like the data set, by its columns, recipe, labels and scaling, into a
   data set in its unfinished work: bounded memory, shuffled among themselves, and gone on with
   after a kill.
2. A generation of the old chunks and of fresh ones among them is written.
3. Its manifest replaces that of the generation before.

Test rows, where the ingest held some out, go the same way into the data set of test rows, first;
where only they came, the next change takes them back.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.rows.row_summary import RowSummary, joined_columns
from fewpass.pipeline.settings.change_plans import AppendPlan
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.changing.interleaved_chunks import interleaved
from fewpass.pipeline.tables.changing.one_change import Change, NextGeneration, changing
from fewpass.pipeline.tables.ingest import phases
from fewpass.pipeline.tables.ingest.progress import FileRows, IngestResult
from fewpass.pipeline.tables.ingest.reading import in_dtype_of, source_of, taken_of
from fewpass.pipeline.tables.readers.seen_files import NothingNew, SeenFiles
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.column_file import makers_of
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import KEY, ChangeRecord, Manifest, TakenFile
from fewpass.storage.part_chunks import differing
from fewpass.storage.set_generations import retain

ShowShare = Callable[[float, str], None]
#: The record of what is being appended, and the data set of its rows, in the unfinished work.
RECORD, STAGED = "append", "appending"
#: Settings of reading that say how rows look, not which columns they have.
_ROWS = ("format", "zero_based", "label", "weight")


class AppendResult(BaseModel):
    """The result of an append.

    `rows` are those of the data set now, `appended` those that came, `test_appended` those that
    went to the data set of test rows.  `taken_before` are files that were left out, as the data set
    was made of them or they were appended before; `already`: all were, and nothing was done.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    generation: int
    rows: int
    appended: int
    test_dataset: str | None = None
    test_rows: int = 0
    test_appended: int = 0
    files: tuple[FileRows, ...] = ()
    skipped: int = 0
    skipped_rows: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    taken_before: tuple[str, ...] = ()
    already: bool = False
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    parent: str
    fingerprint: str


def append(plan: AppendPlan, *, progress: ShowShare = lambda _share, _said: None) -> AppendResult:
    """Append the rows of files to a data set; finish an append that was cut short.

    Parameters
    ----------
    plan
        Files, data set and settings.
    progress
        Called with the share that is done, of each of two steps, and words for it.

    Returns
    -------
    AppendResult
        At once, if all rows of the files were taken before and `again` is not set.

    Raises
    ------
    BadInput
        Files with other columns, types or labels; bad rows; a data set that is no ingest's.
    NotADataset, BusyPlace, FileNotFoundError, PermissionError, OSError
        As for `ingest`.
    """
    began = time.perf_counter()
    with changing(plan) as change:
        result = _Append(plan, change, progress).run()
    took = {"seconds": time.perf_counter() - began, "peak_memory_bytes": peak_memory_bytes()}
    return result.model_copy(update=took)


class _Append:
    """One call of `append`."""

    def __init__(self, plan: AppendPlan, change: Change, progress: ShowShare) -> None:
        self.plan, self.change, self.progress = plan, change, progress
        self.dataset, self.work_dir = change.training, change.work_dir
        self.threads = plan.threads or len(os.sched_getaffinity(0))
        self.threshold = change.record.threshold
        self.ingest_plan = self._ingest_plan()
        self.seen = SeenFiles(() if plan.again else _taken(change))

    def run(self) -> AppendResult:
        try:
            source = source_of(self.ingest_plan, self.dataset, self.seen)
        except NothingNew:
            return self._result(self.dataset, self.change.test).model_copy(update={"already": True})
        files = taken_of(source)
        digest = self._digest(files)
        self._begin(digest)
        ingested = self._ingested(source)
        new = [Dataset.open(at) for at in (ingested.dataset, ingested.test_dataset) if at]
        for one in new:
            self._require_form(one.manifest)
        record = {"change": "append", "digest": digest, "files": files}
        test = self.change.test
        if test is not None:
            training = self.dataset.manifest.fingerprint
            test = self._added(test, new[1], record | {"training": training})
        now = self._added(self.dataset, new[0], record)
        return self._result(now, test).model_copy(
            update={
                "appended": new[0].n_rows,
                "test_appended": new[1].n_rows if test is not None else 0,
                "files": ingested.files,
                "skipped": ingested.skipped,
                "skipped_rows": ingested.skipped_rows,
                "left_out": ingested.left_out,
                "taken_before": self.seen.left_out,
                "notes": (*self.change.notes, *source.cell_notes),
            }
        )

    def _ingested(self, source: Source) -> IngestResult:
        """Ingest the new rows into the unfinished work of this change."""
        result = phases.ingest(
            self.ingest_plan, source=source, threads=self.threads, threshold=self.threshold,
            progress=lambda now: self.progress(now.fraction, f"reading, {now.rows:,} rows"),
            staged=True,
        )  # fmt: skip
        self._refuse_words(source, result.rows + result.test_rows)
        return result

    def _require_form(self, new: Manifest) -> None:
        """Refuse rows in another form than those of the data set."""
        own = self.dataset.manifest
        if (name := differing(new, own)) is not None:
            raise BadInput(
                f"The new rows have {name} {getattr(new, name)}, and those of "
                f"{self.dataset.folder.url} have {getattr(own, name)}. Read them as those were "
                "read, or ingest all files anew."
            )

    def _refuse_words(self, source: Source, n_rows: int) -> None:
        """Refuse words where the data set has numbers: single ones count as missing, not most."""
        for name, times in source.words_for_numbers().items():
            if 2 * times > n_rows:
                raise BadInput(
                    f"Column {shown_name(name)} holds words in {times:,} of the {n_rows:,} new "
                    f"rows, and numbers in {self.dataset.folder.url}. Correct the files, or ingest "
                    f"all anew (`column={name}=category`)."
                )

    def _begin(self, digest: str) -> None:
        """Make sure that unfinished work that lies there is of this append."""
        mine = {"digest": digest, "parent": self.dataset.manifest.fingerprint}
        recorded = self.work_dir.recorded(RECORD) or {}
        if any(recorded.get(name) != value for name, value in mine.items()):
            self.work_dir.clear()
            self.work_dir.record(RECORD, mine)

    def _added(self, before: Dataset, added: Dataset, record: dict[str, Any]) -> Dataset:
        """Write the generation of both, and have it be the present one."""
        made, one = NextGeneration(before, before.n_rows + added.n_rows), before.manifest
        said = f"writing, {added.n_rows:,} new rows"
        records = interleaved(
            before, added, made.writer, self.threads, lambda s: self.progress(s, said)
        )
        rows = RowSummary.of_manifest(one).joined(RowSummary.of_manifest(added.manifest))
        retain(before.folder, one, before.folder.read(KEY))
        change = ChangeRecord(parent=one.fingerprint, rows=added.n_rows, **record)
        columns = makers_of(joined_columns([before, added]))
        return made.commit(records, rows, columns, change, added.manifest)

    def _digest(self, files: list[TakenFile]) -> str:
        """Return the digest that identifies unfinished work of the same append."""
        said = [[file.model_dump() for file in files], self.plan.options.model_dump(mode="json")]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def _ingest_plan(self) -> IngestPlan:
        """Return the plan that the new rows are ingested by."""
        plan, by = self.plan, self.change.record.plan
        url = self.dataset.folder.url
        seed = self.dataset.manifest.shuffle.seed
        settings = {
            "sources": plan.sources,
            "dataset": str(self.work_dir.path / STAGED),
            "options": self._options(by.options),
            "like": url,
            "shuffle": seed is not None,
            "seed": seed or 0,
            "memory": plan.memory,
            "storage_options": plan.storage_options,
        }
        made = in_dtype_of(self.dataset, IngestPlan.model_validate(settings))
        if self.change.test is None:
            return made
        if by.test_by is not None:
            self.threshold = None  # the last of the new rows, as of the old ones
        held_out = ("test_fraction", "test_by", "test_group")
        return made.model_copy(update={name: getattr(by, name) for name in held_out})

    def _options(self, before: SourceOptions) -> SourceOptions:
        """Return how the files are read: as the data set's were where nothing else is said."""
        given = self.plan.options
        if self.dataset.schema is not None:
            return given
        usual = SourceOptions()
        unsaid = [name for name in _ROWS if getattr(given, name) == getattr(usual, name)]
        return given.model_copy(update={name: getattr(before, name) for name in unsaid})

    def _result(self, now: Dataset, test: Dataset | None) -> AppendResult:
        manifest = now.manifest
        return AppendResult(
            dataset=now.folder.url,
            generation=manifest.generation,
            rows=manifest.n_rows,
            appended=0,
            test_dataset=test.folder.url if test else None,
            test_rows=test.n_rows if test else 0,
            parent=manifest.changes[-1].parent if manifest.changes else "",
            fingerprint=manifest.fingerprint,
            notes=self.change.notes,
        )


def _taken(change: Change) -> list[TakenFile]:
    """Return the files whose rows the data set has, or had before some were forgotten."""
    later = (one.files for one in change.training.manifest.changes)
    return [*change.record.files, *itertools.chain.from_iterable(later)]
