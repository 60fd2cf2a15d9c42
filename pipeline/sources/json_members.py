"""How many different members the objects of some lines have, counted before Arrow reads them.

Arrow keeps a column for each, filled for every line: lines that share no member take many times
their text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes

_NEWLINE, _BLANK, _QUOTE, _BACKSLASH, _COLON = 10, 32, 34, 92, 58
_OPENS, _CLOSES = (91, 123), (93, 125)
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
def _count(  # noqa: C901, PLR0912 - one walk over the text
    text: Bytes, seen: NDArray[np.uint64], most: int
) -> int:
    """Note the hash of every path of names in an open table, whose size is a power of two."""
    paths = np.zeros(_DEEPEST + 1, np.uint64)
    last = np.uint64(seen.size - 1)
    depth, n, at = 0, 0, 0
    while at < text.size:
        c = text[at]
        if c == _NEWLINE:
            depth = 0
        elif c in _OPENS:
            depth = min(depth + 1, _DEEPEST)
            paths[depth] = paths[depth - 1]
        elif c in _CLOSES:
            depth = max(depth - 1, 0)
        elif c == _QUOTE:
            found = _OFFSET ^ paths[max(depth - 1, 0)]
            at += 1
            while at < text.size and text[at] != _QUOTE and text[at] != _NEWLINE:
                if text[at] == _BACKSLASH:
                    at += 1
                if at < text.size:
                    found = (found ^ np.uint64(text[at])) * _PRIME
                at += 1
            behind = at + 1
            while behind < text.size and text[behind] <= _BLANK and text[behind] != _NEWLINE:
                behind += 1
            if at < text.size and text[at] == _NEWLINE:
                continue
            if behind < text.size and text[behind] == _COLON:
                found |= np.uint64(1)
                paths[depth] = found
                slot = (found >> np.uint64(20)) & last
                while seen[slot] != 0 and seen[slot] != found:
                    slot = (slot + np.uint64(1)) & last
                if seen[slot] == 0:
                    seen[slot] = found
                    n += 1
                    if n > most:
                        return n
        at += 1
    return n
