"""Rows of features from their codes, in compiled code, some rows at a time.

A block of rows is expanded step by step, each step for all rows of the block in loops that LLVM
makes SIMD of; then every row's features that are not 0 are put behind each other.  Row by row this
took three times as long: a search of 33 knots, done for 32 rows at once, takes 3 ns of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Floats, Matrix, Vector, WholeNumbers

Columns = NDArray[np.integer]  # (nnz,)
Places = NDArray[np.int32]

#: Kinds of steps.
NUMBER, LEVEL, HATS, PAIR = range(4)
#: No feature, no level.
NONE = -1
#: Rows at a time.
BLOCK = 64


class ExpansionSteps(NamedTuple):
    """Features made of the codes of a row: axes first, then features in the order of columns.

    An axis is one of a pair: a number between two of some knots, or one of some levels.
    """

    axis_code: WholeNumbers  # (a,) which code
    axis_at: WholeNumbers  # (a,) where its numbers begin; or in `places` the level of each code
    axis_knots: WholeNumbers  # (a,) knots; 0: it is one of levels
    axis_levels: WholeNumbers  # (a,) codes that have a level
    axis_missing_as: Vector  # (a,) what a missing code counts as; NaN: it is missing
    kind: WholeNumbers  # (s,)
    code: WholeNumbers  # (s,) which code; of a pair its first axis
    other: WholeNumbers  # (s,) levels; of numbers whether missing ones have a column; second axis
    first: WholeNumbers  # (s,) first column
    at: WholeNumbers  # (s,) where numbers of the step begin; of a pair its places
    width: WholeNumbers  # (s,) knots; of a pair levels of the second axis
    scale: Vector  # (s,) what all values are multiplied by
    missing_as: Vector  # (s,) what a missing code counts as; NaN: it is missing
    numbers: Vector  # low, high, mean, deviation; knots, their values, slopes, heights of hats
    places: WholeNumbers  # columns of the cells of pairs, levels of codes


class BlockOfRows(NamedTuple):
    """Rows while they are expanded."""

    x: Vector  # (BLOCK,) a code
    place: Vector  # (BLOCK,) it, between knots; NaN where it is missing
    beyond: Vector  # (BLOCK,) knots that are not beyond it
    left: Places  # (a, BLOCK) the first level of a row on every axis; NONE: there is none
    share: Matrix  # (a, BLOCK) of the next level
    value: Floats  # (most, BLOCK) features
    column: Places  # (most, BLOCK) and where they stand


@kernel
def expand_rows(
    steps: ExpansionSteps,
    codes: Matrix,
    most: int,
    indptr: WholeNumbers,
    indices: Columns,
    data: Floats,
) -> int:
    """Write the features of rows that are not 0, and return how many; -1 where they do not fit.

    `codes` are (m, n), and a row has `most` features, zeros among them.
    """
    n_axes = steps.axis_code.shape[0]
    rows = BlockOfRows(
        np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK),
        np.empty((n_axes, BLOCK), np.int32), np.empty((n_axes, BLOCK)),
        np.empty((most, BLOCK), data.dtype), np.empty((most, BLOCK), np.int32),
    )  # fmt: skip
    end = 0
    indptr[0] = 0
    for start in range(0, codes.shape[1], BLOCK):
        stop = min(start + BLOCK, codes.shape[1])
        for a in range(n_axes):
            read_code(codes, steps.axis_code[a], start, stop, steps.axis_missing_as[a], rows)
            place_on_axis(steps, a, rows)
        slot = 0
        for s in range(steps.kind.shape[0]):
            kind = steps.kind[s]
            if kind != PAIR:
                read_code(codes, steps.code[s], start, stop, steps.missing_as[s], rows)
            if kind == NUMBER:
                slot = put_number(steps, s, rows, slot)
            elif kind == LEVEL:
                slot = put_level(steps, s, rows, slot)
            elif kind == HATS:
                slot = put_curve(steps, s, rows, slot)
            else:
                slot = put_pair(steps, s, rows, slot)
        for r in range(stop - start):
            end = put_row(rows, r, most, indices, data, end)
            indptr[start + r + 1] = end
            if end < 0:
                return end
    return end


@part_of_kernels
def put_row(rows: BlockOfRows, r: int, most: int, indices: Columns, data: Floats, end: int) -> int:
    """Write a row's features that are not 0 behind those before; -1 where they do not fit."""
    if end + most <= data.shape[0]:
        for slot in range(most):
            value = rows.value[slot, r]
            indices[end] = rows.column[slot, r]
            data[end] = value
            end += int(value != 0.0)
        return end
    for slot in range(most):
        value = rows.value[slot, r]
        if value != 0.0:
            if end >= data.shape[0]:
                return -1
            indices[end] = rows.column[slot, r]
            data[end] = value
            end += 1
    return end


@part_of_kernels
def read_code(
    codes: Matrix, k: int, start: int, stop: int, missing_as: float, rows: BlockOfRows
) -> None:
    """Copy a code of the rows of a block; behind the last row it is missing."""
    rows.x[:] = np.nan
    for r in range(stop - start):
        x = codes[k, start + r]
        rows.x[r] = missing_as if np.isnan(x) else x


