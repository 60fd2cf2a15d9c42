"""The rows that are held out at random: a share of every piece, and of its rows of every target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
#: First word after the seed of what is drawn in here.
HELD_OUT = 2


def held_out_at_random(target: NDArray[np.float64], fraction: float, seed: int, piece: int) -> Mask:
    """Draw the held-out rows among the rows (n,) of a piece: the same whoever asks."""
    return stratified(target, np.random.default_rng([seed, HELD_OUT, piece]), fraction)


def stratified(target: NDArray[np.float64], random: np.random.Generator, fraction: float) -> Mask:
    """Draw a share of rows (n,), and of the rows of every target: exact up to a row.

    Every row has the same chance.  What is left of a target's share beyond whole rows is its
    chance of one more: a systematic sample of the targets, in random order, with these chances.
    To give it to the largest remainders would hold out no row of a target that is there once.
    """
    n = len(target)
    draws = random.random(n)
    _, kind, counts = np.unique(target, return_inverse=True, return_counts=True)
    quota = fraction * counts
    taken = np.floor(quota + 1e-9)
    order = random.permutation(len(counts))
    ends = np.cumsum(np.maximum(0.0, quota - taken)[order])
    taken[order] += np.diff(np.floor(ends + random.random() + 1e-9), prepend=0.0)
    by_draw = np.lexsort((draws, kind))
    place = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)  # within its kind
    chosen = np.zeros(n, np.bool_)
    chosen[by_draw[place < taken[kind[by_draw]]]] = True
    return chosen
