"""How fast a training goes and how well: the numbers of the live display, from its events."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]

from fewpass.pipeline.reporting.history import LossSums, mean_loss
from fewpass.pipeline.runs.outcome import Event
from fewpass.pipeline.runs.saved import Cursor
from fewpass.pipeline.training.planning.rate import RECENT
from fewpass.solvers.kernels.compiling import working_seconds

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
    left_s: float | None  # at the present speed, until the tolerance is certified, or until the
    # last pass that may be made; None before that can be told, 0 at the end
    left_passes: float | None = None  # to the tolerance, at the certificate's present rate
    certifying: float | None = None  # share of the rows read to certify, which is no pass


class Meter:
    """Takes in events; `read` gives the numbers as they stand.

    Speed, and so the time left, does not count what this process compiles: that is done once.

    Parameters
    ----------
    passes
        That may be made, of every group where classes are trained in groups.
    tol
        The certificate that ends the training sooner; None: nothing does.
    """

    def __init__(self, passes: int, tol: float | None = None) -> None:
        self._passes = passes
        self._groups, self._trained, self._began = 1, 0, 0.0  # and passes before the one at work
        self._wanted = digits(tol) if tol else 0.0
        self._n_rows = 1
        self._summed = self._certifying = 0  # rows of the reduction under way
        self._recent: deque[tuple[float, float, int]] = deque()  # time, passes, bytes read
        self._loss_sums: LossSums = {}
        self._told: LossSums = {}  # when last read
        self._cursor = Cursor()
        self._spans = 0
        self._certified: tuple[float, float] | None = None
        self._is_over = False
        self._left_passes: float | None = None
        self._certified_at = 0.0  # passes
        self._first_certified: float | None = None  # passes
        working_seconds()  # starts the clock

    def take(self, event: Event) -> None:
        """Count an event."""
        if event.kind != "reduce" or event.cursor.passes != self._cursor.passes:
            self._summed = self._certifying = 0
        self._cursor, self._is_over = event.cursor, event.kind == "finish"
        if event.kind == "reduce":
            rows = event.facts["rows"]
            self._summed += rows * event.facts["counts"]
            self._certifying += rows * (not event.facts["counts"])
            self._mark()
        if event.kind in ("start", "resume"):
            self._n_rows = event.facts["n_rows"]
            self._groups = event.facts.get("groups", 1)
            self._trained = event.facts.get("groups_trained", 0)
            self._began = event.facts.get("passes_before", 0.0)
            self._mark()
        if event.kind == "group":
            self._trained, self._began = self._trained + 1, event.cursor.passes
            self._certified = self._left_passes = None
            self._first_certified = None
        if event.kind == "restart":
            self._loss_sums, self._told = {}, {}
        if event.kind == "certificate":
            self._certified = (event.facts["objective"], event.facts["gap"])
            self._left_passes, self._certified_at = event.facts["left_passes"], self._passed()
            self._first_certified = self._first_certified or self._certified_at
            self._mark()
        if event.kind == "span":
            self._hear(event.facts["stream"], event.facts["metrics"])
            self._spans += 1
            if self._spans == 2:
                self._recent.popleft()  # the first span compiles, on workers as well
            self._mark()

    def _mark(self) -> None:
        recent, cursor = self._recent, self._cursor
        recent.append((working_seconds(), self._passed(), cursor.bytes_read))
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
            left_passes=self._left_passes,
            certifying=self._certifying / self._n_rows if self._certifying else None,
        )

    @property
    def most(self) -> float:
        """Return how many passes may be made in all, by what the groups so far have taken."""
        return self._began + self._passes * (self._groups - self._trained)

    def _fraction(self, passes: float) -> float:
        """How far it is, by passes or by the certificate: what comes first ends it, or a group."""
        nearer = 0.0
        if self._certified and self._wanted:
            nearer = digits(relative_gap(*self._certified)) / self._wanted
        of_group = min(1.0, max((passes - self._began) / self._passes, nearer))
        return min(1.0, (self._trained + of_group) / self._groups)

    def _left(self, passes: float, speed: float) -> float | None:
        if self._is_over or not speed:
            return 0.0 if self._is_over else None
        left = self._began + self._passes - passes
        if self._left_passes is not None:
            left = min(left, self._left_passes - (passes - self._certified_at))
        elif self._wanted and passes - (self._first_certified or passes) < RECENT:
            return None  # nobody knows yet how fast the certificate falls
        after = self._passes * max(0, self._groups - self._trained - 1)
        return (max(0.0, left) + after) / speed

    def _since_last(self) -> float | None:
        mean = mean_loss(self._told, self._loss_sums)
        self._told = dict(self._loss_sums)
        return mean


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
