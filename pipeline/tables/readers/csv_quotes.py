"""Quotes of delimited text (CSV): where a line end is part of a cell, and where it ends a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import NEWLINE, QUOTE, RETURN, SPACE, TAB
from fewpass.solvers.kernels.dispatch import exactly, kernel
from fewpass.solvers.kernels.shapes import Bytes

#: Where in a cell a byte is: at its beginning, within it, inside of quotes, or behind a quote that
#: stood inside of quotes, which ends them unless another one follows.
OUTSIDE, WITHIN, INSIDE, BEHIND = range(4)
_NO_BYTE = 256


@kernel
def _scan(  # noqa: C901, PLR0912 -- one cell after the other, each in a loop of few instructions
    text: Bytes, delimiter: int, quote: int, state: int, every: int, ends: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Count rows, blank ones apart; note where parts of `every` rows end, and the rows so far.

    Returns where the byte behind the text is, the number of rows and that of the parts.
    """
    n, at, rows, before, noted, is_blank = text.size, 0, 0, 0, 0, state == OUTSIDE
    while at < n:
        first = at
        if state == OUTSIDE and text[at] == quote:
            state, at = INSIDE, at + 1
        if state == INSIDE:
            is_blank = False
            while at < n and text[at] != quote:
                at += 1
            if at == n:
                break
            state, at = BEHIND, at + 1
            if at == n:
                break
        if state == BEHIND:
            if text[at] == quote:
                state, at = INSIDE, at + 1
                continue
            state = WITHIN
        while at < n and text[at] != delimiter and text[at] != NEWLINE and text[at] != RETURN:
            at += 1
        if at > first:
            state, is_blank = WITHIN, False
        if at == n:
            break
        c, state = text[at], OUTSIDE
        at += 1
        if c == delimiter:
            is_blank = False
            continue
        rows += not is_blank
        is_blank = True
        if c == NEWLINE and rows - before >= every:
            before = rows
            ends[noted, 0], ends[noted, 1] = at, rows
            noted += 1
    return state, rows, noted


@kernel
def _count(text: Bytes, quote: int) -> tuple[int, int]:
    """Return the rows of a text that begins with one, blank ones apart, and its quotes.

    Without quotes, rows are as many as runs of line ends; compiled to a few instructions for 32
    bytes.
    """
    quotes, rows, before = 0, 0, 1
    for c in text:
        is_end = int(c == NEWLINE) | int(c == RETURN)
        rows += is_end & (1 - before)
        quotes += int(c == quote)
        before = is_end
    return rows, quotes


class CsvText(NamedTuple):
    """Text of whole rows."""

    bytes: Bytes  # (size,), the last one a line end
    rows: int  # that are in it, blank ones apart


class Quotes(NamedTuple):
    """The marks that begin and end quoted cells, and stand between cells."""

    delimiter: int
    quote: int = QUOTE  # 256: cells are in none

    def state_behind(self, text: Bytes, state: int) -> int:
        """Return where the byte behind a text is, which begins in a state."""
        if not text.size or self.quote == _NO_BYTE:
            return state
        if state != INSIDE and not exactly(_count, text.size)(text, self.quote)[1]:
            state, text = WITHIN, text[-1:]
        none = np.empty((0, 2), np.int64)
        return int(exactly(_scan, text.size)(text, *self, state, text.size + 1, none)[0])

    def end_of_row(self, text: bytes, state: int) -> tuple[int, int]:
        """Return where a row ends that a text goes on with, 0: behind it; and `state_behind`."""
        if self.quote == _NO_BYTE:
            return text.find(b"\n") + 1, state
        ends = np.empty((len(text) + 1, 2), np.int64)
        codes = np.frombuffer(text, np.uint8)
        behind, _, noted = exactly(_scan, len(text))(codes, *self, state, 0, ends)
        return (int(ends[0, 0]) if noted else 0), int(behind)

    def whole_rows(self, text: Bytes) -> Bytes:
        """Return the rows that end in a text that begins with one."""
        ends = np.empty((text.size + 1, 2), np.int64)
        _, _, noted = exactly(_scan, text.size)(text, *self, OUTSIDE, 1, ends)
        return text[: ends[noted - 1, 0] if noted else 0]

    def parts(self, text: Bytes, most: int) -> list[CsvText]:
        """Return whole rows in parts of about `most` rows."""
        rows, quoted = exactly(_count, text.size)(text, self.quote)
        if rows <= most and not quoted:
            return [CsvText(text, rows)]
        ends = np.empty((text.size // most + 2, 2), np.int64)
        _, rows, noted = exactly(_scan, text.size)(text, *self, OUTSIDE, most, ends)
        if not noted or ends[noted - 1, 0] < text.size:
            ends[noted], noted = (text.size, rows), noted + 1
        starts = np.vstack([(0, 0), ends[: noted - 1]])
        parts = zip(starts.tolist(), ends[:noted].tolist(), strict=True)
        return [CsvText(text[a:b], after - before) for (a, before), (b, after) in parts]


#: Of text without quoted cells.
NO_QUOTES = Quotes(_NO_BYTE, _NO_BYTE)


_NO_BYTE = 256
#: Lines that show whether cells stand between blanks.
_LINES = 100


@kernel
def _put_tabs(text: Bytes, quote: int, out: Bytes) -> int:
    """Copy text with one tab for every run of blanks inside a line; return how much that is."""
    n, waits, begun, quoted = 0, False, False, False
    for at in range(text.size):
        c = text[at]
        if c == NEWLINE:
            out[n] = c
            n, waits, begun, quoted = n + 1, False, False, False
        elif not quoted and (c == SPACE or c == TAB or c == RETURN):  # noqa: PLR1714, SIM109 -- `in` builds a set
            waits = begun
        else:
            if waits:
                out[n] = TAB
                n += 1
            if c == quote and (quoted or waits or not begun):
                quoted = not quoted
            out[n] = c
            n, waits, begun = n + 1, False, True
    return n


def by_tabs(text: Bytes, quotes: bool) -> Bytes:
    """Return whole lines with a tab between cells; those in double quotes end on their line."""
    out = np.empty_like(text)
    return out[: _put_tabs(text, QUOTE if quotes else _NO_BYTE, out)]


def looks_spaced(head: bytes) -> bool:
    """Say whether the first lines have no other delimiter, but all the same number of blanks."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:_LINES]
    if len(lines) < 2 or any(mark in lines[0] for mark in (b",", b";", b"|", b"\t")):
        return False
    counts = {by_tabs(np.frombuffer(line, np.uint8), True).tobytes().count(b"\t") for line in lines}
    return len(counts) == 1 and counts != {0}
