"""What ingest measured of every column, as steps that are scaled by column need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.solvers.protocol import ColumnMoments
from fewpass.storage.dataset import Dataset
from fewpass.storage.memory_dataset import MemoryDataset

STATISTICS = ("count", "mean", "variance")


def known_moments(dataset: Dataset) -> Callable[[], ColumnMoments] | None:
    """Return what reads the moments of a data set's columns; None where nobody measured them."""
    known = dataset.in_memory or dataset.manifest.columns.keys() >= set(STATISTICS)
    return partial(column_moments, dataset) if known else None


def column_moments(dataset: Dataset) -> ColumnMoments:
    """Return share and mean square of the values of every column, in stored order.

    With c values other than 0 among n rows, mean m and variance v over all of these, the mean
    square of the values is (v + m^2) n / c.

    Raises
    ------
    Damaged
        When the statistics are not as they were written.
    """
    n = dataset.n_rows
    if isinstance(dataset, MemoryDataset):
        measured = ColumnStatistics(dataset.manifest.layout, dataset.n_features)
        measured.add(dataset.table)
        found = measured.columns(dataset.n_features)
    else:
        found = {name: dataset.column(name) for name in STATISTICS}
    count, mean, variance = (dataset.column_order.stored(found[name]) for name in STATISTICS)
    return ColumnMoments(count / n, (variance + mean * mean) * (n / np.maximum(count, 1.0)))
