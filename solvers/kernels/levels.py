"""Levels of processors: what kernels are compiled for, in place of the processor at hand.

All processors of a level run the same machine code, so a kernel may come from another machine: from
the wheel (kernel_files.py), an image, or a home folder that machines share.  Both levels get the
same bits: LLVM may not reorder sums, and both round a * b + c once.
On Zen 5 code for x86-64-v4 is as fast as code for the processor (docs/decisions.md).  Processors of
no level have code of their own.  Like llvm.py this uses numba.core, which changes without notice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from llvmlite import binding
from numba.core import codegen, config
from numba.core.compiler_lock import global_compiler_lock

#: numba's lock: one thread of a process compiles at a time.
compiler_lock = global_compiler_lock


class ProcessorLevel(NamedTuple):
    """Processors that have some features."""

    name: str  # LLVM's
    needs: frozenset[str]  # LLVM's names of features
    options: str = ""  # features as LLVM is given them, beyond those of the name


_V3 = frozenset({
    "cx16", "sahf", "crc32", "popcnt", "sse4.2",
    "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave",
})  # fmt: skip
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

#: The highest first.  Without its option LLVM halves the vectors of the fourth: dense dual ascent
#: takes 1.1 times as long.
LEVELS = (ProcessorLevel("x86-64-v4", _V4, "-prefer-256-bit"), ProcessorLevel("x86-64-v3", _V3))


def levels_here() -> tuple[ProcessorLevel, ...]:
    """Return the levels whose code this processor runs, by its features."""
    features = codegen.get_host_cpu_features().split(",")
    return tuple(
        one for one in LEVELS if one.needs <= {has[1:] for has in features if has[0] == "+"}
    )


@cache
def level() -> ProcessorLevel | None:
    """Return the level that kernels are compiled for.

    None: numba compiles as it always does, for this processor, or for NUMBA_CPU_NAME.
    """
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return None
    return next(iter(levels_here()), None)


@cache
def compiled_for() -> tuple[str, str, str]:
    """Return the system, the processor and the features that kernels are compiled for."""
    if of := level():
        return binding.get_process_triple(), of.name, of.options
    name = binding.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    given = config.CPU_FEATURES
    return (
        binding.get_process_triple(),
        name,
        codegen.get_host_cpu_features() if given is None else given,
    )


@cache
def compiled_with() -> str:
    """Return in words all that machine code depends on but the sources."""
    options = (
        int(config.OPT), config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.BOUNDSCHECK,
        config.DEBUGINFO_DEFAULT, config.USING_SVML, sys.flags.optimize,
    )  # fmt: skip
    numpy = np.__version__.split(".")[:2]  # as far as numba looks at it
    versions = numba.__version__, llvmlite.__version__, numpy, sys.version_info[:2]
    return repr((versions, compiled_for(), options))


class _LevelCodegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    """numba's generator of code, for a level."""

    def __init__(self, of: ProcessorLevel) -> None:
        self._level = of
        super().__init__("fewpass.exec")

    def _get_host_cpu_name(self) -> str:
        return self._level.name

    def _get_host_cpu_features(self) -> str:
        return self._level.options


class _OfLevel(NamedTuple):
    """Parts that a context of numba has one of for each generator of code."""

    codegen: Any
    internal_functions: dict[Any, Any]


@cache
def _of_level(of: ProcessorLevel) -> _OfLevel:
    return _OfLevel(_LevelCodegen(of), {})


@contextmanager
def compiling_for_level(context: Any) -> Iterator[None]:
    """Have numba generate code for the level meanwhile; that of other libraries is as it was."""
    of = level()
    with compiler_lock:
        if of is None:
            yield
            return
        before = _OfLevel(context._internal_codegen, context.cached_internal_func)
        context._internal_codegen, context.cached_internal_func = _of_level(of)
        try:
            yield
        finally:
            context._internal_codegen, context.cached_internal_func = before
