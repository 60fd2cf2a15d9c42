"""Extensions of numba: LLVM's vectors of float64, its prefetch, and parts of kernels.

numba has no vectors, and a loop over models that LLVM vectorises by itself takes eight times as
long.  lanes.py and prefetch.py give these operations names that also work in plain Python.
Functions that only kernels call are compiled by `PartCompiler`: numba would make each
one ready to be called from elsewhere, too, which is a quarter of the time of compiling.

Only this file, kernels/loading.py and kernels/machine_code.py use numba.core, which changes without
notice: pyproject.toml admits the versions that were tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import _dynfunc, types
from numba.core import cgutils, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

ir = cgutils.ir

#: numba's lock: one thread of a process compiles at a time.
compiler_lock = global_compiler_lock

#: numba's events.
compiler_events = event


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM's code of a function, to be linked into others, where it becomes machine code."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Lowering to LLVM's code without entry points from Python and from C."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library = library
        super().run_pass(state)
        library.finalize()
        made = state.cr
        where, name, nowhere = made.fndesc.lookup_module(), made.fndesc.qualname, 0
        stub = _dynfunc.make_function(where, name, "", nowhere, made.env, (library,))
        state.targetctx.insert_user_function(stub, made.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state.cr = made._replace(cfunc=stub)
        return True


class PartCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler for functions that only compiled functions call."""

    def define_pipelines(self) -> Any:
        """Replace the last pass."""
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (_PartLowering if step is NativeLowering else step, why)
                for step, why in pipeline.passes
            ]
            pipeline._finalized = False
            pipeline.finalize()
        return pipelines


def give_environments(kernel: Any) -> None:
    """Point a compiled kernel to the globals of its parts, as numba does for a cached one."""
    for compiled in kernel.overloads.values():
        for environment in compiled._find_referenced_environments():
            compiled.library.codegen.set_env(environment.env_name, environment)


def _is_of(kind: Any, wanted: Any) -> bool:
    return wanted is types.Any or isinstance(kind, wanted)


def emitted(function: Any, kinds: tuple[Any, ...], inner: Any, takes: int | None = None) -> None:
    """Have kernels emit an intrinsic where they call a function, which compiles faster than a part.

    It has the fast-math flags of the function that it stands in, as a part would inherit them.

    Parameters
    ----------
    function
        A plain function, or an operator, of as many arguments as there are kinds.
    kinds
        Classes of the arguments' types.
    inner
        The intrinsic.
    takes
        How many arguments it takes: the last one is repeated [default: as many].
    """
    more = (takes or len(kinds)) - len(kinds)

    class Emitted(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            if kws or len(args) != len(kinds) or not all(map(_is_of, args, kinds)):
                return None
            signature, _ = inner._defn(self.context, *args, *args[-1:] * more)
            return signature.return_type(*signature.args[: len(kinds)])

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = (*signature.args, *signature.args[-1:] * more)
        whole, make = inner._defn(context.typing_context, *given)
        return make(context, builder, whole, (*args, *args[-1:] * more))

    infer_global(function, types.Function(Emitted))
    lower_builtin(function, *kinds)(generate)


ONE_BITS = 1023 << 52  # of 1.0
LEAST_BITS = 0x3FE6A09E667F3BCD  # of sqrt(1/2): mantissas lie between it and its double


class Lanes(types.Type):  # type: ignore[misc]
    """A vector of float64."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.DoubleType(), kind.width))


class Mask(types.Type):  # type: ignore[misc]
    """The result of a comparison of such vectors: true or false in every lane."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Mask({width})")


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), kind.width))


def _is_real(kind: Any) -> bool:
    return isinstance(kind, Lanes | types.Float | types.Integer)


def common(*kinds: Any) -> Any:
    """Return the lane type among some types; float64 if all are numbers, None if one is neither."""
    if not all(_is_real(kind) for kind in kinds):
        return None
    lanes = {kind for kind in kinds if isinstance(kind, Lanes)}
    return None if len(lanes) > 1 else lanes.pop() if lanes else types.float64


