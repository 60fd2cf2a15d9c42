"""Kernels of interactions.py: sums over the cells of two variables, and what lines leave."""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Matrix, Vector, WholeNumbers

SWEEPS = 3

Levels = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Pairs = np.ndarray[tuple[int, int], np.dtype[np.int64]]


@kernel
def measure_tables(
    codes: Levels, sizes: WholeNumbers, places: Pairs, g: Matrix, h: Matrix, phis: Vector,
    centred: bool, sums: Matrix,
) -> None:  # fmt: skip
    """Write score and df of tables (p, 2): two of the variables in cells, codes (v, n), each."""
    for p in range(places.shape[0]):
        one, other = places[p, 0], places[p, 1]
        R, H = np.empty((sizes[one], sizes[other])), np.empty((sizes[one], sizes[other]))
        sums[p] = 0.0
        for k in range(g.shape[0]):
            sum_cells(codes[one], codes[other], h[k], 0, 1, H)
            sum_cells(codes[one], codes[other], g[k], 0, 1, R)
            df = shrunk(H)
            if centred:
                subtract_each(R, H)
                df += shrunk_whole(H) - shrunk_lines(H) - shrunk_lines(H.T)
            sums[p, 0] += squared_steps(R, H) / phis[k] - df
            sums[p, 1] += df


@kernel
def halves_agree(
    codes: Levels, size: int, width: int, g: Matrix, h: Matrix, phis: Vector, centred: bool,
    sums: Vector,
) -> None:  # fmt: skip
    """Write how far g goes with the steps R / (H + 1) of the other half, and its variance."""
    G, H = np.empty((2, size, width)), np.empty((2, size, width))
    step = np.empty((size, width))
    sums[:] = 0.0
    for k in range(g.shape[0]):
        for half in range(2):
            sum_cells(codes[0], codes[1], g[k], half, 2, G[half])
            sum_cells(codes[0], codes[1], h[k], half, 2, H[half])
        for half in range(2):
            step[:] = G[half]
            if centred:
                subtract_each(step, H[half])
            for a in range(size):
                for b in range(width):
                    own = step[a, b] / (H[half, a, b] + 1.0)
                    sums[0] += G[1 - half, a, b] * own / phis[k]
                    sums[1] += 2.0 * H[1 - half, a, b] * own * own / phis[k]


@part_of_kernels
def sum_cells(
    one: WholeNumbers, other: WholeNumbers, of: Vector, first: int, step: int, table: Matrix
) -> None:
    """Write the sum of some rows' numbers in every cell."""
    table[:] = 0.0
    for i in range(first, of.shape[0], step):
        table[one[i], other[i]] += of[i]


@part_of_kernels
def subtract_each(R: Matrix, H: Matrix) -> None:
    """Leave in R what remains once rows and columns are fitted alone."""
    for _ in range(SWEEPS):
        subtract_lines(R, H)
        subtract_lines(R.T, H.T)


@part_of_kernels
def subtract_lines(R: Matrix, H: Matrix) -> None:
    """Subtract from every line of R what it can take as a whole."""
    for a in range(R.shape[0]):
        total = H[a].sum()
        share = R[a].sum() / total if total > 0.0 else 0.0
        for b in range(R.shape[1]):
            R[a, b] -= H[a, b] * share


@part_of_kernels
def squared_steps(R: Matrix, H: Matrix) -> float:
    """Return the sum of R^2 / (H + 1)."""
    total = 0.0
    for a in range(R.shape[0]):
        for b in range(R.shape[1]):
            total += R[a, b] * R[a, b] / (H[a, b] + 1.0)
    return total


@part_of_kernels
def shrunk(H: Matrix) -> float:
    """Return S(H)."""
    total = 0.0
    for a in range(H.shape[0]):
        for b in range(H.shape[1]):
            total += H[a, b] / (H[a, b] + 1.0)
    return total


@part_of_kernels
def shrunk_lines(H: Matrix) -> float:
    """Return S of the sums of lines."""
    total = 0.0
    for a in range(H.shape[0]):
        line = H[a].sum()
        total += line / (line + 1.0)
    return total


@part_of_kernels
def shrunk_whole(H: Matrix) -> float:
    """Return S of the sum of all."""
    total = float(H.sum())
    return total / (total + 1.0)
