"""Sources -> a shuffled, checksummed data set with statistics, in bounded memory.

1. partition: pieces of the sources are parsed in threads, every row gets a random key. Where the
   memory holds all rows they stay there; else every row is spilled to the bucket of its key.
2. write: the rows, bucket after bucket, are put in the order of their keys and stored as chunks.
3. commit: the statistics, then the manifest. Before that there is nothing that a reader would open.

Whatever kills an ingest, the same plan run again finishes the job, and the data set has the same
bytes as if nothing had happened: phase 1 begins again unless its rows were all in buckets, phase 2
then reads these again but does not write again what it finds whole. Buckets that an earlier process
left damaged (each block has a checksum) are named, and phase 1 begins again.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import return_freed_memory
from fewpass.pipeline.rows.row_summary import weights_that_count
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.settings.ingest_plan import IngestPlan, ScalingKind
from fewpass.pipeline.tables.ingest.chunking import rows_per_chunk
from fewpass.pipeline.tables.ingest.layout import require_scalable
from fewpass.pipeline.tables.ingest.notes import notes_on, notes_on_scaling
from fewpass.pipeline.tables.ingest.partition import TEST, TRAINING, Partitioner
from fewpass.pipeline.tables.ingest.partitioned import (
    Partitioned,
    Rows,
    partition_as_state,
    partition_from_state,
)
from fewpass.pipeline.tables.ingest.progress import (
    IngestResult,
    Progress,
    Ticker,
    files_of,
    result_of,
)
from fewpass.pipeline.tables.ingest.reading import (
    hashed_names_of,
    in_dtype_of,
    raw_bytes,
    retained_names,
    schema_of,
    source_of,
    stamps,
    taken_of,
    total_bytes,
)
from fewpass.pipeline.tables.ingest.rows_in_memory import RowsInMemory
from fewpass.pipeline.tables.ingest.set_pair import SetPair
from fewpass.pipeline.tables.ingest.target import IngestTarget
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.ingest.work_dir import (
    PARTITION,
    all_owned,
    remove_leftovers,
    work_dirs_of,
)
from fewpass.pipeline.tables.ingest.writing import (
    ChunkMaker,
    StoredAs,
    write_chunks,
)
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.pipeline.tables.readers.source import Source
from fewpass.storage.column_copy import has_columns
from fewpass.storage.column_copy_writer import write_columns
from fewpass.storage.column_file import makers_of
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.column_schema import Schema
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.hashed_names import HashedNames
from fewpass.storage.manifest import KEY, Shuffle, SourceRecord
from fewpass.storage.spill import PARTITION_AGAIN, DamagedSpill
from fewpass.storage.writer import DatasetWriter

if TYPE_CHECKING:
    from fewpass.pipeline.tables.encoding.expansion import Expansion

#: Of the record of the partition; another version's is not gone on with.
RECORD_VERSION = 6


def ingest(
    plan: IngestPlan,
    *,
    source: Source | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    threshold: float | None = None,
    staged: bool = False,
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
    threshold
        Of the keys that rows are held out by, by a column; default: as the plan's share has it.
    staged
        Whether the data set is part of the unfinished work of a change, inside of another.

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
    OSError
        A full disk. Free some space and call again.
    DamagedSpill
        Rows that this very call has partitioned are not as they were written. Call again.
    """
    return_freed_memory(plan.budget.rows)
    if plan.columns and not Folder(plan.dataset, plan.storage_options).is_local:
        raise BadInput(
            f"{plan.dataset} is not on this machine, and a column copy is for mapping files into "
            "memory. Leave `columns=true` out, or ingest into a local folder."
        )
    cores = len(os.sched_getaffinity(0))
    own = threads or plan.threads or cores
    result = _Ingest(plan, own, progress, source, threshold, staged=staged).run()
    if plan.columns and not has_columns(Dataset.open(plan.dataset)):
        copy_by_column(plan.dataset, plan.budget.rows)
    return result


def copy_by_column(
    url: str, memory: int, tell: Callable[[float, int], None] = lambda _share, _rows: None
) -> Dataset:
    """Store a data set by column as well, while no other process changes it."""
    Dataset.open(url)  # a place without one stays as it is
    with all_owned(work_dirs_of([Folder(url)])):
        dataset = Dataset.open(url)
        write_columns(dataset, memory, lambda share: tell(share, dataset.n_rows))
    return dataset


