"""Permutations that are worked out by place: each a permutation, all different, evenly spread."""

import numpy as np
import pytest

from fewpass.pipeline.rows import windows
from fewpass.pipeline.rows.keyed_permutation import permuted_at
from fewpass.pipeline.rows.windows import WindowPlan, windows_between


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097])
def test_it_is_a_permutation_wherever_it_is_asked_for(n):
    whole = permuted_at(np.arange(n), n, (0, 11, 2, 3))
    assert np.array_equal(np.sort(whole), np.arange(n))
    parts = [permuted_at(np.arange(k, min(n, k + 7)), n, (0, 11, 2, 3)) for k in range(0, n, 7)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_places_and_numbers_are_independent():
    """Chi-squared of 8 x 8 cells, 49 degrees of freedom: below 100 with all but 3e-5."""
    n, keys = 4000, [(seed, 11, 1, 0) for seed in range(4)]
    drawn = [permuted_at(np.arange(n), n, key) for key in keys]
    for one in [*drawn, drawn[1][np.argsort(drawn[0])]]:
        cells = np.histogram2d(np.arange(n), one, bins=8)[0]
        assert ((cells - n / 64) ** 2 / (n / 64)).sum() < 100
    assert len({tuple(one) for one in drawn}) == len(keys)


def test_windows_of_a_huge_set_visit_every_chunk_once(monkeypatch):
    monkeypatch.setattr(windows, "DRAWN_WHOLE", 10)
    plan = WindowPlan(103, 4, 3, seed=5)
    visited = [
        chunk
        for stream in range(3)
        for window in windows_between(plan, "random", 7, stream, 0, 9)
        for chunk in window.chunks
    ]
    assert sorted(visited) == list(range(103))
    monkeypatch.setattr(windows, "DRAWN_WHOLE", 1 << 20)
    drawn = np.random.default_rng([5, 11, 7, 0]).permutation(103)
    first = [w.chunks for w in windows_between(plan, "random", 7, 0, 0, 9)]
    assert [chunk for chunks in first for chunk in chunks] == drawn[:35].tolist()


def test_a_span_of_ten_million_chunks_is_a_moment():
    plan = WindowPlan(10_000_000, 16, 64, seed=0)
    (window,) = windows_between(plan, "random", 0, 63, 5000, 5001)
    assert len(window.chunks) == 16
