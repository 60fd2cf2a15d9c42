"""What is known of every column so far, as steps that are scaled by column need it."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.kernels.dispatch import kernel
from solvers.protocol import ColumnMoments
from storage.table import DenseTable, Table


class RunningMoments:
    """Values other than 0 of every column of the rows seen: how many, and their squares.

    Sums are made row by row, so how rows were cut changes no bit.  16 bytes a column.

    Attributes
    ----------
    rows : int
        Rows seen; whoever adds them counts.
    sums : numpy.ndarray
        (d, 2) counts, and sums of squares.
    """

    def __init__(self, d: int) -> None:
        self.rows, self.sums = 0, np.zeros((d, 2))

    def add(self, table: Table) -> None:
        """Count rows in; none may have a column beyond those known."""
        if isinstance(table, DenseTable):
            add_dense(self.sums, table.X)
        else:
            add_sparse(self.sums, table.data, table.indices, table.nnz)

    def widen(self, d: int) -> None:
        """Make room for columns up to d."""
        more = np.zeros((d - len(self.sums), 2))
        self.sums = np.concatenate([self.sums, more])

    def moments(self) -> ColumnMoments:
        """Return share and mean square of the values of every column."""
        count, squares = self.sums[:, 0], self.sums[:, 1]
        return ColumnMoments(count / max(self.rows, 1), squares / np.maximum(count, 1.0))


@kernel
def add_sparse(sums: Any, data: Any, indices: Any, nnz: Any) -> None:
    """Add every value of sparse rows."""
    for k in range(nnz):
        x = np.float64(data[k])
        if x != 0.0:
            j = np.uint64(indices[k])
            sums[j, 0] += 1.0
            sums[j, 1] += x * x


@kernel
def add_dense(sums: Any, X: Any) -> None:
    """Add every value of dense rows."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            sums[j, 0] += x != 0.0
            sums[j, 1] += x * x
