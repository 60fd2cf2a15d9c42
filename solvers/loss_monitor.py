"""Monitoring of losses, each computed before the row's own step.

`listen` detects a smoothed loss that explodes; the walk then ends and restarts with half the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.lanes import maximum, where
from fewpass.solvers.kernels.shapes import Number, Vector, WholeNumbers

EMA_RATE = 0.01
LISTEN_EVERY = 8  # rows between two whose loss is computed before the step
MOST_LOSS = 1e100  # larger losses are cut, to avoid infinity and NaN
EXPLODED = 10.0  # a smoothed loss this many times that of zero weights means divergence
SECTIONS = 128  # of a pass; the losses so far are reported after each
LEAST_SECTION = 128  # rows per kernel call: a call takes as long as about a hundred rows
LEAST_NOTED = 32  # rows between reports made inside a kernel


class LossSum(NamedTuple):
    """Sum of losses, each computed before the row's own step."""

    n_monitored: int = 0  # rows whose loss was computed
    loss_sum: float = 0.0  # over these rows

    def add(self, rows: int, loss: float) -> LossSum:
        """Return the sum with more rows added."""
        return LossSum(self.n_monitored + rows, self.loss_sum + loss)

    def metrics(self) -> dict[str, float]:
        """Return the sums for the log."""
        return {"loss_sum": self.loss_sum, "n_monitored": self.n_monitored}


#: Takes the rows of the block visited, and (rows monitored, loss sum); of several models the means.
ReportLosses = Callable[[int, tuple[float, float]], None]


def ignore_losses(_rows: int, _so_far: tuple[float, float]) -> None:
    """Ignore the losses."""


class MeanLosses:
    """Collects the losses of several models after the same rows, and reports their mean."""

    def __init__(self, models: int, n_monitored: float = 0.0, loss_sum: float = 0.0) -> None:
        self._models, self._others = models, (n_monitored, loss_sum)  # of idle models
        self._sums: dict[int, tuple[float, float]] = {}

    def add(self, rows: int, so_far: tuple[float, float]) -> None:
        """Add the running losses of one model; a `ReportLosses`."""
        n_monitored, loss_sum = self._sums.get(rows, self._others)
        self._sums[rows] = (n_monitored + so_far[0], loss_sum + so_far[1])

    def report(self, report: ReportLosses) -> None:
        """Report the means, in the order of rows."""
        for rows, (n_monitored, loss_sum) in self._sums.items():
            report(rows, (n_monitored / self._models, loss_sum / self._models))


def inside(report: ReportLosses, rows: int, every: int) -> Vector:
    """Return room for losses inside a block, one for each `every` rows; none to ignore them."""
    return np.empty(0 if report is ignore_losses else (rows - 1) // every)


def report_block(
    report: ReportLosses, before: LossSum, rows: int, loss: float, noted: Vector, every: int
) -> None:
    """Report the losses that a kernel has noted inside a block, then that of the whole block."""
    for k, so_far in enumerate(noted.tolist(), 1):
        report(k * every, before.add(k * every, so_far))
    report(rows, before.add(rows, loss))


def section_rows(pass_rows: int) -> int:
    """Return the rows between two reports, where each section is a kernel call."""
    return max(LEAST_SECTION, -(-pass_rows // SECTIONS))


def sections(pass_rows: int, rows: int) -> Iterator[slice]:
    """Yield the slices of a block of `rows` rows between two reports."""
    size = section_rows(pass_rows)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def ends_of(pass_rows: int, rows: int, report: ReportLosses) -> WholeNumbers:
    """Return after how many rows a kernel stores its losses: never for `ignore_losses`."""
    size = max(LEAST_NOTED, -(-pass_rows // SECTIONS))
    stops = range(0) if report is ignore_losses else range(size, rows + size, size)
    return np.minimum(np.array(stops, np.int64), rows)


@part_of_kernels
def end_of(ends: WholeNumbers, k: int) -> int:
    """Return the k-th of the ends, or -1 after the last."""
    return ends[k] if k < ends.shape[0] else -1


class LossMonitor(NamedTuple):
    """Losses before the step, smoothed and compared with those of zero weights."""

    n_monitored: Number = 0.0  # all are Numbers, so that kernels have one type for them
    loss_sum: Number = 0.0
    loss: Number = 0.0  # smoothed
    reference_loss: Number = 0.0  # the same smoothing of the loss of zero weights
    diverged: Number = 0.0  # 1 once the loss exploded

    def metrics(self) -> dict[str, float]:
        """Return the running loss for the log."""
        return {"loss": self.loss, "loss_sum": self.loss_sum, "n_monitored": int(self.n_monitored)}


@part_of_kernels
def smoothing(n: Number) -> Number:
    """Return the weight of the n-th loss in the smoothed one: first 1 / n, a plain mean."""
    return maximum(1.0 / n, EMA_RATE)


@part_of_kernels
def listen(
    monitor: LossMonitor, rate: Number, now: Number, at_zero: Number, zero_loss: float
) -> LossMonitor:
    """Update the monitor with a row's loss before its step and its loss at zero weights.

    Works for numbers and for lanes.  `zero_loss`, the mean loss of zero weights, is a lower
    bound on the reference loss, for the first rows.
    """
    n_monitored, loss_sum, loss, reference_loss, diverged = monitor
    loss += rate * (now - loss)
    reference_loss += rate * (at_zero - reference_loss)
    # Few rows prove little: the bound is 100 times as wide for a single row.
    base = maximum(reference_loss, zero_loss)
    diverged = where(loss <= EXPLODED * base * rate / EMA_RATE, diverged, 1.0)
    return LossMonitor(n_monitored + 1.0, loss_sum + now, loss, reference_loss, diverged)
