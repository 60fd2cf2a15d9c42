"""Extensions of numba: reading and writing LLVM's vectors, and its prefetch.

Like llvm.py this uses numba.core, which changes without notice.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fewpass.solvers.kernels.compiler.llvm import Lanes, lanes_of

ir = cgutils.ir


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    if kind.layout == "A":
        raise TypeError(f"{kind} may have gaps between its numbers, and is read end to end.")
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _vector_of(context: Any, V: Any, kind: Any) -> Any:
    """Return the vector type with the element type of an array, or that type for one number."""
    element = context.get_value_type(V.dtype)
    return ir.VectorType(element, kind.width) if isinstance(kind, Lanes) else element


def _as_float64(builder: Any, vector: Any, to: Any) -> Any:
    return vector if vector.type == to else builder.fpext(vector, to)


@intrinsic  # type: ignore[untyped-decorator]
def load(_typing: Any, V: Any, place: Any, lanes: Any) -> Any:
    """Return V[place:] as lanes; V may be of float32."""
    kind = lanes_of(lanes)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        vector = _vector_of(context, V, kind)
        loaded = builder.load(_place(context, builder, V, args[0], args[1], vector))
        loaded.align = V.dtype.bitwidth // 8
        return _as_float64(builder, loaded, context.get_value_type(kind))

    return kind(V, types.intp, lanes), generate


def _first_lanes(builder: Any, count: Any, width: int) -> Any:
    """Return a mask of the first `count` lanes."""
    number = ir.IntType(32)
    lanes = ir.VectorType(number, width)
    nothing = ir.Constant(lanes, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(count, number), number(0))
    counts = builder.shuffle_vector(first, nothing, ir.Constant(lanes, [0] * width))
    return builder.icmp_signed("<", ir.Constant(lanes, list(range(width))), counts)


@intrinsic  # type: ignore[untyped-decorator]
def load_first(_typing: Any, V: Any, place: Any, count: Any, lanes: Any) -> Any:
    """Return the first `count` of them, and 0 in the other lanes, without reading further."""
    kind = Lanes(lanes.instance_class._field_defaults["width"])

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        vector, width, number = _vector_of(context, V, kind), kind.width, ir.IntType(32)
        mask = _first_lanes(builder, args[2], width)
        pointer = _place(context, builder, V, args[0], args[1], vector)
        signature = ir.FunctionType(vector, [pointer.type, number, mask.type, vector])
        name = f"llvm.masked.load.v{width}f{V.dtype.bitwidth}.p0"
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        nothing = ir.Constant(vector, [0.0] * width)
        loaded = builder.call(function, [pointer, number(V.dtype.bitwidth // 8), mask, nothing])
        return _as_float64(builder, loaded, context.get_value_type(kind))

    return kind(V, types.intp, types.intp, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(_typing: Any, V: Any, at: Any, v: Any) -> Any:
    """Write lanes to V[at:]."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        vector = context.get_value_type(v)
        place = _place(context, builder, V, args[0], args[1], vector)
        stored = builder.store(args[2], place)
        stored.align = 8
        return context.get_dummy_value()

    return types.void(V, types.intp, v), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_first(_typing: Any, V: Any, at: Any, count: Any, v: Any) -> Any:
    """Write the first `count` lanes to V[at:], and nothing after them."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        vector, number = context.get_value_type(v), ir.IntType(32)
        mask = _first_lanes(builder, args[2], v.width)
        place = _place(context, builder, V, args[0], args[1], vector)
        signature = ir.FunctionType(ir.VoidType(), [vector, place.type, number, mask.type])
        name = f"llvm.masked.store.v{v.width}f64.p0"
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        builder.call(function, [args[3], place, number(8), mask])
        return context.get_dummy_value()

    return types.void(V, types.intp, types.intp, v), generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_typing: Any, array: Any, index: Any, beyond: Any) -> Any:
    """Prefetch the cache line `beyond` bytes after the array's index-th number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), cgutils.voidptr_t)
        number = cgutils.int32_t
        declared = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t] + [number] * 3),
            "llvm.prefetch.p0",
        )
        place = builder.gep(pointer, [args[2]])
        builder.call(declared, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_atomically(_typing: Any, counts: Any, index: Any, number: Any) -> Any:
    """Add to a number of an array of int64, seen by all threads with what was written before."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = context.make_array(counts)(context, builder, args[0]).data
        builder.atomic_rmw("add", builder.gep(data, [args[1]]), args[2], "seq_cst")
        return context.get_dummy_value()

    return types.void(counts, types.intp, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def read_atomically(_typing: Any, counts: Any, index: Any) -> Any:
    """Return a number of an array of int64, and see what was written before it was added to."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = context.make_array(counts)(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "seq_cst", 8)

    return types.int64(counts, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def let_others_run(_typing: Any) -> Any:
    """Let the operating system run another thread on this core."""

    def generate(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        signature = ir.FunctionType(ir.IntType(32), [])
        function = cgutils.get_or_insert_function(builder.module, signature, "sched_yield")
        return builder.call(function, [])

    return types.int32(), generate


@intrinsic  # type: ignore[untyped-decorator]
def sleep(_typing: Any, microseconds: Any) -> Any:
    """Let this thread sleep for some microseconds."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        signature = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        function = cgutils.get_or_insert_function(builder.module, signature, "usleep")
        return builder.call(function, args)

    return types.int32(types.int32), generate
