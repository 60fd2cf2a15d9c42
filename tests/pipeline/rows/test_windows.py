"""Order and memory: every row once a pass, all of it from the seed, inside the budget."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.windows import (
    BLOCK_ROWS,
    TILE_ROWS,
    Window,
    WindowPlan,
    chunk_bytes,
    largest_window,
    mix,
    plan_windows,
    row_order,
    shuffled_blocks,
    windows_between,
    windows_of_turn,
    windows_per_turn,
)
from testing.datasets import make


@given(
    n_chunks=st.integers(1, 200),
    per_window=st.integers(1, 30),
    streams=st.integers(1, 8),
    sweep=st.integers(0, 5),
    order=st.sampled_from(["stored", "random", "permuted"]),
)
@settings(max_examples=100, deadline=None)
def test_every_chunk_is_dealt_once(n_chunks, per_window, streams, sweep, order):
    plan = WindowPlan(n_chunks, per_window, min(streams, n_chunks), seed=3)
    windows = [w for s in range(plan.streams) for w in windows_of_turn(plan, order, sweep, s)]
    assert sorted(c for w in windows for c in w) == list(range(n_chunks))
    assert max(len(w) for w in windows) <= per_window
    assert windows == [
        w for s in range(plan.streams) for w in windows_of_turn(plan, order, sweep, s)
    ]


def test_random_windows_are_redrawn_every_sweep_and_stored_ones_are_not():
    plan = WindowPlan(64, 8, 1, seed=0)
    assert windows_of_turn(plan, "random", 0, 0) != windows_of_turn(plan, "random", 1, 0)
    assert windows_of_turn(plan, "stored", 0, 0) == windows_of_turn(plan, "stored", 1, 0)


@pytest.mark.parametrize("order", ["random", "permuted"])
@pytest.mark.parametrize(("n_chunks", "per_window", "streams"), [(3, 2, 1), (8, 2, 1), (64, 8, 1),
                         (8, 2, 4), (12, 4, 3)])  # fmt: skip
def test_any_two_chunks_share_a_window_in_some_pass(order, n_chunks, per_window, streams):
    """Windows of the same rows in every pass would cost dual methods ten times the passes."""
    plan, met = WindowPlan(n_chunks, per_window, streams, seed=5), set()
    for sweep in range(20 * n_chunks):
        for stream in range(streams):
            for window in windows_of_turn(plan, order, sweep, stream):
                met |= {frozenset(pair) for pair in combinations(window, 2)}
    assert len(met) == n_chunks * (n_chunks - 1) // 2


@pytest.mark.parametrize("order", ["random", "permuted"])
@pytest.mark.parametrize(("n_chunks", "per_window", "streams"), [(2, 1, 2), (3, 1, 3), (4, 4, 4),
                         (9, 9, 2), (64, 64, 8)])  # fmt: skip
def test_every_chunk_comes_to_every_stream_in_some_pass(order, n_chunks, per_window, streams):
    """Also where a stream's window holds all that it has, as rows that stay in memory allow."""
    plan, seen = WindowPlan(n_chunks, per_window, streams, seed=5), set()
    for sweep in range(100):
        for stream in range(streams):
            for window in windows_of_turn(plan, order, sweep, stream):
                seen |= {(chunk, stream) for chunk in window}
    assert len(seen) == n_chunks * streams


@pytest.mark.parametrize("order", ["random", "permuted"])
def test_one_window_of_all_rows_is_visited_in_a_new_order_in_every_pass(order):
    """So it is where all rows stay in memory: blocks of neighbours do not come back together."""
    plan, orders = WindowPlan(6, 6, 1, seed=5), []
    for sweep in range(3):
        (chunks,) = windows_of_turn(plan, order, sweep, 0)
        window = Window(chunks, order, sweep, 0)
        orders.append(row_order(plan, window, np.arange(600)).tolist())
    assert len({tuple(one) for one in orders}) == 3


