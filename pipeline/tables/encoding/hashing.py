"""Hashes of words: MurmurHash3 (Appleby, 32 bits, seed 0) of their UTF-8 bytes, compiled.

The numbers of `sklearn.utils.murmurhash3_32`, for all cells of an Arrow column at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.cells import as_array
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Bytes, Index, WholeNumbers

Signs = NDArray[np.float64]
_MASK = 0xFFFFFFFF


@part_of_kernels
def _rotated(word: np.int64, by: int) -> np.int64:
    return ((word << by) | (word >> (32 - by))) & _MASK


@part_of_kernels
def _scrambled(word: np.int64) -> np.int64:
    return (_rotated((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


@part_of_kernels
def murmur3(text: Bytes, begin: Index, end: Index) -> np.int64:
    """Return the hash of text[begin:end], 0 <= hash < 2^32, as int64."""
    size, state = end - begin, np.int64(0)
    for at in range(begin, begin + size // 4 * 4, 4):
        word = np.int64(text[at]) | np.int64(text[at + 1]) << 8
        word |= np.int64(text[at + 2]) << 16 | np.int64(text[at + 3]) << 24
        state = (_rotated(state ^ _scrambled(word), 13) * 5 + 0xE6546B64) & _MASK
    word = np.int64(0)
    for k in range(size % 4):
        word |= np.int64(text[begin + size // 4 * 4 + k]) << 8 * k
    state ^= _scrambled(word) if size % 4 else 0
    state ^= size
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


@part_of_kernels
def _signed(unsigned: np.int64) -> np.int64:
    """Return a hash as the signed number of 32 bits that it is."""
    return unsigned - (unsigned >> 31 << 32)


@kernel
def _hash_cells(text: Bytes, ends: WholeNumbers, prefix: Bytes, out: WholeNumbers) -> None:
    """Hash prefix + cell for every cell text[ends[i]:ends[i + 1]]."""
    scratch = np.empty(prefix.size + 64, np.uint8)
    scratch[: prefix.size] = prefix
    for i in range(out.size):
        begin, size = ends[i], ends[i + 1] - ends[i]
        if prefix.size + size > scratch.size:
            larger = np.empty(2 * (prefix.size + size), np.uint8)
            larger[: prefix.size] = prefix
            scratch = larger
        for k in range(size):
            scratch[prefix.size + k] = text[begin + k]
        out[i] = _signed(murmur3(scratch, 0, prefix.size + size))


def hashed_slots(words: Any, prefix: str, bits: int) -> tuple[NDArray[np.int64], Signs]:
    """Return the column (n,), below 2^bits, of every cell's hash, and its sign."""
    codes = hashes(words, prefix)
    return np.abs(codes) & ((1 << bits) - 1), np.where(codes < 0, -1.0, 1.0)


def hashes(words: Any, prefix: str) -> NDArray[np.int64]:
    """Return the signed hash (n,) of prefix + word, of every cell of a large string array."""
    text, ends = buffers_of(words)
    out = np.empty(len(words), np.int64)
    _hash_cells(text, ends, np.frombuffer(prefix.encode(), np.uint8), out)
    return out


def buffers_of(words: Any) -> tuple[Bytes, NDArray[np.int64]]:
    """Return the bytes of a large string array, and where each cell begins, the last end behind."""
    words = as_array(words)
    _, ends, text = words.buffers()
    begins = np.frombuffer(ends, np.int64)[words.offset : words.offset + len(words) + 1]
    content = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return content, begins