@part_of_kernels
def put_number(steps: ExpansionSteps, s: int, rows: BlockOfRows, slot: int) -> int:
    """Standardise a number, or say that it is missing; return the next slot."""
    at, first = steps.at[s], np.int32(steps.first[s])
    low, high = steps.numbers[at], steps.numbers[at + 1]
    mean, deviation = steps.numbers[at + 2], steps.numbers[at + 3]
    scale, of_missing = steps.scale[s], steps.scale[s] if steps.other[s] else 0.0
    for r in range(BLOCK):
        x = rows.x[r]
        missing = np.isnan(x)
        rows.value[slot, r] = scale * ((min(max(x, low), high) - mean) / deviation)
        rows.column[slot, r] = first
        if missing:
            rows.value[slot, r] = of_missing
            rows.column[slot, r] = first + np.int32(1)
    return slot + 1


@part_of_kernels
def put_level(steps: ExpansionSteps, s: int, rows: BlockOfRows, slot: int) -> int:
    """Put the scale in the column of a level; return the next slot."""
    first, n, scale = np.int32(steps.first[s]), steps.other[s], steps.scale[s]
    for r in range(BLOCK):
        has = 0.0 <= rows.x[r] < n
        rows.value[slot, r] = scale if has else 0.0
        rows.column[slot, r] = first + np.int32(rows.x[r] if has else 0.0)
    return slot + 1


@part_of_kernels
def interpolate(numbers: Vector, at: int, n: int, rows: BlockOfRows) -> None:
    """Place codes between n knots, as np.interp does; their values and slopes stand behind them."""
    rows.beyond[:] = -1.0
    for k in range(n):
        knot = numbers[at + k]
        for r in range(BLOCK):
            rows.beyond[r] += 1.0 if rows.x[r] >= knot else 0.0
    low, high = numbers[at], numbers[at + n - 1]
    for r in range(BLOCK):
        x, j = rows.x[r], at + np.int64(min(max(rows.beyond[r], 0.0), n - 2.0))
        place = numbers[j + 2 * n] * (x - numbers[j]) + numbers[j + n]
        place = numbers[j + n] if x == numbers[j] else place
        place = numbers[at + n] if x <= low else place
        rows.place[r] = numbers[at + 2 * n - 1] if x >= high else place


@part_of_kernels
def put_curve(steps: ExpansionSteps, s: int, rows: BlockOfRows, slot: int) -> int:
    """Put the position of a number, and one hat of every level; return the next slot."""
    n, at, first = steps.width[s], steps.at[s], np.int32(steps.first[s])
    scale = steps.scale[s]
    interpolate(steps.numbers, at, n, rows)
    for r in range(BLOCK):
        missing = np.isnan(rows.x[r])
        rows.place[r] = 0.0 if missing else rows.place[r]
        rows.value[slot, r] = 0.0 if missing else scale * (rows.place[r] - 0.5)
        rows.column[slot, r] = first
    count = 1.0
    for level in range(1, steps.other[s] + 1):
        slot += 1
        height = steps.numbers[at + 3 * n + level]
        for r in range(BLOCK):
            u = rows.place[r]
            i = min(max(np.floor(u * count), 0.0), count - 1.0)
            hat = max(0.0, 1.0 - abs(2.0 * count * u - (2.0 * i + 1.0)))
            rows.value[slot, r] = scale * (height * hat)
            rows.column[slot, r] = first + np.int32(count + i)
        count *= 2.0
    return slot + 1


@part_of_kernels
def place_on_axis(steps: ExpansionSteps, a: int, rows: BlockOfRows) -> None:
    """Find the levels of an axis that rows have shares of."""
    at, n = steps.axis_at[a], steps.axis_knots[a]
    if n:
        interpolate(steps.numbers, at, n, rows)
        for r in range(BLOCK):
            left = min(max(np.floor(rows.place[r]), 0.0), n - 2.0)
            missing = np.isnan(rows.x[r])
            rows.left[a, r] = NONE if missing else np.int32(left)
            rows.share[a, r] = 0.0 if missing else rows.place[r] - left
        return
    for r in range(BLOCK):
        has = 0.0 <= rows.x[r] < steps.axis_levels[a]
        rows.left[a, r] = steps.places[at + np.int64(rows.x[r])] if has else NONE
        rows.share[a, r] = 0.0


@part_of_kernels
def put_pair(steps: ExpansionSteps, s: int, rows: BlockOfRows, slot: int) -> int:
    """Put the products of shares of two axes; return the next slot."""
    a, b, at, width = steps.code[s], steps.other[s], steps.at[s], steps.width[s]
    for i in range(2 if steps.axis_knots[a] else 1):
        for j in range(2 if steps.axis_knots[b] else 1):
            for r in range(BLOCK):
                left, right = np.int64(rows.left[a, r]), np.int64(rows.left[b, r])
                both = min(left, right) > NONE
                column = steps.places[at + (left + i) * width + right + j] if both else NONE
                one = rows.share[a, r] if i else 1.0 - rows.share[a, r]
                other = rows.share[b, r] if j else 1.0 - rows.share[b, r]
                has = column > NONE
                rows.value[slot, r] = steps.scale[s] * (one * other) if has else 0.0
                rows.column[slot, r] = np.int32(steps.first[s] + column)
            slot += 1
    return slot
