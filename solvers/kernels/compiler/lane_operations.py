"""Operations on lanes, prefetching and meeting, as kernels have them in place of plain Python."""

from __future__ import annotations

import operator
from functools import partial
from itertools import product
from typing import Any

from numba import types
from numba.extending import overload

from fewpass.solvers.kernels import lanes
from fewpass.solvers.kernels.compiler import llvm as vectors
from fewpass.solvers.kernels.compiler import llvm_memory as memory
from fewpass.solvers.kernels.compiler.llvm import Lanes, Mask, lane, with_lane
from fewpass.solvers.kernels.compiler.part_compiler import PART, emitted
from fewpass.solvers.kernels.meeting import meet
from fewpass.solvers.kernels.prefetch import LINE, prefetch_line, prefetch_span

SPINS = 1000  # some microseconds, ...
YIELDS = 1020  # ... after which another program may have the core: machines are shared, ...
NAP = 50  # ... and then microseconds of sleep: the others are without a core

# Without reference counts of arrays, which would be an atomic addition per call.
_compiled = partial(overload, jit_options=PART | {"_nrt": False})
_in_lanes = partial(_compiled, strict=False)

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

emitted(lanes.load, _ANY[:3], memory.load)
emitted(lanes.load_first, _ANY[:4], memory.load_first)
emitted(lanes.store, _ANY[:3], memory.store)
emitted(lanes.store_first, _ANY[:4], memory.store_first)
emitted(lanes.broadcast, _ANY[:2], vectors.broadcast_number)
emitted(lanes.sum_lanes, _ANY[:1], vectors.sum_lanes)
emitted(lanes.fma, _ANY[:3], vectors.fma, 4)
emitted(lanes.where, _ANY[:3], vectors.select)
emitted(lanes.sqrt, _ANY[:1], vectors.square_root, 4)
emitted(lanes.whole_power_of_two, _ANY[:1], vectors.power_of_two, 4)
emitted(lanes.exponent, _ANY[:1], vectors.exponent_of, 4)
emitted(lanes.mantissa, _ANY[:1], vectors.mantissa_of, 4)


@_in_lanes(lanes.half)  # type: ignore[untyped-decorator]
def _(lanes: Any) -> Any:
    count = lanes.instance_class._field_defaults["width"] // 2
    return lambda lanes: count  # noqa: ARG005


@_in_lanes(lanes.any_lane)  # type: ignore[untyped-decorator]
def _(mask: Any) -> Any:
    if isinstance(mask, Mask):
        return lambda mask: vectors.any_true(mask)
    return lambda mask: mask


@_in_lanes(lanes.power)  # type: ignore[untyped-decorator]
def _(x: Any, c: Any) -> Any:
    if not isinstance(x, Lanes):
        return lambda x, c: x**c
    width = x.width

    def each(x: Any, c: Any) -> Any:
        for k in range(width):
            x = with_lane(x, k, lane(x, k) ** c)
        return x

    return each


@_compiled(prefetch_line)  # type: ignore[untyped-decorator]
def _(array: Any, index: Any) -> Any:
    def fetch(array: Any, index: Any) -> None:
        memory.prefetch(array, index, 0)

    return fetch


@_compiled(prefetch_span)  # type: ignore[untyped-decorator]
def _(array: Any, start: Any, stop: Any, beyond: Any) -> Any:
    def fetch(array: Any, start: Any, stop: Any, beyond: Any) -> None:
        # In bytes, to save a division per row.
        for byte in range(beyond, beyond + (stop - start) * array.itemsize, LINE):
            memory.prefetch(array, start, byte)
        memory.prefetch(array, stop - 1, beyond)

    return fetch


@_compiled(meet)  # type: ignore[untyped-decorator]
def _(arrived: Any, due: Any) -> Any:
    def wait(arrived: Any, due: Any) -> None:
        memory.add_atomically(arrived, 0, 1)
        spins = 0
        while memory.read_atomically(arrived, 0) < due:
            spins += 1
            if spins > YIELDS:
                memory.sleep(NAP)
            elif spins > SPINS:
                memory.let_others_run()

    return wait
