"""The order in which chunks and rows are visited: all of it from the seed, nothing stored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.storage.manifest import Manifest

#: "stored": as they lie; "random": chunks drawn, and rows in blocks (`shuffled_blocks`);
#: "permuted": chunks drawn, and rows one by one: where neighbours have something in common.
Order = Literal["stored", "random", "permuted"]

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
    chunks = manifest.chunks
    return int((chunks.rows * per_row + chunks.nnz * per_value).max())


def resident_bytes(manifest: Manifest, plan: WindowPlan, row_state_size: int = 1) -> int:
    """Return the bytes of all rows in memory, decoded, with orders of windows in flight."""
    per_row, per_value = _row_and_value_bytes(manifest)
    per_row += (2 + Budget.row_numbers * row_state_size) * 8  # weights, as stored and as they count
    rows = manifest.n_rows * per_row
    window_rows, _ = largest_window(manifest, plan)
    windows = Budget.windows * plan.streams * window_rows
    in_flight = windows * (2 + row_state_size) * 8  # order, draft of it
    return rows + manifest.nnz * per_value + in_flight


def rows_bytes(manifest: Manifest) -> int:
    """Return the bytes of all rows in memory, decoded."""
    per_row, per_value = _row_and_value_bytes(manifest)
    return manifest.n_rows * per_row + manifest.nnz * per_value


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
    budget: Budget,
    state_bytes: int,
    streams: int,
    seed: int,
    row_state_size: int = 1,
    models: int = 1,
    together: int | None = None,
    merges: int = 1,
) -> WindowPlan:
    """Fit windows into the budget less the state, shared by all windows in flight.

    These are of the streams that a process has `together`, by default all.  Streams that meet
    `merges` times in a turn have at least as many windows.
    """
    n_chunks = manifest.n_chunks
    if streams > n_chunks:
        raise BadInput(
            f"{streams} streams need as many chunks, but the data set has {n_chunks}. "
            "Use fewer streams, or ingest with smaller chunks (`chunk_bytes`)."
        )
    smallest = Budget.windows * (together or streams) * chunk_bytes(manifest, row_state_size)
    fitting = (budget.rows - state_bytes) // smallest
    state = "the model" if models == 1 else f"{models} models"
    budget.require(state_bytes, smallest, f"{state} with what the method keeps")
    most = max(1, n_chunks // (streams * merges)) if merges > 1 else n_chunks
    return WindowPlan(n_chunks, int(min(fitting, most)), streams, seed)


class Window(NamedTuple):
    """Chunks that are in memory together, and the key of the order of their rows."""

    chunks: tuple[int, ...]
    order: Order
    sweep: int
    turn: int  # number of earlier turns of this sweep through the data


def windows_per_turn(plan: WindowPlan, stream: int) -> int:
    """Return the number of windows of one stream in one turn through the data."""
    return -(-len(places_of(plan, stream)) // plan.chunks_per_window)


def meetings(plan: WindowPlan, merges: int) -> list[list[int]]:
    """Return after which of its windows of a turn each stream meets the others, meeting by meeting.

    The last one is the end of the turn.
    """
    lengths = [windows_per_turn(plan, stream) for stream in range(plan.streams)]
    return [[length * r // merges for length in lengths] for r in range(1, merges + 1)]


def places_of(plan: WindowPlan, stream: int) -> range:
    """Return the places of a stream's chunks in a turn; the first streams may have one more."""
    least, more = divmod(plan.n_chunks, plan.streams)
    first = stream * least + min(stream, more)
    return range(first, first + least + (stream < more))