@pytest.mark.parametrize("order", ["random", "permuted"])
def test_row_order_is_a_permutation_that_depends_on_seed_sweep_and_window(order):
    plan = WindowPlan(64, 8, 1, seed=0)
    window = Window((5, 9), order, sweep=0, turn=0)
    first = row_order(plan, window, np.arange(1000))
    assert np.array_equal(np.sort(first), np.arange(1000))
    assert np.array_equal(first, row_order(plan, window, np.arange(1000)))
    others = [
        row_order(plan, window._replace(sweep=1), np.arange(1000)),
        row_order(plan, window._replace(turn=1), np.arange(1000)),
        row_order(plan, window._replace(chunks=(6, 9)), np.arange(1000)),
        row_order(plan._replace(seed=1), window, np.arange(1000)),
    ]
    assert not any(np.array_equal(first, other) for other in others)


@given(n=st.integers(1, 3000), start=st.integers(0, 100), seed=st.integers(0, 50))
@settings(max_examples=200, deadline=None)
def test_mixed_rows_are_the_same_rows_from_few_places_at_a_time(n, start, seed):
    rows = np.arange(start, start + n)
    order = shuffled_blocks(rows.copy(), np.random.default_rng(seed))
    assert np.array_equal(np.sort(order), rows)
    assert not np.array_equal(order, rows) or n < 10
    for k in range(0, n - TILE_ROWS + 1, TILE_ROWS):
        tile = np.sort(order[k : k + TILE_ROWS])
        assert np.count_nonzero(np.diff(tile) > 1) < TILE_ROWS // BLOCK_ROWS + 3


def test_mixing_is_the_same_in_plain_python():
    compiled, plain = np.arange(1500), np.arange(1500)
    mix(compiled, 7, np.uint64(2**63 - 1))
    with np.errstate(over="ignore"):
        mix.py_func(plain, 7, np.uint64(2**63 - 1))
    assert np.array_equal(compiled, plain)


def test_mixed_rows_meet_others_each_time():
    """A row's neighbour is in another block, as a rule in another tile, once in 64 draws or so."""
    generator = np.random.default_rng(0)
    together = np.zeros(2000)
    for _ in range(1000):
        place = np.empty(2000, int)
        place[shuffled_blocks(np.arange(2000), generator)] = np.arange(2000)
        tile = place // TILE_ROWS
        together[1:] += tile[1:] == tile[:-1]
    assert together[1:].max() < 1000
    assert together[1:].min() > 850


def test_turn_follows_turn_wherever_spans_begin():
    plan = WindowPlan(23, 4, 2, seed=0)
    for stream in range(2):
        per_turn = windows_per_turn(plan, stream)
        whole = list(windows_between(plan, "random", 3, stream, 0, 3 * per_turn))
        assert [w.chunks for w in whole[per_turn : 2 * per_turn]] == windows_of_turn(
            plan, "random", 3, stream, turn=1
        )
        for cut in range(len(whole) + 1):
            head = windows_between(plan, "random", 3, stream, 0, cut)
            tail = windows_between(plan, "random", 3, stream, cut, len(whole))
            assert [*head, *tail] == whole


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_windows_fill_the_budget_and_never_pass_it(tmp_path, layout):
    manifest = make(tmp_path / "set", layout=layout, n=2000, chunk_rows=50).manifest
    one = chunk_bytes(manifest)
    for windows in (1, 2, 7):
        budget = Budget.of(PROGRAM_BYTES + 1000 + 3 * windows * one)
        plan = plan_windows(manifest, budget=budget, state_bytes=1000, streams=1, seed=0)
        assert plan.chunks_per_window == windows
        rows, nnz = largest_window(manifest, plan)
        assert rows == 50 * windows
        assert nnz == sum(sorted(manifest.chunks.nnz)[-windows:])


def test_a_budget_that_is_too_small_is_refused_with_the_one_that_is_not(tmp_path):
    manifest = make(tmp_path / "set", n=200, chunk_rows=50).manifest
    with pytest.raises(BadInput, match=r"`memory=97MB` or more"):
        plan_windows(manifest, budget=Budget.of(PROGRAM_BYTES), state_bytes=0, streams=1, seed=0)


def test_more_streams_than_chunks_are_refused(tmp_path):
    manifest = make(tmp_path / "set", n=200, chunk_rows=50).manifest
    with pytest.raises(BadInput, match="Use fewer streams"):
        plan_windows(manifest, budget=Budget.of(1 << 30), state_bytes=0, streams=5, seed=0)
