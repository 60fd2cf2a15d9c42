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

from fewpass.solvers.kernels.dispatch import by_type, part_of_kernels
from fewpass.solvers.kernels.lanes import Eight, fma, load, store
from fewpass.solvers.kernels.rows import Rows, cell, end_cell, first_cell, in_cells
from fewpass.solvers.kernels.shapes import Vector
from fewpass.solvers.kernels.simd.interleaved import from_line

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
    return from_line(math.prod(shape), np.zeros).reshape(shape)


@by_type
def add_scores(rows: Rows, i: int, V: EndToEnd, step: int, place: int, s: PerClass) -> None:
    """s += x_i . W for s as long as one vector, or both; column j is at `step` j + place of V."""


@by_type
def add_wide(rows: Rows, i: int, a: PerClass, V: EndToEnd, step: int, place: int) -> None:
    """W += x_i a' for the numbers a of all classes, of one vector or of both."""


@in_cells(add_scores)
def _(rows: Rows, i: int, V: EndToEnd, step: int, place: int, s: PerClass) -> None:
    lanes = Eight()
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = np.int64(j) * step + place
        for k in range(0, s.shape[0], 8):
            store(s, k, fma(x, load(V, at + k, lanes), load(s, k, lanes)))


@in_cells(add_wide)
def _(rows: Rows, i: int, a: PerClass, V: EndToEnd, step: int, place: int) -> None:
    lanes = Eight()
    for n in range(first_cell(rows, i), end_cell(rows, i)):
        j, x = cell(rows, i, n)
        at = np.int64(j) * step + place
        for k in range(0, a.shape[0], 8):
            store(V, at + k, fma(x, load(a, k, lanes), load(V, at + k, lanes)))


@part_of_kernels
def scores_of(rows: Rows, i: int, V: EndToEnd, base: PerClass, v: PerClass) -> None:
    """Write a row's scores by V (d, wide) into v; those of a row without values are `base`."""
    lanes, wide = Eight(), base.shape[0]
    for k in range(0, wide, 8):
        store(v, k, load(base, k, lanes))
    add_scores(rows, i, V, wide, 0, v)


@part_of_kernels
def weigh(g: PerClass, c: float, intercept: float, g_b: PerClass) -> None:
    """Multiply g by a row's weight c, and add it times the constant column to g_b."""
    lanes = Eight()
    for k in range(0, g.shape[0], 8):
        own = c * load(g, k, lanes)
        store(g, k, own)
        store(g_b, k, load(g_b, k, lanes) + intercept * own)
