"""Drift of one column of the source, in its own numbers and words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fewpass.pipeline.models.refresh.drift_index import Counts, features_moved, means_moved
from fewpass.pipeline.models.refresh.night_statistics import NightStatistics
from fewpass.pipeline.models.refresh.watched_columns import (
    LABEL,
    MISSING,
    UNSEEN,
    NumberScale,
    WatchedColumns,
)

SHARE, MEAN, DEVIATION = "share", "mean", "deviation"
SOME_ZEROS = 0.001  # share of the rows from which on it is said that they are left out
LARGE = 10_000.0  # from which on numbers are written with commas


class ColumnDrift(NamedTuple):
    """Drift of one column of the source."""

    column: str
    moved: str  # what moved most: a value, missing ones, the mean
    measure: str  # what `before` and `now` are: a share of the rows, a mean, a deviation
    before: float
    now: float
    missing_before: float | None  # shares of the rows; None where the column has no such feature
    missing: float | None
    unseen_before: float | None
    unseen: float | None
    drift: float
    times_usual: float | None  # how far it moved, over how far it usually does; None: nobody knows
    reported: bool

    @property
    def sentence(self) -> str:
        """Say how far the column moved, and from what to what."""
        if self.times_usual is None:
            how = f"{self.column} drifted by {self.drift:.2g}"
        else:
            how = f"{self.column} moved {_times(self.times_usual)} as far as it usually does"
        return f"{how}: {self.change}"

    @property
    def change(self) -> str:
        """Say what moved, and from what to what."""
        of_rows = " of the rows" * (self.measure == SHARE)
        return f"{self.moved} from {self.was} to {self.became}{of_rows}"

    @property
    def was(self) -> str:
        """Return what it was, as people read it."""
        return self._written(self.before)

    @property
    def became(self) -> str:
        """Return what it is now."""
        return self._written(self.now)

    def _written(self, number: float) -> str:
        return in_percent(number) if self.measure == SHARE else as_read(number)


def in_percent(share: float) -> str:
    """Write a share with three digits."""
    return f"{100.0 * share:.3g} %"


def as_read(number: float) -> str:
    """Write a number with four digits, a large one in full and with commas."""
    short = float(f"{number:.4g}")
    return f"{short:,.15g}" if abs(short) >= LARGE else f"{short:.4g}"


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 100.0 else f"{as_read(round(ratio))} times"


def described(
    columns: WatchedColumns, column: int, alone: int | None, before: NightStatistics,
    now: NightStatistics, *, drift: float, times_usual: float | None, reported: bool,
) -> ColumnDrift:  # fmt: skip
    """Say what moved most in a column's values, or in a feature whose share is watched alone."""
    part = slice(int(columns.starts[column]), int(columns.starts[column + 1]))
    old, new = Counts.of(before, part), Counts.of(now, part)
    title = columns.title(column)
    names = [columns.name(k) for k in range(part.start, part.stop)]
    if alone is not None:
        k = alone - part.start
        change = _share(title, names[k], _shares(k, old, new))
    elif columns.of_values[column]:
        k = int(np.argmax(features_moved(old, new)))
        change = _share(title, names[k], _shares(k, old, new))
    else:
        change = _number(columns, part, old, new)
    missing, unseen = (
        _shares(names.index(title + end), old, new) if title + end in names else (None, None)
        for end in (MISSING, UNSEEN)
    )
    return ColumnDrift(
        title, change.what, change.measure, change.before, change.now,
        missing[0], missing[1], unseen[0], unseen[1], drift, times_usual, reported,
    )  # fmt: skip


class _Moved(NamedTuple):
    """The column that moved most."""

    what: str
    measure: str
    before: float
    now: float


def _shares(k: int, old: Counts, new: Counts) -> tuple[float, float]:
    return float(old.present[k]) / old.rows, float(new.present[k]) / new.rows


def _share(title: str, name: str, shares: tuple[float, float]) -> _Moved:
    """Say what a feature's share is of; of a number as it comes it is that of zeros."""
    if name == title and title != LABEL:
        return _Moved("0", SHARE, 1.0 - shares[0], 1.0 - shares[1])
    own = name.removeprefix(title) if title != LABEL else name
    value = own[1:] if own[:1] == "=" else own.removeprefix(" is").lstrip(" :")
    return _Moved(value, SHARE, *shares)


def _number(columns: WatchedColumns, part: slice, old: Counts, new: Counts) -> _Moved:
    """Return which of mean and deviation moved most, as the source has it."""
    scaled = [k - part.start for k in range(part.start, part.stop) if k in columns.scales]
    distance, spread, _ = means_moved(old, new)
    k = max(scaled or [0], key=lambda j: float(distance[j] + spread[j]))
    scale = columns.scales.get(part.start + k, NumberScale(1.0, 0.0))
    mean, mean_now = (float(one.mean[k]) * scale.deviation + scale.mean for one in (old, new))
    spreads = (float(one.variance[k]) ** 0.5 * scale.deviation for one in (old, new))
    of = f" of {columns.name(part.start + k)}" * (len(scaled) > 1)
    zeros = max(1.0 - float(one.present[k]) / one.rows for one in (old, new))
    of += " where it is not 0" * (not scaled and zeros > SOME_ZEROS)
    if distance[k] < spread[k]:
        return _Moved(f"standard deviation{of}", DEVIATION, *spreads)
    return _Moved(f"mean{of}", MEAN, mean, mean_now)
