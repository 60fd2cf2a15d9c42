"""Sources -> a shuffled, checksummed data set with statistics, in bounded memory.

1. map: pieces of the sources are parsed in threads, every row gets a random key, and goes to a part
   of the rows. Where the memory holds all rows they stay there; else each part has a file.
2. write: the rows, in the order of their keys, are stored as chunks.
3. commit: the statistics, then the manifest. Before that there is nothing that a reader would open.

Whatever kills an ingest, the same plan run again finishes the job, and the data set has the same
bytes as if nothing had happened: phase 1 begins again unless its rows were all in files, phase 2
then reads these again but does not write again what it finds whole. Parts that an earlier process
left damaged (each bucket has a checksum) are named, and phase 1 begins again.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.chunking import rows_per_chunk
from fewpass.pipeline.tables.ingest.ingest_job import IngestJob, opened
from fewpass.pipeline.tables.ingest.job_steps import (
    ROWS_OF,
    Steps,
    decoded_bytes,
    form_of,
    gone_on,
    opening_of,
    run_to_the_end,
    written,
)
from fewpass.pipeline.tables.ingest.mapped_source import MappedSource
from fewpass.pipeline.tables.ingest.notes import (
    note_on_weights,
    notes_on,
    notes_on_digits,
    notes_on_scaling,
)
from fewpass.pipeline.tables.ingest.piece_map import TEST, TRAINING
from fewpass.pipeline.tables.ingest.progress import (
    IngestResult,
    Progress,
    Ticker,
    files_of,
    result_of,
)
from fewpass.pipeline.tables.ingest.reading import hashed_names_of, taken_of, total_bytes
from fewpass.pipeline.tables.ingest.set_pair import SetPair
from fewpass.pipeline.tables.ingest.work_dir import (
    all_owned,
    looked_at,
    remove_leftovers,
    work_dirs_of,
)
from fewpass.pipeline.tables.ingest.writing import StoredAs
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.column_copy import has_columns
from fewpass.storage.column_copy_writer import write_columns
from fewpass.storage.column_file import makers_of
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.manifest import Shuffle, SourceRecord
from fewpass.storage.writer import DatasetWriter

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor


def ingest(
    plan: IngestPlan,
    *,
    source: Source | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    executor: Executor | AbstractContextManager[Executor | None] | None = None,
) -> IngestResult:
    """Make the data set that `plan` describes; finish it if an earlier call was cut short.

    Parameters
    ----------
    plan
        Sources, target and settings. The data set depends on nothing else.
    source
        Rows that are in no file, such as a `DaskSource`; the plan's `sources` then only name them.
        Default: what the plan's sources are opened as.
    threads
        Threads that parse and compress; default `plan.threads`, else one per processor.
    progress
        Called a few times a second, by the calling thread.
    executor
        Of a cluster, whose workers read spans of the source and write chunks, with the plan's
        `memory` each; default: threads of this process. What opens one is entered only if the data
        set is not there yet.

    Returns
    -------
    IngestResult
        At once, if this very data set is there already and `overwrite` is not set.

    Raises
    ------
    BadInput
        Bad rows, labels or settings, a target that holds something else, another ingest at work,
        columns of a data set that is not on this machine.
    FileNotFoundError, PermissionError
        A source that is not there, a target that cannot be written.
    LeaseLost
        A store's set that another process goes on with, as this one gave no sign of life.
    OSError
        A full disk. Free some space and call again.
    DamagedPart
        Rows that this very call has read are not as they were written. Call again.
    """
    steps = ingest_in_steps(plan, source=source, threads=threads, executor=executor)
    return run_to_the_end(steps, progress or (lambda _: None))


def ingest_in_steps(
    plan: IngestPlan,
    *,
    source: Source | None = None,
    threads: int | None = None,
    executor: Executor | AbstractContextManager[Executor | None] | None = None,
) -> Steps[IngestResult]:
    """Do what `ingest` does while somebody iterates, a few times a second.

    Whoever closes it has the work end there, to be finished by the next call.
    """
    return_freed_memory(plan.budget.rows)
    if plan.column_copy and not Folder(plan.dataset, plan.storage_options).is_local:
        raise BadInput(
            f"{plan.dataset} is not on this machine, and a column copy is for mapping files into "
            "memory. Leave `column_copy=true` out, or ingest into a local folder."
        )
    threads = threads or plan.threads or len(os.sched_getaffinity(0))
    job = opened(plan, source, None, threads, Ticker())
    result = yield from _finished_or_made(job, opening_of(executor))
    if plan.column_copy and not has_columns(Dataset.open(plan.dataset)):
        copy_by_column(plan.dataset, plan.budget.rows)
    return result


def copy_by_column(
    url: str, memory: int, tell: Callable[[float, int], None] = lambda _share, _rows: None
) -> Dataset:
    """Store a data set by column as well, while no other process changes it."""
    work_dirs = work_dirs_of([Folder(url)])
    looked_at(lambda: Dataset.open(url), work_dirs)  # a place without one stays as it is
    with all_owned(work_dirs):
        dataset = Dataset.open(url)
        write_columns(dataset, memory, lambda share: tell(share, dataset.n_rows))
    return dataset


def _finished_or_made(
    job: IngestJob, opening: AbstractContextManager[Executor | None]
) -> Steps[IngestResult]:
    """Finish or make the data sets; describe them before another command may change them."""
    done = _finished(job)
    if done is not None:
        remove_leftovers(job.plan)
        return _result(job, done, None)
    looked_at(lambda: _require_free(job), job.work_dirs)
    with all_owned(job.work_dirs):
        done, damaged = _finished(job), None  # another may have been here before us
        if done is None:
            _require_free(job)
            names = job.like.hashed_names if job.like else hashed_names_of(job.source)
            with opening as executor:
                own = job._replace(executor=executor)
                done, damaged = yield from gone_on(own, lambda mapped: _write(own, mapped, names))
        job.work_dir.clear()
        return _result(job, done, damaged)


def _finished(job: IngestJob) -> list[Dataset] | None:
    """Return the data sets if all are there and none is to be made anew."""
    if job.plan.overwrite:
        return None
    datasets = [target.finished() for target in job.targets]
    return None if None in datasets else [dataset for dataset in datasets if dataset]


def _require_free(job: IngestJob) -> None:
    like = [job.like.folder.url] if job.like else []
    reads = [file.name for file in job.source.files] + like
    for target in job.targets:
        target.require_separate(reads)
        target.require_free(overwrite=job.plan.overwrite)
        target.folder.require_writable()
    if job.plan.test_dataset is None:
        SetPair(*job.targets).require_own_test()


# -- write and commit ------------------------------------------------------------------------------


def _write(job: IngestJob, mapped: MappedSource, names: HashedNames) -> Steps[list[Dataset]]:
    """Write and commit the data sets that are not finished."""
    job.ticker.begin_writing(int(mapped.parts.rows.sum()))
    scaler = mapped.scaler or (Scaler.of(job.like) if job.like else Scaler("none"))
    done: dict[int, Dataset] = {}
    # The test rows first: the training set's manifest says that all is done.
    for number in reversed(range(len(job.targets))):
        finished = job.targets[number].finished()
        if finished is None:
            finished = yield from _write_one(job, mapped, number, scaler, names)
        done[number] = finished
    yield from job.ticker.finish()
    return [done[number] for number in sorted(done)]


def _write_one(
    job: IngestJob, mapped: MappedSource, number: int, scaler: Scaler, names: HashedNames
) -> Steps[Dataset]:
    """Write the training rows, or the test rows, as chunks, their statistics and the manifest."""
    plan, target, order = job.plan, job.targets[number], _order(job, mapped, number)
    target_map = job.target_map(mapped.counts)
    writer, chunk_bytes = _writer(job, mapped, number)
    pair = SetPair(*job.targets) if number == TRAINING else None
    facts = _facts(job, mapped) | {"rows": ROWS_OF[number]} | (pair.facts() if pair else {})
    target.mark(facts)
    stored = StoredAs(target_map, scaler, order, job.expansion)
    records, columns, rows = yield from written(job, mapped, number, writer, stored, chunk_bytes)
    statistics = columns.sourced(order, mapped.n_features)
    writer.write_columns(statistics | makers_of(scaler.columns()), order)
    for work_dir in job.work_dirs:
        work_dir.require_owned()
    writer.commit(
        records,
        targets=rows.targets(target_map.targets(number)),
        weights=rows.weights,
        offsets=rows.offsets,
        scaling=scaler.describe(),
        shuffle=Shuffle(seed=plan.seed if plan.shuffle else None),
        sources=source_records(job),
        bad_rows=mapped.read.skipped,
        versions=versions(),
        schema=job.schema,
        hashed_names=names,
        named_by=pair.name_training if pair else None,
    )
    return Dataset.open(target.folder)


def _order(job: IngestJob, mapped: MappedSource, number: int) -> ColumnOrder:
    """Return the order that sparse columns are stored in: that of `like`, if it is given."""
    follows = mapped.parts.kind.layout == "sparse" and job.plan.column_order == "frequency"
    if job.like is None or not follows:
        return mapped.orders[number]
    return job.like.column_order


def _writer(job: IngestJob, mapped: MappedSource, number: int) -> tuple[DatasetWriter, int]:
    """Return the writer of a data set, and the decoded bytes of its chunks."""
    n_rows, n_bytes = mapped.parts.n_rows(number), decoded_bytes(job, mapped, number)
    rows, form = rows_per_chunk(job.plan, n_rows, n_bytes), form_of(job, mapped)
    writer = DatasetWriter(
        job.targets[number].folder, form.layout, form.n_features, n_rows, rows, form.dtype,
        form.has_weight, form.has_offset, form.codes, form.retained,
    )  # fmt: skip
    return writer, n_bytes * rows // n_rows


def source_records(job: IngestJob) -> list[SourceRecord]:
    """Return the files that are read, as a manifest names them."""
    return [SourceRecord(name=file.name, bytes=file.bytes) for file in job.source.files]


def _facts(job: IngestJob, mapped: MappedSource) -> dict[str, Any]:
    """Return the facts of both data sets' markers."""
    return {
        "plan": job.plan.model_dump(mode="json", exclude={"storage_options"}),
        "rows_read": mapped.read.rows,
        "skipped_rows": mapped.read.listed,
        "weightless": mapped.read.weightless,
        "merged": mapped.read.merged,
        "beyond": mapped.read.beyond,
        "like": job.like.manifest.fingerprint if job.like else "",
        "threshold": mapped.threshold,
        "files": [file.model_dump() for file in taken_of(job.source)],
    }


def _result(job: IngestJob, done: list[Dataset], damaged: str | None) -> IngestResult:
    training, marker = done[TRAINING], job.targets[TRAINING].marker()
    guessed = job.plan.task == "auto" and job.like is None
    notes = [*job.seen.notes(), *note_on_weights(marker.get("weightless", 0))]
    notes += notes_on(job.source, training.manifest.targets, guessed=guessed)
    if job.like is None:
        notes += [*notes_on_scaling(training, job.plan), *notes_on_digits(training)]
    return result_of(
        training, done[TEST] if len(done) > 1 else None,
        seconds=job.ticker.seconds(),
        bytes_in=total_bytes(job.source) or 0,
        files=files_of(marker.get("rows_read", {}), training.manifest.bad_rows),
        skipped_rows=tuple(marker.get("skipped_rows", ())),
        merged=marker.get("merged", 0),
        beyond=marker.get("beyond", 0),
        partitioned_again=damaged,
        left_out=job.source.left_out,
        notes=tuple(notes),
    )  # fmt: skip


def versions() -> dict[str, str]:
    """Return those of the libraries that write a data set."""
    packages = ("fewpass", "numpy", "numcodecs", "zarr")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
