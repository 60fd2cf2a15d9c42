"""Several float64 that go through the same arithmetic at once, in one register of the processor.

Compiled code sees lanes as vectors (vectors.py), plain Python sees an array.  The verbs below and
+ - * / take lanes, numbers, or both, and every lane has the bits that the number would have alone:
an algorithm written with them is one text for one model and for several side by side.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from solvers.dispatch import part_of_kernels
from solvers.vectors import (
    Lanes,
    absolute,
    add,
    common,
    divide,
    exponent_of,
    fuse,
    is_any_above,
    lane,
    load,
    load_some,
    mantissa_of,
    multiply,
    negate,
    power_of_two,
    select_above,
    select_at_most,
    spread_number,
    square_root,
    store,
    store_some,
    subtract,
    sum_lanes,
    with_lane,
)

LEAST_MANTISSA = math.sqrt(0.5)
MAGIC = 1.5 * 2.0**52  # added to a small number, it leaves the nearest whole one in the lowest bits


class Four(NamedTuple):
    """Four lanes at a time."""

    width: int = 4


class Eight(NamedTuple):
    """Eight lanes at a time: a cache line."""

    width: int = 8


_compiled = partial(
    overload, strict=False, jit_options={"error_model": "numpy", "forceinline": True, "_nrt": False}
)


def _has_lanes(*kinds: Any) -> bool:
    return isinstance(common(*kinds), Lanes)


def _stand_for(operation: Any, inner: Any) -> None:
    """Let kernels use an operator on lanes."""

    @_compiled(operation)  # type: ignore[untyped-decorator]
    def _(a: Any, b: Any) -> Any:
        return (lambda a, b: inner(a, b, b, b)) if _has_lanes(a, b) else None


for _pair, _inner in (
    ((operator.add, operator.iadd), add),
    ((operator.sub, operator.isub), subtract),
    ((operator.mul, operator.imul), multiply),
    ((operator.truediv, operator.itruediv), divide),
):
    for _operation in _pair:
        _stand_for(_operation, _inner)


@_compiled(operator.neg)  # type: ignore[untyped-decorator]
def _(a: Any) -> Any:
    return (lambda a: negate(a, a, a, a)) if _has_lanes(a) else None


def lanes_of(V: Any, place: Any, how: Any) -> Any:
    """V[place : place + how.width], as lanes; V is float32 or float64, its rows end to end."""
    return V.reshape(-1)[int(place) : int(place) + how.width].astype(np.float64)


@_compiled(lanes_of)  # type: ignore[untyped-decorator]
def _(V: Any, place: Any, how: Any) -> Any:
    return lambda V, place, how: load(V, place, how)


def some_of(V: Any, place: Any, count: Any, how: Any) -> Any:
    """Return the first `count` of them and zeros."""
    found = np.zeros(how.width)
    found[:count] = V.reshape(-1)[int(place) : int(place) + count]
    return found


@_compiled(some_of)  # type: ignore[untyped-decorator]
def _(V: Any, place: Any, count: Any, how: Any) -> Any:
    return lambda V, place, count, how: load_some(V, place, count, how)


def total(v: Any) -> float:
    """Sum of the lanes, in an order that is the same everywhere."""
    while len(v) > 1:
        v = v[: len(v) // 2] + v[len(v) // 2 :]
    return float(v[0])


@_compiled(total)  # type: ignore[untyped-decorator]
def _(v: Any) -> Any:
    return lambda v: sum_lanes(v)


def keep_lanes(V: Any, place: Any, v: Any) -> None:
    """V[place : place + width] = v."""
    V[int(place) : int(place) + len(v)] = v


@_compiled(keep_lanes)  # type: ignore[untyped-decorator]
def _(V: Any, place: Any, v: Any) -> Any:
    return lambda V, place, v: store(V, place, v)


def keep_some(V: Any, place: Any, count: Any, v: Any) -> None:
    """V[place : place + count] = the first of v."""
    V[int(place) : int(place) + count] = v[:count]


@_compiled(keep_some)  # type: ignore[untyped-decorator]
def _(V: Any, place: Any, count: Any, v: Any) -> Any:
    return lambda V, place, count, v: store_some(V, place, count, v)


def spread(x: Any, how: Any) -> Any:
    """x in every lane."""
    return np.full(how.width, float(x))


@_compiled(spread)  # type: ignore[untyped-decorator]
def _(x: Any, how: Any) -> Any:
    return lambda x, how: spread_number(x, how)


def fused(a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once where the processor can; plain Python rounds twice."""
    return a * b + c


