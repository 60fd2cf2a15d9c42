"""Data sets of many chunks: their table lies in pages, of which only those needed are read."""

import pickle

import numpy as np
import pytest

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.planning.clustering import clustering
from fewpass.pipeline.planning.forecast import stored_bytes
from fewpass.pipeline.rows.windows import chunk_bytes, largest_window, plan_windows
from fewpass.storage import chunk_pages, writer
from fewpass.storage.chunk_table import ChunkIndex
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.manifest import FORMAT_IN_PAGES, KEY
from testing.datasets import make

N_CHUNKS, CHUNK_ROWS = 23, 10  # the last one has fewer rows
RANGES = ["chunks/000000", "chunks/000001"]


@pytest.fixture
def paged(monkeypatch):
    """Small sets have pages of four chunks, four in an object."""
    monkeypatch.setattr(writer, "MOST_IN_MANIFEST", 8)
    monkeypatch.setattr(chunk_pages, "PAGE_CHUNKS", 4)
    monkeypatch.setattr(chunk_pages, "RANGE_PAGES", 4)


def sorted_set(at, layout):
    """A set whose rows lie sorted, so that chunks differ."""
    return make(at, 227, 30, CHUNK_ROWS, layout=layout, shuffled=False, weighted=True)


@pytest.fixture(params=["dense", "sparse"])
def both(request, tmp_path, monkeypatch):
    """The same rows with the table in the manifest, and in pages."""
    whole = sorted_set(tmp_path / "whole", request.param)
    request.getfixturevalue("paged")
    return whole, sorted_set(tmp_path / "paged", request.param)


def test_rows_facts_and_plans_are_those_of_a_table_in_the_manifest(both):
    whole, paged = both
    assert isinstance(paged.manifest.chunks, ChunkIndex)
    assert paged.manifest.version == FORMAT_IN_PAGES
    assert [key for key in paged.folder.list() if key.startswith("chunks/")] == RANGES
    assert whole.n_chunks == paged.n_chunks == N_CHUNKS
    for k in range(N_CHUNKS):
        assert whole.facts_of(k) == paged.facts_of(k)
        for one, other in zip(whole.read_chunk(k), paged.read_chunk(k), strict=True):
            np.testing.assert_array_equal(one, other)
    for first, stop in [(0, N_CHUNKS), (3, 4), (3, 9), (22, 23)]:
        assert list(whole.nnz_between(first, stop)) == list(paged.nnz_between(first, stop))
    given = {"budget": Budget.of(1 << 30), "state_bytes": 0, "streams": 1, "seed": 0}
    for ask in (chunk_bytes, stored_bytes, clustering, lambda m: plan_windows(m, **given)):
        assert ask(whole.manifest) == ask(paged.manifest)
    for windows in (1, 5, N_CHUNKS):
        plan = plan_windows(whole.manifest, **given)._replace(chunks_per_window=windows)
        rows, nnz = largest_window(whole.manifest, plan)
        assert largest_window(paged.manifest, plan)[0] == rows
        assert largest_window(paged.manifest, plan)[1] >= nnz
    assert not list(paged.verify())


def test_no_more_is_read_than_the_pages_of_the_chunks(tmp_path, paged, monkeypatch):
    at = sorted_set(tmp_path / "set", "sparse").folder.url
    reads = []
    read = Folder.read_range

    def noted(folder, key, start, length):
        reads.append((key, start, length))
        return read(folder, key, start, length)

    monkeypatch.setattr(Folder, "read_range", noted)
    dataset = Dataset.open(at)
    again = pickle.loads(pickle.dumps(dataset))
    assert reads == []
    width = chunk_pages.record_type(len(dataset.manifest.chunks.objects)).itemsize
    for _ in range(3):
        again.read_chunk(9)
    again.nnz_between(17, 23)
    assert reads == [
        ("chunks/000000", 8 * width, 4 * width), ("chunks/000001", 0, 4 * width),
        ("chunks/000001", 4 * width, 3 * width),
    ]  # fmt: skip


@pytest.mark.parametrize("place", ["local", "memory"])
def test_every_change_of_a_page_is_refused_by_name(tmp_path, paged, place):
    folder = Folder(str(tmp_path) if place == "local" else f"memory://{tmp_path.name}")
    sorted_set(folder.url, "dense")
    for number, key in enumerate(RANGES):
        data, address = folder.read(key), folder.address(key)
        other = folder.read(RANGES[1 - number])
        changed = [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(0, len(data), 29)]
        for wrong in [*changed, data[:-1], data[: len(data) // 2], b"", other]:
            folder.write(key, wrong, durable=False)
            dataset = Dataset.open(folder)  # which reads no page
            problems = list(dataset.verify())
            assert problems and all(
                f"{address} is damaged: the records of chunks" in p for p in problems
            )
            refused = 0
            for k in range(N_CHUNKS):
                try:
                    dataset.read_chunk(k)
                except Damaged as error:
                    refused += 1
                    assert f"{address} is damaged" in str(error)
            assert refused >= 3
        folder.write(key, data + b"\0", durable=False)
        assert [
            f"{address} is damaged" in problem for problem in Dataset.open(folder).verify()
        ] == [True]
        folder.delete(key)
        problems = list(Dataset.open(folder).verify())
        assert problems and all(f"{address} is missing" in problem for problem in problems)
        with pytest.raises(Damaged, match=f"{address} is missing"):
            Dataset.open(folder).read_chunk(0 if number == 0 else N_CHUNKS - 1)
        folder.write(key, data, durable=False)
    assert not list(Dataset.open(folder).verify())
    raw = folder.read(KEY)
    folder.write(KEY, raw.replace(b'"page_chunks":4', b'"page_chunks":5'))
    with pytest.raises(Damaged, match="fingerprint does not fit"):
        Dataset.open(folder)
