"""How far an ingest is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

#: Seconds between two calls of the progress callback.
REPORT_EVERY = 0.2

Phase = Literal["partition", "write", "done"]


class IngestProgress(NamedTuple):
    """How far an ingest is; handed to the `progress` callback a few times a second."""

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


class Ticker:
    """Counts, and tells the progress callback, but not too often."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self._started = time.perf_counter()
        self._last = -REPORT_EVERY
        self._rows = self._read = self._decoded = self._written = 0
        self._rows_total: int | None = None
        self._bytes_total: int | None = None
        self._estimate = 1
        self._dealing_s = 0.0

    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._started

    def begin_dealing(self, bytes_total: int | None, estimate: int) -> None:
        """Begin the first phase, of `estimate` decoded bytes."""
        self._bytes_total, self._estimate = bytes_total, max(estimate, 1)

    def partitioned(self, n_bytes: int, rows: int, decoded: int) -> None:
        """Count a piece."""
        self._read += n_bytes
        self._rows += rows
        self._decoded += decoded
        self._dealing_s = self.seconds()
        self._tell("partition", min(1.0, self._decoded / self._estimate))

    def begin_writing(self, rows_total: int) -> None:
        """Begin the second phase."""
        self._rows, self._rows_total = 0, max(rows_total, 1)

    def wrote(self, rows: int, n_bytes: int) -> None:
        """Count a chunk."""
        self._rows += rows
        self._written += n_bytes
        self._tell("write", self._rows / (self._rows_total or 1))

    def finish(self) -> None:
        """Tell that all is done."""
        self._last = -REPORT_EVERY
        self._tell("done", 1.0)

    def _tell(self, phase: Phase, fraction: float) -> None:
        now = self.seconds()
        if self.progress is None or now - self._last < REPORT_EVERY:
            return
        self._last = now
        speed = self._read / 1e6 / self._dealing_s if self._dealing_s else 0.0
        self.progress(
            IngestProgress(
                phase,
                fraction,
                self._rows,
                self._rows_total,
                self._read,
                self._bytes_total,
                self._written,
                now,
                speed,
            )
        )