@_compiled(fused)  # type: ignore[untyped-decorator]
def _(a: Any, b: Any, c: Any) -> Any:
    return lambda a, b, c: fuse(a, b, c, c)


def choose_above(x: Any, bound: Any, a: Any, b: Any) -> Any:
    """Return a where x > bound, else b."""
    return np.where(x > bound, a, b) if np.ndim(x > bound) else (a if x > bound else b)


@_compiled(choose_above)  # type: ignore[untyped-decorator]
def _(x: Any, bound: Any, a: Any, b: Any) -> Any:
    return lambda x, bound, a, b: select_above(x, bound, a, b)


def choose_at_most(x: Any, bound: Any, a: Any, b: Any) -> Any:
    """Return a where x <= bound, else b: also where x is not a number."""
    return np.where(x <= bound, a, b) if np.ndim(x <= bound) else (a if x <= bound else b)


@_compiled(choose_at_most)  # type: ignore[untyped-decorator]
def _(x: Any, bound: Any, a: Any, b: Any) -> Any:
    return lambda x, bound, a, b: select_at_most(x, bound, a, b)


@part_of_kernels
def at_least(x: Any, bound: Any) -> Any:
    """Return the larger one of x and a bound; x where it is not a number."""
    return choose_at_most(x, bound, bound, x)


@part_of_kernels
def at_most(x: Any, bound: Any) -> Any:
    """Return the smaller one of x and a bound; x where it is not a number."""
    return choose_above(x, bound, bound, x)


@part_of_kernels
def everywhere(x: Any, number: float) -> Any:
    """A number in as many lanes as x has."""
    return choose_above(x, 0.0, number, number)


def any_above(x: Any, bound: float) -> bool:
    """Say whether any lane is above."""
    return bool(np.any(x > bound))


@_compiled(any_above)  # type: ignore[untyped-decorator]
def _(x: Any, bound: Any) -> Any:
    if _has_lanes(x):
        return lambda x, bound: is_any_above(x, bound)
    return lambda x, bound: x > bound


def root(x: Any) -> Any:
    """Return the square root of x."""
    return np.sqrt(x) if isinstance(x, np.ndarray) else math.sqrt(x)


@_compiled(root)  # type: ignore[untyped-decorator]
def _(x: Any) -> Any:
    return lambda x: square_root(x, x, x, x)


def size(x: Any) -> Any:
    """|x|."""
    return abs(x)


@_compiled(size)  # type: ignore[untyped-decorator]
def _(x: Any) -> Any:
    return lambda x: absolute(x, x, x, x)


def whole_power_of_two(x: Any) -> Any:
    """2^k for x = MAGIC + k, k a whole number, -1022 <= k <= 1023."""
    return np.ldexp(1.0, np.int64(x - MAGIC)) if isinstance(x, np.ndarray) else math.ldexp(
        1.0, int(x - MAGIC)
    )  # fmt: skip


@_compiled(whole_power_of_two)  # type: ignore[untyped-decorator]
def _(x: Any) -> Any:
    return lambda x: power_of_two(x, x, x, x)


def exponent(x: Any) -> Any:
    """k of x = 2^k m, sqrt(1/2) <= m < sqrt(2), for x > 0; some finite number for x = 0."""
    m, k = np.frexp(x)
    found = np.where(m < LEAST_MANTISSA, k - 1.0, k)
    return found if isinstance(x, np.ndarray) else float(found)


@_compiled(exponent)  # type: ignore[untyped-decorator]
def _(x: Any) -> Any:
    return lambda x: exponent_of(x, x, x, x)


def mantissa(x: Any) -> Any:
    """m of x = 2^k m, sqrt(1/2) <= m < sqrt(2), for x > 0; some finite number for x = 0."""
    return np.ldexp(x, -np.int64(exponent(x)))


@_compiled(mantissa)  # type: ignore[untyped-decorator]
def _(x: Any) -> Any:
    return lambda x: mantissa_of(x, x, x, x)


def power(x: Any, c: float) -> Any:
    """x^c."""
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
