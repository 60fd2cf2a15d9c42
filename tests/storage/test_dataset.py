"""Data sets: plain Zarr, every byte checked, and nothing to open before the commit."""

import hashlib
import json
import mmap
import pickle
import struct
import threading
from base64 import b64decode, b64encode
from itertools import islice

import google_crc32c
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import blosc

from fewpass.storage import chunk_objects, codec
from fewpass.storage.aligned_memory import aligned_empty
from fewpass.storage.chunk_records import measured_record
from fewpass.storage.chunk_table import ChunkRecord, record_type
from fewpass.storage.codec import BLOCK_BYTES, HEADER_BYTES, TRAILER_BYTES, decode_into, encode
from fewpass.storage.column_file import makers_of, write_columns
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder, NotADataset
from fewpass.storage.manifest import Labels, SourceRecord, WeightStats
from fewpass.storage.memory_dataset import manifest_of
from fewpass.storage.objects import fault, get_chunk, put
from fewpass.storage.seal import seal
from fewpass.storage.table import DenseTable, SparseTable, cut, n_bytes, take
from fewpass.storage.table_buffer import TableBuffer
from fewpass.storage.writer import DatasetWriter
from testing.datasets import column_by_page, dense, table_of
from testing.forged import forge


def random_table(rng, layout, rows, d, dtype="float32", weight=True):
    target, weights = rng.integers(0, 2, rows).astype(float), rng.random(rows) if weight else None
    X = np.round(rng.standard_normal((rows, d)), 2).astype(dtype)
    if layout == "dense":
        return DenseTable(X, target, weights)
    X[rng.random((rows, d)) < 0.6] = 0
    m = sp.csr_matrix(X)
    return SparseTable(
        m.data, m.indices.astype(np.int32), m.indptr.astype(np.int64), target, weights
    )


def width(table):
    return table.X.shape[1] if isinstance(table, DenseTable) else 5


def writer_for(folder, table, chunk_rows):
    dense = isinstance(table, DenseTable)
    values = table.X if dense else table.data
    return DatasetWriter(
        folder, "dense" if dense else "sparse", width(table), table.n_rows, chunk_rows,
        values.dtype.name, has_weight=table.weight is not None,
    )  # fmt: skip


def write(folder, table, chunk_rows, order=None):
    writer = writer_for(folder, table, chunk_rows)
    records = {}
    for k in order or range(writer.n_chunks):
        start = k * chunk_rows
        rows = cut(table, start, min(start + chunk_rows, table.n_rows))
        record = writer.write_chunk(k, rows)
        records[k] = ChunkRecord.of_json(json.loads(json.dumps(record)))
    d = width(table)
    writer.write_columns(makers_of({"count": np.arange(d), "mean": np.ones(d)}))
    positive = int(table.target.sum())
    weighted = table.weight is not None
    return writer.commit(
        [records[k] for k in range(writer.n_chunks)],
        targets=Labels(labels=("no", "yes"), counts=(table.n_rows - positive, positive)),
        weights=WeightStats(total=table.weight.sum(), maximum=table.weight.max())
        if weighted
        else None,
        sources=[SourceRecord(name="made up", bytes=3)],
    )


