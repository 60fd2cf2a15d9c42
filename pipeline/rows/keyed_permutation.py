"""A random permutation of 0 ... n - 1 that is worked out where it is asked for, never drawn whole.

A Feistel network permutes the numbers of an even number of bits, at least n of them; what it takes
beyond n - 1 is permuted again until it is below n.

Source: Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains", cycle walking.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64
_SHIFT = np.uint64(31)


def permuted_at(places: NDArray[np.int64], n: int, key: Sequence[int]) -> NDArray[np.int64]:
    """Return the numbers at some places (m,) of the permutation of 0 ... n - 1 that a key names."""
    half = max(1, -(-int(n - 1).bit_length() // 2))
    keys = np.random.default_rng(key).integers(0, 1 << 63, ROUNDS, dtype=np.uint64)
    numbers = places.astype(np.uint64)
    todo = np.arange(len(numbers))
    while len(todo):
        numbers[todo] = _network(numbers[todo], np.uint64(half), keys)
        todo = todo[numbers[todo] >= n]
    return numbers.astype(np.int64)


def _network(
    numbers: NDArray[np.uint64], half: np.uint64, keys: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Permute the numbers of 2 * half bits."""
    mask = np.uint64((1 << int(half)) - 1)
    left, right = numbers >> half, numbers & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right, key) & mask)
    return (left << half) | right


def _mixed(numbers: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Return numbers that look random, by a key."""
    mixed = numbers + key
    for factor in _MIX:
        mixed = (mixed ^ (mixed >> _SHIFT)) * factor
    return mixed ^ (mixed >> _SHIFT)
