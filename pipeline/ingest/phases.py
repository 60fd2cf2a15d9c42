"""Sources -> a shuffled, checksummed data set with statistics, in bounded memory.

1. deal: pieces of the sources are parsed in threads, every row is spilled to a random bucket.
2. write: buckets are read one after the other, their rows put in order and stored as chunks.
3. commit: the statistics, then the manifest. Before that there is nothing that a reader would open.

Whatever kills an ingest, the same plan run again finishes the job, and the data set has the same
bytes as if nothing had happened: phase 1 begins again unless it was complete, phase 2 reads the
buckets again but does not write again what it finds whole.
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.ingest.buckets import Buckets
from pipeline.ingest.chunking import rows_per_chunk
from pipeline.ingest.dealing import TEST, TRAINING, Dealer, Dealt, dealt_as_state, dealt_from_state
from pipeline.ingest.plan import IngestPlan, IngestResult
from pipeline.ingest.progress import Progress, Ticker
from pipeline.ingest.scaling import Scaler
from pipeline.ingest.target import IngestTarget
from pipeline.ingest.target_map import TargetMap
from pipeline.ingest.workplace import Workplace, workplace_path
from pipeline.ingest.writing import ChunkMaker, write_chunks
from pipeline.memory import peak_memory_bytes, return_freed_memory
from pipeline.sources import open_source
from pipeline.sources.source import Source
from storage.columns import has_columns
from storage.columns_writer import write_columns
from storage.dataset import Dataset, DatasetWriter
from storage.folder import Damaged, Folder
from storage.manifest import KEY, Shuffle
from storage.manifest import Source as SourceRecord

#: Share of the memory that chunks in the making may take; the buckets take the rest.
WRITING = 3 / 8
#: Files of these kinds hold more bytes than they have.
PACKED = (".gz", ".bz2", ".xz", ".zst", ".npz", ".parquet")


def ingest(
    plan: IngestPlan, *, threads: int | None = None, progress: Progress | None = None
) -> IngestResult:
    """Make the data set that `plan` describes; finish it if an earlier call was cut short.

    Parameters
    ----------
    plan
        Sources, target and settings. The data set depends on nothing else.
    threads
        Threads that parse and compress; default `plan.threads`, else one per processor.
    progress
        Called a few times a second, by the calling thread.

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
    """
    return_freed_memory()
    if plan.columns and not Folder(plan.dataset, plan.storage_options).is_local:
        raise BadInput(
            f"{plan.dataset} is not on this machine, and a column copy is for mapping files into "
            "memory. Leave --columns out, or ingest into a local folder."
        )
    cores = len(os.sched_getaffinity(0))
    result = _Ingest(plan, threads or plan.threads or cores, progress).run()
    if plan.columns and not has_columns(dataset := Dataset.open(plan.dataset)):
        write_columns(dataset, plan.memory_for_rows)
    return result


class _Ingest:
    """One call of `ingest`."""

    def __init__(self, plan: IngestPlan, threads: int, progress: Progress | None) -> None:
        self.plan, self.threads = plan, threads
        self.ticker = Ticker(progress)
        self.like = Dataset.open(plan.like, plan.storage_options) if plan.like else None
        self.source = self._open_source()
        self.digest = plan.digest(_stamps(self.source), self._like_fingerprint())
        urls = [plan.dataset, plan.test_url]
        folders = [Folder(url, plan.storage_options) for url in urls if url is not None]
        self.targets = [IngestTarget(folder, self.digest) for folder in folders]
        self.workplace = Workplace(workplace_path(folders[TRAINING], plan.spill))

    def _like_fingerprint(self) -> str:
        return self.like.manifest.fingerprint if self.like else ""

    def _open_source(self) -> Source:
        options = self.plan.options
        if self.like is not None:
            width = self.like.n_features
            if options.n_features not in (None, width):
                raise BadInput(
                    f"n_features is {options.n_features}, but the data set given as `like` has "
                    f"{width}. Leave n_features out."
                )
            options = options.model_copy(update={"n_features": width})
        source = open_source(self.plan.sources, options, self.plan.storage_options)
        kind = self.like.manifest.scaling.kind if self.like else self.plan.scale
        if kind == "standard" and source.layout == "sparse":
            raise BadInput(
                "Standard scaling would fill every zero of sparse rows. "
                "Choose the scaling maxabs, unit-rows or none."
            )
        return source

    def run(self) -> IngestResult:
        done = None if self.plan.overwrite else self._finished()
        if done is None:
            for target in self.targets:
                target.require_free(overwrite=self.plan.overwrite)
                target.folder.require_writable()
            with self.workplace.owned():
                done = self._make()
                self.workplace.remove()
        elif self.workplace.path.is_dir():  # killed after the commit, before tidying up
            with self.workplace.owned():
                self.workplace.remove()
        return self._result(done)

    def _finished(self) -> list[Dataset] | None:
        found = [target.finished() for target in self.targets]
        return None if None in found else [dataset for dataset in found if dataset]

    def _make(self) -> list[Dataset]:
        dealt = self._resumed()
        if dealt is not None:
            try:
                return self._write(dealt)
            except Damaged as error:
                # A power cut can take spilled rows that were not on the disk yet.
                if str(self.workplace.path) not in str(error):
                    raise
        self._begin_anew()
        return self._write(self._deal())

    def _resumed(self) -> Dealt | None:
        state = self.workplace.recorded("dealt")
        if state is None or state["of"] != self._identity():
            return None
        if self.plan.overwrite and self.targets[TRAINING].folder.exists(KEY):
            return None
        try:
            return dealt_from_state(self.plan, self.workplace.path, state["dealt"])
        except (FileNotFoundError, Damaged):
            return None

    def _begin_anew(self) -> None:
        self.workplace.clear()
        for target in self.targets:
            target.folder.delete_partials()
            target.clear()

    def _deal(self) -> Dealt:
        self.ticker.begin_dealing(_raw_bytes(self.source), self.source.estimated_bytes())
        dealer = Dealer(self.plan, self.source, self.workplace.path, self.ticker.dealt)
        dealt = dealer.deal(self.threads)
        TargetMap(dealt.census, self._like_targets())  # refuses bad labels before phase 2
        self.workplace.record("dealt", {"of": self._identity(), "dealt": dealt_as_state(dealt)})
        return dealt

    def _identity(self) -> list[Any]:
        # Other memory would need other buckets.
        return [self.digest, self.plan.memory]

    def _like_targets(self) -> Any:
        return self.like.manifest.targets if self.like else None

    def _write(self, dealt: Dealt) -> list[Dataset]:
        self.ticker.begin_writing(sum(buckets.n_rows for buckets in dealt.buckets))
        scaler = dealt.scaler or (Scaler.of(self.like) if self.like else Scaler("none"))
        done: dict[int, Dataset] = {}
        # The test rows first: the training set's manifest says that all is done.
        for number in reversed(range(len(self.targets))):
            target = self.targets[number]
            done[number] = target.finished() or self._write_one(dealt, number, scaler)
        self.ticker.finish()
        return [done[number] for number in sorted(done)]

    def _write_one(self, dealt: Dealt, number: int, scaler: Scaler) -> Dataset:
        target, buckets, order = self.targets[number], dealt.buckets[number], dealt.orders[number]
        target_map = TargetMap(dealt.census, self._like_targets())
        writer = self._writer(dealt, target.folder, buckets)
        name = ("training", "test")[number]
        maker = ChunkMaker(writer, target_map, scaler, order, self.workplace, name)
        memory = int(WRITING * self.plan.memory_for_rows)
        selections = buckets.selections()
        written = write_chunks(maker, selections, self.threads, memory, self.ticker.wrote)
        writer.write_columns({**written.columns, **scaler.columns()})
        writer.write_column_order(order)
        target.mark(self._facts(dealt))
        writer.commit(
            written.records,
            targets=target_map.targets(number),
            weights=written.weights,
            scaling=scaler.describe(),
            shuffle=Shuffle(seed=self.plan.seed if self.plan.shuffle else None),
            sources=[SourceRecord(name=f.name, bytes=f.bytes) for f in self.source.files],
            bad_rows=dealt.n_skipped,
            versions=_versions(),
        )
        return Dataset.open(target.folder)

    def _writer(self, dealt: Dealt, folder: Folder, buckets: Buckets) -> DatasetWriter:
        kind = dealt.kind
        rows = rows_per_chunk(self.plan, buckets.n_rows, buckets.n_bytes)
        width = dealt.n_features
        return DatasetWriter(
            folder, kind.layout, width, buckets.n_rows, rows, kind.dtype, kind.has_weight
        )

    def _facts(self, dealt: Dealt) -> dict[str, Any]:
        plan = self.plan.model_dump(mode="json", exclude={"storage_options"})
        return {
            "plan": plan,
            "skipped_rows": dealt.skipped,
            "merged": dealt.n_merged,
            "like": self._like_fingerprint(),
        }

    def _result(self, done: list[Dataset]) -> IngestResult:
        manifest = done[TRAINING].manifest
        test = done[TEST] if len(done) > 1 else None
        targets = manifest.targets
        return IngestResult(
            dataset=done[TRAINING].folder.url,
            rows=manifest.n_rows,
            features=manifest.n_features,
            nnz=manifest.nnz,
            task="classification" if targets.kind == "labels" else "regression",
            labels=targets.labels if targets.kind == "labels" else None,
            scale=manifest.scaling.kind,
            chunks=manifest.n_chunks,
            chunk_rows=manifest.chunk_rows,
            seconds=self.ticker.seconds(),
            bytes_in=_total_bytes(self.source) or 0,
            bytes_out=sum(map(_stored_bytes, done)),
            peak_memory_bytes=peak_memory_bytes(),
            test_dataset=test.folder.url if test else None,
            test_rows=test.n_rows if test else 0,
            skipped=sum(manifest.bad_rows.values()),
            skipped_rows=tuple(self.targets[TRAINING].marker().get("skipped_rows", ())),
            merged=self.targets[TRAINING].marker().get("merged", 0),
            fingerprint=manifest.fingerprint,
            test_fingerprint=test.manifest.fingerprint if test else None,
        )


def _stamps(source: Source) -> list[Any]:
    """Name, size and time of change of every file; what other stores say is its size."""
    stamps: list[Any] = []
    for file in source.files:
        path = Path(file.name)
        changed = path.stat().st_mtime_ns if path.exists() else None
        stamps.append([file.name, file.bytes, changed])
    return stamps


def _total_bytes(source: Source) -> int | None:
    sizes = [file.bytes for file in source.files]
    return None if None in sizes else sum(size for size in sizes if size)


def _raw_bytes(source: Source) -> int | None:
    packed = any(file.name.lower().endswith(PACKED) for file in source.files)
    return None if packed else _total_bytes(source)


def _stored_bytes(dataset: Dataset) -> int:
    manifest = dataset.manifest
    chunks = (s for column in manifest.chunks.objects.values() for s in column if s is not None)
    stored = sum(s.length for s in chunks) + sum(s.length for s in manifest.objects.values())
    return stored + dataset.folder.size(KEY)


def _versions() -> dict[str, str]:
    packages = ("fewpass", "numpy", "numcodecs", "zarr")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