def same(a, b):
    for x, y in zip(a, b, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert x.dtype == y.dtype
            assert x.flags.c_contiguous
            np.testing.assert_array_equal(x, y)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from(["dense", "sparse"]),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
    st.integers(1, 30),
    st.integers(1, 40),
)
def test_rows_come_back_to_us_and_to_plain_zarr(
    tmp_path_factory, seed, layout, dtype, weight, n_rows, chunk_rows
):
    rng = np.random.default_rng(seed)
    table = random_table(rng, layout, n_rows, 5, dtype, weight)
    path = tmp_path_factory.mktemp("set")
    manifest = write(Folder(str(path)), table, chunk_rows)
    dataset = Dataset.open(str(path))
    assert dataset.manifest == manifest
    assert (dataset.n_rows, dataset.n_features) == (n_rows, 5)

    same(table_of(dataset), table)
    buffer = TableBuffer(manifest, n_rows, manifest.nnz)
    order = rng.permutation(dataset.n_chunks)
    rows = np.arange(n_rows)
    for _ in range(2):
        buffer.clear()
        read = sum(dataset.read_into(int(k), buffer) for k in order)
        taken = np.concatenate([rows[k * chunk_rows : (k + 1) * chunk_rows] for k in order])
        same(buffer.table(), take(table, taken))
    parts = [
        s
        for k in order
        for key, s in manifest.chunks.record(k).named(k).items()
        if "json" not in key
    ]
    assert read == sum(stored.length for stored in parts)

    group = zarr.open_group(path, mode="r")
    for name in ("target", "weight") if weight else ("target",):
        np.testing.assert_array_equal(group[name][:], getattr(table, name))
    count = column_by_page(Folder(str(path)), "count")
    np.testing.assert_array_equal(count, dataset.column("count"))
    if layout == "dense":
        assert group["X"].dtype == dtype
        np.testing.assert_array_equal(group["X"][:], table.X)
    else:
        blocks = [group[f"rows-{k:06d}"] for k in range(dataset.n_chunks)]
        assert {b.attrs["encoding-type"] for b in blocks} == {"csr_matrix"}
        matrices = [
            sp.csr_matrix((b["data"][:], b["indices"][:], b["indptr"][:]), b.attrs["shape"])
            for b in blocks
        ]
        np.testing.assert_array_equal(sp.vstack(matrices).toarray(), dense(table, 5))

    squares = (dense(table, 5).astype(float) ** 2).sum(axis=1)
    moments = (squares.mean(), squares.max(), (squares**2).mean())
    np.testing.assert_allclose(tuple(manifest.norms.model_dump().values()), moments, rtol=1e-12)
    for k, chunk in enumerate(np.split(squares, range(chunk_rows, n_rows, chunk_rows))):
        record, rows = manifest.chunks.record(k), slice(k * chunk_rows, (k + 1) * chunk_rows)
        sums = (chunk.max(), chunk.sum(), (chunk**2).sum())
        np.testing.assert_allclose(record[3:6], sums, rtol=1e-12)
        assert record.target_sum == table.target[rows].sum()


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_the_bytes_depend_on_the_rows_alone(tmp_path, layout):
    table = random_table(np.random.default_rng(2), layout, 90_000, 5)
    first = write(Folder(str(tmp_path / "a")), table, 30_000)
    again = []
    thread = threading.Thread(
        target=lambda: again.append(write(Folder(str(tmp_path / "b")), table, 30_000, [2, 0, 1]))
    )
    thread.start()
    thread.join()
    assert again[0].fingerprint == first.fingerprint


@pytest.mark.parametrize("kind", ["noise", "a third less", "repeated"])
def test_values_that_would_not_shrink_by_half_are_stored_plain(tmp_path, kind):
    rng = np.random.default_rng(2)
    values = rng.standard_normal(5000).astype(np.float32)
    if kind == "a third less":
        values = (values.view(np.uint32) & 0xFFFFFE00).view(np.float32)
        assert len(encode(values.view(np.int32))) < 0.8 * values.nbytes  # as whole numbers
    values = np.round(values) if kind == "repeated" else values
    folder, raw = Folder(str(tmp_path)), encode(values)
    is_plain = kind != "repeated"
    assert (len(raw) == HEADER_BYTES + values.nbytes + TRAILER_BYTES) == is_plain
    assert blosc.decompress(raw[:-TRAILER_BYTES]) == values.tobytes()  # any reader's way

    stored = put(folder, "x/c/0", raw)
    out, scratch = np.empty_like(values), np.zeros(stored.length, np.uint8)
    get_chunk(folder, "x/c/0", stored, out, scratch)
    np.testing.assert_array_equal(out, values)
    assert (scratch == 0).all() == is_plain  # read straight to where it belongs

    for byte in (0, 2, 5, HEADER_BYTES + 7, len(raw) - 1):
        spoiled = bytearray(raw)
        spoiled[byte] ^= 2
        folder.write("x/c/0", bytes(spoiled))
        with pytest.raises(Damaged, match=r"checksum|holds"):
            get_chunk(folder, "x/c/0", stored, out, scratch)


