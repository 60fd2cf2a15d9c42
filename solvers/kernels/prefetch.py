"""Asking the memory for a cache line before it is needed, by an instruction of the compiler."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from fewpass.solvers.kernels.dispatch import PART
from fewpass.solvers.kernels.llvm import prefetch
from fewpass.solvers.kernels.shapes import Array, Index

LINE = 64  # bytes that one request brings


def prefetch_line(array: Array, index: Index) -> None:
    """Ask the memory for the cache line of array's index-th number; plain Python does not ask."""


def prefetch_span(array: Array, start: int, stop: int, beyond: int) -> None:
    """Ask for the lines of the start-th to the (stop - 1)-th number, all `beyond` bytes later.

    A place after the array's end may be asked for: it does not come, and nothing else happens.
    """


# No references to the array are counted: that would be an atomic addition per call.
_OPTIONS = PART | {"_nrt": False}


@overload(prefetch_line, jit_options=_OPTIONS)  # type: ignore[untyped-decorator]
def _(array: Any, index: Any) -> Any:
    def fetch(array: Any, index: Any) -> None:
        prefetch(array, index, 0)

    return fetch


@overload(prefetch_span, jit_options=_OPTIONS)  # type: ignore[untyped-decorator]
def _(array: Any, start: Any, stop: Any, beyond: Any) -> Any:
    def fetch(array: Any, start: Any, stop: Any, beyond: Any) -> None:
        # In bytes: to divide LINE by the size of a number would take a division per row.
        for byte in range(beyond, beyond + (stop - start) * array.itemsize, LINE):
            prefetch(array, start, byte)
        prefetch(array, stop - 1, beyond)

    return fetch
