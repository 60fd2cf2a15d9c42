"""Rows of delimited text, in compiled code.

A cell is what stands between two delimiters, without the blanks around it; in double quotes it may
hold the delimiter, and a quote written twice, but no line end.  A blank line is no row.

As in `libsvm_kernel`, plain numbers are read by a part of the kernel: passing the text to a
function costs more than reading one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.decimal_text import MISSING_WORDS
from fewpass.pipeline.tables.readers.characters import NEWLINE, QUOTE, RETURN, SPACE, TAB, ZERO
from fewpass.pipeline.tables.readers.decimals import (
    JUNK,
    NAN,
    OK,
    PLAIN_DIGITS,
    STEP,
    Position,
    plain_number,
)
from fewpass.pipeline.tables.readers.exact import Rounded, number
from fewpass.solvers.kernels.dispatch import exact_part, kernel
from fewpass.solvers.kernels.shapes import Byte, Bytes

#: What a column is used for.
DROPPED, FEATURE, TARGET, TEXT_TARGET, WEIGHT = range(5)

#: What can be wrong with a row (0: nothing).
(
    TOO_FEW_CELLS,
    TOO_MANY_CELLS,
    NOT_A_NUMBER,
    MISSING,
    NOT_FINITE,
    NEGATIVE_WEIGHT,
    OPEN_QUOTE,
    BEHIND_QUOTE,
) = range(1, 9)

#: Cells that stand for a missing value, in any case; the empty cell is one, too.
_LONGEST_WORD = max(map(len, MISSING_WORDS))


def _packed(word: bytes) -> int:
    return int.from_bytes(word, "big")


_MISSING_CODES = np.array([0, *(_packed(word.encode()) for word in MISSING_WORDS)], np.int64)


class CellRules(NamedTuple):
    """What is allowed."""

    delimiter: int
    quote: int  # 256: cells are in none
    missing_is_zero: bool  # among the features
    unlabelled: bool  # a missing target becomes NaN
    stop: bool  # at the first bad row
    largest: float  # features may not be larger


class CellSpace(NamedTuple):
    """Where the rows go; as long as the text could need."""

    X: NDArray[np.floating]  # (n, d)
    target: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,)
    written: NDArray[np.int64]  # (n,) where a target begins that may be no float; -1: it is one
    label_bytes: NDArray[np.uint8]  # (size of the text,) the text targets, one after the other
    label_ends: NDArray[np.int32]  # (n + 1,) where each ends
    bad: NDArray[np.int64]  # (listed, 4) code, position of the cell, line within the text, column


class CellCounts(NamedTuple):
    """How much of the space is used."""

    rows: int
    bad: int  # may exceed the space, which lists the first ones
    hard: int  # numbers left to `float()`


@exact_part
def _is_blank(c: Byte, delimiter: int) -> bool:
    blank = c == SPACE or c == TAB or c == RETURN  # noqa: PLR1714 -- `in` builds a set
    return bool(blank and c != delimiter)


@exact_part
def _ends_cell(c: Byte, delimiter: int) -> bool:
    return bool(c == delimiter or c == NEWLINE)  # noqa: PLR1714, SIM109


@exact_part
def _closing_quote(text: Bytes, at: Position) -> Position:
    """Position of the quote that closes a cell whose content begins at `at`, or of the line end."""
    while text[at] != NEWLINE:
        if text[at] == QUOTE:
            if text[at + STEP] != QUOTE:
                return at
            at += STEP
        at += STEP
    return at


@exact_part
def _cell(
    text: Bytes, at: Position, delimiter: int, quote: int
) -> tuple[int, Position, Position, Position]:
    """Fault, start and end of the content, and the position behind the cell at text[at]."""
    if text[at] == quote:
        start = at + STEP
        end = _closing_quote(text, start)
        if text[end] == NEWLINE:
            return OPEN_QUOTE, start, end, end
        at = end + STEP
        while _is_blank(text[at], delimiter):
            at += STEP
        return (0 if _ends_cell(text[at], delimiter) else BEHIND_QUOTE), start, end, at
    start, end = at, at
    while not _ends_cell(text[at], delimiter):
        if not _is_blank(text[at], delimiter):
            end = at + STEP
        at += STEP
    return 0, start, end, at


@exact_part
def _is_missing(text: Bytes, start: Position, end: Position) -> bool:
    """Whether the content of a cell stands for a missing value."""
    if end - start > np.uint64(_LONGEST_WORD):
        return False
    code = np.int64(0)
    for k in range(start, end):
        c = np.int64(text[k])
        code = code * 256 + (c + 32 if 65 <= c <= 90 else c)
    return bool((code == _MISSING_CODES).any())


@exact_part
def _value(
    text: Bytes,
    at: Position,
    delimiter: int,
    quote: int,
    rounded: Rounded,
    hard: NDArray[np.int64],
    n_hard: int,
) -> tuple[int, float, Position, int]:
    """Fault and value of any numeric cell, the position behind it, and the new `n_hard`."""
    fault, start, end, behind = _cell(text, at, delimiter, quote)
    if fault != 0:
        return fault, 0.0, behind, n_hard
    if _is_missing(text, start, end):
        return MISSING, np.nan, behind, n_hard
    status, value, stop, n_hard = number(text, start, rounded, hard, n_hard)
    if status == JUNK or stop != end:
        return NOT_A_NUMBER, 0.0, behind, n_hard
    if status == NAN:
        return MISSING, np.nan, behind, n_hard
    return (0 if status == OK else NOT_FINITE), value, behind, n_hard


@exact_part
def _keep_label(
    text: Bytes,
    start: Position,
    end: Position,
    quote: int,
    label_bytes: NDArray[np.uint8],
    used: int,
) -> int:
    """Copy a text target, doubled quotes made single; returns the bytes used."""
    k = start
    while k < end:
        label_bytes[used] = text[k]
        used += 1
        if text[k] == quote and text[k + STEP] == quote:
            k += STEP
        k += STEP
    return used


@kernel
def parse_cells(  # noqa: C901, PLR0912, PLR0915 -- calls would cost more than they hide
    text: Bytes,
    roles: NDArray[np.int8],
    rules: CellRules,
    space: CellSpace,
    rounded: Rounded,
    hard: NDArray[np.int64],
) -> CellCounts:
    """Fill the space with the rows of a text.

    Parameters
    ----------
    text
        (size,) whole lines; the last byte is a line end.
    roles
        (columns,) DROPPED, FEATURE, TARGET, TEXT_TARGET or WEIGHT.
    rules
        What is allowed.
    space
        Overwritten.
    rounded, hard
        See `exact`.
    """
    X, target, weight, written, label_bytes, label_ends, bad_rows = space
    delimiter, quote, missing_is_zero, unlabelled, stop, largest = rules
    rows, bad, n_hard, line = 0, 0, 0, -1
    size = np.uint64(text.size)
    at: Position = np.uint64(0)
    label_ends[0] = 0
    while at < size:
        line += 1
        cell = at
        while _is_blank(text[at], delimiter):
            at += STEP
        if text[at] == NEWLINE:
            at += STEP
            continue
        fault, feature, column = 0, 0, 0
        label_ends[rows + 1] = label_ends[rows]
        target[rows], weight[rows], written[rows] = np.nan, 1.0, -1
        while column < roles.size:
            role = roles[column]
            while _is_blank(text[at], delimiter):
                at += STEP
            cell = at
            if role == DROPPED or role == TEXT_TARGET:  # noqa: PLR1714, SIM109
                fault, start, end, at = _cell(text, at, delimiter, quote)
                missing = role == TEXT_TARGET and _is_missing(text, start, end)
                if missing and fault == 0 and not unlabelled:
                    fault = MISSING
                if role == TEXT_TARGET and fault == 0 and not missing:
                    used = label_ends[rows]
                    label_ends[rows + 1] = _keep_label(text, start, end, quote, label_bytes, used)
            else:
                value, first, point, at, digits = plain_number(text, at)
                if 0 < digits <= PLAIN_DIGITS and _ends_cell(text[at], delimiter):
                    padded = text[first] == ZERO and np.int64(point - first) > 1
                else:
                    padded = True  # whatever it is
                    fault, value, at, n_hard = _value(
                        text, cell, delimiter, quote, rounded, hard, n_hard
                    )
                if role == FEATURE:
                    if fault == MISSING and missing_is_zero:
                        fault, value = 0, 0.0
                    X[rows, feature] = value
                    if fault == 0 and not abs(X[rows, feature]) <= largest:
                        fault = NOT_FINITE
                    feature += 1
                elif role == TARGET:
                    fault = 0 if fault == MISSING and unlabelled else fault
                    target[rows] = value
                    written[rows] = np.int64(cell) if padded else -1
                else:
                    fault = NEGATIVE_WEIGHT if fault == 0 and value < 0.0 else fault
                    weight[rows] = value
            column += 1
            if fault != 0 or text[at] != delimiter or column == roles.size:
                break
            at += STEP
        if fault == 0 and column < roles.size:
            fault = TOO_FEW_CELLS
        elif fault == 0 and text[at] == delimiter:
            fault = TOO_MANY_CELLS
        while text[at] != NEWLINE:
            at += STEP
        at += STEP
        if fault == 0:
            rows += 1
            continue
        if bad < bad_rows.shape[0]:
            bad_rows[bad, 0], bad_rows[bad, 1] = fault, cell
            bad_rows[bad, 2], bad_rows[bad, 3] = line, column - 1
        bad += 1
        if stop:
            break
    return CellCounts(rows, bad, n_hard)
