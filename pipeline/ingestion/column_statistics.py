"""What is known of every column after one look at the rows, in float64 and row order.

Mean and variance follow Welford (1962, Technometrics 4:419-420), so a large mean does not eat the
variance. Zeros that sparse rows leave out are counted at the end: with c non-zeros of mean m and
squared deviations q among n rows, the column's mean is m c / n and its variance
(q + m^2 c (n - c) / n) / n. The result depends on the rows and their order, not on how they were
cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.dispatch import kernel
from storage.table import DenseTable, Table

Vector = NDArray[np.float64]

_COUNT, _MEAN, _DEVIATION, _LARGEST = range(4)


@kernel
def _add_sparse(columns: Any, data: Any, indices: Any) -> None:
    for k in range(data.shape[0]):
        x = np.float64(data[k])
        if x == 0.0:
            continue
        j = np.uint64(indices[k])
        count, mean = columns[j, _COUNT] + 1.0, columns[j, _MEAN]
        step = x - mean
        mean += step / count
        columns[j, _COUNT], columns[j, _MEAN] = count, mean
        columns[j, _DEVIATION] += step * (x - mean)
        columns[j, _LARGEST] = max(columns[j, _LARGEST], abs(x))


@kernel
def _add_dense(columns: Any, n_before: Any, X: Any) -> None:
    count, mean, deviation, largest = columns
    for i in range(X.shape[0]):
        share = 1.0 / (n_before + i + 1.0)
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            step = x - mean[j]
            mean[j] += step * share
            deviation[j] += step * (x - mean[j])
            count[j] += x != 0.0
            largest[j] = max(largest[j], abs(x))


class ColumnStatistics:
    """Running statistics of the columns of all rows added so far.

    Parameters
    ----------
    layout
        `dense` or `sparse`: the kind of table that `add` takes.
    n_features
        Columns known now; sparse tables may bring more.
    """

    def __init__(self, layout: str, n_features: int) -> None:
        self.dense = layout == "dense"
        # One row per column where access is random, one row per statistic where it is sequential.
        shape = (4, n_features) if self.dense else (n_features, 4)
        self._columns = np.zeros(shape)
        self.n_rows = 0

    def add(self, table: Table) -> None:
        """Count the table's rows in."""
        if isinstance(table, DenseTable):
            _add_dense(self._columns, float(self.n_rows), table.X)
        else:
            _add_sparse(self._columns, table.data, table.indices)
        self.n_rows += table.n_rows

    def widen(self, n_features: int) -> None:
        """Make room for columns up to `n_features` (sparse layout)."""
        have = self._columns.shape[0]
        if n_features > have:
            room = max(n_features, have + have // 2)
            self._columns = np.concatenate([self._columns, np.zeros((room - have, 4))])

    def columns(self, n_features: int) -> dict[str, Vector]:
        """Return `count` of non-zeros, `max_abs`, `mean`, `variance`, each (n_features,)."""
        self.widen(0 if self.dense else n_features)
        parts = self._columns if self.dense else self._columns[:n_features].T
        count, mean, deviation, largest = (part.copy() for part in parts)
        n = max(self.n_rows, 1)
        if not self.dense:
            deviation += mean**2 * count * ((self.n_rows - count) / n)
            mean *= count / n
        variance = np.maximum(deviation, 0.0) / n  # rounding may leave a little less than nothing
        return {"count": count, "max_abs": largest, "mean": mean, "variance": variance}
