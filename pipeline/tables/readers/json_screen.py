"""Lines looked at before Arrow's JSON reader sees them: an object in each, of UTF-8, not too deep.

That reader calls itself for every bracket inside another, until the stack ends, and takes an object
over several lines, or several on one, for rows like others.  It fills a column for each member in
every line, so members are counted: lines that share none take many times their text.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import BACKSLASH, COLON, NEWLINE, QUOTE, SPACE
from fewpass.pipeline.tables.readers.charsets import is_utf8
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Bytes

#: Brackets inside each other that are read.
MOST_DEEP = 100
#: Of a line that is nothing but objects no longer.
_NONE = -(1 << 40)
_SHORTEST = len("{}")
#: The bit by which brackets and braces differ, and what both are with it.
_CASE, _OPENS, _CLOSES = 32, 123, 125
_LIST, _LIST_ENDS, _OBJECT, _OBJECT_ENDS = 91, 93, 123, 125


_DEEPEST = 128
_LEAST_SLOTS = 1 << 10
#: Of FNV-1a, on 64 bits.
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def is_sound(text: Bytes) -> bool:
    """Say whether every line that is not blank is one object in UTF-8, as far as brackets tell."""
    return is_utf8(text) and (_is_flat(text) or _odd_lines(text, MOST_DEEP) == 0)


@kernel
def _is_flat(text: Bytes) -> bool:
    """Say whether every line is one object of no others and no lists: a fifth of the other kernel.

    Where it begins by the only bracket that opens, and ends by one that closes, nothing is nested.
    """
    openers, begin = 0, 0
    for at in range(text.size):
        c = text[at]
        openers += c | _CASE == _OBJECT
        if c == NEWLINE:
            is_framed = text[begin] == _OBJECT and text[at - 1] == _OBJECT_ENDS
            if at - begin < _SHORTEST or not is_framed or openers != 1:
                return False
            openers, begin = 0, at + 1
    return begin == text.size


def fault_of(line: bytes) -> tuple[str, str] | None:
    """Return fact and advice where a line is no object that can be read; None where it is one."""
    if not is_utf8(np.frombuffer(line, np.uint8)):
        return _no_utf8(line)
    if _depth(np.frombuffer(line, np.uint8)) > MOST_DEEP:
        fact = f"brackets stand in each other more than {MOST_DEEP} deep"
        return fact, "Write the values flatter,"
    try:
        value = json.loads(line, parse_int=float)
    except (ValueError, RecursionError) as error:
        return f"the line is not JSON ({error})", "Correct it,"
    if not isinstance(value, dict):
        return f"the line is {shown(line)}, an object was expected", "Write one on each line,"
    return None


def _no_utf8(line: bytes) -> tuple[str, str]:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        bad = shown(line[error.start : error.start + 8])
        return f"the bytes {bad} are no UTF-8", "Say what the text is written in (`charset`),"
    return "the line is no UTF-8", "Say what the text is written in (`charset`),"


@part_of_kernels
def behind_text(text: Bytes, at: int) -> int:
    """Return the place of the quote that ends the text begun at `at`, or of the line's end."""
    at += 1
    while at < text.size and text[at] != NEWLINE and text[at] != QUOTE:
        if text[at] == BACKSLASH and at + 1 < text.size and text[at + 1] != NEWLINE:
            at += 1
        at += 1
    return at


@part_of_kernels
def _brackets(text: Bytes, at: int) -> tuple[int, int, int, int]:
    """Follow the brackets of a line from `at` on.

    Returns the number of its objects, -1 where brackets do not match or other text is next to them;
    the depth of its brackets; whether there is anything; and where the line ends.
    """
    values, depth, deepest, filled = 0, 0, 0, 0
    while at < text.size and text[at] != NEWLINE:
        c = text[at]
        filled |= c > SPACE
        if depth == 0 and c > SPACE and c not in (_LIST, _OBJECT):
            values = _NONE
        if c == QUOTE:
            at = behind_text(text, at)
            if at >= text.size or text[at] == NEWLINE:
                return -1, deepest, 1, at
        elif c in (_LIST, _OBJECT):
            if depth == 0:
                values = values + 1 if c == _OBJECT else _NONE
            depth += 1
            deepest = max(deepest, depth)
        elif c in (_LIST_ENDS, _OBJECT_ENDS):
            depth -= 1
            values = values if depth >= 0 else _NONE
        at += 1
    return (values if depth == 0 and values >= 0 else -1), deepest, filled, at


@kernel
def _odd_lines(text: Bytes, most: int) -> int:
    """Count lines, but blank ones, that are not one object, or deeper than `most`."""
    odd, at = 0, 0
    while at < text.size:
        values, deepest, filled, at = _brackets(text, at)
        odd += filled and (values != 1 or deepest > most)
        at += 1
    return odd


@kernel
def _depth(line: Bytes) -> int:
    """Return how many brackets of a line stand in each other at most."""
    return _brackets(line, 0)[1]


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
        if c == QUOTE:
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
        if at < text.size and text[at] == NEWLINE:
            depth = 0
        at += 1
    return n


@part_of_kernels
def _is_name(text: Bytes, at: int) -> bool:
    """Say whether a colon follows the quote at `at`, but for blanks."""
    if at >= text.size or text[at] != QUOTE:
        return False
    at += 1
    while at < text.size and text[at] <= SPACE and text[at] != NEWLINE:
        at += 1
    return at < text.size and text[at] == COLON


@part_of_kernels
def _hashed(name: Bytes, path: np.uint64) -> np.uint64:
    """Return the hash of a name inside of others (FNV-1a), never 0."""
    digest = _OFFSET ^ path
    for k in range(name.size):
        digest = (digest ^ np.uint64(name[k])) * _PRIME
    return digest | np.uint64(1)


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
