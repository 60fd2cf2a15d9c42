"""Drift of a night's rows from those of the nights before, by what ingest counted of them.

Each column is compared with the newest 28 usual nights together, and with the newest 4 of the same
weekday; the nearer counts.  It is reported where it moved further than it usually does
(`drift_index`).  Dates and ids move every night, so only missing values of these count.

What a column usually does is the mean of its own indices over the same nights.  Each night stores
its own, 4 bytes a number, as all 28 references would have to be made again otherwise; what was
reported is stored as the limit, or it would hide the next one.  The references are joined anew,
from 24 bytes a feature and night at most, with one night in memory at a time.  28 nights of a
million features take 2.5 seconds of a processor, and 0.4 GB.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.models.refresh.column_drift import ColumnDrift, described
from fewpass.pipeline.models.refresh.drift_index import (
    ENOUGH,
    MOST_AT_FIRST,
    NIGHTS,
    SAME_WEEKDAY,
    Index,
    Usual,
    index_of,
)
from fewpass.pipeline.models.refresh.night_statistics import (
    NightStatistics,
    Vector,
    labels_of,
    pooled,
)
from fewpass.pipeline.models.refresh.watched_columns import WatchedColumns
from fewpass.storage.dataset import Dataset

MOST_ROWS = 40  # of the table
MOST_SAID = 3  # columns of a sentence
LEAST_STEP = 0.25  # of a number that counts on, in its standard deviations in a night
Mask = NDArray[np.bool_]


class Drift(NamedTuple):
    """Drift of a night's rows from those of the nights before."""

    nights: int  # that it was compared with
    rows_before: int
    rows: int
    columns: tuple[ColumnDrift, ...]  # what is reported, then the others; the largest drift first
    n_reported: int  # columns that are reported, more perhaps than these
    indices: Vector  # of all columns and shares, for the nights to come
    left_out: tuple[str, ...] = ()  # columns that the first night did not have

    @property
    def largest(self) -> float:
        """Return the largest drift of a column."""
        return max((one.drift for one in self.columns), default=0.0)

    @property
    def reported(self) -> tuple[ColumnDrift, ...]:
        """Return the columns that moved further than they usually do, the largest drift first."""
        return tuple(one for one in self.columns if one.reported)

    @property
    def sentence(self) -> str:
        """Say what is reported, the largest first; nothing where nothing is."""
        if not self.n_reported:
            return ""
        said = [one.sentence for one in self.reported[:MOST_SAID]]
        more = self.n_reported - len(said)
        others = [f"so did {more} other column{'s' * (more != 1)}"] if more else []
        return "; ".join([*said, *others])

    def over(self, max_drift: float | None) -> tuple[ColumnDrift, ...]:
        """Return the columns whose drift is beyond a limit, the largest first."""
        most = np.inf if max_drift is None else max_drift
        return tuple(sorted((c for c in self.columns if c.drift > most), key=lambda c: -c.drift))

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        columns = [one._asdict() for one in self.columns]
        packed = zlib.compress(self.indices.astype("<f4").tobytes(), 1)
        indices = base64.b64encode(packed).decode()
        return self._asdict() | {"columns": columns, "indices": indices}


def indices_in(document: Mapping[str, Any]) -> Vector:
    """Return the indices of a night that was written down, to a seventh digit."""
    packed = zlib.decompress(base64.b64decode(document["indices"]))
    return np.frombuffer(packed, "<f4").astype(np.float64)


def drift_of(
    tonight: Dataset, usual: Sequence[Dataset], same_weekday: Sequence[Dataset] = (),
    history: Iterable[Vector] = (), left_out: Sequence[str] = (),
) -> Drift:  # fmt: skip
    """Compare a night's rows with those of the usual nights before, at least one.

    Parameters
    ----------
    tonight
    usual, same_weekday
        Nights of the same columns, the newest last: more than 28 and 4 are not looked at.
    history
        The indices of these usual nights, of those that have any.
    left_out
        Columns that are in the files and not in `tonight`: they are listed.
    """
    nights, days = usual[-NIGHTS:], same_weekday[-SAME_WEEKDAY:]
    labels = labels_of((tonight, *nights, *days))
    columns = WatchedColumns.of(tonight, labels)
    now, before, same = (
        (NightStatistics.of(one, columns) for one in some) for some in ((tonight,), nights, days)
    )
    made = compared(columns, next(now), before, same, history)
    return made._replace(left_out=tuple(left_out))