def _broadcast(context: Any, builder: Any, value: Any, kind: Any, to: Any) -> Any:
    """Broadcast a number to all lanes."""
    if kind == to:
        return value
    vector = context.get_value_type(to)
    index = ir.VectorType(ir.IntType(32), to.width)
    blank = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(blank, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, blank, ir.Constant(index, [0] * to.width))


def _elementwise(make: Callable[..., Any]) -> Any:
    """Return an intrinsic of four arguments, all broadcast to lanes if one of them is."""

    @intrinsic  # type: ignore[untyped-decorator]
    def operation(_typing: Any, a: Any, b: Any, c: Any, e: Any) -> Any:
        to, kinds = common(a, b, c, e), (a, b, c, e)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pairs = zip(args, signature.args, strict=True)
            each = [_broadcast(context, builder, arg, kind, to) for arg, kind in pairs]
            return make(builder, context.get_value_type(to), *each)

        return to(*map(_own, kinds)), generate

    return operation


def _llvm(name: str, count: int) -> Callable[..., Any]:
    """Call an operation that LLVM has for numbers and for vectors."""

    def make(builder: Any, kind: Any, *args: Any) -> Any:
        suffix = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
        signature = ir.FunctionType(kind, [kind] * count)
        function = cgutils.get_or_insert_function(builder.module, signature, f"{name}.{suffix}")
        return builder.call(function, args[:count])

    return make


def _own(kind: Any) -> Any:
    """Return lane types unchanged, and float64 for any number."""
    return kind if isinstance(kind, Lanes) else types.float64


def _comparison(relation: str) -> Any:
    """Return an intrinsic that compares lanes: false for NaN."""

    @intrinsic  # type: ignore[untyped-decorator]
    def operation(_typing: Any, a: Any, b: Any) -> Any:
        to = common(a, b)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pairs = zip(args, signature.args, strict=True)
            each = [_broadcast(context, builder, arg, kind, to) for arg, kind in pairs]
            return builder.fcmp_ordered(relation, *each)

        return Mask(to.width)(_own(a), _own(b)), generate

    return operation


