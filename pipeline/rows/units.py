"""The spread of the sizes of a data set's columns, and of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable, Table

Vector = NDArray[Any]

#: Statistics of more columns are not looked at: most are zero in most rows then.
MOST_COLUMNS = 1 << 20
FILLED = 0.5  # share of the numbers of a column that are not zero, where its size says something
#: Sizes of columns further apart than this factor are of different units.
UNLIKE = 100.0
#: Scalings that make the mean square of every column about 1.
SQUARED = ("rms", "standard")


def unlike_columns(dataset: Dataset) -> float | None:
    """Return how many times the largest column's size is the smallest deviation, where it matters.

    Size is the root of the mean square, over columns that are mostly not zero, as `scale=auto` has
    it.  None where columns are alike, or were not measured.
    """
    manifest = dataset.manifest
    measured = manifest.columns.keys() >= {"count", "mean", "variance"}
    if not measured or manifest.scaling.kind in SQUARED or manifest.n_features > MOST_COLUMNS:
        return None
    return _ratio_of_sizes(
        dataset.column("count"), dataset.column("mean"), dataset.column("variance"), dataset.n_rows
    )


def unlike_rows(table: Table) -> float | None:
    """Return the same of rows in memory that are dense; None of others."""
    return unlike_sizes(table.X.astype(np.float64)) if isinstance(table, DenseTable) else None


def unlike_sizes(X: Vector) -> float | None:
    """Return the same of columns (n, d)."""
    return _ratio_of_sizes(np.count_nonzero(X, axis=0), X.mean(axis=0), X.var(axis=0), len(X))


def _ratio_of_sizes(count: Vector, mean: Vector, variance: Vector, n: int) -> float | None:
    varies = (count > FILLED * n) & (variance > 1e-24 * mean * mean)
    if not varies.any():
        return None
    sizes = np.sqrt(variance[varies] + mean[varies] ** 2)
    ratio = float(sizes.max() / np.sqrt(variance[varies].min()))
    return ratio if ratio > UNLIKE else None


def advised_scaling(layout: str) -> str:
    """Name the scaling that helps: sparse rows cannot be standardised."""
    return "scale=standard" if layout == "dense" else "scale=maxabs"