def compared(
    columns: WatchedColumns, tonight: NightStatistics, usual: Iterable[NightStatistics],
    same_weekday: Iterable[NightStatistics] = (), history: Iterable[Vector] = (),
) -> Drift:  # fmt: skip
    """Do the same by what was counted of each night."""
    counting = columns.starts[columns.counters]
    seen: list[NightStatistics] = []
    references = [pooled(_noting(usual, counting, seen)), *_together(same_weekday)]
    seen.append(tonight.part(counting))
    every = [index_of(columns, one, tonight) for one in references]
    nearest = np.argmin([one.beyond_chance for one in every], axis=0)
    index = Index(*(np.choose(nearest, some) for some in zip(*every, strict=True)))
    moving = [*columns.dates, *columns.counters[_count_on(seen)]]
    index.moved[moving] = index.chance[moving] = 0.0
    usually = Usual.of(index, _mean(history))
    lines, n_reported = _lines(columns, index, usually, references, nearest, tonight)
    indices = np.minimum(index.moved, usually.limit)
    return Drift(len(seen) - 1, references[0].rows, tonight.rows, lines, n_reported, indices)


def _noting(
    nights: Iterable[NightStatistics], features: NDArray[np.int64], seen: list[NightStatistics]
) -> Iterator[NightStatistics]:
    """Note down what some features were every night while nights are pooled."""
    for night in nights:
        seen.append(night.part(features))
        yield night


def _count_on(nights: Sequence[NightStatistics]) -> Mask:
    """Say which numbers step in one direction every night: times, and ids that count the rows."""
    steps = np.diff([one.mean for one in nights], axis=0)
    least = LEAST_STEP * np.sqrt([one.variance for one in nights[1:]])
    ways = [np.logical_and.reduce(one > least) for one in (steps, -steps)]
    count_on: Mask = np.logical_or(*ways)
    return count_on


def _mean(history: Iterable[Vector]) -> Vector | None:
    """Return the mean of the nights' indices, one night in memory at a time; None of too few."""
    nights, total = 0, np.zeros(1)
    for indices in history:
        nights, total = nights + 1, total + indices
    return total / nights if nights >= ENOUGH else None


def _together(nights: Iterable[NightStatistics]) -> Iterator[NightStatistics]:
    """Yield what all nights have together, if there are any."""
    for first in (rest := iter(nights)):
        yield pooled(chain([first], rest))


def _lines(
    columns: WatchedColumns, index: Index, usually: Usual, references: Sequence[NightStatistics],
    nearest: NDArray[np.int64], tonight: NightStatistics,
) -> tuple[tuple[ColumnDrift, ...], int]:  # fmt: skip
    """Return the lines of the table, and how many columns are reported."""
    n, of = columns.n_columns, columns.share_columns
    exceeding, how_far = usually.exceeds(index), usually.how_far(index)
    beyond = np.maximum(index.beyond_chance, 0.0)
    drift = beyond[:n].copy()
    np.add.at(drift, of, np.where(columns.of_values[of], 0.0, beyond[n:]))
    is_reported = exceeding[:n].copy() if usually.is_estimated else drift > MOST_AT_FIRST
    np.logical_or.at(is_reported, of, exceeding[n:])
    lines = []
    for column in _first(is_reported, drift):
        own = [*range(*(n + np.searchsorted(of, (column, column + 1))).tolist())]
        own += [column] * (column not in columns.dates)
        place = max(own, key=lambda k: (exceeding[k], how_far[k]))
        lines.append(
            described(
                columns, column, int(columns.shares[place - n]) if place >= n else None,
                references[nearest[place]], tonight, drift=float(drift[column]),
                times_usual=usually.times(index, place), reported=bool(is_reported[column]),
            )
        )  # fmt: skip
    return tuple(lines), int(is_reported.sum())


def _first(is_reported: Mask, drift: Vector) -> list[int]:
    """Return the columns of the table: what is reported, what drifted most, and the most of all."""
    order = np.lexsort((-drift, ~is_reported))[:MOST_ROWS]
    return list(dict.fromkeys([*order.tolist(), int(np.argmax(drift))]))
