"""The hats of splines as entries of rows: one of every level, put in one go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.text import Ragged
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Floats, Vector, WholeNumbers

Columns = NDArray[np.integer]  # (nnz,)


class HatSlots(NamedTuple):
    """Entries of rows in the features of a spline, made where they are put."""

    u: Vector  # (n,) NaN where there are none
    heights: Vector  # (levels + 1,) of the hats of every level, from level 0

    def ragged(self) -> Ragged:
        """Return the entries, each row's together."""
        starts = np.concatenate([[0], np.cumsum(self.counts())])
        column, value = np.empty(starts[-1], np.int64), np.empty(starts[-1])
        put_hats(starts[:-1].copy(), 0, self.u, self.heights, column, value)
        return Ragged(starts, column, value)

    def counts(self) -> NDArray[np.int64]:
        """Return the entries of every row that are not 0."""
        counts = np.zeros(len(self.u), np.int64)
        count_hats(self.u, self.heights, counts)
        return counts


@part_of_kernels
def place_of_hat(u: float, level: int) -> int:
    """Return which hat of a level is not 0."""
    count = 1 << (level - 1)
    return min(int(u * count), count - 1)


@part_of_kernels
def height_of_hat(u: float, level: int, i: int) -> float:
    """Return the i-th hat of a level, of height 1."""
    return max(0.0, 1.0 - abs(u * (1 << level) - (2 * i + 1)))


@kernel
def count_hats(u: Vector, heights: Vector, counts: WholeNumbers) -> None:
    """Count the entries of rows that are not 0."""
    for r in range(u.shape[0]):
        if np.isnan(u[r]):
            continue
        counts[r] += int(u[r] != 0.5)
        for level in range(1, heights.shape[0]):
            counts[r] += int(height_of_hat(u[r], level, place_of_hat(u[r], level)) != 0.0)


@kernel
def put_hats(
    at: WholeNumbers,
    first: int,
    u: Vector,
    heights: Vector,
    indices: Columns,
    data: Floats,
) -> None:
    """Write the entries of rows that are not 0 at `at`, which moves on."""
    for r in range(u.shape[0]):
        if np.isnan(u[r]):
            continue
        if u[r] != 0.5:
            indices[at[r]] = first
            data[at[r]] = u[r] - 0.5
            at[r] += 1
        for level in range(1, heights.shape[0]):
            i = place_of_hat(u[r], level)
            hat = height_of_hat(u[r], level, i)
            if hat != 0.0:
                indices[at[r]] = first + (1 << (level - 1)) + i
                data[at[r]] = heights[level] * hat
                at[r] += 1
