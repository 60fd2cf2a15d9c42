"""Prefetching of cache lines: kernels have it from compiler/lane_operations.py."""

from __future__ import annotations

from fewpass.solvers.kernels.shapes import Array, Index

LINE = 64  # bytes per request


def prefetch_line(array: Array, index: Index) -> None:
    """Prefetch the cache line of the array's index-th number; no effect in plain Python."""


def prefetch_span(array: Array, start: int, stop: int, beyond: int) -> None:
    """Prefetch the lines of numbers start to stop - 1, all `beyond` bytes later.

    Places after the array's end are ignored.
    """
