"""The grammar of Vowpal Wabbit's text, in compiled code.

    line      = [label [importance [base]]] ["'"] [tag] {"|" [namespace [":" number]] {feature}}
    feature   = blank name [":" number]

A tag stands right before the first bar.  A feature's column is the hash of namespace, ^ and name,
modulo 2^bits; features that share one are added up.  A line of blanks is no row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.hashing import murmur3
from fewpass.pipeline.tables.readers.characters import APOSTROPHE, BAR, COLON, HAT, NEWLINE, SPACE
from fewpass.pipeline.tables.readers.decimals import OK, Position, decimal
from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel
from fewpass.solvers.kernels.shapes import Bytes, Index, Vector, WholeNumbers
from fewpass.storage.table import MOST_WEIGHT

#: What can be wrong with a row (0: nothing).
BAD_LABEL, BAD_WEIGHT, NO_BAR, BAD_VALUE, MISSING_LABEL, TOO_LARGE = range(1, 7)


class VwSpace(NamedTuple):
    """The arrays that rows go to; as long as the text could need."""

    data: NDArray[np.float64]  # (nnz,)
    indices: NDArray[np.int64]  # (nnz,)
    indptr: NDArray[np.int64]  # (n + 1,)
    target: NDArray[np.float64]  # (n,)
    weight: NDArray[np.float64]  # (n,) NaN where no importance is given
    bad: NDArray[np.int64]  # (listed, 3) code, position, line within the text
    name: NDArray[np.uint8]  # (longest line,) a feature's name behind its namespace


class VwCounts(NamedTuple):
    """The part of the space that is used."""

    rows: int
    bad: int  # may exceed the space, which lists the first ones
    merged: int  # features of a row that share a column with another
    weighted: int  # rows with an importance


@called_by_kernels
def _behind_token(text: Bytes, at: Position) -> Position:
    while text[at] > SPACE and text[at] != BAR:
        at += 1
    return at


@called_by_kernels
def _behind_name(text: Bytes, at: Position) -> Position:
    while text[at] > SPACE and text[at] != BAR and text[at] != COLON:
        at += 1
    return at


@called_by_kernels
def _behind_blanks(text: Bytes, at: Position) -> Position:
    while text[at] <= SPACE and text[at] != NEWLINE:
        at += 1
    return at


@called_by_kernels
def _ordered(indices: WholeNumbers, data: Vector, begin: Index, end: Index) -> Index:
    """Sort the entries of a row by column, add up those of the same; return the new end."""
    order = np.argsort(indices[begin:end], kind="mergesort")
    columns, values = indices[begin:end][order], data[begin:end][order]
    at = begin
    for k in range(columns.size):
        if at > begin and indices[at - 1] == columns[k]:
            data[at - 1] += values[k]
        else:
            indices[at], data[at] = columns[k], values[k]
            at += 1
    return at


@called_by_kernels
def _head(text: Bytes, at: Position) -> tuple[float, float, int, Position, Position]:
    """Read what stands before the first bar: label, importance (nan: none), and what is wrong."""
    label, weight, numbers, fault, where = np.nan, np.nan, 0, 0, at
    while text[at] != NEWLINE and text[at] != BAR and fault == 0:
        behind = _behind_token(text, at)
        if text[at] != APOSTROPHE and text[behind] != BAR:  # else it is a tag
            status, value, end = decimal(text, at)
            if status != OK or end != behind or (numbers == 1 and not 0.0 <= value <= MOST_WEIGHT):
                fault, where = (BAD_LABEL if numbers == 0 else BAD_WEIGHT), at
            label = value if numbers == 0 else label
            weight = value if numbers == 1 else weight
            numbers += 1
        at = _behind_blanks(text, behind)
    if fault == 0 and text[at] != BAR:
        fault = NO_BAR
    return label, weight, fault, where, at


@called_by_kernels
def _scaled(text: Bytes, behind: Position) -> tuple[float, Position]:
    """Read the number behind a name, 1 where there is none; `behind` is -1 where it is none."""
    if text[behind] != COLON:
        return 1.0, behind
    status, value, end = decimal(text, behind + 1)
    if status != OK or (text[end] > SPACE and text[end] != BAR):
        return 0.0, -1
    return value, end


@called_by_kernels
def _namespace(
    text: Bytes, at: Position, mask: int, space: VwSpace, nnz: Index, largest: float
) -> tuple[Index, Position, int]:
    """Read a namespace, from behind its bar on; the fault of a value is returned third."""
    behind = _behind_name(text, at)
    size = behind - at
    space.name[:size] = text[at:behind]
    space.name[size] = HAT
    scale, behind = _scaled(text, behind)
    while behind >= 0:
        at = _behind_blanks(text, behind)
        if text[at] == NEWLINE or text[at] == BAR:
            break
        behind = _behind_name(text, at)
        end = size + 1 + behind - at
        space.name[size + 1 : end] = text[at:behind]
        value, behind = _scaled(text, behind)
        if abs(value * scale) > largest:
            return nnz, at, TOO_LARGE
        if value * scale != 0.0:
            space.indices[nnz] = murmur3(space.name, 0, end) & mask
            space.data[nnz] = value * scale
            nnz += 1
    return nnz, at, BAD_VALUE if behind < 0 else 0


@kernel
def parse_rows(
    text: Bytes, bits: int, unlabelled: bool, largest: float, space: VwSpace
) -> VwCounts:
    """Parse whole lines; a row that is bad is left out and noted.

    Bad is also a value larger than `largest`, or a sum of some that share a column.
    """
    mask = (1 << bits) - 1
    rows, bad, merged, weighted, line, at = 0, 0, 0, 0, 0, 0
    space.indptr[0] = 0
    while at < text.size:
        at = _behind_blanks(text, at)
        nnz, empty = space.indptr[rows], text[at] == NEWLINE
        if not empty:
            label, weight, fault, where, at = _head(text, at)
            if fault == 0 and np.isnan(label) and not unlabelled:
                fault = MISSING_LABEL
            while text[at] == BAR and fault == 0:
                nnz, at, fault = _namespace(text, at + 1, mask, space, nnz, largest)
                where = at if fault != 0 else where
            if fault == 0:
                end = _ordered(space.indices, space.data, space.indptr[rows], nnz)
                if end < nnz and np.abs(space.data[space.indptr[rows] : end]).max() > largest:
                    fault = TOO_LARGE
            if fault == 0:
                merged += nnz - end
                weighted += not np.isnan(weight)
                space.target[rows], space.weight[rows] = label, weight
                rows += 1
                space.indptr[rows] = end
            elif bad < space.bad.shape[0]:
                space.bad[bad, 0], space.bad[bad, 1], space.bad[bad, 2] = fault, where, line
            bad += fault != 0
        while text[at] != NEWLINE:
            at += 1
        at, line = at + 1, line + 1
    return VwCounts(rows, bad, merged, weighted)
