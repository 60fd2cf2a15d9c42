"""The LIBSVM grammar, in compiled code.

    line   = [label] {blank (index ":" value | "qid:" digits)} [blank] ["#" anything]
    blank  = spaces, tabs and carriage returns

A line with nothing but blanks and a comment is no row.  Neighbours with equal indices are added
up; a zero is left out.

What is called for every value takes bytes, not the text: numba counts references whenever an array
is passed on, which takes longer than reading a number.  Therefore indices and plain numbers (the
first way of `decimals`) are read by parts of `parse_rows`, which no array is passed to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import (
    COLON,
    COMMA,
    HASH,
    NEWLINE,
    NINE,
    RETURN,
    SPACE,
    TAB,
    ZERO,
)
from fewpass.pipeline.tables.readers.decimals import (
    JUNK,
    NAN,
    OK,
    PLAIN_DIGITS,
    STEP,
    Position,
    decimal,
    plain_number,
)
from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel
from fewpass.solvers.kernels.shapes import Byte, Bytes, Index

#: What can be wrong with a row (0: nothing).
(
    BAD_LABEL,
    MISSING_LABEL,
    SEVERAL_LABELS,
    LABEL_NOT_FINITE,
    BAD_INDEX,
    INDEX_ZERO,
    NOT_ASCENDING,
    TOO_WIDE,
    BAD_VALUE,
    VALUE_MISSING,
    VALUE_NOT_FINITE,
) = range(1, 12)

_QID = tuple(b"qid:")
#: Indices are below 10^18, so that they fit 64 bits while they are read.
_MOST_DIGITS = 18
WIDEST = 10**_MOST_DIGITS


class LibsvmRules(NamedTuple):
    """The rules for what is allowed."""

    first_index: int  # 1, or 0
    width: int  # indices must be smaller, counted from 0
    unlabelled: bool  # rows may begin with their first index
    missing_is_zero: bool  # nan is left out
    stop: bool  # at the first bad row
    largest: float  # values may not be larger


class LibsvmSpace(NamedTuple):
    """The arrays that rows go to; as long as the text could need."""

    data: NDArray[np.floating]  # (nnz,)
    indices: NDArray[np.integer]  # (nnz,)
    indptr: NDArray[np.int64]  # (n + 1,)
    target: NDArray[np.float64]  # (n,)
    bad: NDArray[np.int64]  # (listed, 3) code, position, line within the text


class LibsvmCounts(NamedTuple):
    """The part of the space that is used."""

    rows: int
    max_index: int  # -1: none
    bad: int  # may exceed the space, which lists the first ones
    merged: int  # values added to the one before, of the same index


@called_by_kernels
def _is_end(c: Byte) -> bool:
    return bool(c <= SPACE or c == HASH)  # control characters are then found to be no entry


@called_by_kernels
def _is_blank(c: Byte) -> bool:
    return bool(c == SPACE or c == TAB or c == RETURN)  # noqa: PLR1714, SIM109 -- `in` costs a set


@called_by_kernels
def _line_end(text: Bytes, at: Position) -> Position:
    while text[at] != NEWLINE:
        at += STEP
    return at


@called_by_kernels
def _behind_digits(text: Bytes, at: Position) -> Position:
    while ZERO <= text[at] <= NINE:
        at += STEP
    return at


@called_by_kernels
def _begins_with_index(text: Bytes, at: Position) -> bool:
    behind = _behind_digits(text, at)
    return bool(behind > at and text[behind] == COLON)


@called_by_kernels
def _label_fault(text: Bytes, status: int, behind: Position) -> int:
    """Return the fault of a label that ends at `behind`."""
    c = text[behind]
    if status != JUNK and c == COMMA:
        return SEVERAL_LABELS
    if status == OK and c == COLON:
        return MISSING_LABEL
    if status == JUNK or not _is_end(c):
        return BAD_LABEL
    return 0 if status == OK else LABEL_NOT_FINITE


@called_by_kernels
def _behind_qid(text: Bytes, at: Position) -> Position:
    """Position behind `qid:digits` at text[at]; `at` when something else stands there."""
    behind = at
    for c in _QID:  # stops at the first byte that differs: a line end is never passed
        if text[behind] != c:
            return at
        behind += STEP
    digits, behind = behind, _behind_digits(text, behind)
    return behind if behind > digits and _is_end(text[behind]) else at


@called_by_kernels
def _index_fault(digits: Index, c: Byte, column: Index, last: Index, width: int) -> int:
    """Fault of an index of that number of digits, followed by `c`; 0: none."""
    if digits == 0 or c != COLON:
        return BAD_INDEX
    if column < 0:
        return INDEX_ZERO
    if column < last:
        return NOT_ASCENDING
    return TOO_WIDE if column >= width or digits > _MOST_DIGITS else 0


@called_by_kernels
def _value_fault(status: int, c: Byte, missing_is_zero: bool) -> int:
    """Return the fault of a value with `c` behind it."""
    if status == JUNK or not _is_end(c):
        return BAD_VALUE
    if status == NAN:
        return 0 if missing_is_zero else VALUE_MISSING
    return 0 if status == OK else VALUE_NOT_FINITE


@kernel
def parse_rows(  # noqa: C901, PLR0912, PLR0915 -- calls would cost more than they hide
    text: Bytes, rules: LibsvmRules, space: LibsvmSpace
) -> LibsvmCounts:
    """Fill the space with the rows of a text.

    Parameters
    ----------
    text
        (size,) whole lines; the last byte is a line end.
    rules
        What is allowed.
    space
        Overwritten.
    """
    data, indices, indptr, target, bad_rows = space
    first_index, width, unlabelled, missing_is_zero, stop, largest = rules
    rows, values, bad, merged, line, widest = 0, 0, 0, 0, -1, np.int64(-1)
    size = np.uint64(text.size)
    at: Position = np.uint64(0)
    indptr[0] = 0
    while at < size:
        line += 1
        while _is_blank(text[at]):
            at += STEP
        if text[at] == NEWLINE or text[at] == HASH:
            at = _line_end(text, at) + STEP
            continue
        fault, token = 0, at
        if unlabelled and _begins_with_index(text, at):
            target[rows] = np.nan
        else:
            status, target[rows], at = decimal(text, at)
            fault = _label_fault(text, status, at)
        last, entries = np.int64(-1), 0  # entries: values that are not 0
        while fault == 0:
            while _is_blank(text[at]):
                at += STEP
            if text[at] == NEWLINE or text[at] == HASH:
                break
            token, column = at, np.int64(0)
            while ZERO <= text[at] <= NINE:
                column = column * 10 + (np.int64(text[at]) - ZERO)
                at += STEP
            column -= first_index
            fault = _index_fault(np.int64(at - token), text[at], column, last, width)
            if fault != 0:
                behind = _behind_qid(text, token)
                if behind == token:
                    break
                fault, at = 0, behind
                continue
            at += STEP
            start = at
            value, _, _, at, digits = plain_number(text, at)
            if not (0 < digits <= PLAIN_DIGITS and _is_end(text[at])):
                status, value, at = decimal(text, start)
                fault = _value_fault(status, text[at], missing_is_zero)
                value = 0.0 if status == NAN else value
            if value != 0.0:
                if values > indptr[rows] and indices[values - 1] == column:
                    values -= 1
                    value += data[values]
                data[values] = value
                indices[values] = column
                if not abs(data[values]) <= largest:
                    fault = VALUE_NOT_FINITE
                values += 1
                entries += 1
            last = column
        at = _line_end(text, at) + STEP
        if fault != 0:
            if bad < bad_rows.shape[0]:
                bad_rows[bad, 0], bad_rows[bad, 1], bad_rows[bad, 2] = fault, token, line
            bad += 1
            values = int(indptr[rows])
            if stop:
                break
            continue
        widest = last if last > widest else widest  # noqa: FURB136
        merged += entries - (values - indptr[rows])
        rows += 1
        indptr[rows] = values
    return LibsvmCounts(rows, int(widest), bad, int(merged))
