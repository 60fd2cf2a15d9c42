"""Plain numbers between delimiters, in compiled code: a fast path that reads them, or gives up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import NEWLINE, RETURN, SPACE, ZERO
from fewpass.pipeline.tables.readers.decimals import (
    OK,
    PLAIN_DIGITS,
    STEP,
    Position,
    decimal,
    plain_number,
)
from fewpass.solvers.kernels.dispatch import exact_part, kernel
from fewpass.solvers.kernels.shapes import Bytes, WholeNumbers

#: Columns that are passed over, or whose words are the targets.
PASSED, WORDS = -1, -2
#: What `read_rows` returns where something else than plain numbers stands.
GIVES_UP = -1


@exact_part
def _behind_cell(text: Bytes, at: Position, delimiter: int, quote: int) -> Position:
    """Position of what ends the cell that begins at text[at]: of a quote where one began it."""
    quoted = text[at] == quote
    at += np.uint64(quoted)
    stop = quote if quoted else delimiter
    while text[at] != NEWLINE and text[at] != stop and (quoted or text[at] != RETURN):
        at += STEP
    return at


@kernel
def read_rows(  # noqa: C901, PLR0911, PLR0912 -- calls would cost more than they hide
    text: Bytes,
    marks: tuple[int, int],
    places: WholeNumbers,
    X: NDArray[np.floating],
    single: NDArray[np.float64],
    words: NDArray[np.uint8],
    ends: NDArray[np.int32],
    largest: float,
) -> int:
    """Read rows of plain numbers; return how many there are, or GIVES_UP.

    Blank lines are no rows; cells may be in double quotes, without such a quote in them.

    Parameters
    ----------
    text
        (size,) whole lines; the last byte is a line end.
    marks
        Delimiter and quote; 256: cells are in none.
    places
        (columns,) which feature each column is, d: the target, d + 1: the weight; or PASSED, WORDS.
    X, single
        (n, d), (n, 2) overwritten: features, and target and weight.
    words, ends
        (size of the text,), (n + 1,) overwritten: one word after the other, and where each ends.
    largest
        Features may not be larger.
    """
    delimiter, quote = marks
    rows, used, d, last = 0, 0, X.shape[1], places.size - 1
    size = np.uint64(text.size)
    at: Position = np.uint64(0)
    ends[0] = 0
    while at < size:
        if text[at] == NEWLINE or (text[at] == RETURN and text[at + STEP] == NEWLINE):
            at += STEP
            continue
        for column in range(places.size):
            place, begin = places[column], at
            while text[at] == SPACE:
                at += STEP
            quoted = text[at] == quote
            if quoted and at != begin:
                return GIVES_UP  # to Arrow, a quote behind a blank is text
            start: Position = at + np.uint64(quoted)
            if place < 0:
                at = _behind_cell(text, at, delimiter, quote)
                if place == WORDS:
                    if at == start or text[at - STEP] == SPACE or text[start] == SPACE:
                        return GIVES_UP
                    for k in range(start, at):
                        words[used] = text[k]
                        used += 1
            else:
                value, first, point, at, digits = plain_number(text, start)
                if text[first] == ZERO and np.int64(point - first) > 1:
                    return GIVES_UP  # 007 may be a name
                if not 0 < digits <= PLAIN_DIGITS or text[at] | 32 == 101:  # e, E
                    if place == d and (digits == 0 or (digits > PLAIN_DIGITS and at == point)):
                        return GIVES_UP  # so is a whole number that doubles are not exact for
                    status, value, at = decimal(text, start)
                    if status != OK:
                        return GIVES_UP
                if place < d:
                    X[rows, place] = value
                    if not abs(X[rows, place]) <= largest:
                        return GIVES_UP
                else:
                    single[rows, place - d] = value
                    if place > d and value < 0.0:
                        return GIVES_UP
            if quoted:
                if text[at] != quote:
                    return GIVES_UP
                at += STEP
            while text[at] == SPACE:
                at += STEP
            if column == last and text[at] == RETURN:
                at += STEP
            if text[at] != (NEWLINE if column == last else delimiter):
                return GIVES_UP
            at += STEP
        rows += 1
        ends[rows] = used
    return rows
