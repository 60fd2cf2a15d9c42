"""Declarations of our functions to numba, made before it compiles a kernel and not earlier."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from numba import types
from numba.extending import overload, register_jitable

from fewpass.solvers.kernels.compiler.part_compiler import PART, PartCompiler
from fewpass.solvers.kernels.dispatch import Declaration, untold

_OPERATIONS = "fewpass.solvers.kernels.compiler.lane_operations"  # it imports what declares parts


def tell_numba() -> None:
    """Declare what modules imported by now have declared."""
    import_module(_OPERATIONS)
    while untold:
        _tell(untold.popleft())


def _tell(one: Declaration) -> None:
    if one.verb is not None:
        overload(one.verb, strict=False, jit_options=PART | one.options)(_chosen(one))
    elif one.inlined:
        register_jitable(**PART, **one.options)(one.function)
    else:
        register_jitable(pipeline_class=PartCompiler, error_model="numpy")(one.function)


def _chosen(one: Declaration) -> Callable[..., Any]:
    def choose(first: Any, *_rest: Any) -> Callable[..., Any] | None:
        fits = isinstance(first, types.BaseNamedTuple) and first.instance_class is one.kind
        return one.function if fits else None

    return choose
