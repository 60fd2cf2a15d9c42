"""Moments of every column so far, for steps that are scaled by column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Floats, PerColumn
from fewpass.solvers.protocol import ColumnMoments
from fewpass.storage.table import DenseTable, Integers, Table

Sums = NDArray[np.float64]
GROWTH = 1.5  # of the number of columns, where more come than there are
FEW = 1 << 16  # columns: resizing for them is cheap
MOST_LACKING = 1.25  # columns that may come over columns that came, where a power of two is near


class RunningMoments:
    """Values other than 0 of every column of the rows seen: how many, and their squares.

    Sums are made row by row, so how rows were cut changes no bit.  16 bytes a column.

    Attributes
    ----------
    sums : numpy.ndarray
        (d, 2) counts, and sums of squares.
    """

    def __init__(self, sums: Sums) -> None:
        self.sums = sums

    def add(self, table: Table, max_index: int) -> None:
        """Count rows in, whose last column is `max_index`."""
        if max_index >= len(self.sums):
            self.sums = resized(self.sums, max(max_index + 1, int(GROWTH * len(self.sums))))
        if isinstance(table, DenseTable):
            add_dense(self.sums, table.X)
        else:
            add_sparse(self.sums, table.data, table.indices, table.nnz)


def resized(sums: Sums, d: int) -> Sums:
    """Return sums of d columns, those that are new at 0; columns beyond d have none."""
    if d == len(sums):
        return sums
    return np.concatenate([sums[:d], np.zeros((max(0, d - len(sums)), 2))])


def likely_width(width: int) -> int:
    """Return the number of columns to begin with, where the first rows have `width`.

    Names are mostly hashed to a power of two of columns, of which first rows lack the last few.
    """
    power = 1 << (width - 1).bit_length()
    return power if width > FEW and power <= MOST_LACKING * width else width


def moments_of(sums: Sums, rows: int, into: ColumnMoments | None = None) -> ColumnMoments:
    """Return share and mean square of the values of every column, among `rows` rows.

    They are written over those in `into`, if there are as many: new memory takes longer than the
    work.
    """
    if into is None or len(into.share) != len(sums):
        into = ColumnMoments(np.empty(len(sums)), np.empty(len(sums)))
    write_means(sums, float(max(rows, 1)), into.share, into.square)
    return into


@kernel
def write_means(sums: Sums, rows: float, share: PerColumn, square: PerColumn) -> None:
    """moments_of, in one reading of the sums."""
    for j in range(sums.shape[0]):
        share[j], square[j] = sums[j, 0] / rows, sums[j, 1] / max(sums[j, 0], 1.0)


@kernel
def add_sparse(sums: Sums, data: Floats, indices: Integers, nnz: int) -> None:
    """Add every value of sparse rows."""
    for k in range(nnz):
        x = np.float64(data[k])
        if x != 0.0:
            j = np.uint64(indices[k])
            sums[j, 0] += 1.0
            sums[j, 1] += x * x


@kernel
def add_dense(sums: Sums, X: Floats) -> None:
    """Add every value of dense rows."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            sums[j, 0] += x != 0.0
            sums[j, 1] += x * x
