"""Lanes: several float64 in one register of the processor, with the same arithmetic for all.

Lanes are vectors in compiled code (llvm.py), and arrays in plain Python.  The functions below,
+ - * /, comparisons and abs take lanes, numbers, or both, and every lane has the same bits as a
single number: an algorithm written with them works for one model and for several side by side.
Their names are NumPy's, if NumPy has the function.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from fewpass.solvers.kernels import llvm as vectors
from fewpass.solvers.kernels import llvm_memory as memory
from fewpass.solvers.kernels.dispatch import PART, part_of_kernels
from fewpass.solvers.kernels.llvm import Lanes, Mask, lane, with_lane
from fewpass.solvers.kernels.part_compiler import emitted
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


_compiled = partial(overload, strict=False, jit_options=PART | {"_nrt": False})

_ANY = (types.Any,) * 4
_PAIRS = ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes))

for _operations, _inner in (
    ((operator.add, operator.iadd), vectors.add),
    ((operator.sub, operator.isub), vectors.subtract),
    ((operator.mul, operator.imul), vectors.multiply),
    ((operator.truediv, operator.itruediv), vectors.divide),
):
    for _operation, _kinds in product(_operations, _PAIRS):
        emitted(_operation, _kinds, _inner, 4)

for _operation, _inner in (
    (operator.gt, vectors.above),
    (operator.lt, vectors.below),
    (operator.ge, vectors.at_least),
    (operator.le, vectors.at_most),
):
    for _kinds in _PAIRS:
        emitted(_operation, _kinds, _inner)

emitted(operator.neg, (Lanes,), vectors.negate, 4)
emitted(abs, (Lanes,), vectors.absolute, 4)
emitted(operator.and_, (Mask, Mask), vectors.both)


def half(lanes: LaneWidth) -> int:
    """Return half the number of lanes, a constant in compiled code."""
    return lanes.width // 2


@_compiled(half)  # type: ignore[untyped-decorator]
def _(lanes: Any) -> Any:
    count = lanes.instance_class._field_defaults["width"] // 2
    return lambda lanes: count  # noqa: ARG005


def load(V: Floats, place: Index, lanes: LaneWidth) -> LaneVector:
    """Return V[place : place + lanes.width] as lanes; V is float32 or float64, indexed as flat."""
    v = V.reshape(-1)[int(place) : int(place) + lanes.width].astype(np.float64)
    return v if lanes.width > 1 else float(v[0])


emitted(load, _ANY[:3], memory.load)


def load_first(V: Floats, place: Index, count: int, lanes: LaneWidth) -> LaneVector:
    """Return the first `count` of them, followed by zeros."""
    v = np.zeros(lanes.width)
    v[:count] = V.reshape(-1)[int(place) : int(place) + count]
    return v


emitted(load_first, _ANY[:4], memory.load_first)


def store(V: Floats, place: Index, v: LaneVector) -> None:
    """V[place : place + width] = v, V indexed as flat."""
    V.reshape(-1)[int(place) : int(place) + np.size(v)] = v


emitted(store, _ANY[:3], memory.store)


def store_first(V: Floats, place: Index, count: int, v: LaneVector) -> None:
    """V[place : place + count] = v[:count]."""
    V.reshape(-1)[int(place) : int(place) + count] = v[:count]


emitted(store_first, _ANY[:4], memory.store_first)


def broadcast(x: float, lanes: LaneWidth) -> LaneVector:
    """Return x in every lane."""
    return np.full(lanes.width, float(x)) if lanes.width > 1 else float(x)


emitted(broadcast, _ANY[:2], vectors.broadcast_number)


def sum_lanes(v: LaneVector) -> float:
    """Return the sum of the lanes, in a fixed order."""
    while len(v) > 1:
        v = v[: len(v) // 2] + v[len(v) // 2 :]
    return float(v[0])


emitted(sum_lanes, _ANY[:1], vectors.sum_lanes)


def fma(a: Number, b: Number, c: Number) -> Number:
    """Return a b + c, rounded once if the processor can; plain Python rounds twice."""
    return a * b + c


emitted(fma, _ANY[:3], vectors.fma, 4)


def where(condition: Truth, a: Number, b: Number) -> Number:
    """Return a where the condition holds, else b, without a branch in compiled code."""
    return np.where(condition, a, b) if np.ndim(condition) else (a if condition else b)


emitted(where, _ANY[:3], vectors.select)


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


@_compiled(any_lane)  # type: ignore[untyped-decorator]
def _(mask: Any) -> Any:
    if isinstance(mask, Mask):
        return lambda mask: vectors.any_true(mask)
    return lambda mask: mask


def sqrt(x: Number) -> Number:
    """Return the square root of x."""
    return np.sqrt(x) if isinstance(x, np.ndarray) else math.sqrt(x)


emitted(sqrt, _ANY[:1], vectors.square_root, 4)


def whole_power_of_two(x: Number) -> Number:
    """Return 2^k for x = MAGIC + k, k an integer, -1022 <= k <= 1023."""
    return np.ldexp(1.0, np.int64(x - MAGIC)) if isinstance(x, np.ndarray) else math.ldexp(
        1.0, int(x - MAGIC)
    )  # fmt: skip


emitted(whole_power_of_two, _ANY[:1], vectors.power_of_two, 4)


def exponent(x: Number) -> Number:
    """Return k of x = 2^k m, sqrt(1/2) <= m < sqrt(2), for x > 0; any finite number for x = 0."""
    m, k = np.frexp(x)
    result = np.where(m < LEAST_MANTISSA, k - 1.0, k)
    return result if isinstance(x, np.ndarray) else float(result)


emitted(exponent, _ANY[:1], vectors.exponent_of, 4)


def mantissa(x: Number) -> Number:
    """Return m of x = 2^k m, sqrt(1/2) <= m < sqrt(2), for x > 0; any finite number for x = 0."""
    return np.ldexp(x, -np.int64(exponent(x)))


emitted(mantissa, _ANY[:1], vectors.mantissa_of, 4)


def power(x: Number, c: float) -> Number:
    """Return x^c."""
    return np.array([q**c for q in x]) if isinstance(x, np.ndarray) else x**c


@_compiled(power)  # type: ignore[untyped-decorator]
def _(x: Any, c: Any) -> Any:
    if not isinstance(x, Lanes):
        return lambda x, c: x**c
    width = x.width

    def each(x: Any, c: Any) -> Any:
        for k in range(width):
            x = with_lane(x, k, lane(x, k) ** c)
        return x

    return each
