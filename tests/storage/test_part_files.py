"""Parts of rows on their way to a random order: what goes in comes out, or is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.storage.folder import Folder
from fewpass.storage.part_files import (
    DamagedPart,
    GroupedRows,
    PartPlace,
    RowKind,
    RowSpace,
    write_part,
)
from fewpass.storage.table import DenseTable, SparseTable, concatenate, take

PLACE = PartPlace("these rows", "part")


def table(rng, rows, kind, index="int32"):
    def each(has):
        return rng.random(rows) if has else None

    retained = None
    if kind.retained_bytes:
        retained = rng.integers(0, 255, (rows, kind.retained_bytes)).astype(np.uint8)
    others = (rng.random(rows), each(kind.has_weight), each(kind.has_offset), retained)
    if kind.layout == "dense":
        return DenseTable(rng.random((rows, kind.n_features)).astype(kind.dtype), *others)
    counts = rng.integers(0, 4, rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = rng.integers(0, 6, indptr[-1]).astype(index)
    return SparseTable(rng.random(indptr[-1]).astype(kind.dtype), indices, indptr, *others)


def grouped(rng, rows, kind, n_buckets, index="int32"):
    buckets = np.sort(rng.integers(0, n_buckets, rows))
    ends = np.cumsum(np.bincount(buckets, minlength=n_buckets))
    keys = rng.random(rows) if kind.has_keys else None
    return GroupedRows(table(rng, rows, kind, index), keys, ends), buckets


def same(a, b):
    assert type(a) is type(b)
    for x, y in zip(a, b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


KINDS = st.builds(
    RowKind,
    st.sampled_from(["dense", "sparse"]),
    st.sampled_from(["float32", "float64"]),
    st.just(6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 64]),
    st.booleans(),
)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 1 << 32), st.lists(st.integers(0, 30), min_size=1, max_size=4), KINDS,
    st.integers(1, 6), st.data(),
)  # fmt: skip
def test_a_run_of_buckets_has_their_rows_from_memory_and_from_files(
    tmp_path_factory, seed, sizes, kind, n_buckets, data
):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("parts")
    first = data.draw(st.integers(0, n_buckets - 1))
    stop = data.draw(st.integers(first + 1, n_buckets))
    parts = [grouped(rng, rows, kind, n_buckets) for rows in sizes]
    here = [np.flatnonzero((b >= first) & (b < stop)) for _, b in parts]
    expected = concatenate([take(p.table, rows) for (p, _), rows in zip(parts, here, strict=True)])
    for number, (part, _) in enumerate(parts):
        write_part(Folder(str(folder)), PartPlace("rows", f"p{number}"), part)
    for from_file in (False, True):
        space = RowSpace(kind, expected.n_rows, expected.nnz, np.dtype(np.int32))
        for number, (part, _) in enumerate(parts):
            place = PartPlace("rows", f"p{number}")
            if from_file:
                space.read(Folder(str(folder)), place, first, stop)
            else:
                space.take(part, first, stop)
        same(space.whole(), expected)
        if kind.has_keys:
            keys = [part.keys[rows] for (part, _), rows in zip(parts, here, strict=True)]
            np.testing.assert_array_equal(space.keys, np.concatenate(keys))


def test_columns_of_another_width_fit(tmp_path):
    kind, rng = RowKind("sparse", "float32", None, False), np.random.default_rng(1)
    part, _ = grouped(rng, 9, kind, 2, "int64")
    write_part(Folder(str(tmp_path)), PLACE, part)
    space = RowSpace(kind, 9, part.table.nnz, np.dtype(np.int32))
    space.read(Folder(str(tmp_path)), PLACE, 0, 2)
    assert space.whole().indices.dtype == np.int32
    np.testing.assert_array_equal(space.table.indices, part.table.indices)


@pytest.fixture
def written(tmp_path):
    kind = RowKind("sparse", "float32", None, has_weight=True)
    part, _ = grouped(np.random.default_rng(2), 12, kind, 4)
    write_part(Folder(str(tmp_path)), PLACE, part)

    def read(place=PLACE):
        space = RowSpace(kind, 12, part.table.nnz, np.dtype(np.int32))
        space.read(Folder(str(tmp_path)), place, 0, 4)
        same(space.whole(), part.table)

    read()
    return tmp_path / "part", read


def test_any_bit_and_any_length_that_is_another_is_refused(written):
    path, read = written
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 13):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedPart, match=f"{path} is not as it was written"):
            read()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedPart, match=path.name):
            read()
    path.unlink()
    with pytest.raises(DamagedPart, match=path.name):
        read()


@pytest.mark.parametrize("place", [("these rows", "other"), ("other rows", "part")])
def test_a_part_in_the_place_of_another_is_refused(written, place):
    path, read = written
    path.with_name("other").write_bytes(path.read_bytes())
    with pytest.raises(DamagedPart, match="checksum of bucket"):
        read(PartPlace(*place))


def test_what_is_no_file_is_refused(written):
    path, read = written
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(DamagedPart, match="it is a link"):
        read()
    path.unlink()
    path.mkdir()
    with pytest.raises(DamagedPart, match="it is no file"):
        read()
