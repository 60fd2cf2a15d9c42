"""How fast a training goes and how well: the numbers of the live display, from its events."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]

from pipeline.reporting.history import LossSums, mean_loss
from pipeline.training.outcome import Event
from pipeline.training.saved import Cursor

RECENT_SECONDS = 10.0  # what rows/s and MB/s look back on


class Numbers(NamedTuple):
    """One line of the display; None where nothing is known yet."""

    rows: int  # visited since the run began
    passes: float  # rows read over the rows of the data set
    fraction: float  # of all passes that may be made
    average: float | None  # loss of rows before they were learnt from, since the first row
    since_last: float | None  # the same since the last line
    objective: float | None  # of the newest weights that were certified
    gap: float | None  # at most this far above the optimum
    rows_per_s: float
    bytes_per_s: float
    memory: int  # bytes in use by this process and its workers
    left_s: float | None  # at the present speed, until the last pass that may be made; 0 at the end
    left_passes: float | None = None  # to the tolerance, at the certificate's present rate


class Meter:
    """Takes in events; `read` gives the numbers as they stand."""

    def __init__(self, passes: int) -> None:
        self._passes = passes
        self._n_rows = 1
        self._recent: deque[tuple[float, float, int]] = deque()  # time, passes, bytes read
        self._loss_sums: LossSums = {}
        self._told: LossSums = {}  # when last read
        self._cursor = Cursor()
        self._spans = 0
        self._certified: tuple[float, float] | None = None
        self._is_over = False
        self._left_passes: float | None = None

    def take(self, event: Event) -> None:
        """Count an event."""
        self._cursor, self._is_over = event.cursor, event.kind == "finish"
        if event.kind in ("start", "resume"):
            self._n_rows = event.facts["n_rows"]
            self._mark()
        if event.kind == "restart":
            self._loss_sums, self._told = {}, {}
        if event.kind == "certificate":
            self._certified = (event.facts["objective"], event.facts["gap"])
            self._left_passes = event.facts["left_passes"]
            self._mark()
        if event.kind == "span":
            self._hear(event.facts["stream"], event.facts["metrics"])
            self._spans += 1
            if self._spans == 2:
                self._recent.popleft()  # the first span compiles: speed is measured from its end
            self._mark()

    def _mark(self) -> None:
        recent, cursor = self._recent, self._cursor
        recent.append((time.perf_counter(), self._passed(), cursor.bytes_read))
        while len(recent) > 2 and recent[-1][0] - recent[1][0] > RECENT_SECONDS:
            recent.popleft()

    def _hear(self, stream: int, metrics: dict[str, Any]) -> None:
        if "loss_sum" in metrics:
            self._loss_sums[stream] = (metrics["loss_sum"], metrics["n_monitored"])

    def _passed(self) -> float:
        return self._cursor.passes + self._cursor.rows_in_sweep / self._n_rows

    def read(self) -> Numbers:
        """Return the numbers; the next call's `since_last` begins here."""
        passes, bytes_read = self._passed(), self._cursor.bytes_read
        began, passes_before, bytes_before = self._recent[0] if self._recent else (0.0, passes, 0)
        seconds = self._recent[-1][0] - began if self._recent else 0.0
        speed = max(0.0, passes - passes_before) / seconds if seconds else 0.0
        return Numbers(
            rows=self._cursor.rows_seen,
            passes=passes,
            fraction=min(1.0, passes / self._passes),
            average=mean_loss({}, self._loss_sums),
            since_last=self._since_last(),
            objective=self._certified[0] if self._certified else None,
            gap=self._certified[1] if self._certified else None,
            rows_per_s=speed * self._n_rows,
            bytes_per_s=(bytes_read - bytes_before) / seconds if seconds else 0.0,
            memory=memory_in_use(),
            left_s=self._left(passes, speed),
            left_passes=self._left_passes,
        )

    def _left(self, passes: float, speed: float) -> float | None:
        if self._is_over:  # a tolerance that is reached ends it before the last pass
            return 0.0
        return max(0.0, self._passes - passes) / speed if speed else None

    def _since_last(self) -> float | None:
        mean = mean_loss(self._told, self._loss_sums)
        self._told = dict(self._loss_sums)
        return mean


def memory_in_use() -> int:
    """Return the bytes that this process and its children hold."""
    process = psutil.Process()
    total: int = process.memory_info().rss
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
