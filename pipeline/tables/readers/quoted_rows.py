"""Where the rows of delimited text end, when quoted cells may hold line ends.

A quote opens at the beginning of a cell only, and closes where it is not doubled (RFC 4180); where
text has no quotes (`Dialect.quotes`), every line is a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.readers.characters import RETURN
from fewpass.pipeline.tables.readers.dialect import Dialect
from fewpass.pipeline.tables.readers.exact import count_byte
from fewpass.pipeline.tables.readers.lines import WholeLines
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes, WholeNumbers


class RowStarts(NamedTuple):
    """The rows of some text that are not empty."""

    lines: NDArray[np.int64]  # (n,) line that each begins in, from 0
    cells: NDArray[np.int64]  # (n,)


@kernel
def _study(
    text: Bytes, delimiter: int, quote: int, lines: WholeNumbers, cells: WholeNumbers
) -> tuple[int, int]:
    """Note every row; return how many there are and where the last whole one ends."""
    n, line, end, begins = 0, 0, 0, 0
    n_cells, quoted, at_start = 1, False, True
    skip = False
    for at in range(text.size):
        c = text[at]
        line += c == 10
        if skip:
            skip = False
        elif quoted:
            if c == quote:
                skip = at + 1 < text.size and text[at + 1] == quote
                quoted = skip
        elif c == quote and at_start:
            quoted, at_start = True, False
        elif c == delimiter:
            n_cells, at_start = n_cells + 1, True
        elif c == 10:
            length = at - end - (at > end and text[at - 1] == 13)
            if length:
                if n < lines.size:
                    lines[n], cells[n] = begins, n_cells
                n += 1
            end, begins, n_cells, at_start = at + 1, line, 1, True
        else:
            at_start = False
    return n, end


@kernel
def _drop_returns(
    text: Bytes, delimiter: int, quote: int, out: Bytes, dropped: WholeNumbers
) -> tuple[int, int]:
    """Copy text without rows that have a bare return outside quotes; their line ends stay."""
    n, line, begins, begin = 0, 0, 0, 0
    quoted, at_start, bare, n_dropped, closed = False, True, False, 0, -2
    for at in range(text.size):
        c = text[at]
        out[n] = c
        n += 1
        line += c == 10
        if c == quote and (quoted or at_start or closed == at - 1):  # a doubled one opens again
            closed = at if quoted else -2
            quoted = not quoted
        elif not quoted and c == 13 and at + 1 < text.size and text[at + 1] != 10:
            bare = True
        at_start = not quoted and (c == delimiter or c == 10)  # noqa: PLR1714 -- `in` builds a set
        if c != 10 or quoted:
            continue
        if bare:
            n = begin
            for _ in range(begins, line):
                out[n] = 10
                n += 1
            dropped[n_dropped] = begins
            n_dropped += 1
        begin, begins, bare = n, line, False
    return n, n_dropped


def without_returns(text: WholeLines, dialect: Dialect) -> tuple[WholeLines, NDArray[np.int64]]:
    """Return text without rows in which a return stands bare in a cell, and their lines from 0.

    Some readers end a row there, others do not, so the row is ambiguous.
    """
    if not count_byte(text.bytes, RETURN):
        return text, np.zeros(0, np.int64)
    out, dropped = np.empty_like(text.bytes), np.empty(text.lines, np.int64)
    n, count = _drop_returns(text.bytes, *dialect.marks, out, dropped)
    return (WholeLines(out[:n], text.lines), dropped[:count]) if count else (text, dropped[:0])


def rows_in(text: WholeLines, dialect: Dialect) -> RowStarts:
    """Find the rows of whole text."""
    lines, cells = np.empty(text.lines, np.int64), np.empty(text.lines, np.int64)
    n, _ = _study(text.bytes, *dialect.marks, lines, cells)
    return RowStarts(lines[:n], cells[:n])


def first_row(text: WholeLines, dialect: Dialect) -> tuple[str, WholeLines]:
    """Split text into its first row and the rest."""
    stop = int(np.argmax(text.bytes == ord("\n"))) + 1
    while stop < text.bytes.size and _last_end(text.bytes[:stop], dialect) != stop:
        stop += int(np.argmax(text.bytes[stop:] == ord("\n"))) + 1
    head = text.bytes[:stop]
    lines = count_byte(head, ord("\n"))
    rest = WholeLines(text.bytes[stop:], text.lines - lines)
    return head.tobytes().decode("utf-8", "backslashreplace").rstrip("\r\n"), rest


def whole_rows(
    texts: Iterator[WholeLines], dialect: Dialect, longest: int, where: str
) -> Iterator[WholeLines]:
    """Cut text anew, so that no row is in two pieces.

    Raises
    ------
    BadInput
        When a quoted cell does not end within `longest` bytes, or at all.
    """
    left, line = np.zeros(0, np.uint8), 1
    for text in texts:
        content = np.concatenate([left, text.bytes]) if left.size else text.bytes
        end = _last_end(content, dialect)
        if content.size - end > longest:
            raise _never_ends(where, line + count_byte(content[:end], ord("\n")), longest)
        if end:
            is_whole = end == content.size and not left.size
            lines = text.lines if is_whole else count_byte(content[:end], ord("\n"))
            yield WholeLines(content[:end], lines)
            line += lines
        left = content[end:]
    if left.size:
        raise _never_ends(where, line, longest)


def _last_end(content: Any, dialect: Dialect) -> int:
    if not dialect.quotes or not count_byte(content, dialect.quote):
        return int(content.size)
    none = np.empty(0, np.int64)
    return int(_study(content, *dialect.marks, none, none)[1])


def _never_ends(where: str, line: int, longest: int) -> BadInput:
    return BadInput(
        f"{where}, line {line}: a quoted cell does not end within {format_bytes(longest)} or the "
        "file. Close it, double the quotes inside cells, give more (`memory`), or say `quote=none` "
        "if quotes are part of the text."
    )
