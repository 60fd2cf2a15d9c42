"""What is known of every column so far, as steps that are scaled by column need it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Floats, PerColumn
from fewpass.solvers.protocol import ColumnMoments
from fewpass.storage.table import DenseTable, Integers, Table

Sums = NDArray[np.float64]
GROWTH = 1.5  # of the room for columns, where there are more than there is room for
FEW = 1 << 16  # columns, for which room is soon made
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
            self.sums = with_room(self.sums, max(max_index + 1, int(GROWTH * len(self.sums))))
        if isinstance(table, DenseTable):
            add_dense(self.sums, table.X)
        else:
            add_sparse(self.sums, table.data, table.indices, table.nnz)


def with_room(sums: Sums, d: int) -> Sums:
    """Return sums of d columns, those that are new at 0; columns beyond d have none."""
    if d == len(sums):
        return sums
    return np.concatenate([sums[:d], np.zeros((max(0, d - len(sums)), 2))])


def likely_width(width: int) -> int:
    """Return how many columns to make room for, where the first rows have `width`.

    Names are mostly hashed to a power of two of columns, of which first rows lack the last few.
    """
    power = 1 << (width - 1).bit_length()
    return power if width > FEW and power <= MOST_LACKING * width else width


def moments_of(sums: Sums, rows: int, room: ColumnMoments | None = None) -> ColumnMoments:
    """Return share and mean square of the values of every column, among so many rows.

    They are written where those in `room` were, if there are as many: new memory takes longer than
    the work.
    """
    if room is None or len(room.share) != len(sums):
        room = ColumnMoments(np.empty(len(sums)), np.empty(len(sums)))
    write_means(sums, float(max(rows, 1)), room.share, room.square)
    return room


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
