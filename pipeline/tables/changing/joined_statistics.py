"""Statistics of groups of rows together, from those of each, without reading a row.

Counts, sums and largest values add up; means and variances follow Chan, Golub and LeVeque (1983,
The American Statistician 37:242-247): with n + m rows, d the distance of the means, the variance is
(n v + m w) / (n + m) + d^2 n m / (n + m)^2, where nothing cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.column_statistics import NAMES
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Manifest, Norms, OffsetStats, Values, WeightStats

Columns = dict[str, NDArray[np.float64]]


class RowStatistics(NamedTuple):
    """What manifests say of rows; by their names there."""

    n_rows: int
    targets: Labels | Values
    norms: Norms
    weights: WeightStats | None
    offsets: OffsetStats | None
    bad_rows: dict[str, int]

    @property
    def weight(self) -> float:
        """Sum of the row weights."""
        return float(self.n_rows) if self.weights is None else self.weights.total


def joined_rows(manifests: Sequence[Manifest]) -> RowStatistics:
    """Return the statistics of the rows of sets of one form; labels are the same, in one order."""
    return reduce(_joined, map(_statistics_of, manifests))


def joined_columns(sets: Sequence[Dataset]) -> Columns:
    """Return count, mean and variance of every column of all sets, in the source's order."""
    n, columns = 0, Columns()
    for one in sets:
        own = {name: one.column(name) for name in NAMES}
        columns = _both_columns(n, columns, one.n_rows, own) if n else own
        n += one.n_rows
    return columns


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


def _statistics_of(manifest: Manifest) -> RowStatistics:
    return RowStatistics(*(getattr(manifest, name) for name in RowStatistics._fields))


def _joined(one: RowStatistics, two: RowStatistics) -> RowStatistics:
    return RowStatistics(
        one.n_rows + two.n_rows,
        _both_targets(one, two),
        _both_norms(one, two),
        _both_weights(one, two),
        _both_offsets(one, two),
        {
            name: one.bad_rows.get(name, 0) + two.bad_rows.get(name, 0)
            for name in {**one.bad_rows, **two.bad_rows}
        },
    )


def _both_columns(n: int, columns: Columns, m: int, others: Columns) -> Columns:
    count, mean, variance = (columns[name] for name in NAMES)
    times, other, its = (others[name] for name in NAMES)
    return {
        "count": count + times,
        "mean": joined_mean(n, mean, m, other),
        "variance": joined_variance(n, mean, variance, m, other, its),
    }


def _both_norms(one: RowStatistics, two: RowStatistics) -> Norms:
    n, m, a, b = one.n_rows, two.n_rows, one.norms, two.norms
    return Norms(
        mean_square=joined_mean(n, a.mean_square, m, b.mean_square),
        max_square=max(a.max_square, b.max_square),
        mean_fourth=joined_mean(n, a.mean_fourth, m, b.mean_fourth),
    )


def _both_targets(one: RowStatistics, two: RowStatistics) -> Labels | Values:
    a, b, n, m = one.targets, two.targets, one.n_rows, two.n_rows
    if isinstance(a, Labels) and isinstance(b, Labels):
        counts = tuple(x + y for x, y in zip(a.counts, b.counts, strict=True))
        return a.model_copy(update={"counts": counts})
    assert isinstance(a, Values) and isinstance(b, Values), "one follows the other"  # noqa: PT018
    weighted = None
    if a.weighted_mean is not None and b.weighted_mean is not None:
        weighted = joined_mean(one.weight, a.weighted_mean, two.weight, b.weighted_mean)
    return Values(
        mean=joined_mean(n, a.mean, m, b.mean),
        variance=joined_variance(n, a.mean, a.variance, m, b.mean, b.variance),
        minimum=min(a.minimum, b.minimum),
        maximum=max(a.maximum, b.maximum),
        weighted_mean=weighted,
    )


def _both_weights(one: RowStatistics, two: RowStatistics) -> WeightStats | None:
    a, b = one.weights, two.weights
    if a is None or b is None:
        return None
    return WeightStats(total=a.total + b.total, maximum=max(a.maximum, b.maximum))


def _both_offsets(one: RowStatistics, two: RowStatistics) -> OffsetStats | None:
    a, b = one.offsets, two.offsets
    if a is None or b is None:
        return None
    total, its = one.weight, two.weight
    return OffsetStats(
        mean=joined_mean(total, a.mean, its, b.mean),
        mean_exp=joined_mean(total, a.mean_exp, its, b.mean_exp),
    )
