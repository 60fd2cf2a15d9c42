"""Spill files: what goes in comes out, in order, or is refused."""

import errno
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.storage import spill as spill_module
from fewpass.storage.folder import Damaged
from fewpass.storage.spill import DamagedSpill, Spill
from fewpass.storage.table import DenseTable, SparseTable, cut, n_bytes, take


def table(rng, rows, layout="sparse", dtype="float32", weight=True, index="int32", d=6):
    target, weights = rng.standard_normal(rows), rng.random(rows) if weight else None
    if layout == "dense":
        return DenseTable(rng.standard_normal((rows, d)).astype(dtype), target, weights)
    counts = rng.integers(0, 4, rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    data = rng.standard_normal(indptr[-1]).astype(dtype)
    return SparseTable(data, rng.integers(0, d, indptr[-1]).astype(index), indptr, target, weights)


def partition(spill, piece, buckets):
    """Partition row i of a piece to bucket ``buckets[i]``."""
    ends = np.cumsum(np.bincount(buckets, minlength=spill.n_buckets))
    spill.append(take(piece, np.argsort(buckets, kind="stable")), ends)


def same(a, b):
    assert type(a) is type(b)
    for x, y in zip(a, b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


@settings(deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.lists(st.integers(0, 30), max_size=6),
    st.sampled_from(["dense", "sparse"]),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([0, 700, 1 << 20]),
)
def test_buckets_hold_their_rows_in_the_order_dealt(
    tmp_path_factory, seed, pieces, layout, dtype, weight, n_buckets, memory
):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("spill")
    spill = Spill(
        folder, n_buckets, layout, dtype, 6 if layout == "dense" else None, weight, memory
    )
    expected = [[] for _ in range(n_buckets)]
    for rows in pieces:
        piece = table(rng, rows, layout, dtype, weight)
        buckets = rng.integers(0, n_buckets, rows)
        partition(spill, piece, buckets)
        for i, b in enumerate(buckets):
            expected[b].append(take(piece, np.array([i])))
    spill.finish()
    for reader in (spill, Spill.open(folder)):
        for b, rows in enumerate(expected):
            got = reader.read(b, 6)
            assert reader.rows(b) == len(rows) == got.n_rows
            assert reader.n_bytes(b) == n_bytes(got)
            for i, row in enumerate(rows):
                same(cut(got, i, i + 1), row)
    for b in range(n_buckets):
        spill.delete(b)
        spill.delete(b)
    assert [path.name for path in folder.iterdir()] == ["spill.json"]


def test_wide_column_indices_arriving_late_widen_the_bucket(tmp_path):
    rng = np.random.default_rng(1)
    spill = Spill(tmp_path, 1, "sparse", "float32", None, False, 0)
    first = table(rng, 9, weight=False)
    second = table(rng, 9, weight=False, index="int64")
    for piece in (first, second):
        spill.append(piece, np.array([9]))
    spill.finish()
    got = spill.read(0)
    assert got.indices.dtype == np.int64
    np.testing.assert_array_equal(got.indices, np.concatenate([first.indices, second.indices]))


def test_a_changed_length_or_a_missing_file_is_named(tmp_path):
    rng = np.random.default_rng(2)
    spill = Spill(tmp_path, 1, "sparse", "float32", None, True, 100)
    for _ in range(3):
        spill.append(table(rng, 5), np.array([5]))
    spill.finish()
    (path,) = tmp_path.glob("*.bucket")
    whole = path.read_bytes()
    for damaged in [whole[:length] for length in range(len(whole))] + [whole + b"\0"]:
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match=path.name):
            spill.read(0)
    path.unlink()
    with pytest.raises(Damaged, match=path.name):
        spill.read(0)


def test_an_unfinished_spill_cannot_be_opened_and_a_new_one_starts_clean(tmp_path):
    rng = np.random.default_rng(3)
    first = Spill(tmp_path, 2, "sparse", "float32", None, True, 0)
    first.append(table(rng, 5), np.array([0, 5]))
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        Spill.open(tmp_path)
    second = Spill(tmp_path, 2, "sparse", "float32", None, True, 0)
    assert not list(tmp_path.iterdir())
    second.finish()
    assert Spill.open(tmp_path).read(1).n_rows == 0


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(file, rows, before):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spill_module, "write_block", full)
    spill = Spill(tmp_path, 1, "sparse", "float32", None, True, 0)
    with pytest.raises(OSError, match=f"Free some space.*{tmp_path}") as caught:
        spill.append(table(np.random.default_rng(4), 5), np.array([5]))
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"dtype": "float64"}, "was expected"),
        ({"layout": "dense"}, "was expected"),
        ({"weight": False}, "was expected"),
    ],
)
def test_other_tables_are_refused(tmp_path, change, advice):
    spill = Spill(Path(tmp_path), 1, "sparse", "float32", None, True, 0)
    with pytest.raises(ValueError, match=advice):
        spill.append(table(np.random.default_rng(5), 3, **change), np.array([3]))


@pytest.mark.parametrize("wrong", [[2, 1, 3], [0, 3], [1, 2, 4], [-1, 0, 3]])
def test_rows_that_are_not_grouped_are_refused(tmp_path, wrong):
    spill = Spill(tmp_path, 3, "sparse", "float32", None, True, 0)
    with pytest.raises(ValueError, match=r"3 rows came with ends.*Group them by bucket first"):
        spill.append(table(np.random.default_rng(6), 3), np.array(wrong))


def three_blocks(folder, seed, layout="sparse"):
    """Two buckets of several blocks each, left by an earlier process."""
    rng = np.random.default_rng(seed)
    spill = Spill(folder, 2, layout, "float32", 6, True, 0)
    for _ in range(3):
        spill.append(table(rng, 9, layout), np.array([4, 9]))
    spill.finish()
    return sorted(folder.glob("*.bucket"))


def require_named(folder, path):
    with pytest.raises(DamagedSpill, match=f"{path.name} is not as it was written.*reads all rows"):
        for b in range(2):
            Spill.open(folder).read(b, 6)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_one_bit_anywhere_is_named(tmp_path, layout):
    paths = three_blocks(tmp_path, 7, layout)
    rng = np.random.default_rng(0)
    for path in [*paths, tmp_path / "spill.json"]:
        whole = path.read_bytes()
        for at in range(len(whole)):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            require_named(tmp_path, path)
        path.write_bytes(whole)
    assert Spill.open(tmp_path).read(1, 6).n_rows == 15


def test_zeros_an_exchange_and_an_older_bucket_are_named(tmp_path):
    first, second = three_blocks(tmp_path, 8)
    one, other = first.read_bytes(), second.read_bytes()
    for at in range(len(one)):  # what a power cut leaves of blocks that were not on the disk
        first.write_bytes(one[:at] + bytes(len(one) - at))
        require_named(tmp_path, first)
    first.write_bytes(other)
    second.write_bytes(one)
    require_named(tmp_path, first)
    second.write_bytes(other)
    (tmp_path / "old").mkdir()
    first.write_bytes(three_blocks(tmp_path / "old", 9)[0].read_bytes())
    require_named(tmp_path, first)


def test_columns_beyond_those_known_are_named(tmp_path):
    path = three_blocks(tmp_path, 10)[0]
    with pytest.raises(DamagedSpill, match=f"{path.name}.*beyond the 3"):
        Spill.open(tmp_path).read(0, 3)
