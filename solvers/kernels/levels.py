"""Levels of processors: what kernels are compiled for, in place of the processor at hand.

All processors of a level run the same machine code, so a kernel may come from another machine: from
the wheel (kernel_files.py), an image, or a home folder that machines share.  Both levels get the
same bits: LLVM may not reorder sums, and both round a * b + c once.
On Zen 5 code for x86-64-v4 is as fast as code for the processor (docs/decisions.md).  Processors of
no level have code of their own.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite  # type: ignore[import-untyped]
import numpy as np
from llvmlite import binding


class _Settings(NamedTuple):
    """Settings of numba that machine code depends on, as they are where nobody has set one."""

    CPU_NAME: str | None = None
    CPU_FEATURES: str | None = None
    ENABLE_AVX: bool = True
    OPT: Any = 3
    LOOP_VECTORIZE: int = 1
    SLP_VECTORIZE: int = 0
    BOUNDSCHECK: int | None = None
    DEBUGINFO_DEFAULT: int = 0
    USING_SVML: bool = False


def _settings() -> Any:
    """Return numba's settings; they are read by numba where it is imported, or may be set."""
    is_set = any(name.startswith("NUMBA_") for name in os.environ)
    in_a_file = Path(".numba_config.yaml").exists()
    if "numba" in sys.modules or is_set or in_a_file or binding.targets.has_svml():
        from numba import config  # noqa: PLC0415 - a tenth of a second

        return config
    return _Settings()


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
    has = {one[1:] for one in host_features().split(",") if one.startswith("+")}
    return tuple(one for one in LEVELS if one.needs <= has)


def host_features() -> str:
    """Return the features of this processor, as LLVM names them, that numba may use."""
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:
        return ""
    if not _settings().ENABLE_AVX:
        features.update({name: False for name in features if name.startswith("avx")})
    return str(features.flatten())


@cache
def level() -> ProcessorLevel | None:
    """Return the level that kernels are compiled for.

    None: numba compiles as it always does, for this processor, or for NUMBA_CPU_NAME.
    """
    if _settings().CPU_NAME is not None or _settings().CPU_FEATURES is not None:
        return None
    return next(iter(levels_here()), None)


@cache
def compiled_for() -> tuple[str, str, str]:
    """Return the system, the processor and the features that kernels are compiled for."""
    if of := level():
        return binding.get_process_triple(), of.name, of.options
    name, features = _settings().CPU_NAME, _settings().CPU_FEATURES
    return (
        binding.get_process_triple(),
        binding.get_host_cpu_name() if name is None else name,
        host_features() if features is None else features,
    )


@cache
def compiled_with() -> str:
    """Return in words all that machine code depends on but the sources."""
    config = _settings()
    options = (
        int(config.OPT), config.LOOP_VECTORIZE, config.SLP_VECTORIZE, config.BOUNDSCHECK,
        config.DEBUGINFO_DEFAULT, config.USING_SVML, sys.flags.optimize,
    )  # fmt: skip
    numpy = np.__version__.split(".")[:2]  # as far as numba looks at it
    versions = version("numba"), llvmlite.__version__, numpy, sys.version_info[:2]
    return repr((versions, compiled_for(), options))
