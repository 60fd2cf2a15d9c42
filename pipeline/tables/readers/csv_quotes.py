"""Quotes of delimited text (CSV): where a line end is part of a cell, and where it ends a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import NEWLINE, QUOTE, RETURN
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


class CsvText(NamedTuple):
    """Text of whole rows."""

    bytes: Bytes  # (size,), the last one a line end
    rows: int  # that are in it, blank ones apart


class Quotes(NamedTuple):
    """What begins and ends quoted cells, and what stands between cells."""

    delimiter: int
    quote: int = QUOTE  # 256: cells are in none

    def state_behind(self, text: Bytes, state: int) -> int:
        """Return where the byte behind a text is, which begins in a state."""
        if not text.size or self.quote == _NO_BYTE:
            return state
        if state != INSIDE and bytes([self.quote]) not in text.tobytes():
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
        ends = np.empty((text.size // most + 2, 2), np.int64)
        _, rows, noted = exactly(_scan, text.size)(text, *self, OUTSIDE, most, ends)
        if not noted or ends[noted - 1, 0] < text.size:
            ends[noted], noted = (text.size, rows), noted + 1
        starts = np.vstack([(0, 0), ends[: noted - 1]])
        parts = zip(starts.tolist(), ends[:noted].tolist(), strict=True)
        return [CsvText(text[a:b], after - before) for (a, before), (b, after) in parts]


#: Of text without quoted cells.
NO_QUOTES = Quotes(_NO_BYTE, _NO_BYTE)