@given(
    n=st.integers(1, 6_000) | st.sampled_from([32_767, 32_768, 32_769, 131_073, 300_000]),
    most=st.sampled_from([1, 100, 1 << 14, 1 << 20, (1 << 31) - 1]),
    dtype=st.sampled_from([np.int32, np.int64]),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_any_reader_of_blosc_reads_whole_numbers(n, most, dtype, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, most, n, endpoint=True).astype(dtype)
    values[: n // 2].sort()
    raw, out = encode(values), np.empty_like(values)
    assert blosc.decompress(raw[:-TRAILER_BYTES]) == values.tobytes()
    decode_into(raw, out)
    np.testing.assert_array_equal(out, values)
    assert len(raw) <= HEADER_BYTES + values.nbytes + TRAILER_BYTES


def test_bytes_of_columns_that_hardly_shrink_are_stored_plain():
    rng = np.random.default_rng(3)
    columns = np.sort(rng.integers(0, 40_000, (2_000, 90)), axis=1).astype(np.int32).reshape(-1)
    raw = encode(columns)
    for shift in (0, 8):
        low = (columns[: BLOCK_BYTES // 4] >> shift).astype(np.uint8)  # of the first block
        assert low.tobytes() in raw
    assert len(raw) < 0.55 * columns.nbytes


def test_encoding_gives_the_same_bytes_each_time():
    values = np.round(np.random.default_rng(2).standard_normal(2_000_000), 2)
    assert len({encode(values) for _ in range(12)}) == 1


def test_several_threads_read_at_once(tmp_path):
    table = random_table(np.random.default_rng(3), "sparse", 50_000, 5)
    manifest = write(Folder(str(tmp_path)), table, 5_000)
    dataset, tables = Dataset.open(str(tmp_path)), {}

    def read(name):
        for _ in range(5):
            buffer = TableBuffer(manifest, table.n_rows, table.nnz)
            for k in range(dataset.n_chunks):
                dataset.read_into(k, buffer)
            tables[name] = buffer.table()

    threads = [threading.Thread(target=read, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tables) == 3
    for found in tables.values():
        same(found, table)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_process_verifies_a_file_once_and_again_once_it_was_written_to(
    tmp_path, place, layout, monkeypatch
):
    folder = Folder(str(tmp_path) if place == "local" else f"memory://{tmp_path.name}")
    table = random_table(np.random.default_rng(6), layout, 700, 5)
    manifest = write(folder, table, 300)
    verified, inside = [], []
    monkeypatch.setattr(codec, "verify", counted(codec.verify, verified))
    monkeypatch.setattr(
        chunk_objects, "require_inside", counted(chunk_objects.require_inside, inside)
    )
    parts, is_local = {"dense": 3, "sparse": 5}[layout], place == "local"
    for passes in range(1, 4):
        buffer, dataset = TableBuffer(manifest, 700, table.nnz), Dataset.open(folder)
        for k in range(3):
            dataset.read_into(k, buffer)
        same(buffer.table(), table)
        times = 1 if is_local else passes
        assert len(verified) == 3 * parts * times
        assert len(inside) == 3 * times * (layout == "sparse")
    if is_local:
        verified.clear()
        key = manifest.key_of(1, dataset._chunks.parts["X" if layout == "dense" else "data"])
        with folder.local_path(key).open("r+b") as file:  # same inode, same length
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        with pytest.raises(Damaged, match="checksum"):
            Dataset.open(folder).read_into(1, TableBuffer(manifest, 300, table.nnz))
        assert len(verified) == 1


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("place", ["local", "memory"])
def test_rows_are_copied_once_they_are_verified_and_cached(tmp_path, place, layout, monkeypatch):
    fetched = [0]
    monkeypatch.setattr(chunk_objects, "blocks_fetched", lambda: fetched[0])
    folder = Folder(str(tmp_path) if place == "local" else f"memory://{tmp_path.name}-copied")
    table = random_table(np.random.default_rng(7), layout, 700, 5)
    write(folder, table, 300)
    dataset = Dataset.open(folder)

    def read(k):
        dataset.prefetch(k)
        dataset.read_chunk(k)

    assert not dataset.are_copied([0])
    read(0)
    read(1)
    wanted = place == "local" and layout == "dense"
    assert dataset.are_copied([0, 1]) == wanted
    assert not dataset.are_copied([1, 2])
    monkeypatch.setattr(chunk_objects, "blocks_fetched", lambda: fetched.append(0) or len(fetched))
    read(1)  # from the disk
    assert dataset.are_copied([0]) == wanted
    assert not dataset.are_copied([0, 1])


def counted(function, calls):
    """Note every call of a function."""

    def noting(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return noting


def test_arrays_that_files_are_read_into_begin_with_a_page():
    for shape, dtype in ((0, "u1"), (1, "f4"), ((3, 5), "f8"), ((1000, 7), "i4"), (1 << 20, "u1")):
        array = aligned_empty(shape, dtype)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert array.dtype == np.dtype(dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert not array.size or array.ctypes.data % mmap.PAGESIZE == 0


def changes(data):
    """Every single changed byte and every truncation of an object, and something appended to it."""
    for i in range(len(data)):
        yield data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :]
        yield data[:i]
    yield data + data
    yield data + b"\0"


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("place", ["local", "memory"])
def test_every_change_of_any_object_is_found_and_named(tmp_path, place, layout):
    folder = Folder(str(tmp_path) if place == "local" else f"memory://{tmp_path.name}")
    step = 1 if place == "memory" else 17  # disks are slow
    manifest = write(folder, random_table(np.random.default_rng(4), layout, 7, 5), 3)
    dataset = Dataset.open(folder)
    assert not list(dataset.verify())
    owner = {key: (None, stored) for key, stored in manifest.objects.items()}
    for k in range(3):
        owner |= {key: (k, stored) for key, stored in manifest.chunks.record(k).named(k).items()}
    assert sorted([*owner, "manifest.json"]) == folder.list()
    buffer = TableBuffer(manifest, 7, manifest.nnz)
    for key, (k, stored) in owner.items():
        address, data = folder.address(key), folder.read(key)
        for changed in islice(changes(data), 0, None, step):
            folder.write(key, changed, durable=False)
            assert address in fault(folder, key, stored)
            if k is not None and not key.endswith(".json"):
                with pytest.raises(Damaged, match=f"{address} is damaged"):
                    dataset.read_into(k, buffer)
                assert (buffer.n_rows, buffer.nnz) == (0, 0)
        assert [address in sentence for sentence in dataset.verify()] == [True]
        folder.delete(key)
        assert [f"{address} is missing" in sentence for sentence in dataset.verify()] == [True]
        folder.write(key, data, durable=False)
    address, data = folder.address("manifest.json"), folder.read("manifest.json")
    for changed in islice(changes(data), 0, None, step):
        folder.write("manifest.json", changed, durable=False)
        with pytest.raises(Damaged, match=f"{address} is damaged"):
            Dataset.open(folder)
    folder.write("manifest.json", data)
    same(dataset.read_chunk(0), Dataset.open(folder).read_chunk(0))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_swapped_objects_are_found(tmp_path, layout):
    folder = Folder(f"memory://{tmp_path.name}")
    manifest = write(folder, random_table(np.random.default_rng(5), layout, 9, 5), 3)
    dataset = Dataset.open(folder)
    keys = [key for key in folder.list() if key != "manifest.json"]
    every = {k: manifest.chunks.record(k).named(k) for k in range(3)}
    owner = {key: k for k, objects in every.items() for key in objects if "json" not in key}
    swaps = 0
    for a in keys:
        for b in keys:
            one, other = folder.read(a), folder.read(b)
            if a < b and one != other:
                folder.write(a, other)
                folder.write(b, one)
                found = " ".join(dataset.verify())
                for key in (a, b):
                    assert folder.address(key) in found
                    if key in owner:
                        with pytest.raises(Damaged, match="is damaged"):
                            dataset.read_chunk(owner[key])
                folder.write(a, one)
                folder.write(b, other)
                swaps += 1
    assert swaps > 50
    assert manifest == Dataset.open(folder).manifest


def test_columns_of_another_set_of_the_same_shape_are_found(tmp_path):
    folder, other = Folder(str(tmp_path / "set")), Folder(str(tmp_path / "other"))
    manifest = write(folder, random_table(np.random.default_rng(6), "dense", 9, 5), 3)
    columns = {"count": np.arange(5)[::-1], "mean": np.full(5, 2.0)}
    stored, _ = write_columns(other, makers_of(columns), ColumnOrder(), 5)
    assert stored.length == manifest.objects["columns.bin"].length
    folder.write("columns.bin", other.read("columns.bin"))
    sentences = list(Dataset.open(folder).verify())
    assert [folder.address("columns.bin") in each for each in sentences] == [True, True]


class Failing(Folder):
    """Fails at one of its calls, before or after doing what was asked."""

    made = fail_at = 0
    late = False

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in {
            "read",
            "write",
            "sync",
            "size",
            "sizes",
            "delete",
            "delete_partials",
            "delete_tree",
        }:
            return found

        def call(*arguments, **options):
            Failing.made += 1
            fails = Failing.made == Failing.fail_at
            if fails and not Failing.late:
                raise OSError(5, "Input/output error")
            result = found(*arguments, **options)
            if fails:
                raise OSError(5, "Input/output error")
            return result

        return call


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("place", "layout"), [("local", "dense"), ("memory", "sparse")])
def test_a_write_that_fails_anywhere_leaves_nothing_to_open(
    tmp_path, monkeypatch, place, layout, late
):
    monkeypatch.setattr(Failing, "late", late)
    table = random_table(np.random.default_rng(6), layout, 4, 5)
    where = f"memory://{tmp_path.name}" if place == "memory" else str(tmp_path)
    quiet = write(Folder(f"{where}/quiet"), table, 1)
    for k in range(1, 1000):
        url = f"{where}/{k}"
        monkeypatch.setattr(Failing, "made", 0)
        monkeypatch.setattr(Failing, "fail_at", k)
        try:
            write(Failing(url), table, 1)
        except OSError:
            try:
                dataset = Dataset.open(url)
            except NotADataset:
                assert write(Folder(url), table, 1).fingerprint == quiet.fingerprint
            else:
                assert late  # only the answer to the last call was lost
                assert not list(dataset.verify())
                assert dataset.manifest == quiet
        if Failing.made < k:
            break
        Folder(url).delete_tree()
    assert k > 20
    assert not list(Dataset.open(url).verify())


def test_a_commit_misses_what_was_lost(tmp_path):
    table = random_table(np.random.default_rng(7), "dense", 4, 5)
    folder = Folder(str(tmp_path))
    writer = writer_for(folder, table, 2)
    records = [writer.write_chunk(k, cut(table, 2 * k, 2 * k + 2)) for k in range(2)]
    labels = Labels(labels=(0.0, 1.0), counts=(2, 2))
    weights = WeightStats(total=1, maximum=1)
    with pytest.raises(ValueError, match=r"1 chunks with 2 rows .* 2 with 4 were expected"):
        writer.commit(records[:1], targets=labels, weights=weights)
    folder.delete("X/c.1.0")
    with pytest.raises(Damaged, match=rf"{tmp_path}/X/c\.1\.0 is missing"):
        writer.commit(records, targets=labels, weights=weights)
    writer.write_chunk(1, cut(table, 2, 4))
    writer.commit(records, targets=labels, weights=weights)
    with pytest.raises(FileExistsError, match="already holds a data set"):
        writer_for(folder, table, 2)


def test_places_without_a_data_set_are_told_apart_from_damage(tmp_path):
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NotADataset, match=f"nothing at {place}, .*fewpass ingest"):
            Dataset.open(str(place))
    (tmp_path / "manifest.json").write_bytes(seal({"format": "fewpass-dataset", "version": 3}))
    with pytest.raises(NotADataset, match="version 3, where 'fewpass-dataset' version 1 or 2 was"):
        Dataset.open(str(tmp_path))


def change_record(m, **fields):
    """Give the first chunk's record of a manifest other numbers."""
    chunks = m["chunks"]
    kind = record_type(len(chunks["objects"]))
    table = np.frombuffer(b64decode(chunks["records"]), kind).copy()
    for name, value in fields.items():
        table[name][0] = value
    chunks["records"] = b64encode(table.tobytes()).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(n_rows=m["n_rows"] + 1),
        lambda m: m.update(nnz=m["nnz"] + 1),
        lambda m: m.update(surprise=1),
        lambda m: m.pop("norms"),
        lambda m: m.update(weights=None),
        lambda m: m.update(layout="dense"),
        lambda m: m["chunks"].update(records=m["chunks"]["records"][4:]),
        lambda m: m["chunks"].update(records="no base64"),
        lambda m: m["chunks"].update(records=""),
        lambda m: m["chunks"].update(records=1 << 62),
        lambda m: m["chunks"]["objects"].append("{chunk.__class__}"),
        lambda m: m["chunks"]["objects"].__setitem__(0, "{chunk.__class__}"),
        lambda m: change_record(m, rows=4),
        lambda m: change_record(m, nnz=-1),
        lambda m: change_record(m, sum_square=np.inf),
        lambda m: change_record(m, length=0),
        lambda m: m.update(parts=[{"way": "..", "fingerprint": "0" * 64, "n_chunks": 3}]),
        lambda m: m.update(n_features=1 << 40),
        lambda m: m["columns"].update(more=["float64", [[30, 0]]]),
        lambda m: m["columns"].clear(),
        lambda m: m["norms"].update(max_square="large"),
        lambda m: m["objects"].update({"../../etc/passwd": [1, 1]}),
        lambda m: m["objects"].pop("target/zarr.json"),
    ],
)
def test_manifests_that_contradict_themselves_are_refused(tmp_path, change):
    folder = Folder(str(tmp_path))
    write(folder, random_table(np.random.default_rng(8), "sparse", 7, 5), 3)
    forge(folder, change)
    with pytest.raises(Damaged, match=r"manifest\.json is damaged"):
        Dataset.open(folder)


@pytest.mark.parametrize("wrong", ["index", "negative", "indptr"])
def test_positions_outside_the_data_are_refused(tmp_path, wrong):
    table = random_table(np.random.default_rng(9), "sparse", 7, 5)
    indices, indptr = table.indices.copy(), table.indptr.copy()
    if wrong == "indptr":
        indptr[1] = table.nnz + 9
    else:
        indices[3] = 5 if wrong == "index" else -1
    folder = Folder(str(tmp_path))
    write_table = table._replace(indices=indices, indptr=indptr)
    writer = writer_for(folder, table, 7)
    weights = WeightStats(total=1, maximum=1)
    if wrong == "indptr":
        with pytest.raises((ValueError, IndexError)):
            writer.write_chunk(0, write_table)
        return
    records = [writer.write_chunk(0, write_table)]
    writer.commit(records, targets=Labels(labels=("a",), counts=(7,)), weights=weights)
    with pytest.raises(Damaged, match=r"Chunk 0 .* points outside its 5 columns"):
        Dataset.open(folder).read_chunk(0)


def test_tables_that_do_not_fit_are_refused(tmp_path):
    rng = np.random.default_rng(10)
    table = random_table(rng, "dense", 4, 5)
    writer = writer_for(Folder(str(tmp_path)), table, 3)
    for other in (
        cut(table, 0, 2),
        cut(table, 0, 3)._replace(weight=None),
        cut(table, 0, 3)._replace(X=np.ones((3, 5))),
        cut(table, 0, 3)._replace(X=np.ones((3, 4), np.float32)),
        random_table(rng, "sparse", 3, 5),
    ):
        with pytest.raises(ValueError, match=r"Chunk 0 has .* was expected"):
            writer.write_chunk(0, other)
    for value in (np.nan, np.inf):
        X = np.ones((3, 5), np.float32)
        X[1, 1] = value
        with pytest.raises(ValueError, match="Chunk 0 has values that are not finite"):
            writer.write_chunk(0, cut(table, 0, 3)._replace(X=X))
    with pytest.raises(ValueError, match=r"'mean' has shape \(4,\), where \(5,\)"):
        writer.write_columns(makers_of({"mean": np.ones(4)}))
    assert Folder(str(tmp_path)).list() == []


def test_a_buffer_that_is_too_small_says_so(tmp_path):
    folder = Folder(str(tmp_path))
    table = random_table(np.random.default_rng(11), "sparse", 7, 5)
    manifest = write(folder, table, 7)
    for rows, nnz in ((6, table.nnz), (7, table.nnz - 1)):
        with pytest.raises(ValueError, match="Make the buffer larger"):
            Dataset.open(folder).read_into(0, TableBuffer(manifest, rows, nnz))
    buffer = TableBuffer(manifest, 7, table.nnz)
    assert buffer.n_bytes < n_bytes(table) + 8 + 1000


def test_pickles_are_small_and_know_their_data_set(tmp_path):
    folder = Folder(str(tmp_path))
    table = random_table(np.random.default_rng(12), "dense", 500, 5)
    write(folder, table, 1)
    pickled = pickle.dumps(Dataset.open(folder))
    assert len(pickled) < 400
    same(pickle.loads(pickled).read_chunk(3), cut(table, 3, 4))
    folder.delete("manifest.json")
    write(folder, table, 2)
    with pytest.raises(ValueError, match="now holds data set"):
        pickle.loads(pickled)


def test_an_unknown_column_is_named(tmp_path):
    folder = Folder(str(tmp_path))
    write(folder, random_table(np.random.default_rng(13), "dense", 2, 5), 1)
    with pytest.raises(KeyError, match=r"no column statistic 'median', but .'count', 'mean'"):
        Dataset.open(folder).column("median")


def test_a_stranger_can_check_everything_with_the_page_on_formats_alone(tmp_path):
    write(Folder(str(tmp_path)), random_table(np.random.default_rng(14), "sparse", 7, 5), 3)
    raw = (tmp_path / "manifest.json").read_bytes()
    manifest = json.loads(raw)
    assert raw.count(b"\n") == 1
    assert manifest["fingerprint"] == hashlib.sha256(raw[:-83] + b"}").hexdigest()
    objects = dict(manifest["objects"])
    templates, raw = manifest["chunks"]["objects"], b64decode(manifest["chunks"]["records"])
    record = f"<qqdddd{2 * len(templates)}I"
    for k, numbers in enumerate(struct.iter_unpack(record, raw)):
        pairs = zip(*np.split(np.array(numbers[6:]), 2), strict=True)
        for template, (length, crc32c) in zip(templates, pairs, strict=True):
            key = template.replace("{chunk}", str(k)).replace("{chunk:06d}", f"{k:06d}")
            objects |= {key: (length, crc32c)} if length else {}
    assert len(raw) == 3 * struct.calcsize(record)
    files = {p.relative_to(tmp_path).as_posix(): p for p in tmp_path.rglob("*") if p.is_file()}
    assert files.keys() == objects.keys() | {"manifest.json"}
    for key, (length, crc32c) in objects.items():
        data = files[key].read_bytes()
        assert len(data) == length
        if not key.endswith((".json", ".bin")):
            assert int.from_bytes(data[-4:], "little") == crc32c
            data = data[:-4]
        assert google_crc32c.value(data) == crc32c


@pytest.mark.parametrize("d", [5, 8200])
def test_rows_in_memory_have_the_squares_that_a_chunk_of_them_records(rng, d):
    """Bit by bit, also of rows longer than what NumPy sums at a time."""
    table = random_table(rng, "dense", 9, d, weight=False)
    stored = measured_record(0, table)
    own = manifest_of(table, d, Labels(labels=(0.0, 1.0), counts=(4, 5))).chunks.record(0)
    assert (own.max_square, own.sum_square) == (stored.max_square, stored.sum_square)
