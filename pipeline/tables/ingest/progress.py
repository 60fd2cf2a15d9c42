"""The progress of an ingest, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.tables.encoding.schema import described_columns
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import KEY

#: Seconds from one time that progress is reported to the next.
REPORT_EVERY = 0.2

Phase = Literal["partition", "write", "done"]


class IngestProgress(NamedTuple):
    """The progress of an ingest; reported a few times a second."""

    phase: Phase
    fraction: float  # of this phase; while partitioning an estimate
    rows: int  # partitioned or written in this phase
    rows_total: int | None  # None while partitioning
    bytes_read: int  # of the sources, decompressed
    bytes_total: int | None  # None: not known, as with compressed sources
    bytes_written: int
    seconds: float  # since the start
    megabytes_per_second: float  # of the sources, while partitioning


Progress = Callable[[IngestProgress], None]
Reports = tuple[IngestProgress, ...]  # one, or none where one was made just now


class Ticker:
    """Counts, and tells how far an ingest is, but not too often."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._last = -REPORT_EVERY
        self._rows = self._read = self._decoded = self._written = 0
        self._rows_total: int | None = None
        self._bytes_total: int | None = None
        self._estimate = 1
        self._partition_s = 0.0

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._started

    def begin_partition(self, bytes_total: int | None, estimate: int) -> None:
        """Begin the first phase, of `estimate` decoded bytes."""
        self._bytes_total, self._estimate = bytes_total, max(estimate, 1)

    def partitioned(self, n_bytes: int, rows: int, decoded: int) -> Reports:
        """Count a piece."""
        self._read += n_bytes
        self._rows += rows
        self._decoded += decoded
        self._partition_s = self.seconds()
        return self._reports("partition", min(1.0, self._decoded / self._estimate))

    def begin_writing(self, rows_total: int) -> None:
        """Begin the second phase."""
        self._rows, self._rows_total = 0, max(rows_total, 1)

    def wrote(self, rows: int, n_bytes: int) -> Reports:
        """Count a chunk."""
        self._rows += rows
        self._written += n_bytes
        return self._reports("write", self._rows / (self._rows_total or 1))

    def finish(self) -> Reports:
        """Tell that all is done."""
        self._last = -REPORT_EVERY
        return self._reports("done", 1.0)

    def _reports(self, phase: Phase, fraction: float) -> Reports:
        now = self.seconds()
        if now - self._last < REPORT_EVERY:
            return ()
        self._last = now
        speed = self._read / 1e6 / self._partition_s if self._partition_s else 0.0
        rows, read = (self._rows, self._rows_total), (self._read, self._bytes_total)
        return (IngestProgress(phase, fraction, *rows, *read, self._written, now, speed),)


class FileRows(BaseModel):
    """Rows of one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    rows: int
    skipped: int = 0


def files_of(rows: Mapping[str, int], skipped: Mapping[str, int]) -> tuple[FileRows, ...]:
    """Return the rows of every file, and those that were skipped."""
    names = dict.fromkeys((*rows, *skipped))
    return tuple(
        FileRows(file=name, rows=rows.get(name, 0), skipped=skipped.get(name, 0)) for name in names
    )


class IngestResult(BaseModel):
    """The result of an ingest.

    `peak_memory_bytes` is the largest resident size of the whole process since it began, the
    libraries included. `seconds` is the time of this call: close to 0 if all was done before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    rows: int
    features: int
    nnz: int
    task: Literal["classification", "regression"]
    labels: tuple[str, ...] | tuple[float, ...] | None  # None: regression
    scale: ScalingKind
    chunks: int
    chunk_rows: int
    seconds: float
    bytes_in: int
    bytes_out: int
    peak_memory_bytes: int
    test_dataset: str | None
    test_rows: int
    files: tuple[FileRows, ...] = ()  # in the order in which they were read, held-out rows included
    skipped: int  # rows left out under on_bad_row="skip"
    skipped_rows: tuple[str, ...]  # the first of them: file, line, reason
    merged: int  # values whose index stood in their row before: added up
    beyond: int = 0  # values left out, whose index is beyond the features of `like`
    left_out: tuple[str, ...] = ()  # columns that `like` does not know
    partitioned_again: str | None = (
        None  # what was damaged of the rows that an earlier call had partitioned
    )
    encoded: tuple[tuple[str, str], ...] = ()
    """Columns by name, and what became of each; none where rows are numbers as they came."""
    notes: tuple[str, ...] = ()
    """Warnings and advice."""
    fingerprint: str
    test_fingerprint: str | None


def result_of(training: Dataset, test: Dataset | None, **others: Any) -> IngestResult:
    """Return the result of an ingest, by the data sets that it made and by `others`."""
    manifest, targets = training.manifest, training.manifest.targets
    return IngestResult(
        dataset=training.folder.url,
        rows=manifest.n_rows,
        features=manifest.n_features,
        nnz=manifest.nnz,
        task="classification" if targets.kind == "labels" else "regression",
        labels=targets.labels if targets.kind == "labels" else None,
        scale=manifest.scaling.kind,
        chunks=manifest.n_chunks,
        chunk_rows=manifest.chunk_rows,
        bytes_out=sum(_stored_bytes(each) for each in (training, test) if each is not None),
        peak_memory_bytes=peak_memory_bytes(),
        test_dataset=test.folder.url if test else None,
        test_rows=test.n_rows if test else 0,
        skipped=sum(manifest.bad_rows.values()),
        encoded=described_columns(training.schema),
        fingerprint=manifest.fingerprint,
        test_fingerprint=test.manifest.fingerprint if test else None,
        **others,
    )


def _stored_bytes(dataset: Dataset) -> int:
    manifest = dataset.manifest
    chunks = manifest.chunks.bytes_of(manifest.chunks.objects)
    stored = chunks + sum(s.length for s in manifest.objects.values())
    return stored + dataset.folder.size(KEY)
