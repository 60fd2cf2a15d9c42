"""How many different members the objects of some lines have, counted before Arrow reads them.

Arrow keeps a column for each, filled for every line: lines that share no member take many times
their text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.json_screen import behind_text
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Bytes

_NEWLINE, _BLANK, _QUOTE, _COLON = 10, 32, 34, 58
#: The bit by which brackets and braces differ, and what both are with it.
_CASE, _OPENS, _CLOSES = 32, 123, 125
_DEEPEST = 128
_LEAST_SLOTS = 1 << 10
#: Of FNV-1a, on 64 bits.
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def count_members(text: Bytes, most: int) -> int:
    """Return how many different members there are, those inside others included.

    Of more than `most` that many and one are counted.
    """
    slots = 1 << max(_LEAST_SLOTS.bit_length() - 1, (2 * most + 2).bit_length())
    return int(_count(text, np.zeros(slots, np.uint64), most))


@kernel
def _count(text: Bytes, seen: NDArray[np.uint64], most: int) -> int:
    """Note the hash of every path of names in an open table, whose size is a power of two."""
    paths = np.zeros(_DEEPEST + 1, np.uint64)
    depth, n, at = 0, 0, 0
    while at < text.size and n <= most:
        c = text[at]
        if c == _QUOTE:
            begin, at = at + 1, behind_text(text, at)
            if _is_name(text, at):
                path = _hashed(text[begin:at], paths[max(depth - 1, 0)])
                paths[depth] = path
                n += _is_new(path, seen)
        elif c | _CASE == _OPENS:
            depth = min(depth + 1, _DEEPEST)
            paths[depth] = paths[depth - 1]
        elif c | _CASE == _CLOSES:
            depth = max(depth - 1, 0)
        if at < text.size and text[at] == _NEWLINE:
            depth = 0
        at += 1
    return n


@part_of_kernels
def _is_name(text: Bytes, at: int) -> bool:
    """Say whether a colon follows the quote at `at`, blanks aside."""
    if at >= text.size or text[at] != _QUOTE:
        return False
    at += 1
    while at < text.size and text[at] <= _BLANK and text[at] != _NEWLINE:
        at += 1
    return at < text.size and text[at] == _COLON


@part_of_kernels
def _hashed(name: Bytes, path: np.uint64) -> np.uint64:
    """Return the hash of a name inside of others (FNV-1a), never 0."""
    found = _OFFSET ^ path
    for k in range(name.size):
        found = (found ^ np.uint64(name[k])) * _PRIME
    return found | np.uint64(1)


@part_of_kernels
def _is_new(path: np.uint64, seen: NDArray[np.uint64]) -> bool:
    """Note a hash; say whether it was not there."""
    last = np.uint64(seen.size - 1)
    slot = (path >> np.uint64(20)) & last
    while seen[slot] != 0 and seen[slot] != path:
        slot = (slot + np.uint64(1)) & last
    is_new = seen[slot] == 0
    seen[slot] = path
    return bool(is_new)
