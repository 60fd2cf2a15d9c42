"""Lines looked at before Arrow's JSON reader sees them: an object in each, of UTF-8, not too deep.

That reader calls itself for every bracket inside another, until the stack ends, and it takes an
object over several lines, or several on one, for rows like others.
"""

from __future__ import annotations

import json

import numpy as np

from fewpass.pipeline.tables.readers.charsets import is_utf8
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Bytes

#: Brackets inside each other that are read.
MOST_DEEP = 100
_NEWLINE, _BLANK, _QUOTE, _BACKSLASH = 10, 32, 34, 92
#: Of a line that is nothing but objects no longer.
_NONE = -(1 << 40)
_SHORTEST = len("{}")
#: The bit by which [ and { differ.
_CASE = 32
_LIST, _LIST_ENDS, _OBJECT, _OBJECT_ENDS = 91, 93, 123, 125


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
        if c == _NEWLINE:
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
        found = json.loads(line, parse_int=float)
    except (ValueError, RecursionError) as error:
        return f"the line is not JSON ({error})", "Correct it,"
    if not isinstance(found, dict):
        return f"the line is {shown(line)}, an object was expected", "Write one on each line,"
    return None


def _no_utf8(line: bytes) -> tuple[str, str]:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        found = shown(line[error.start : error.start + 8])
        return f"the bytes {found} are no UTF-8", "Say what the text is written in (`charset`),"
    return "the line is no UTF-8", "Say what the text is written in (`charset`),"


@part_of_kernels
def behind_text(text: Bytes, at: int) -> int:
    """Return the place of the quote that ends the text begun at `at`, or of the line's end."""
    at += 1
    while at < text.size and text[at] != _NEWLINE and text[at] != _QUOTE:
        if text[at] == _BACKSLASH and at + 1 < text.size and text[at + 1] != _NEWLINE:
            at += 1
        at += 1
    return at


@part_of_kernels
def _brackets(text: Bytes, at: int) -> tuple[int, int, int, int]:
    """Follow the brackets of a line from `at` on.

    Returns how many objects it has, -1 where brackets do not match or more is beside them; how
    many brackets stand in each other at most; whether there is anything; and where the line ends.
    """
    values, depth, deepest, filled = 0, 0, 0, 0
    while at < text.size and text[at] != _NEWLINE:
        c = text[at]
        filled |= c > _BLANK
        if depth == 0 and c > _BLANK and c not in (_LIST, _OBJECT):
            values = _NONE
        if c == _QUOTE:
            at = behind_text(text, at)
            if at >= text.size or text[at] == _NEWLINE:
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
