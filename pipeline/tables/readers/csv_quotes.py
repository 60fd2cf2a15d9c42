"""Quotes of delimited text (CSV): where a line end is part of a cell, and where it ends a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import NEWLINE, QUOTE, RETURN
from fewpass.solvers.kernels.dispatch import exactly, kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Bytes

#: Where in a cell a byte is: at its beginning, within it, inside of quotes, or behind a quote that
#: stood inside of quotes, which ends them unless another one follows.
OUTSIDE, WITHIN, INSIDE, BEHIND = range(4)
_NO_BYTE = 256


@part_of_kernels
def _next(state: int, c: int, delimiter: int, quote: int) -> int:
    """Return where the byte behind one is."""
    if state == INSIDE:
        return BEHIND if c == quote else INSIDE
    if c == quote and state != WITHIN:
        return INSIDE
    return OUTSIDE if c == delimiter or c == NEWLINE or c == RETURN else WITHIN  # noqa: PLR1714, SIM109 -- `in` builds a set


@kernel
def _state_behind(text: Bytes, delimiter: int, quote: int, state: int) -> int:
    for c in text:
        state = _next(state, c, delimiter, quote)
    return state


@kernel
def _row_ends(
    text: Bytes, delimiter: int, quote: int, every: int, ends: NDArray[np.int64]
) -> tuple[int, int]:
    """Count rows, blank ones apart; note where parts of `every` rows end, and the rows so far.

    Returns the number of rows and that of the parts.
    """
    rows, noted, state, is_blank, before = 0, 0, OUTSIDE, True, 0
    for at in range(text.size):
        c = text[at]
        state = _next(state, c, delimiter, quote)
        if state != INSIDE and (c == NEWLINE or c == RETURN):  # noqa: PLR1714, SIM109 -- `in` builds a set
            rows += not is_blank
            is_blank = True
            if c == NEWLINE and rows - before >= every:
                before = rows
                ends[noted, 0], ends[noted, 1] = at + 1, rows
                noted += 1
        else:
            is_blank = False
    return rows, noted


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
        return int(exactly(_state_behind, text.size)(text, *self, state))

    def whole_rows(self, text: Bytes) -> Bytes:
        """Return the rows that end in a text that begins with one."""
        ends = np.empty((text.size + 1, 2), np.int64)
        _, noted = exactly(_row_ends, text.size)(text, *self, 1, ends)
        return text[: ends[noted - 1, 0] if noted else 0]

    def parts(self, text: Bytes, most: int) -> list[CsvText]:
        """Return whole rows in parts of about `most` rows."""
        ends = np.empty((text.size // most + 2, 2), np.int64)
        rows, noted = exactly(_row_ends, text.size)(text, *self, most, ends)
        if not noted or ends[noted - 1, 0] < text.size:
            ends[noted], noted = (text.size, rows), noted + 1
        starts = np.vstack([(0, 0), ends[: noted - 1]])
        parts = zip(starts.tolist(), ends[:noted].tolist(), strict=True)
        return [CsvText(text[a:b], after - before) for (a, before), (b, after) in parts]


#: Of text without quoted cells.
NO_QUOTES = Quotes(_NO_BYTE, _NO_BYTE)
