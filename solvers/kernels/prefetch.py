"""Prefetching of cache lines, by an instruction of the compiler."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from fewpass.solvers.kernels.dispatch import PART
from fewpass.solvers.kernels.llvm_memory import prefetch
from fewpass.solvers.kernels.shapes import Array, Index

LINE = 64  # bytes per request


def prefetch_line(array: Array, index: Index) -> None:
    """Prefetch the cache line of the array's index-th number; no effect in plain Python."""


def prefetch_span(array: Array, start: int, stop: int, beyond: int) -> None:
    """Prefetch the lines of numbers start to stop - 1, all `beyond` bytes later.

    Places after the array's end are ignored.
    """


# Without reference counts of the array, which would be an atomic addition per call.
_OPTIONS = PART | {"_nrt": False}


@overload(prefetch_line, jit_options=_OPTIONS)  # type: ignore[untyped-decorator]
def _(array: Any, index: Any) -> Any:
    def fetch(array: Any, index: Any) -> None:
        prefetch(array, index, 0)

    return fetch


@overload(prefetch_span, jit_options=_OPTIONS)  # type: ignore[untyped-decorator]
def _(array: Any, start: Any, stop: Any, beyond: Any) -> Any:
    def fetch(array: Any, start: Any, stop: Any, beyond: Any) -> None:
        # In bytes, to save a division per row.
        for byte in range(beyond, beyond + (stop - start) * array.itemsize, LINE):
            prefetch(array, start, byte)
        prefetch(array, stop - 1, beyond)

    return fetch
