"""Extensions of numba: LLVM's vectors of float64, and their arithmetic.

numba has no vectors, and a loop over models that LLVM vectorises by itself takes eight times as
long.  lane_operations.py gives these operations, and those of llvm_memory.py, to the functions of
lanes.py and prefetch.py, which also work in plain Python.

This folder uses numba.core, which changes without notice: pyproject.toml admits the versions that
were tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

ir = cgutils.ir

ONE_BITS = 1023 << 52  # of 1.0
LEAST_BITS = 0x3FE6A09E667F3BCD  # of sqrt(1/2): mantissas lie between it and its double


class Lanes(types.Type):  # type: ignore[misc]
    """A vector of float64."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


def lanes_of(lanes: Any) -> Any:
    """Return the type of as many lanes as `lanes` has; of a single one that of a number."""
    width = lanes.instance_class._field_defaults["width"]
    return Lanes(width) if width > 1 else types.float64


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
    """Return whether a mask is true in any lane."""

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
def broadcast_number(_typing: Any, x: Any, lanes: Any) -> Any:
    """Broadcast a number to all lanes."""
    kind = lanes_of(lanes)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        if not isinstance(kind, Lanes):
            return args[0]
        return _broadcast(context, builder, args[0], types.float64, kind)

    return kind(types.float64, lanes), generate
