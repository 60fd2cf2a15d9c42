"""Rows times several vectors side by side: the scores of all classes of a row at once.

Vectors of K numbers are padded to whole groups of eight, so that a group is a cache line.  Weights
are (d, C, wide): for each column the numbers of all classes of the first vector, then those of the
second, ... .  A row's value then touches `wide` numbers that lie end to end, whatever K is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import FUSED, by_type
from fewpass.solvers.kernels.prefetch import LINE, prefetch_line
from fewpass.solvers.kernels.rows import (
    DenseRows,
    Rows,
    SparseRows,
    cell,
    end_cell,
    first_cell,
    in_cells,
)
from fewpass.solvers.kernels.shapes import Vector
from fewpass.solvers.kernels.simd.lanes import Eight, fma, load, store

GROUP = Eight().width
EndToEnd = Vector  # (d C wide,): weights as one vector
PerClass = Vector  # (wide,): numbers of all classes, padded


def padded(K: int) -> int:
    """Return `wide`: K rounded up to whole groups."""
    return -(-K // GROUP) * GROUP


def padded_scores(each: Any, K: int) -> NDArray[np.float64]:
    """Return numbers of K classes (K,), or one of all, as (wide,), padded with zeros."""
    wide = np.zeros(padded(K))
    wide[:K] = each
    return wide


def wide_zeros(*shape: int) -> NDArray[np.float64]:
    """Return zeros that begin at a cache line."""
    size = math.prod(shape)
    memory = np.zeros(size + LINE // 8)
    first = -memory.ctypes.data % LINE // 8
    return memory[first : first + size].reshape(shape)


@by_type
def add_scores(rows: Rows, i: int, V: EndToEnd, step: int, place: int, s: PerClass) -> None:
    """s += x_i . W; the numbers of column j are at `step` j + place of V."""


@by_type
def add_both_scores(
    rows: Rows, i: int, V: EndToEnd, step: int, place: int, s: PerClass, t: PerClass
) -> None:
    """Add to s the scores of one vector, and to t those of the next one, `wide` numbers further."""


@by_type
def add_wide(rows: Rows, i: int, a: PerClass, V: EndToEnd, step: int, place: int) -> None:
    """W += x_i a' for the numbers a of all classes."""


@by_type
def add_both_wide(
    rows: Rows, i: int, a: PerClass, b: PerClass, V: EndToEnd, step: int, place: int
) -> None:
    """Add x_i a' to one vector's numbers, and x_i b' to those of the next one."""


@by_type
def prefetch_wide(rows: Rows, i: int, V: EndToEnd, step: int) -> None:
    """Prefetch the first numbers of a row's columns."""


@in_cells(add_scores, dense=FUSED)
def _(rows: Rows, i: int, V: EndToEnd, step: int, place: int, s: PerClass) -> None:
    how = Eight()
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = np.int64(j) * step + place
        for k in range(0, s.shape[0], 8):
            store(s, k, fma(x, load(V, at + k, how), load(s, k, how)))


@in_cells(add_both_scores, dense=FUSED)
def _(rows: Rows, i: int, V: EndToEnd, step: int, place: int, s: PerClass, t: PerClass) -> None:
    how, wide = Eight(), s.shape[0]
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = np.int64(j) * step + place
        for k in range(0, wide, 8):
            store(s, k, fma(x, load(V, at + k, how), load(s, k, how)))
            store(t, k, fma(x, load(V, at + wide + k, how), load(t, k, how)))


@in_cells(add_wide, dense=FUSED)
def _(rows: Rows, i: int, a: PerClass, V: EndToEnd, step: int, place: int) -> None:
    how = Eight()
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = np.int64(j) * step + place
        for k in range(0, a.shape[0], 8):
            store(V, at + k, fma(x, load(a, k, how), load(V, at + k, how)))


@in_cells(add_both_wide, dense=FUSED)
def _(rows: Rows, i: int, a: PerClass, b: PerClass, V: EndToEnd, step: int, place: int) -> None:
    how, wide = Eight(), a.shape[0]
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = np.int64(j) * step + place
        for k in range(0, wide, 8):
            store(V, at + k, fma(x, load(a, k, how), load(V, at + k, how)))
            store(V, at + wide + k, fma(x, load(b, k, how), load(V, at + wide + k, how)))


@prefetch_wide.register(DenseRows)
def _(rows: DenseRows, i: int, V: EndToEnd, step: int) -> None:
    pass  # a row has all columns, in their order


@prefetch_wide.register(SparseRows)
def _(rows: SparseRows, i: int, V: EndToEnd, step: int) -> None:
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        prefetch_line(V, step * np.int64(rows.indices[n]))