class _Ingest:
    """One call of `ingest`."""

    def __init__(
        self,
        plan: IngestPlan,
        threads: int,
        progress: Progress | None,
        source: Source | None,
        threshold: float | None,
        *,
        staged: bool,
    ) -> None:
        self.threads, self.threshold, self.staged = threads, threshold, staged
        self.ticker = Ticker(progress)
        self.names: HashedNames = {}
        self.partitioned_again: str | None = None
        self.like = Dataset.open(plan.like, plan.storage_options) if plan.like else None
        self.plan = plan = in_dtype_of(self.like, plan)
        self.seen = SeenFiles()
        self.source = source or source_of(plan, self.like, self.seen)
        require_scalable(self._scale, self.source)
        self.expansion = self._parsed_to_codes()
        self.digest = plan.digest(stamps(self.source), self._like_fingerprint())
        urls = [plan.dataset, plan.test_url]
        folders = [Folder(url, plan.storage_options) for url in urls if url is not None]
        self.targets = [IngestTarget(folder, self.digest) for folder in folders]
        self.work_dirs = work_dirs_of(folders, plan.spill)
        self.work_dir = self.work_dirs[0]

    def _like_fingerprint(self) -> str:
        return self.like.manifest.fingerprint if self.like else ""

    @property
    def _scale(self) -> ScalingKind | Literal["auto"]:
        return self.like.manifest.scaling.kind if self.like else self.plan.scale

    def _parsed_to_codes(self) -> Expansion | None:
        """Have rows parsed to codes where they are stored so; return what becomes of these."""
        if self._scale not in ("auto", "none"):
            return None
        return self.source.parse_codes()

    @property
    def codes(self) -> int | None:
        """How many codes rows are stored as; None: as their values."""
        return None if self.expansion is None else self.expansion.n_codes

    def run(self) -> IngestResult:
        done = None if self.plan.overwrite else self._finished()
        if done is None:
            self._require_free()
            with all_owned(self.work_dirs):
                done = None if self.plan.overwrite else self._finished()
                if done is None:
                    self._require_free()  # still: another may have been here before us
                    done = self._make()
                self.work_dir.clear()
        else:
            remove_leftovers(self.plan)
        return self._result(done)

    def _require_free(self) -> None:
        reads = self._reads()
        for target in self.targets:
            if not self.staged:
                target.require_separate(reads)
            target.require_free(overwrite=self.plan.overwrite)
            target.folder.require_writable()
        if self.plan.test_dataset is None:
            SetPair(*self.targets).require_own_test()

    def _reads(self) -> list[str]:
        """Return the addresses of what is read."""
        like = [self.like.folder.url] if self.like else []
        return [file.name for file in self.source.files] + like

    def _finished(self) -> list[Dataset] | None:
        datasets = [target.finished() for target in self.targets]
        return None if None in datasets else [dataset for dataset in datasets if dataset]

    def _make(self) -> list[Dataset]:
        self.names = self.like.hashed_names if self.like else hashed_names_of(self.source)
        try:
            partitioned = self._resumed()
            if partitioned is not None:
                return self._write(partitioned)
        except DamagedSpill as error:  # left so by an earlier process; of our own it is an error
            self.partitioned_again = str(error).removesuffix(f" {PARTITION_AGAIN}")
        self._begin_anew()
        return self._write(self._partition())

    def _resumed(self) -> Partitioned | None:
        state = self.work_dir.recorded(PARTITION)
        if state is None or state.get("of") != self._identity():
            return None
        if self.plan.overwrite and self.targets[TRAINING].folder.exists(KEY):
            return None
        try:
            return partition_from_state(self.plan, self.work_dir.path, state["partition"])
        except FileNotFoundError as error:
            raise DamagedSpill(f"{error} {PARTITION_AGAIN}") from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            record = self.work_dir.path / f"{PARTITION}.json"
            raise DamagedSpill(
                f"{record} is no record of rows ({error!r}). {PARTITION_AGAIN}"
            ) from error

    def _begin_anew(self) -> None:
        self.work_dir.clear()
        for target in self.targets:
            target.folder.delete_partials()
            target.clear()

    def _partition(self) -> Partitioned:
        self.ticker.begin_partition(raw_bytes(self.source), self.source.estimated_bytes())
        partitioner = Partitioner(
            self.plan, self.source, self.work_dir.path, self.ticker.partitioned, self.codes,
            retained_names(self.plan, self.like), self.threshold,
        )  # fmt: skip
        partitioned = partitioner.partition(self.threads)
        TargetMap(partitioned.encoder, self._like_targets())  # refuses bad labels before phase 2
        state = partition_as_state(partitioned)
        if state is not None:
            self.work_dir.record(PARTITION, {"of": self._identity(), "partition": state})
        return partitioned

    def _identity(self) -> list[Any]:
        # Other memory would need other buckets, another recipe makes other rows.
        schema = self._schema()
        columns = "" if schema is None else hashlib.sha256(schema.written()).hexdigest()
        return [RECORD_VERSION, self.digest, self.plan.memory, columns]

    def _like_targets(self) -> Any:
        return self.like.manifest.targets if self.like else None

    def _order(self, partitioned: Partitioned, number: int) -> ColumnOrder:
        """Return the order that sparse columns are stored in: that of `like`, if it is given."""
        follows = partitioned.kind.layout == "sparse" and self.plan.column_order == "frequency"
        if self.like is None or not follows:
            return partitioned.orders[number]
        return self.like.column_order

    def _write(self, partitioned: Partitioned) -> list[Dataset]:
        self.ticker.begin_writing(sum(buckets.n_rows for buckets in partitioned.buckets))
        scaler = partitioned.scaler or (Scaler.of(self.like) if self.like else Scaler("none"))
        done: dict[int, Dataset] = {}
        # The test rows first: the training set's manifest says that all is done.
        for number in reversed(range(len(self.targets))):
            target = self.targets[number]
            done[number] = target.finished() or self._write_one(partitioned, number, scaler)
        self.ticker.finish()
        return [done[number] for number in sorted(done)]

    def _write_one(self, partitioned: Partitioned, number: int, scaler: Scaler) -> Dataset:
        target, buckets, order = (
            self.targets[number],
            partitioned.buckets[number],
            self._order(partitioned, number),
        )
        target_map = TargetMap(partitioned.encoder, self._like_targets())
        writer = self._writer(partitioned, target.folder, buckets)
        name = ("training", "test")[number]
        pair = SetPair(*self.targets) if number == TRAINING else None
        target.mark(self._stats(partitioned) | {"rows": name} | (pair.facts() if pair else {}))
        stored = StoredAs(target_map, scaler, order, self.expansion)
        maker = ChunkMaker(writer, stored, self.work_dir, name)
        memory = _memory_for_writing(self.plan, partitioned)
        selections = buckets.selections(partitioned.n_features)
        records, columns, rows = write_chunks(
            maker, selections, self.threads, memory, self.ticker.wrote
        )
        statistics = columns.sourced(order, partitioned.n_features)
        writer.write_columns(statistics | makers_of(scaler.columns()), order)
        writer.commit(
            records,
            targets=rows.targets(target_map.targets(number)),
            weights=weights_that_count(rows.weights, rows.n_rows),
            offsets=rows.offsets,
            scaling=scaler.describe(),
            shuffle=Shuffle(seed=self.plan.seed if self.plan.shuffle else None),
            sources=[SourceRecord(name=f.name, bytes=f.bytes) for f in self.source.files],
            bad_rows=partitioned.n_skipped,
            versions=_versions(),
            schema=self._schema(),
            hashed_names=self.names,
            named_by=pair.name_training if pair else None,
        )
        return Dataset.open(target.folder)

    def _schema(self) -> Schema | None:
        return self.like.schema if self.like else schema_of(self.source, self.plan.options)

    def _writer(self, partitioned: Partitioned, folder: Folder, buckets: Rows) -> DatasetWriter:
        kind, n_bytes = partitioned.kind, buckets.n_bytes
        layout, dtype = kind.layout, kind.dtype
        if self.expansion is not None:
            layout, dtype = "sparse", self.plan.options.dtype
            of_rows = 1 + kind.has_weight + kind.has_offset
            row_bytes = self.expansion.row_bytes(dtype) + 8 * of_rows + kind.retained_bytes
            n_bytes = buckets.n_rows * row_bytes
        rows = rows_per_chunk(self.plan, buckets.n_rows, n_bytes)
        width = partitioned.n_features
        return DatasetWriter(
            folder, layout, width, buckets.n_rows, rows, dtype, kind.has_weight,
            kind.has_offset, self.codes, retained_names(self.plan, self.like),
        )  # fmt: skip

    def _stats(self, partitioned: Partitioned) -> dict[str, Any]:
        plan = self.plan.model_dump(mode="json", exclude={"storage_options"})
        return {
            "plan": plan,
            "rows_read": partitioned.n_read,
            "skipped_rows": partitioned.skipped,
            "merged": partitioned.n_merged,
            "beyond": partitioned.n_beyond,
            "like": self._like_fingerprint(),
            "threshold": partitioned.threshold,
            "files": [file.model_dump() for file in taken_of(self.source)],
        }

    def _result(self, done: list[Dataset]) -> IngestResult:
        training, marker = done[TRAINING], self.targets[TRAINING].marker()
        guessed = self.plan.task == "auto" and self.like is None
        notes = [*self.seen.notes()]
        notes += notes_on(self.source, training.manifest.targets, guessed=guessed)
        if self.like is None:
            notes += notes_on_scaling(training, self.plan)
        return result_of(
            training, done[TEST] if len(done) > 1 else None,
            seconds=self.ticker.seconds(),
            bytes_in=total_bytes(self.source) or 0,
            files=files_of(marker.get("rows_read", {}), training.manifest.bad_rows),
            skipped_rows=tuple(marker.get("skipped_rows", ())),
            merged=marker.get("merged", 0),
            beyond=marker.get("beyond", 0),
            partitioned_again=self.partitioned_again,
            left_out=self.source.left_out,
            notes=tuple(notes),
        )  # fmt: skip


def _memory_for_writing(plan: IngestPlan, partitioned: Partitioned) -> int:
    """Bytes that chunks in the making may take: what the rows' way leaves."""
    in_memory = [
        rows.memory_bytes for rows in partitioned.buckets if isinstance(rows, RowsInMemory)
    ]
    if not in_memory:
        return plan.budget.chunks
    return plan.budget.rows - sum(in_memory) - Budget.measured_column * partitioned.n_features


def _versions() -> dict[str, str]:
    packages = ("fewpass", "numpy", "numcodecs", "zarr")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
