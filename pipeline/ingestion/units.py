"""How far the sizes of a data set's columns, and of its rows, are apart."""

from __future__ import annotations

import numpy as np

from pipeline.ingestion.scaling import UNLIKE
from storage.dataset import Dataset

#: Statistics of more columns are not looked at: most are zero in most rows then.
MOST_COLUMNS = 1 << 20
_FILLED = 0.5


def unlike_columns(dataset: Dataset) -> float | None:
    """Return how many times the largest column's size is the smallest deviation, where it matters.

    Size is the root of the mean square, over columns that are mostly not zero, as `scale=auto` has
    it.  None where columns are alike, or nothing is known of them.
    """
    manifest = dataset.manifest
    known = manifest.columns.keys() >= {"count", "mean", "variance"}
    if not known or manifest.scaling.kind == "standard" or manifest.n_features > MOST_COLUMNS:
        return None
    filled = dataset.column("count") > _FILLED * dataset.n_rows
    mean, variance = dataset.column("mean")[filled], dataset.column("variance")[filled]
    varies = variance > 1e-24 * mean * mean
    if not varies.any():
        return None
    sizes = np.sqrt(variance[varies] + mean[varies] ** 2)
    ratio = float(sizes.max() / np.sqrt(variance[varies].min()))
    return ratio if ratio > UNLIKE else None


def remedy(dataset: Dataset) -> str:
    """Name the scaling that helps: sparse rows cannot be standardised."""
    return "scale=standard" if dataset.manifest.layout == "dense" else "scale=maxabs"
