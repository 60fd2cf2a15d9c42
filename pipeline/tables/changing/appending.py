"""Append rows to a data set: a new generation, of the old chunks and of fresh ones among them.

1. The new rows are mapped as those of an ingest, by the columns, recipe, labels and scaling of the
   data set: bounded memory, shuffled among themselves, and gone on with after a kill.
2. They are written as the fresh chunks of the next generation.
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
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.memory import peak_memory_bytes, return_freed_memory
from fewpass.pipeline.rows.row_summary import RowSummary, joined_columns
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.change_plans import AppendPlan
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.changing.interleaved_chunks import interleaved, unfilled_chunk
from fewpass.pipeline.tables.changing.one_change import AddedFiles, Change, NextGeneration, changing
from fewpass.pipeline.tables.ingest import job_steps
from fewpass.pipeline.tables.ingest.ingest_job import IngestJob, opened
from fewpass.pipeline.tables.ingest.job_steps import RowForm, Steps
from fewpass.pipeline.tables.ingest.mapped_source import MappedSource
from fewpass.pipeline.tables.ingest.notes import note_on_weights
from fewpass.pipeline.tables.ingest.phases import source_records, versions
from fewpass.pipeline.tables.ingest.piece_map import TEST, TRAINING, ReadCounts
from fewpass.pipeline.tables.ingest.progress import FileRows, IngestProgress, Ticker, files_of
from fewpass.pipeline.tables.ingest.reading import in_dtype_of, source_of, taken_of
from fewpass.pipeline.tables.ingest.writing import StoredAs
from fewpass.pipeline.tables.readers.seen_files import NothingNew, SeenFiles
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.column_file import makers_of
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import ChangeRecord, TakenFile, place_of_generation
from fewpass.storage.part_chunks import differing

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

ShowShare = Callable[[float, str], None]
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


def append(
    plan: AppendPlan,
    *,
    progress: ShowShare = lambda _share, _said: None,
    executor: Executor | AbstractContextManager[Executor | None] | None = None,
    since: str | None = None,
) -> AppendResult:
    """Append the rows of files to a data set; finish an append that was cut short.

    Parameters
    ----------
    plan
        Files, data set and settings.
    progress
        Called with the share that is done, of each of two steps, and words for it.
    executor
        Of a cluster, whose workers read spans of the files and write chunks, with the plan's
        `memory` each; default: threads of this process. What opens one is entered only if there
        are rows to append.
    since
        Fingerprint of the generation at a first try of this call: files that were appended since
        are not appended once more, also with `again`.

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
    return_freed_memory(plan.budget.rows)
    with changing(plan) as change:
        seen = SeenFiles(_taken_since(change, since) if plan.again else _taken(change))
        result = _Append(plan, change, progress, job_steps.opening_of(executor), seen).run()
    took = {"seconds": time.perf_counter() - began, "peak_memory_bytes": peak_memory_bytes()}
    return result.model_copy(update=took)


class _NewRows(NamedTuple):
    """The columns of rows that come, measured."""

    n_rows: int
    columns: Mapping[str, Callable[[], NDArray[np.float64]]]

    def column(self, name: str) -> NDArray[np.float64]:
        return self.columns[name]()


