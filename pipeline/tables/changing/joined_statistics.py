"""Statistics of two groups of rows together, from those of each, without reading a row.

Counts, sums and largest values add up; means and variances follow Chan, Golub and LeVeque (1983,
The American Statistician 37:242-247): with n + m rows, d the distance of the means, the variance is
(n v + m w) / (n + m) + d^2 n m / (n + m)^2, where nothing cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.column_statistics import NAMES
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Manifest, Norms, OffsetStats, Values, WeightStats

Vector = NDArray[np.float64]


def joined_mean(n: float, mean: Any, m: float, other: Any) -> Any:
    """Return the mean of n and m rows, or weights, together."""
    return mean + (other - mean) * (m / (n + m))


def joined_variance(
    n: float, mean: Any, variance: Any, m: float, other: Any, its_variance: Any
) -> Any:
    """Return the variance of n and m rows together."""
    step = other - mean
    within = (n * variance + m * its_variance) / (n + m)
    return within + step * step * (n / (n + m)) * (m / (n + m))


def joined_columns(one: Dataset, two: Dataset) -> dict[str, Vector]:
    """Return count, mean and variance of every column, in the source's order."""
    n, m = one.n_rows, two.n_rows
    count, mean, variance = (one.column(name) for name in NAMES)
    times, other, its = (two.column(name) for name in NAMES)
    means = (n, mean, m, other)
    return {
        "count": count + times,
        "mean": joined_mean(*means),
        "variance": joined_variance(n, mean, variance, m, other, its),
    }


def joined_norms(one: Manifest, two: Manifest) -> Norms:
    """Return the moments of the rows' norms."""
    n, m, a, b = one.n_rows, two.n_rows, one.norms, two.norms
    return Norms(
        mean_square=joined_mean(n, a.mean_square, m, b.mean_square),
        max_square=max(a.max_square, b.max_square),
        mean_fourth=joined_mean(n, a.mean_fourth, m, b.mean_fourth),
    )


def joined_targets(one: Manifest, two: Manifest) -> Labels | Values:
    """Return what is known of the targets; labels are the same, in the same order."""
    a, b, n, m = one.targets, two.targets, one.n_rows, two.n_rows
    if isinstance(a, Labels) and isinstance(b, Labels):
        counts = tuple(x + y for x, y in zip(a.counts, b.counts, strict=True))
        return a.model_copy(update={"counts": counts})
    assert isinstance(a, Values) and isinstance(b, Values), "one follows the other"  # noqa: PT018
    weighted = None
    if a.weighted_mean is not None and b.weighted_mean is not None:
        weighted = joined_mean(_total(one), a.weighted_mean, _total(two), b.weighted_mean)
    return Values(
        mean=joined_mean(n, a.mean, m, b.mean),
        variance=joined_variance(n, a.mean, a.variance, m, b.mean, b.variance),
        minimum=min(a.minimum, b.minimum),
        maximum=max(a.maximum, b.maximum),
        weighted_mean=weighted,
    )


def joined_weights(one: Manifest, two: Manifest) -> WeightStats | None:
    """Return sum and maximum of the row weights."""
    a, b = one.weights, two.weights
    if a is None or b is None:
        return None
    return WeightStats(total=a.total + b.total, maximum=max(a.maximum, b.maximum))


def joined_offsets(one: Manifest, two: Manifest) -> OffsetStats | None:
    """Return the means of the offsets, by row weights."""
    a, b = one.offsets, two.offsets
    if a is None or b is None:
        return None
    total, its = _total(one), _total(two)
    return OffsetStats(
        mean=joined_mean(total, a.mean, its, b.mean),
        mean_exp=joined_mean(total, a.mean_exp, its, b.mean_exp),
    )


def _total(manifest: Manifest) -> float:
    return float(manifest.n_rows) if manifest.weights is None else manifest.weights.total
