"""Lanes: several float64 in one register of the processor, with the same arithmetic for all.

Lanes are vectors in compiled code (compiler/llvm.py), and arrays in plain Python.  The functions
below, + - * /, comparisons and abs take lanes, numbers, or both, and every lane has the same bits
as a single number: an algorithm written with them works for one model and for several side by side.
Their names are NumPy's, if NumPy has the function; compiler/lane_operations.py compiles them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fewpass.solvers.kernels.dispatch import part_of_kernels
from fewpass.solvers.kernels.shapes import Floats, Index, LaneVector, Number, Truth

LEAST_MANTISSA = math.sqrt(0.5)
MAGIC = 1.5 * 2.0**52  # added to a small number, the lowest bits are the nearest integer


class One(NamedTuple):
    """One number at a time, a float in place of lanes."""

    width: int = 1


class Two(NamedTuple):
    """Two lanes at a time."""

    width: int = 2


class Four(NamedTuple):
    """Four lanes at a time."""

    width: int = 4


class Eight(NamedTuple):
    """Eight lanes at a time: a cache line."""

    width: int = 8


class Sixteen(NamedTuple):
    """Sixteen lanes at a time: two cache lines."""

    width: int = 16


LaneWidth = One | Two | Four | Eight | Sixteen  # number of lanes


def half(lanes: LaneWidth) -> int:
    """Return half the number of lanes, a constant in compiled code."""
    return lanes.width // 2


def load(V: Floats, place: Index, lanes: LaneWidth) -> LaneVector:
    """Return V[place : place + lanes.width] as lanes; V is float32 or float64, indexed as flat."""
    v = V.reshape(-1)[int(place) : int(place) + lanes.width].astype(np.float64)
    return v if lanes.width > 1 else float(v[0])


def load_first(V: Floats, place: Index, count: int, lanes: LaneWidth) -> LaneVector:
    """Return the first `count` of them, followed by zeros."""
    v = np.zeros(lanes.width)
    v[:count] = V.reshape(-1)[int(place) : int(place) + count]
    return v


def store(V: Floats, place: Index, v: LaneVector) -> None:
    """V[place : place + width] = v, V indexed as flat."""
    V.reshape(-1)[int(place) : int(place) + np.size(v)] = v


def store_first(V: Floats, place: Index, count: int, v: LaneVector) -> None:
    """V[place : place + count] = v[:count]."""
    V.reshape(-1)[int(place) : int(place) + count] = v[:count]


def broadcast(x: float, lanes: LaneWidth) -> LaneVector:
    """Return x in every lane."""
    return np.full(lanes.width, float(x)) if lanes.width > 1 else float(x)


def sum_lanes(v: LaneVector) -> float:
    """Return the sum of the lanes, in a fixed order."""
    while len(v) > 1:
        v = v[: len(v) // 2] + v[len(v) // 2 :]
    return float(v[0])


def fma(a: Number, b: Number, c: Number) -> Number:
    """Return a b + c, rounded once if the processor can; plain Python rounds twice."""
    return a * b + c


def where(condition: Truth, a: Number, b: Number) -> Number:
    """Return a where the condition holds, else b, without a branch in compiled code."""
    return np.where(condition, a, b) if np.ndim(condition) else (a if condition else b)


@part_of_kernels
def maximum(x: Number, bound: Number) -> Number:
    """Return max(x, bound); x if it is NaN."""
    return where(x <= bound, bound, x)


@part_of_kernels
def minimum(x: Number, bound: Number) -> Number:
    """Return min(x, bound); x if it is NaN."""
    return where(x > bound, bound, x)


@part_of_kernels
def clip(x: Number, low: Number, high: Number) -> Number:
    """Return x limited to [low, high]; x if it is NaN."""
    return minimum(maximum(x, low), high)


def any_lane(mask: Truth) -> bool:
    """Return whether a comparison holds in any lane."""
    return bool(np.any(mask))


def sqrt(x: Number) -> Number:
    """Return the square root of x."""
    return np.sqrt(x) if isinstance(x, np.ndarray) else math.sqrt(x)


def whole_power_of_two(x: Number) -> Number:
    """Return 2^k for x = MAGIC + k, k an integer, -1022 <= k <= 1023."""
    return np.ldexp(1.0, np.int64(x - MAGIC)) if isinstance(x, np.ndarray) else math.ldexp(
        1.0, int(x - MAGIC)
    )  # fmt: skip


def exponent(x: Number) -> Number:
    """Return k of x = 2^k m, sqrt(1/2) <= m < sqrt(2), for x > 0; any finite number for x = 0."""
    m, k = np.frexp(x)
    result = np.where(m < LEAST_MANTISSA, k - 1.0, k)
    return result if isinstance(x, np.ndarray) else float(result)


def mantissa(x: Number) -> Number:
    """Return m of x = 2^k m, sqrt(1/2) <= m < sqrt(2), for x > 0; any finite number for x = 0."""
    return np.ldexp(x, -np.int64(exponent(x)))


def power(x: Number, c: float) -> Number:
    """Return x^c."""
    return np.array([q**c for q in x]) if isinstance(x, np.ndarray) else x**c
