"""How fast a training goes and how well: the numbers of the live display, from its events."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]

from pipeline.reporting.history import LossSums, mean_loss
from pipeline.training.outcome import Event
from pipeline.training.saved import Cursor

RECENT_SECONDS = 10.0  # what rows/s and MB/s look back on
SMALLEST = 1e-300  # relative gap


class Numbers(NamedTuple):
    """One line of the display; None where nothing is known yet."""

    rows: int  # visited since the run began
    passes: float  # rows read over the rows of the data set
    fraction: float  # of all passes that may be made, or of the digits of the tolerance
    average: float | None  # loss of rows before they were learnt from, since the first row
    since_last: float | None  # the same since the last line
    objective: float | None  # of the newest weights that were certified
    gap: float | None  # at most this far above the optimum
    relative: float | None  # the same over max(1, |objective|): what a tolerance is about
    rows_per_s: float
    bytes_per_s: float
    memory: int  # bytes in use by this process and its workers
    left_s: float | None  # at the present speed, until the last pass that may be made or, if that
    # is sooner, until the tolerance is certified
    certifying: float | None = None  # share of the rows read to certify, which is no pass


class Meter:
    """Takes in events; `read` gives the numbers as they stand.

    Parameters
    ----------
    passes
        That may be made.
    tol
        The certificate that ends the training sooner; None: nothing does.
    """

    def __init__(self, passes: int, tol: float | None = None) -> None:
        self._passes = passes
        self._approach = None if tol is None else Approach(tol)
        self._n_rows = 1
        self._summed = self._certifying = 0  # rows of the reduction under way
        self._recent: deque[tuple[float, float, int]] = deque()  # time, passes, bytes read
        self._loss_sums: LossSums = {}
        self._told: LossSums = {}  # when last read
        self._cursor = Cursor()
        self._spans = 0
        self._certified: tuple[float, float] | None = None

    def take(self, event: Event) -> None:
        """Count an event."""
        if event.kind != "reduce" or event.cursor.passes != self._cursor.passes:
            self._summed = self._certifying = 0
        self._cursor = event.cursor
        if event.kind == "reduce":
            rows = event.facts["rows"]
            self._summed += rows * event.facts["counts"]
            self._certifying += rows * (not event.facts["counts"])
            self._mark()
        if event.kind in ("start", "resume"):
            self._n_rows = event.facts["n_rows"]
            self._mark()
        if event.kind == "restart":
            self._loss_sums, self._told = {}, {}
        if event.kind == "certificate":
            self._certified = (event.facts["objective"], event.facts["gap"])
            if self._approach:
                self._approach.take(*self._certified, time.perf_counter())
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
        return self._cursor.passes + (self._cursor.rows_in_sweep + self._summed) / self._n_rows

    def read(self) -> Numbers:
        """Return the numbers; the next call's `since_last` begins here."""
        passes, bytes_read = self._passed(), self._cursor.bytes_read
        began, passes_before, bytes_before = self._recent[0] if self._recent else (0.0, passes, 0)
        seconds = self._recent[-1][0] - began if self._recent else 0.0
        speed = max(0.0, passes - passes_before) / seconds if seconds else 0.0
        return Numbers(
            rows=self._cursor.rows_seen,
            passes=passes,
            fraction=self._fraction(passes),
            average=mean_loss({}, self._loss_sums),
            since_last=self._since_last(),
            objective=self._certified[0] if self._certified else None,
            gap=self._certified[1] if self._certified else None,
            relative=relative_gap(*self._certified) if self._certified else None,
            rows_per_s=speed * self._n_rows,
            bytes_per_s=(bytes_read - bytes_before) / seconds if seconds else 0.0,
            memory=memory_in_use(),
            left_s=self._left(passes, speed),
            certifying=self._certifying / self._n_rows if self._certifying else None,
        )

    def _fraction(self, passes: float) -> float:
        """How far it is, by passes or by the certificate: what comes first ends it."""
        nearer = self._approach.fraction if self._approach else 0.0
        return min(1.0, max(passes / self._passes, nearer))

    def _left(self, passes: float, speed: float) -> float | None:
        known = [max(0.0, self._passes - passes) / speed] if speed else []
        if self._approach and (sooner := self._approach.left(time.perf_counter())) is not None:
            known.append(sooner)
        return min(known, default=None)

    def _since_last(self) -> float | None:
        mean = mean_loss(self._told, self._loss_sums)
        self._told = dict(self._loss_sums)
        return mean


class Approach:
    """How near a certificate is to a tolerance: by digits, which methods gain at a steady rate."""

    def __init__(self, tol: float) -> None:
        self._wanted = digits(tol)
        self._marks: list[tuple[float, float]] = []  # time, digits; only where there were more

    @property
    def fraction(self) -> float:
        """Digits that are proven, of those wanted."""
        if not self._marks or self._wanted <= 0.0:
            return 0.0
        return min(1.0, self._marks[-1][1] / self._wanted)

    def take(self, objective: float, gap: float, now: float) -> None:
        """Take a certificate."""
        proven = digits(relative_gap(objective, gap))
        if not self._marks or proven > self._marks[-1][1]:
            self._marks.append((now, proven))

    def left(self, now: float) -> float | None:
        """Seconds until the tolerance at the rate of the newer half; None before there is one."""
        if len(self._marks) < 2:
            return None
        (before, few), (newest, many) = self._marks[(len(self._marks) - 1) // 2], self._marks[-1]
        took = newest - before
        return max(0.0, (self._wanted - many) * took / (many - few) - (now - newest))


def relative_gap(objective: float, gap: float) -> float:
    """Return a gap over max(1, |objective|)."""
    return gap / max(1.0, abs(objective))


def digits(relative: float) -> float:
    """Return a relative gap's digits: 3 for 1e-3, none where nothing is proven."""
    return -math.log10(min(1.0, max(relative, SMALLEST)))


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
