"""Statistics of rows, as a manifest has them: of a table, of a data set, of several joined.

Joining is associative: counts and largest values come out the same to the bit, means and weighted
sums to rounding.  Means and variances follow Chan, Golub and LeVeque (1983, The American
Statistician 37:242-247): with n + m rows, d the distance of the means, the variance is
(n v + m w) / (n + m) + d^2 n m / (n + m)^2, where nothing cancels.  Statistics are never
subtracted: the rest could be rounding alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.storage.manifest import Labels, Manifest, OffsetStats, Values, WeightStats
from fewpass.storage.table import Table


class MeanAndVariance(NamedTuple):
    """Mean and variance of n numbers; arrays of both for several columns."""

    n: float
    mean: Any
    variance: Any

    def joined(self, other: MeanAndVariance) -> MeanAndVariance:
        """Return those of all numbers."""
        n, step = self.n + other.n, other.mean - self.mean
        within = (self.n * self.variance + other.n * other.variance) / n
        between = step * step * (self.n / n) * (other.n / n)
        return MeanAndVariance(n, self.mean + step * (other.n / n), within + between)


class RowSummary(NamedTuple):
    """Statistics of rows, without those of columns."""

    n_rows: int
    weights: WeightStats | None
    sums: NDArray[np.float64] | None  # `weighted_sums`; None: no weights and no offsets
    has_offset: bool
    counts: NDArray[np.int64] | None  # of each label; None: not counted, or targets are numbers
    values: Values | None  # of targets that are numbers; None: not counted, or these are labels
    heft: NDArray[np.float64] | None = None  # weight of the rows of each label; None: as `counts`

    @classmethod
    def of(cls, table: Table, targets: Labels | Values | None = None) -> RowSummary:
        """Summarise a table, one row or more.

        Parameters
        ----------
        targets
            Of the data set, whose labels are counted; None: targets are counted elsewhere.
        """
        sums = counts = values = weights = heft = None
        if table.weight is not None:
            total, maximum = float(table.weight.sum()), float(table.weight.max())
            weights = WeightStats(total=total, maximum=maximum)
        if table.weight is not None or table.offset is not None:
            sums = weighted_sums(table)
        if isinstance(targets, Labels):
            codes, n = table.target.astype(np.int64), len(targets.labels)
            counts = np.bincount(codes, minlength=n)
            heft = (
                None if table.weight is None else np.bincount(codes, table.weight, n).astype(float)
            )
        elif targets is not None:
            values = _values(table.target)
        has_offset = table.offset is not None
        return cls(table.n_rows, weights, sums, has_offset, counts, values, heft)

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> RowSummary:
        """Return the statistics of the rows of a data set."""
        has_offset = manifest.offsets is not None
        rows = cls(manifest.n_rows, manifest.weights, _sums_in(manifest), has_offset, None, None)
        return rows.with_targets(manifest.targets)

    def with_targets(self, targets: Labels | Values) -> RowSummary:
        """Return these with targets that were counted elsewhere."""
        if isinstance(targets, Labels):
            heft = self.heft if targets.weights is None else np.array(targets.weights)
            return self._replace(counts=np.array(targets.counts, np.int64), heft=heft)
        return self._replace(values=targets)

    def joined(self, other: RowSummary) -> RowSummary:
        """Return the statistics of the rows of both: rows of one form, with the same labels."""
        weights, sums, counts, heft = None, None, None, None
        if self.weights is not None and other.weights is not None:
            total = self.weights.total + other.weights.total
            maximum = max(self.weights.maximum, other.weights.maximum)
            weights = WeightStats(total=total, maximum=maximum)
        if self.sums is not None and other.sums is not None:
            sums = self.sums + other.sums
        if self.counts is not None and other.counts is not None:
            counts = self.counts + other.counts
        if self.heft is not None and other.heft is not None:
            heft = self.heft + other.heft
        return RowSummary(
            self.n_rows + other.n_rows, weights, sums, self.has_offset, counts,
            self._joined_values(other), heft,
        )  # fmt: skip

    def _joined_values(self, other: RowSummary) -> Values | None:
        a, b = self.values, other.values
        if a is None or b is None:
            return None
        one = MeanAndVariance(self.n_rows, a.mean, a.variance)
        moments = one.joined(MeanAndVariance(other.n_rows, b.mean, b.variance))
        low, high = min(a.minimum, b.minimum), max(a.maximum, b.maximum)
        return Values(mean=moments.mean, variance=moments.variance, minimum=low, maximum=high)

    def targets(self, like: Labels | Values) -> Labels | Values:
        """Return the targets of these rows; `like`, which knows the labels, with other counts."""
        if isinstance(like, Labels):
            counts = like.counts if self.counts is None else tuple(self.counts.tolist())
            heft = None if self.heft is None else tuple(self.heft.tolist())
            return like.model_copy(update={"counts": counts, "weights": heft})
        mean = None if self.sums is None else self._weighted_mean(3)
        return (self.values or like).model_copy(update={"weighted_mean": mean})

    @property
    def offsets(self) -> OffsetStats | None:
        """Means of the offsets, by row weights; None where rows have none."""
        if not self.has_offset:
            return None
        return OffsetStats(mean=self._weighted_mean(1), mean_exp=self._weighted_mean(2))

    def _weighted_mean(self, k: int) -> float:
        assert self.sums is not None, "rows have weights or offsets"
        return float(self.sums[k] / (self.sums[0] or 1.0))


def weighted_sums(table: Table) -> NDArray[np.float64]:
    """Return the sums of weights, offsets, their exponentials and targets, (4,)."""
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    offset = np.zeros(table.n_rows) if table.offset is None else table.offset
    return np.array([np.ones(table.n_rows), offset, np.exp(offset), table.target]) @ weight


def none_counts(n_rows: int, which: str = "all") -> BadInput:
    """Return the error for rows of which each has the weight 0."""
    return BadInput(
        f"The weights of {which} {n_rows:,} rows are 0, so no row counts. Check the column "
        "(`weight`), and give weights above 0 to rows that shall count."
    )


def joined_bad_rows(manifests: Sequence[Manifest]) -> dict[str, int]:
    """Return the bad rows of every file that data sets were made of."""
    return dict(sum((Counter(one.bad_rows) for one in manifests), Counter()))


class MeasuredColumns(Protocol):
    """Rows whose columns were measured: a data set, or some that are not one yet."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def column(self, name: str) -> NDArray[np.float64]:
        """Return ``count``, ``mean`` or ``variance`` of every column, in the source's order."""


