"""Counts that ingest made of every feature of a night's rows, and of several nights together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.watched_columns import WatchedColumns
from fewpass.pipeline.rows.column_statistics import NAMES
from fewpass.pipeline.rows.row_summary import MeanAndVariance
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.targets import label_text
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels

Vector = NDArray[np.float64]


class NightStatistics(NamedTuple):
    """Statistics of features, each (d,): of all values, zeros among them."""

    rows: int
    present: Vector  # values that are there: all that are not 0
    mean: Vector
    variance: Vector

    @classmethod
    def of(cls, data: Dataset, columns: WatchedColumns) -> NightStatistics:
        """Return those of a data set's features before they were scaled, and of its targets."""
        count, mean, variance = (data.column(name)[: columns.n_features] for name in NAMES)
        scaler = Scaler.of(data)
        if scaler.scale is not None:
            scale = scaler.scale[: columns.n_features]
            mean, variance = mean / scale, variance / scale**2
        if scaler.shift is not None:
            mean = mean + scaler.shift[: columns.n_features]
            count = data.n_rows * np.where(columns.are_flags, mean, 1.0)
        own = _present(count, data.n_rows, columns), mean, variance
        ends = _of_targets(data, columns.labels)
        return cls(data.n_rows, *(np.append(*both) for both in zip(own, ends, strict=True)))

    def part(self, features: NDArray[np.int64]) -> NightStatistics:
        """Return the statistics of some features."""
        return NightStatistics(self.rows, *(one[features] for one in self[1:]))

    def joined(self, other: NightStatistics) -> NightStatistics:
        """Return the statistics of the rows of both."""
        one, two = (MeanAndVariance(each.rows, each.mean, each.variance) for each in (self, other))
        rows, mean, variance = one.joined(two)
        return NightStatistics(int(rows), self.present + other.present, mean, variance)


def pooled(nights: Iterable[NightStatistics]) -> NightStatistics:
    """Return the statistics of the rows of all nights; two of them are in memory at a time."""
    return reduce(NightStatistics.joined, nights)


def labels_of(nights: Iterable[Dataset]) -> tuple[str, ...] | None:
    """Return the labels that nights have, each once; None where targets are numbers.

    Raises
    ------
    BadInput
        Targets are labels in one night and numbers in another.
    """
    targets = [night.manifest.targets for night in nights]
    labels = [one.labels for one in targets if isinstance(one, Labels)]
    if labels and len(labels) < len(targets):
        raise BadInput(
            "The targets are labels in some generations and numbers in others. Give `label_kind` "
            "or mend the files that differ."
        )
    return tuple(dict.fromkeys(label_text(one) for some in labels for one in some)) or None


def _present(count: Vector, rows: int, columns: WatchedColumns) -> Vector:
    """Return how many values are there: of numbers that are standardised 0 is one, the mean."""
    numbers, gone = np.array([*columns.missing.items()], np.int64).reshape(-1, 2).T
    present = count.copy()
    present[numbers] = rows - np.where(gone < 0, 0.0, count[gone])
    return present


def _of_targets(data: Dataset, labels: Sequence[str] | None) -> tuple[Vector, Vector, Vector]:
    targets = data.manifest.targets
    if not isinstance(targets, Labels):
        values = (float(data.n_rows), targets.mean, targets.variance)
        return tuple(np.array([one]) for one in values)  # type: ignore[return-value]
    counts = dict(zip(map(label_text, targets.labels), targets.counts, strict=True))
    count = np.array([float(counts.get(name, 0)) for name in labels or ()])
    share = count / data.n_rows
    return count, share, share * (1.0 - share)
