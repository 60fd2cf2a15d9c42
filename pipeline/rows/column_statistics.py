"""Statistics of every column after one look at the rows, in float64 and row order.

Mean and variance follow Welford (1962, Technometrics 4:419-420), so a large mean does not eat the
variance. Zeros that sparse rows leave out are counted at the end: with c non-zeros of mean m and
squared deviations q among n rows, the column's mean is m c / n and its variance
(q + m^2 c (n - c) / n) / n. The result depends on the rows and their order, not on how they were
cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.prefetch import prefetch_line
from fewpass.solvers.kernels.shapes import Floats
from fewpass.storage.array_text import as_text, from_text
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.table import DenseTable, Integers, Table

Vector = NDArray[np.float64]
Records = Any  # (d,) records of mean, deviation and count: no type has their fields
Statistics = NDArray[np.float64]  # (3, d): count, mean and deviation, one after the other
NAMES = ("count", "mean", "variance")

#: Columns asked for ahead of the one that is counted.
AHEAD = 16
#: Most rows that 32 bits count.
MOST_ROWS = (1 << 32) - 1


@kernel
def _add_sparse(columns: Records, data: Floats, indices: Integers) -> None:
    last = data.shape[0] - 1
    for k in range(data.shape[0]):
        prefetch_line(columns, np.int64(indices[min(k + AHEAD, last)]))
        x = np.float64(data[k])
        if x == 0.0:
            continue
        column = columns[np.uint64(indices[k])]
        column.count += 1
        step = x - column.mean
        if step != 0.0:  # zero in columns of flags, where the rest would change nothing
            mean = column.mean + step / column.count
            column.mean = mean
            column.deviation += step * (x - mean)


@kernel
def _add_dense(columns: Statistics, n_before: float, X: Floats) -> None:
    count, mean, deviation = columns
    for i in range(X.shape[0]):
        share = 1.0 / (n_before + i + 1.0)
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            step = x - mean[j]
            mean[j] += step * share
            deviation[j] += step * (x - mean[j])
            count[j] += x != 0.0


@kernel
def _join_sparse(columns: Records, others: Records) -> None:
    for j in range(columns.shape[0]):
        column, other = columns[j], others[j]
        n, m = np.float64(column.count), np.float64(other.count)
        if m == 0.0:
            continue
        step = other.mean - column.mean
        column.count += other.count
        if n == 0.0:
            column.mean, column.deviation = other.mean, other.deviation
        else:
            column.mean += step * (m / (n + m))
            column.deviation += other.deviation + step * step * (n * (m / (n + m)))


def _join_dense(columns: Statistics, others: Statistics, n: int, m: int) -> None:
    count, mean, deviation = columns
    step = others[1] - mean
    count += others[0]
    if n + m:
        mean += step * (m / (n + m))
        deviation += others[2] + step * step * (n * (m / (n + m)))


class ColumnStatistics:
    """Running statistics of the columns of all rows added so far.

    Those of sparse rows take 20 bytes a column (24 beyond 2^32 rows): one record per column, as
    access is random. Those of dense rows lie a statistic after the other.

    Parameters
    ----------
    layout
        `dense` or `sparse`: the kind of table that `add` takes.
    n_features
        Columns known now; sparse tables may bring more.
    """

    def __init__(self, layout: str, n_features: int) -> None:
        self.dense = layout == "dense"
        self._columns: NDArray[Any] = (
            np.zeros((3, n_features)) if self.dense else np.zeros(n_features, _record("u4"))
        )
        self.n_rows = 0

    def add(self, table: Table) -> None:
        """Count the table's rows in."""
        if isinstance(table, DenseTable):
            _add_dense(self._columns, float(self.n_rows), table.X)
        else:
            self._count_in_64_bits_beyond(self.n_rows + table.n_rows)
            _add_sparse(self._columns, table.data, table.indices)
        self.n_rows += table.n_rows

    def of(self, table: DenseTable) -> ColumnStatistics:
        """Return those of a table alone."""
        own = ColumnStatistics("dense", table.X.shape[1])
        own.add(table)
        return own

    def join(self, other: ColumnStatistics | LargestValues) -> None:
        """Take in those of rows that follow, of the same columns (Chan, Golub and LeVeque)."""
        assert isinstance(other, ColumnStatistics), "statistics of one kind are joined"
        others = other._columns  # noqa: SLF001 - of the same class
        if self.dense:
            _join_dense(self._columns, others, self.n_rows, other.n_rows)
        else:
            self._count_in_64_bits_beyond(self.n_rows + other.n_rows)
            _join_sparse(self._columns, others)
        self.n_rows += other.n_rows

    def state(self) -> list[Any]:
        """Return type, statistics and rows as JSON."""
        return [self._columns.dtype.str, as_text(self._columns), self.n_rows]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> ColumnStatistics:
        """Inverse of `state`, of dense rows."""
        dtype, text, n_rows = state
        made = cls("dense", 0)
        made._columns, made.n_rows = from_text(text, dtype).reshape(3, -1), n_rows
        return made

    def _count_in_64_bits_beyond(self, n_rows: int) -> None:
        if n_rows > MOST_ROWS:
            self._columns = self._columns.astype(_record("u8"), copy=False)

    def widen(self, n_features: int) -> None:
        """Have `n_features` columns or more (sparse layout)."""
        self._columns = with_columns(self._columns, n_features)

    def columns(self, n_features: int) -> dict[str, Vector]:
        """Return `count` of non-zeros, `mean` and `variance`, each (n_features,)."""
        return {name: self.column(name, n_features) for name in NAMES}

    def column(self, name: str, n_features: int) -> Vector:
        """Return one of them, new: with one after the other, few are in memory."""
        if self.dense:
            stats = dict(zip(("count", "mean", "deviation"), self._columns, strict=True))
            if name == "variance":
                return self._variance(stats["deviation"].copy())
            return np.array(stats[name])
        self.widen(n_features)
        columns = self._columns[:n_features]
        if name == "count":
            return np.array(columns["count"], np.float64)
        mean = np.array(columns["mean"])
        if name == "mean":
            mean *= columns["count"]
            mean /= max(self.n_rows, 1)
            return mean
        # the zeros that are not there lie at a distance of `mean` from those that are
        mean *= mean
        mean *= columns["count"]
        mean *= (self.n_rows - columns["count"].astype(np.float64)) / max(self.n_rows, 1)
        mean += columns["deviation"]
        return self._variance(mean)

    def sourced(self, order: ColumnOrder, n_features: int) -> dict[str, Callable[[], Vector]]:
        """Return what makes every statistic in the source's order of columns, by name.

        To be called one after the other: there may be millions of each.
        """

        def made(name: str) -> Vector:
            return order.sourced(self.column(name, n_features))

        return {name: partial(made, name) for name in NAMES}

    def _variance(self, deviation: Vector) -> Vector:
        # rounding may leave a little less than nothing
        np.maximum(deviation, 0.0, out=deviation)
        deviation /= max(self.n_rows, 1)
        return deviation


