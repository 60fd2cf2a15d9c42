"""A random order of rows in which neighbours are visited soon after each other.

Of a pass over rows in one permutation of all of them, up to half is waiting for memory.  Here the
caches have seen the page, and often the line.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel

BLOCK_ROWS, TILE_ROWS = 64, 512  # neighbours that stay together, and rows that fit into the cache
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def shuffled_blocks(rows: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw blocks of 64 neighbours, then permute every 512 rows that came together; in place.

    No two rows meet in every pass: where they do, dual ascent loses (docs/decisions.md,
    "Random order in blocks").
    """
    first = int(generator.integers(min(BLOCK_ROWS, len(rows))))
    mix(rows, first, np.uint64(generator.integers(1 << 63)))
    return rows


@kernel
def mix(rows: NDArray[np.int64], first: int, seed: np.uint64) -> None:
    """Shuffle blocks from row `first` on; rows before it and after the last block stay.

    Numbers are splitmix64's: the same with NumPy's generator takes five times as long.
    """
    n, state = rows.shape[0], seed
    for k in range((n - first) // BLOCK_ROWS - 1, 0, -1):
        state += np.uint64(GOLDEN)
        other = first + BLOCK_ROWS * below(state, k + 1)
        own = first + BLOCK_ROWS * k
        for j in range(BLOCK_ROWS):
            rows[own + j], rows[other + j] = rows[other + j], rows[own + j]
    for start in range(0, n, TILE_ROWS):
        for k in range(min(TILE_ROWS, n - start) - 1, 0, -1):
            state += np.uint64(GOLDEN)
            other = start + below(state, k + 1)
            rows[start + k], rows[other] = rows[other], rows[start + k]


@kernel
def below(state: np.uint64, bound: int) -> np.int64:
    """Return a whole number below a bound (2^32 at most), splitmix64's for that state."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
    return np.int64((z * np.uint64(bound)) >> np.uint64(32))