@intrinsic  # type: ignore[untyped-decorator]
def select(_typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """Choose between two numbers, or lane by lane, without branching."""
    to = common(a, b)
    if isinstance(mask, Mask):
        to = Lanes(mask.width)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = zip(args[1:], signature.args[1:], strict=True)
        each = [_broadcast(context, builder, arg, kind, to) for arg, kind in pairs]
        return builder.select(args[0], *each)

    return to(mask, _own(a), _own(b)), generate


@intrinsic  # type: ignore[untyped-decorator]
def both(_typing: Any, a: Any, b: Any) -> Any:
    """Return the logical and of two masks."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.and_(*args)

    return a(a, b), generate


def _whole(kind: Any) -> tuple[Any, Callable[[int], Any]]:
    """Return the integer type of a type's bits, and a function that makes constants of it."""
    lanes = getattr(kind, "count", 0)
    whole = ir.VectorType(ir.IntType(64), lanes) if lanes else ir.IntType(64)
    return whole, lambda value: ir.Constant(whole, [value] * lanes if lanes else value)


def _two_to(builder: Any, kind: Any, x: Any, *_: Any) -> Any:
    """Shift the integer in x's lowest bits to the exponent."""
    whole, constant = _whole(kind)
    bits = builder.shl(builder.bitcast(x, whole), constant(52))
    return builder.bitcast(builder.add(bits, constant(ONE_BITS)), kind)


def _exponent(builder: Any, kind: Any, x: Any) -> Any:
    """Return the integer k of x = 2^k m."""
    whole, constant = _whole(kind)
    above = builder.sub(builder.bitcast(x, whole), constant(LEAST_BITS))
    return builder.ashr(above, constant(52))


def _exponent_of(builder: Any, kind: Any, x: Any, *_: Any) -> Any:
    return builder.sitofp(_exponent(builder, kind, x), kind)


def _mantissa_of(builder: Any, kind: Any, x: Any, *_: Any) -> Any:
    whole, constant = _whole(kind)
    shifted = builder.shl(_exponent(builder, kind, x), constant(52))
    return builder.bitcast(builder.sub(builder.bitcast(x, whole), shifted), kind)


add = _elementwise(lambda builder, _kind, a, b, *_: builder.fadd(a, b))
subtract = _elementwise(lambda builder, _kind, a, b, *_: builder.fsub(a, b))
multiply = _elementwise(lambda builder, _kind, a, b, *_: builder.fmul(a, b))
divide = _elementwise(lambda builder, _kind, a, b, *_: builder.fdiv(a, b))
negate = _elementwise(lambda builder, _kind, a, *_: builder.fneg(a))
fma = _elementwise(_llvm("llvm.fmuladd", 3))
square_root = _elementwise(_llvm("llvm.sqrt", 1))
absolute = _elementwise(_llvm("llvm.fabs", 1))
power_of_two = _elementwise(_two_to)
exponent_of = _elementwise(_exponent_of)
mantissa_of = _elementwise(_mantissa_of)
above = _comparison(">")
below = _comparison("<")
at_least = _comparison(">=")
at_most = _comparison("<=")


@intrinsic  # type: ignore[untyped-decorator]
def any_true(_typing: Any, mask: Any) -> Any:
    """Whether a mask is true in any lane."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bits = ir.IntType(mask.width)
        return builder.icmp_unsigned("!=", builder.bitcast(args[0], bits), ir.Constant(bits, 0))

    return types.boolean(mask), generate


@intrinsic  # type: ignore[untyped-decorator]
def lane(_typing: Any, v: Any, k: Any) -> Any:
    """Return lane k."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return types.float64(v, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def with_lane(_typing: Any, v: Any, k: Any, x: Any) -> Any:
    """Return the lanes with lane k replaced."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.insert_element(args[0], args[2], args[1])

    return v(v, types.intp, types.float64), generate


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _vector_of(context: Any, V: Any, kind: Lanes) -> Any:
    """Return the vector type with the element type of an array."""
    return ir.VectorType(context.get_value_type(V.dtype), kind.width)


def _as_float64(builder: Any, vector: Any, to: Any) -> Any:
    return vector if vector.type == to else builder.fpext(vector, to)


@intrinsic  # type: ignore[untyped-decorator]
def load(_typing: Any, V: Any, place: Any, how: Any) -> Any:
    """Return V[place:] as lanes; V may be of float32."""
    kind = Lanes(how.instance_class._field_defaults["width"])

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        vector = _vector_of(context, V, kind)
        loaded = builder.load(_place(context, builder, V, args[0], args[1], vector))
        loaded.align = V.dtype.bitwidth // 8
        return _as_float64(builder, loaded, context.get_value_type(kind))

    return kind(V, types.intp, how), generate


def _first_lanes(builder: Any, count: Any, width: int) -> Any:
    """Return a mask of the first `count` lanes."""
    number = ir.IntType(32)
    lanes = ir.VectorType(number, width)
    nothing = ir.Constant(lanes, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(count, number), number(0))
    counts = builder.shuffle_vector(first, nothing, ir.Constant(lanes, [0] * width))
    return builder.icmp_signed("<", ir.Constant(lanes, list(range(width))), counts)


@intrinsic  # type: ignore[untyped-decorator]
def load_first(_typing: Any, V: Any, place: Any, count: Any, how: Any) -> Any:
    """Return the first `count` of them, and 0 in the other lanes, without reading further."""
    kind = Lanes(how.instance_class._field_defaults["width"])

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

    return kind(V, types.intp, types.intp, how), generate


@intrinsic  # type: ignore[untyped-decorator]
def sum_lanes(_typing: Any, v: Any) -> Any:
    """Return the sum of all lanes: by halves, and halves of these."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        vector, width = args[0], v.width
        while width > 1:
            width //= 2
            index = ir.VectorType(ir.IntType(32), width)
            low, high = (
                builder.shuffle_vector(
                    vector, vector, ir.Constant(index, list(range(q, q + width)))
                )
                for q in (0, width)
            )
            vector = builder.fadd(low, high)
        return builder.extract_element(vector, ir.IntType(32)(0))

    return types.float64(v), generate


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
def broadcast_number(_typing: Any, x: Any, how: Any) -> Any:
    """Broadcast a number to all lanes."""
    kind = Lanes(how.instance_class._field_defaults["width"])

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return _broadcast(context, builder, args[0], types.float64, kind)

    return kind(types.float64, how), generate


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
