"""The reading threads: the same rows as reading by hand, and it always ends."""

import shutil
import threading
from contextlib import closing

import numpy as np
import pytest

from fewpass.pipeline.rows.buffers import borrow_rows, free_buffers, return_buffer
from fewpass.pipeline.rows.reader import WindowReader, with_new_chunks
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import Window, WindowPlan
from fewpass.storage import chunk_objects
from fewpass.storage.dataset import Dataset
from testing.datasets import make

WINDOWS = [Window(chunks, "stored", 0, 0) for chunks in [(5, 0), (3,), (1, 2, 4), (6,), (0, 6)]]


@pytest.fixture
def dataset(tmp_path):
    return make(tmp_path / "set", n=330, chunk_rows=50, layout="sparse", weighted=True)


def reader(dataset):
    plan = WindowPlan(dataset.n_chunks, 3, 1, seed=0)
    return WindowReader(dataset, plan, TargetRule(1), (150, 150 * 8))


def test_blocks_are_the_windows_chunks_one_after_the_other(dataset):
    with closing(reader(dataset).blocks(WINDOWS)) as blocks:
        for window, (block, places, _) in zip(WINDOWS, blocks, strict=True):
            tables = [dataset.read_chunk(k) for k in window.chunks]
            assert np.array_equal(block.rows.data, np.concatenate([t.data for t in tables]))
            assert np.array_equal(block.rows.indices, np.concatenate([t.indices for t in tables]))
            assert np.array_equal(block.y, 2 * np.concatenate([t.target for t in tables]) - 1)
            weight = np.concatenate([t.weight for t in tables])
            scale = dataset.n_rows / dataset.manifest.weights.total
            assert np.array_equal(block.weight, weight * scale)
            assert np.array_equal(block.order, np.arange(len(block.y)))
            assert [p.stop - p.start for p in places] == [t.n_rows for t in tables]


def test_what_only_has_to_be_copied_is_read_by_the_thread_that_steps_it(tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_objects, "blocks_fetched", lambda: 0)
    free_buffers()
    dataset = make(tmp_path / "set", n=330, chunk_rows=50)
    rows, buffers = [], []
    for _ in range(2):
        with closing(reader(dataset).blocks(WINDOWS)) as blocks:
            each = [(block.rows.X.copy(), block.rows.X.ctypes.data) for block, *_ in blocks]
            rows.append([X for X, _ in each])
            buffers.append(len({start for _, start in each}))
    assert all(map(np.array_equal, *rows))
    assert buffers == [3, 1]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("taken", range(6))
def test_stopping_early_ends_the_thread(dataset, taken):
    for _ in range(30):  # the thread may be anywhere
        with closing(reader(dataset).blocks(WINDOWS)) as blocks:
            for _, _block in zip(range(taken), blocks, strict=False):
                pass
    assert not [t for t in threading.enumerate() if t.name.startswith("fewpass-reader")]


def test_every_window_is_prefetched_once_and_one_ahead():
    prefetched = []
    for k, (window, new) in enumerate(with_new_chunks(WINDOWS)):
        prefetched += new
        assert window is WINDOWS[k]
        assert prefetched == [chunk for w in WINDOWS[: k + 2] for chunk in w.chunks]


def test_buffers_are_used_again_by_the_same_rows_only(tmp_path):
    free_buffers()
    rule = TargetRule(1)
    one = make(tmp_path / "one", n=300, chunk_rows=100)
    first = borrow_rows(one, rule, (100, 3000))
    return_buffer(first)
    moved = Dataset.open(shutil.move(tmp_path / "one", tmp_path / "moved"))
    again = borrow_rows(moved, rule, (100, 3000))
    assert again.buffer is first.buffer
    assert again.load([1]).y.shape == (100,)  # read from where the set is now
    return_buffer(again)
    assert borrow_rows(moved, rule, (300, 9000)).buffer is not first.buffer  # too small
    large = borrow_rows(moved, rule, (300, 9000))
    return_buffer(large)
    assert borrow_rows(moved, rule, (100, 3000)).buffer is not large.buffer  # far too large
    free_buffers()