class LargestValues:
    """The largest absolute value of every column, in the type of the values: 4 bytes of float32.

    Parameters
    ----------
    n_features
        Columns known now; sparse tables may bring more.
    """

    def __init__(self, n_features: int) -> None:
        self._largest: NDArray[Any] = np.zeros(n_features, np.float32)

    def add(self, table: Table) -> None:
        """Look at the table's rows, too."""
        values = table.X if isinstance(table, DenseTable) else table.data
        self._largest = self._largest.astype(values.dtype, copy=False)
        if isinstance(table, DenseTable):
            here = np.abs(values).max(axis=0, initial=0.0)
            np.maximum(self._largest, here, out=self._largest)
        else:
            np.maximum.at(self._largest, table.indices, np.abs(values))

    def of(self, table: DenseTable) -> LargestValues:
        """Return those of a table alone."""
        own = LargestValues(table.X.shape[1])
        own.add(table)
        return own

    def join(self, other: ColumnStatistics | LargestValues) -> None:
        """Take in those of other rows, of the same columns."""
        assert isinstance(other, LargestValues), "statistics of one kind are joined"
        self._largest = np.maximum(self._largest, other._largest)  # noqa: SLF001 - likewise

    def state(self) -> list[Any]:
        """Return type and values as JSON."""
        return [self._largest.dtype.str, as_text(self._largest)]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> LargestValues:
        """Inverse of `state`."""
        made, (dtype, text) = cls(0), state
        made._largest = from_text(text, dtype)
        return made

    def widen(self, n_features: int) -> None:
        """Have `n_features` columns or more (sparse layout)."""
        self._largest = with_columns(self._largest, n_features)

    def values(self, n_features: int) -> NDArray[np.float64]:
        """Return them, (n_features,), new."""
        self.widen(n_features)
        return np.array(self._largest[:n_features], np.float64)


def with_columns(columns: NDArray[Any], n_features: int) -> NDArray[Any]:
    """Return statistics by column with zeros for more; half as many again, as more will come."""
    have = columns.shape[0]
    if n_features <= have:
        return columns
    more = np.zeros(max(n_features - have, have // 2), columns.dtype)
    return np.concatenate([columns, more])


def _record(count: str) -> np.dtype[Any]:
    """Return the type of a sparse column's statistics."""
    return np.dtype([("mean", "f8"), ("deviation", "f8"), ("count", count)])