def windows_between(
    plan: WindowPlan, order: Order, sweep: int, stream: int, first: int, stop: int
) -> Iterator[Window]:
    """Yield windows first <= k < stop of a stream, which goes through the data turn after turn."""
    per_turn = windows_per_turn(plan, stream)
    for turn in range(first // per_turn, -(-stop // per_turn)):
        since = turn * per_turn
        wanted = range(max(0, first - since), min(per_turn, stop - since))
        for chunks in windows_of_turn(plan, order, sweep, stream, turn, wanted):
            yield Window(chunks, order, sweep, turn)


def windows_of_turn(
    plan: WindowPlan, order: Order, sweep: int, stream: int, turn: int = 0,
    wanted: range | None = None,
) -> list[tuple[int, ...]]:  # fmt: skip
    """Return windows of one stream in one turn of a sweep, as tuples of chunk numbers.

    "stored" takes chunks as they lie; the others draw them anew for every sweep and turn.  By
    default all windows are returned, else those that are wanted.
    """
    places, step = places_of(plan, stream), plan.chunks_per_window
    wanted = range(windows_per_turn(plan, stream)) if wanted is None else wanted
    mine = places[wanted.start * step : wanted.stop * step]
    drawn = drawn_chunks(plan, order, sweep, turn, mine)
    return [tuple(drawn[k : k + step]) for k in range(0, len(drawn), step)]


def drawn_chunks(plan: WindowPlan, order: Order, sweep: int, turn: int, places: range) -> list[int]:
    """Return the chunks at some places in the order of a turn."""
    if order == "stored":
        return list(places)
    key = (plan.seed, CHUNKS_OF_A_WINDOW, sweep, turn)
    chunks: list[int] = drawn_whole(plan.n_chunks, key)[places.start : places.stop].tolist()
    return chunks


@lru_cache(maxsize=4)
def drawn_whole(n: int, key: tuple[int, ...]) -> NDArray[np.int64]:
    """Return a permutation of n chunks; the last few are kept, as every span of a walk asks."""
    return np.random.default_rng(key).permutation(np.arange(n))


def row_order(plan: WindowPlan, window: Window, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put the numbers of a window's rows in order, maybe in place.

    Within a turn a window is identified by its first chunk.
    """
    if window.order == "stored":
        return rows
    key = [plan.seed, ROWS_OF_A_WINDOW, window.sweep, window.turn, window.chunks[0]]
    generator = np.random.default_rng(key)
    if window.order == "random":
        return shuffled_blocks(rows, generator)
    return generator.permutation(rows)


def largest_window(manifest: Manifest, plan: WindowPlan) -> tuple[int, int]:
    """Rows and non-zeros that a buffer must hold to take any window of the plan."""
    return manifest.chunks.largest_together(plan.chunks_per_window)


# -- a random order in which neighbours are visited soon after each other --------------------------
#
# Of a pass over rows in one permutation of all of them, up to half is waiting for memory.  Here the
# caches have seen the page, and often the line.

BLOCK_ROWS, TILE_ROWS = 64, 512  # neighbours that stay together, and rows that fit into the cache
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def shuffled_blocks(rows: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw blocks of 64 neighbours, then permute every 512 rows that came together; in place.

    No two rows meet in every pass: where they do, dual ascent loses (docs/decisions.md,
    "Random order in blocks").
    """
    first = int(generator.integers(min(BLOCK_ROWS, len(rows))))
    mix(rows, first, np.uint64(generator.integers(1 << 63)))
    return rows


@kernel
def mix(rows: NDArray[np.int64], first: int, seed: np.uint64) -> None:
    """Shuffle blocks from row `first` on; rows before it and after the last block stay.

    Numbers are splitmix64's: the same with NumPy's generator takes five times as long.
    """
    n, state = rows.shape[0], seed
    for k in range((n - first) // BLOCK_ROWS - 1, 0, -1):
        state += np.uint64(GOLDEN)
        other = first + BLOCK_ROWS * below(state, k + 1)
        own = first + BLOCK_ROWS * k
        for j in range(BLOCK_ROWS):
            rows[own + j], rows[other + j] = rows[other + j], rows[own + j]
    for start in range(0, n, TILE_ROWS):
        for k in range(min(TILE_ROWS, n - start) - 1, 0, -1):
            state += np.uint64(GOLDEN)
            other = start + below(state, k + 1)
            rows[start + k], rows[other] = rows[other], rows[start + k]


@kernel
def below(state: np.uint64, bound: int) -> np.int64:
    """Return a whole number below a bound (2^32 at most), splitmix64's for that state."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(32)
    return np.int64((z * np.uint64(bound)) >> np.uint64(32))
