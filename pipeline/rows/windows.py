"""Which chunks and rows are visited in which order: all of it from the seed, nothing stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.block_shuffle import shuffled_blocks
from fewpass.pipeline.sizes import format_bytes
from fewpass.storage.manifest import Manifest

#: "stored": as they lie; "random": chunks drawn, and rows in blocks (block_shuffle.py); "permuted":
#: chunks drawn, and rows one by one: for sets in which neighbours have something in common.
Order = Literal["stored", "random", "permuted"]

IN_FLIGHT = 3  # windows of one stream in memory: one stepped, two being read
VERSIONS_IN_MEMORY = 2  # of the numbers per row: one read, one written
OVERHEAD_BYTES = 96_000_000  # loaded kernels, compressed chunks, the cluster in this process
CHUNKS_OF_A_WINDOW, ROWS_OF_A_WINDOW = 11, 12  # purposes of random generators


class WindowPlan(NamedTuple):
    """Everything that the order depends on."""

    n_chunks: int
    chunks_per_window: int
    streams: int
    seed: int


def chunk_bytes(manifest: Manifest, row_state_size: int = 1) -> int:
    """Return the bytes of the largest chunk in memory, with numbers per row."""
    per_row, per_value = _row_and_value_bytes(manifest)
    per_row += (3 + row_state_size) * 8  # y, weight, order, the method's numbers
    pairs = zip(manifest.chunks.rows, manifest.chunks.nnz, strict=True)
    return max(rows * per_row + nnz * per_value for rows, nnz in pairs)


def resident_bytes(manifest: Manifest, plan: WindowPlan, row_state_size: int = 1) -> int:
    """Return the bytes of all rows in memory, decoded, with orders of windows in flight."""
    per_row, per_value = _row_and_value_bytes(manifest)
    per_row += (2 + VERSIONS_IN_MEMORY * row_state_size) * 8  # weights, as stored and as they count
    rows = manifest.n_rows * per_row
    window_rows, _ = largest_window(manifest, plan)
    in_flight = (
        IN_FLIGHT * plan.streams * window_rows * (2 + row_state_size) * 8
    )  # order, draft of it
    return rows + sum(manifest.chunks.nnz) * per_value + in_flight


def rows_bytes(manifest: Manifest) -> int:
    """Return the bytes of all rows in memory, decoded."""
    per_row, per_value = _row_and_value_bytes(manifest)
    return manifest.n_rows * per_row + sum(manifest.chunks.nnz) * per_value


def _row_and_value_bytes(manifest: Manifest) -> tuple[int, int]:
    """Return the bytes of a row with its target, and of each of its values."""
    value = np.dtype(manifest.dtype).itemsize
    index = 8 if manifest.n_features > np.iinfo(np.int32).max else 4
    if manifest.layout == "dense":
        return 8 + manifest.n_features * value, 0
    return 8 + 8, value + index


def plan_windows(
    manifest: Manifest,
    *,
    memory: int,
    state_bytes: int,
    streams: int,
    seed: int,
    row_state_size: int = 1,
    models: int = 1,
) -> WindowPlan:
    """Fit windows into the budget less the state, shared by all windows in flight."""
    n_chunks = len(manifest.chunks.rows)
    if streams > n_chunks:
        raise BadInput(
            f"{streams} streams need as many chunks, but the data set has {n_chunks}. "
            f"Use `streams={n_chunks}` or fewer."
        )
    one = chunk_bytes(manifest, row_state_size)
    spare = memory - OVERHEAD_BYTES - state_bytes
    fitting = spare // (IN_FLIGHT * streams * one)
    state = "the model" if models == 1 else f"{models} models"
    rows = IN_FLIGHT * streams * one
    require_memory(memory, state_bytes, rows, f"{state} with what the method keeps")
    return WindowPlan(n_chunks, int(min(fitting, n_chunks)), streams, seed)


def require_memory(memory: int, state_bytes: int, rows_bytes: int, state: str) -> None:
    """Raise BadInput, which adds up the needs, where a budget is too small for them."""
    least = state_bytes + rows_bytes + OVERHEAD_BYTES
    if least > memory:
        raise BadInput(
            f"A memory budget of {format_bytes(memory)} is too small: {state} takes "
            f"{format_bytes(state_bytes)}, rows in memory at a time at least "
            f"{format_bytes(rows_bytes)}, and the program itself {format_bytes(OVERHEAD_BYTES)}. "
            f"Use `memory={-(-least // 10**6)}MB` or more."
        )


class Window(NamedTuple):
    """Chunks that are in memory together, and the key of the order of their rows."""

    chunks: tuple[int, ...]
    order: Order
    sweep: int
    turn: int  # number of earlier turns of this sweep through the data


def windows_per_turn(plan: WindowPlan, stream: int) -> int:
    """Return the number of windows of one stream in one turn through the data."""
    chunks = len(np.array_split(np.empty(plan.n_chunks), plan.streams)[stream])
    return -(-chunks // plan.chunks_per_window)


def windows_between(
    plan: WindowPlan, order: Order, sweep: int, stream: int, first: int, stop: int
) -> Iterator[Window]:
    """Yield windows first <= k < stop of a stream, which goes through the data turn after turn."""
    per_turn = windows_per_turn(plan, stream)
    for turn in range(first // per_turn, -(-stop // per_turn)):
        drawn = windows_of_turn(plan, order, sweep, stream, turn)
        since = turn * per_turn
        for chunks in drawn[max(0, first - since) : stop - since]:
            yield Window(chunks, order, sweep, turn)


def windows_of_turn(
    plan: WindowPlan, order: Order, sweep: int, stream: int, turn: int = 0
) -> list[tuple[int, ...]]:
    """Return the windows of one stream in one turn of a sweep, as tuples of chunk numbers.

    "stored" takes chunks as they lie; the others draw them anew for every sweep and turn.
    """
    chunks = np.arange(plan.n_chunks)
    if order != "stored":
        key = [plan.seed, CHUNKS_OF_A_WINDOW, sweep, turn]
        chunks = np.random.default_rng(key).permutation(chunks)
    mine = np.array_split(chunks, plan.streams)[stream]
    step = plan.chunks_per_window
    return [tuple(int(c) for c in mine[k : k + step]) for k in range(0, len(mine), step)]


def row_order(plan: WindowPlan, window: Window, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put the numbers of a window's rows in order, maybe in place.

    Within a turn a window is identified by its first chunk.
    """
    if window.order == "stored":
        return rows
    key = [plan.seed, ROWS_OF_A_WINDOW, window.sweep, window.turn, window.chunks[0]]
    generator = np.random.default_rng(key)
    return (
        shuffled_blocks(rows, generator)
        if window.order == "random"
        else generator.permutation(rows)
    )


def largest_window(manifest: Manifest, plan: WindowPlan) -> tuple[int, int]:
    """Rows and non-zeros that a buffer must hold to take any window of the plan."""
    step = plan.chunks_per_window
    rows = sorted(manifest.chunks.rows, reverse=True)[:step]
    nnz = sorted(manifest.chunks.nnz, reverse=True)[:step]
    return sum(rows), sum(nnz)
