"""What a manifest says of rows, found by reading them: for rows of which some are gone.

Statistics of rows that go are not subtracted: what is left after a subtraction may be rounding.
"""

from __future__ import annotations

import math

import numpy as np

from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.tables.ingest.writing import weighted_sums
from fewpass.storage.chunk_records import row_squares
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Norms, OffsetStats, Values, WeightStats
from fewpass.storage.table import Table


class RowSummary:
    """Running statistics of all rows added so far, in their order.

    Parameters
    ----------
    dataset
        Whose rows they are: layout, width and labels.
    """

    def __init__(self, dataset: Dataset) -> None:
        manifest = dataset.manifest
        self._targets = manifest.targets
        self.columns = ColumnStatistics(manifest.layout, manifest.n_features)
        self.n_rows = 0
        self._squares: list[float] = []
        self._fourths: list[float] = []
        self._largest = 0.0
        n_labels = len(manifest.targets.labels) if isinstance(manifest.targets, Labels) else 0
        self._counts = np.zeros(n_labels, np.int64)
        self._mean = self._deviation = 0.0
        self._range = [math.inf, -math.inf]
        self._weights = [0.0, 0.0]
        self._sums = np.zeros(4)
        self._has_weight, self._has_offset = manifest.has_weight, manifest.has_offset

    def add(self, table: Table) -> None:
        """Count rows in, with columns in stored order."""
        if not table.n_rows:
            return
        self.columns.add(table)
        squares = row_squares(table)
        self._squares.append(float(squares.sum()))
        self._fourths.append(float(np.square(squares).sum()))
        self._largest = max(self._largest, float(squares.max()))
        self._add_targets(table)
        if table.weight is not None:
            total, largest = self._weights
            most = max(largest, float(table.weight.max()))
            self._weights = [total + float(table.weight.sum()), most]
        if table.weight is not None or table.offset is not None:
            self._sums += weighted_sums(table)
        self.n_rows += table.n_rows

    def _add_targets(self, table: Table) -> None:
        target = table.target
        if isinstance(self._targets, Labels):
            self._counts += np.bincount(target.astype(np.int64), minlength=self._counts.size)
            return
        n, m, mean = self.n_rows, target.size, float(target.mean())
        step = mean - self._mean
        self._deviation += float(((target - mean) ** 2).sum()) + step * step * n * m / (n + m)
        self._mean += step * m / (n + m)
        low, high = self._range
        self._range = [min(low, float(target.min())), max(high, float(target.max()))]

    @property
    def norms(self) -> Norms:
        """Moments of the rows' norms."""
        return Norms(
            mean_square=math.fsum(self._squares) / self.n_rows,
            max_square=self._largest,
            mean_fourth=math.fsum(self._fourths) / self.n_rows,
        )

    @property
    def targets(self) -> Labels | Values:
        """What is known of the targets."""
        if isinstance(self._targets, Labels):
            return self._targets.model_copy(update={"counts": tuple(self._counts.tolist())})
        low, high = self._range
        total, _, _, target = self._sums.tolist()
        knows_mean = self._has_weight or self._has_offset
        return Values(
            mean=self._mean, variance=self._deviation / self.n_rows, minimum=low, maximum=high,
            weighted_mean=target / (total or 1.0) if knows_mean else None,
        )  # fmt: skip

    @property
    def weights(self) -> WeightStats | None:
        """Sum and maximum of the row weights."""
        total, largest = self._weights
        return WeightStats(total=total, maximum=largest) if self._has_weight else None

    @property
    def offsets(self) -> OffsetStats | None:
        """Means of the offsets, by row weights."""
        if not self._has_offset:
            return None
        total, mean, mean_exp, _ = self._sums.tolist()
        return OffsetStats(mean=mean / (total or 1.0), mean_exp=mean_exp / (total or 1.0))
