"""Asking the memory for a cache line before it is needed, by an instruction of the compiler."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload


def touch_line(array: Any, index: Any) -> None:
    """Ask the memory for the cache line of array's index-th number; plain Python does not ask."""


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch_line(_typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, args[0]).data
        place = builder.gep(data, [args[1]])
        pointer = builder.bitcast(place, cgutils.voidptr_t)
        number = cgutils.int32_t
        declared = cgutils.get_or_insert_function(
            builder.module,
            cgutils.ir.FunctionType(cgutils.ir.VoidType(), [cgutils.voidptr_t] + [number] * 3),
            "llvm.prefetch.p0",
        )
        builder.call(declared, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(touch_line)  # type: ignore[untyped-decorator]
def _(array: Any, index: Any) -> Any:
    def touch(array: Any, index: Any) -> None:
        _prefetch_line(array, index)

    return touch