def joined_columns(sets: Sequence[MeasuredColumns]) -> dict[str, NDArray[np.float64]]:
    """Return count, mean and variance of every column of all rows, in the source's order."""
    first, *others = sets
    count, moments = first.column("count"), _mean_and_variance(first)
    for one in others:
        count = count + one.column("count")
        moments = moments.joined(_mean_and_variance(one))
    return {"count": count, "mean": moments.mean, "variance": moments.variance}


def _mean_and_variance(rows: MeasuredColumns) -> MeanAndVariance:
    return MeanAndVariance(rows.n_rows, rows.column("mean"), rows.column("variance"))


def _values(target: NDArray[np.float64]) -> Values:
    mean = float(target.mean())
    variance = float(((target - mean) ** 2).mean())
    low, high = float(target.min()), float(target.max())
    return Values(mean=mean, variance=variance, minimum=low, maximum=high)


def _sums_in(manifest: Manifest) -> NDArray[np.float64] | None:
    """Return the weighted sums that the means of a manifest stand for."""
    weights, offsets, targets = manifest.weights, manifest.offsets, manifest.targets
    if weights is None and offsets is None:
        return None
    total = float(manifest.n_rows) if weights is None else weights.total
    mean, mean_exp = (0.0, 1.0) if offsets is None else (offsets.mean, offsets.mean_exp)
    target = 0.0  # no mean of labels is asked for
    if not isinstance(targets, Labels):
        assert targets.weighted_mean is not None, "rows have weights or offsets"
        target = targets.weighted_mean
    return total * np.array([1.0, mean, mean_exp, target])