class _Append:
    """One call of `append`."""

    def __init__(
        self,
        plan: AppendPlan,
        change: Change,
        progress: ShowShare,
        opening: AbstractContextManager[Executor | None],
        seen: SeenFiles,
    ) -> None:
        self.plan, self.change, self.progress = plan, change, progress
        self.dataset, self.opening, self.seen = change.training, opening, seen
        self.threshold = change.record.threshold
        self.ingest_plan = self._ingest_plan()
        self.read = ReadCounts()
        self.n_new = [0, 0]
        self.done: dict[int, Dataset] = {}  # written by this call, from parts that were whole

    def run(self) -> AppendResult:
        try:
            source = source_of(self.ingest_plan, self.dataset, self.seen)
        except NothingNew:
            return self._result(self.dataset, self.change.test).model_copy(update={"already": True})
        with self.opening as executor:
            job = self._job(source, executor)
            steps = job_steps.gone_on(job, lambda mapped: self._written(job, mapped))
            (now, *tested), _ = job_steps.run_to_the_end(steps, self._show)
        job.work_dir.clear()
        return self._result(now, tested[0] if tested else None).model_copy(
            update={
                "appended": self.n_new[TRAINING],
                "test_appended": self.n_new[TEST],
                "files": files_of(self.read.rows, self.read.skipped),
                "skipped": sum(self.read.skipped.values()),
                "skipped_rows": tuple(self.read.listed),
                "left_out": source.left_out,
                "taken_before": self.seen.left_out,
                "notes": (
                    *self.change.notes,
                    *source.cell_notes,
                    *note_on_weights(self.read.weightless),
                ),
            }
        )

    def _job(self, source: Source, executor: Executor | None) -> IngestJob:
        """Return how the new rows are read; they are written into a generation, not a set."""
        threads = self.plan.threads or len(os.sched_getaffinity(0))
        made = opened(self.ingest_plan, source, self.threshold, threads, Ticker())
        return made._replace(targets=[], work_dirs=self.change.work_dirs, executor=executor)

    def _show(self, now: IngestProgress) -> None:
        if now.phase != "done":
            doing = "reading" if now.phase == "partition" else "writing"
            self.progress(now.fraction, f"{doing}, {counted(now.rows, 'row')}")

    def _written(self, job: IngestJob, mapped: MappedSource) -> Steps[list[Dataset]]:
        """Have the generations with the new rows be the present ones; that of test rows first."""
        self.read = mapped.read
        sets = [one for one in (self.dataset, self.change.test) if one is not None]
        self.n_new = [mapped.parts.n_rows(number) for number in range(len(sets))] + [0]
        self._refuse_words(sum(self.n_new))
        self._require_form(job_steps.form_of(job, mapped))
        job.ticker.begin_writing(sum(self.n_new))
        files = taken_of(job.source)
        record = {"change": "append", "digest": self._digest(files), "files": files}
        of_test = {"training": self.dataset.manifest.fingerprint}
        if len(sets) > 1 and not self.n_new[TEST]:
            self.done[TEST] = sets[TEST]
        for number in reversed(range(len(sets))):
            if number not in self.done:
                own = record | (of_test if number == TEST else {})
                self.done[number] = yield from self._added(job, mapped, number, own)
        return [self.done[number] for number in range(len(sets))]

    def _added(
        self, job: IngestJob, mapped: MappedSource, number: int, record: dict[str, Any]
    ) -> Steps[Dataset]:
        """Write the new rows, and have the generation with them be the present one."""
        before = self.dataset if number == TRAINING else self.change.test
        assert before is not None, "there are test rows"
        one, n_new = before.manifest, self.n_new[number]
        unfilled = unfilled_chunk(before, n_new)
        n_written = n_new + (0 if unfilled is None else unfilled.rows.n_rows)
        made = NextGeneration(before, n_written, job.work_dirs)
        target_map, order = job.target_map(mapped.counts), before.column_order
        stored = StoredAs(target_map, Scaler.of(before), order, job.expansion)
        chunk_bytes = job_steps.decoded_bytes(job, mapped, number) * one.chunk_rows // n_new
        new = yield from job_steps.written(
            job, mapped, number, made.writer, stored, chunk_bytes, unfilled
        )
        rows = new.rows.with_targets(target_map.targets(number))
        columns = joined_columns(
            [before, _NewRows(n_new, new.columns.sourced(order, before.n_features))]
        )
        files = AddedFiles(source_records(job), mapped.read.skipped, versions())
        return made.commit(
            interleaved(made, new.records),
            RowSummary.of_manifest(one).joined(rows),
            makers_of(columns),
            ChangeRecord(parent=one.fingerprint, rows=n_new, **record),
            files,
        )

    def _require_form(self, form: RowForm) -> None:
        """Refuse rows in another form than those of the data set."""
        own = self.dataset.manifest
        if (name := differing(form, own)) is not None:
            raise BadInput(
                f"The new rows have {name} {getattr(form, name)}, and those of "
                f"{self.dataset.folder.url} have {getattr(own, name)}. Read them as those were "
                "read, or ingest all files anew."
            )

    def _refuse_words(self, n_rows: int) -> None:
        """Refuse words where the data set has numbers: single ones count as missing, not most."""
        for name, times in self.read.words.items():
            if 2 * times > n_rows:
                raise BadInput(
                    f"Column {shown_name(name)} holds words in {times:,} of the {n_rows:,} new "
                    f"rows, and numbers in {self.dataset.folder.url}. Correct the files, or ingest "
                    f"all anew (`column={name}=category`)."
                )

    def _digest(self, files: list[TakenFile]) -> str:
        """Return the digest of what came, and how it was read."""
        said = [[file.model_dump() for file in files], self.plan.options.model_dump(mode="json")]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def _ingest_plan(self) -> IngestPlan:
        """Return the plan that the new rows are ingested by."""
        plan, by = self.plan, self.change.record.plan
        url = self.dataset.folder.url
        seed = self.dataset.manifest.shuffle.seed
        settings = {
            "sources": plan.sources,
            "dataset": f"{url}/{place_of_generation(self.dataset.manifest.generation + 1)}",
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


def _taken_since(change: Change, generation: str | None) -> list[TakenFile]:
    """Return the files whose rows came after a generation; none where there was no such one."""
    changes = change.training.manifest.changes
    later = itertools.dropwhile(lambda one: one.parent != generation, changes)
    return [file for one in later for file in one.files]
