"""What a method hears of the losses of rows, each taken before the row's own step.

A walk whose smoothed loss explodes ends and begins again with half the step: `listen` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.shapes import Number, WholeNumbers
from fewpass.solvers.kernels.simd.lanes import maximum, where

EMA_RATE = 0.01
LISTEN_EVERY = 8  # rows between two that are asked for their loss before the step
EXPLODED = 10.0  # a smoothed loss this many times that of zero weights is a lost pass
SECTIONS = 128  # of a pass, after each of which the losses so far are told
LEAST_SECTION = 128  # rows, where each is a call of a kernel: that takes the time of some hundred
LEAST_NOTED = 32  # rows, where the kernel itself notes the losses: a few say little


class LossSum(NamedTuple):
    """Losses of rows, each taken before its own step."""

    n_monitored: int = 0  # rows whose loss was taken
    loss_sum: float = 0.0  # over them

    def add(self, rows: int, loss: float) -> LossSum:
        """Return the sum with that of more rows."""
        return LossSum(self.n_monitored + rows, self.loss_sum + loss)

    def metrics(self) -> dict[str, float]:
        """Return the sum for the log."""
        return {"loss_sum": self.loss_sum, "n_monitored": self.n_monitored}


#: Hears the losses so far, after so many rows of a block; of several models their means.
Tell = Callable[[int, tuple[float, float]], None]


def untold(_rows: int, _so_far: tuple[float, float]) -> None:
    """Keep nothing of it."""


class ToldTogether:
    """Hears the losses of several models, after the same rows each, and tells their mean."""

    def __init__(self, models: int, n_monitored: float = 0.0, loss_sum: float = 0.0) -> None:
        self._models, self._others = models, (n_monitored, loss_sum)  # of models that do not step
        self._sums: dict[int, tuple[float, float]] = {}

    def hear(self, rows: int, so_far: tuple[float, float]) -> None:
        """Add up what one of them has lost so far; a `Tell`."""
        n_monitored, loss_sum = self._sums.get(rows, self._others)
        self._sums[rows] = (n_monitored + so_far[0], loss_sum + so_far[1])

    def tell(self, tell: Tell) -> None:
        """Hand the means on, in the order of rows."""
        for rows, (n_monitored, loss_sum) in self._sums.items():
            tell(rows, (n_monitored / self._models, loss_sum / self._models))


def section_rows(pass_rows: int) -> int:
    """Rows after which losses are told, where each section is a call of a kernel."""
    return max(LEAST_SECTION, -(-pass_rows // SECTIONS))


def sections(pass_rows: int, rows: int) -> Iterator[slice]:
    """Cut a block of so many rows where its losses are told, whoever listens."""
    size = section_rows(pass_rows)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def ends_of(pass_rows: int, rows: int, tell: Tell) -> WholeNumbers:
    """Return after how many rows of a block a kernel notes its losses: for the `untold` never."""
    size = max(LEAST_NOTED, -(-pass_rows // SECTIONS))
    stops = range(0) if tell is untold else range(size, rows + size, size)
    return np.minimum(np.array(stops, np.int64), rows)


@part_of_kernels
def end_of(ends: WholeNumbers, k: int) -> int:
    """Return the k-th of the ends; none is after the last."""
    return ends[k] if k < ends.shape[0] else -1


class LossMonitor(NamedTuple):
    """The same, smoothed, and compared with what zero weights would have lost."""

    n_monitored: int = 0
    loss_sum: float = 0.0
    loss: float = 0.0  # smoothed
    reference_loss: float = 0.0  # the same smoothing of the loss of zero weights
    diverged: int = 0  # 1 once the loss exploded

    def metrics(self) -> dict[str, float]:
        """Return the running loss for the log."""
        return {"loss": self.loss, "loss_sum": self.loss_sum, "n_monitored": self.n_monitored}


#: A LossMonitor of Numbers inside kernels, its counts too: no NamedTuple has fields of two types.
MonitorOfNumbers = Any


@part_of_kernels
def in_numbers(monitor: LossMonitor) -> MonitorOfNumbers:
    """Return a monitor whose counts are numbers like the others: one type from row to row."""
    n_monitored, loss_sum, loss, reference_loss, diverged = monitor
    counts: tuple[Number, Number] = float(n_monitored), float(diverged)
    return LossMonitor(counts[0], loss_sum, loss, reference_loss, counts[1])


@part_of_kernels
def in_counts(monitor: MonitorOfNumbers) -> LossMonitor:
    """Return a monitor whose counts are whole numbers again."""
    n_monitored, loss_sum, loss, reference_loss, diverged = monitor
    return LossMonitor(int(n_monitored), loss_sum, loss, reference_loss, int(diverged))


@part_of_kernels
def smoothing(n: Number) -> Number:
    """Return how much the n-th loss counts in the smoothed one: the mean of all, at first."""
    return maximum(1.0 / n, EMA_RATE)


@part_of_kernels
def listen(
    monitor: MonitorOfNumbers, rate: Number, now: Number, at_zero: Number, least: float
) -> MonitorOfNumbers:
    """Take in a row's loss before its step and that of zero weights; numbers or lanes.

    `least` is the mean loss of zero weights: what an explosion is measured by on the first rows.
    """
    n_monitored, loss_sum, loss, reference_loss, diverged = monitor
    loss += rate * (now - loss)
    reference_loss += rate * (at_zero - reference_loss)
    # A few rows prove little: the bound is 100 times as wide for one row alone.
    base = maximum(reference_loss, least)
    diverged = where(loss <= EXPLODED * base * rate / EMA_RATE, diverged, 1.0)
    return LossMonitor(n_monitored + 1.0, loss_sum + now, loss, reference_loss, diverged)
