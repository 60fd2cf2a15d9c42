"""Zarr documents: zarr-python would write the same, reads all that they describe, and is asked by nobody else."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.buffer import cpu
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec
from zarr.storage import MemoryStore

from fewpass.storage.array_layout import chunk_document
from fewpass.storage.column_file import makers_of
from fewpass.storage.column_order import ColumnOrder
from fewpass.storage.column_schema import Schema
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Values, WeightStats
from fewpass.storage.table import DenseTable, SparseTable, concatenate, cut
from fewpass.storage.writer import DatasetWriter
from fewpass.storage.zarr_documents import array_document, group_document
from testing.datasets import column_by_page
from testing.object_store import object_store

LAYOUTS = ["dense", "sparse"]
N, D, CHUNK_ROWS = 7, 3, 3  # the last chunk is filled up; the second one of the sparse set is empty
SOURCE = np.array([2, 0, 1], np.int32)
STATISTICS = {"count": np.array([1.0, 2.0, 3.0]), "mean": np.array([0.5, -0.25, 0.0])}


def table_of(layout):
    target, weight = np.arange(N) / 4, np.arange(1.0, N + 1)
    X = np.where(np.arange(N)[:, None] // 3 == 1, 0, np.arange(N * D).reshape(N, D) % 5)
    if layout == "dense":
        return DenseTable(X.astype(np.float32), target, weight)
    m = sp.csr_matrix(X.astype(np.float64))
    indices, indptr = m.indices.astype(np.int32), m.indptr.astype(np.int64)
    return SparseTable(m.data, indices, indptr, target, weight)


def write_dataset(folder, layout):
    table = table_of(layout)
    dtype = "float32" if layout == "dense" else "float64"
    writer = DatasetWriter(folder, layout, D, N, CHUNK_ROWS, dtype, has_weight=True)
    chunks = [cut(table, start, min(start + CHUNK_ROWS, N)) for start in range(0, N, CHUNK_ROWS)]
    records = [writer.write_chunk(k, rows) for k, rows in enumerate(chunks)]
    writer.write_columns(makers_of(STATISTICS), ColumnOrder(SOURCE if layout == "sparse" else None))
    values = Values(mean=0.75, variance=0.25, minimum=0.0, maximum=1.5)
    schema = Schema(names=("a", "b", "c"), types=("number",) * D) if layout == "sparse" else None
    writer.commit(
        records, targets=values, weights=WeightStats(total=28.0, maximum=7.0), schema=schema
    )


def write_all(folder):
    for layout in LAYOUTS:
        write_dataset(folder.child(layout), layout)


def require_all(folder):
    """What `write_all` wrote, read by us."""
    for layout in LAYOUTS:
        dataset = Dataset.open(folder.child(layout))
        assert list(dataset.verify()) == []
        found = concatenate([dataset.read_chunk(k) for k in range(dataset.n_chunks)])
        expected = table_of(layout)
        if layout == "sparse":
            assert dataset.column_order.source.tolist() == SOURCE.tolist()
            assert dataset.schema.names == ("a", "b", "c")
            stored = concatenate([dataset.read_stored(k) for k in range(dataset.n_chunks)])
            np.testing.assert_array_equal(stored.indices, expected.indices)
            np.testing.assert_array_equal(stored.data, expected.data)
        else:
            np.testing.assert_array_equal(found.X, expected.X)
        np.testing.assert_array_equal(found.target, expected.target)
        np.testing.assert_array_equal(found.weight, expected.weight)
        for name, values in STATISTICS.items():
            np.testing.assert_array_equal(dataset.column(name), values)


def as_zarr(folder):
    """Return all of a folder's objects as a group of zarr-python's."""
    objects = {key: cpu.Buffer.from_bytes(folder.read(key)) for key in folder.list()}
    return zarr.open_group(MemoryStore(objects), mode="r")


def require_all_is_zarr(folder):
    """What `write_all` wrote, read by zarr-python and docs/format.md, and by nobody else."""
    for layout in LAYOUTS:
        group, table = as_zarr(folder.child(layout)), table_of(layout)
        np.testing.assert_array_equal(group["target"][:], table.target)
        np.testing.assert_array_equal(group["weight"][:], table.weight)
        assert sorted(group.attrs) == ["format", "version"]
        for name, values in STATISTICS.items():
            np.testing.assert_array_equal(column_by_page(folder.child(layout), name), values)
        if layout == "dense":
            assert group["X"].dtype == np.float32
            np.testing.assert_array_equal(group["X"][:], table.X)
            continue
        np.testing.assert_array_equal(column_by_page(folder.child(layout), "source"), SOURCE)
        chunks = [group[f"rows-{k:06d}"] for k in range(group["target"].nchunks)]
        found = [
            sp.csr_matrix((c["data"][:], c["indices"][:], c["indptr"][:]), c.attrs["shape"])
            for c in chunks
        ]
        assert [m.nnz for m in found] == [7, 0, 2]
        expected = sp.csr_matrix((table.data, table.indices, table.indptr), (N, D))
        np.testing.assert_array_equal(sp.vstack(found).toarray(), expected.toarray())


@pytest.fixture
def s3():
    with object_store("documents") as store:
        yield Folder("s3://documents/all", store.options)


@pytest.mark.parametrize("kind", ["local", "memory", "s3"])
def test_every_kind_of_array_is_zarr_in_every_kind_of_folder(tmp_path, request, kind):
    places = {
        "local": lambda: Folder(str(tmp_path)),
        "memory": lambda: Folder("memory://documents"),
    }
    folder = request.getfixturevalue("s3") if kind == "s3" else places[kind]()
    write_all(folder)
    require_all(folder)
    require_all_is_zarr(folder)


def by_zarr(path, shape, chunks, dtype):
    """Create the array as docs/format.md, section 1, describes it, and return its document."""
    zarr.create_array(
        str(path), shape=shape, chunks=chunks, dtype=dtype, zarr_format=3,
        fill_value=np.nan if np.dtype(dtype).kind == "f" else 0,
        serializer=BytesCodec(endian="little"),
        chunk_key_encoding={"name": "default", "separator": "."},
        compressors=[
            BloscCodec(cname="lz4", clevel=5, shuffle="shuffle",
                       typesize=np.dtype(dtype).itemsize, blocksize=1 << 17),
            Crc32cCodec(),
        ],
    )  # fmt: skip
    return (Path(path) / "zarr.json").read_bytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int32", "int64", "uint8"])
def test_a_document_that_is_filled_in_is_the_one_zarr_writes(tmp_path, dtype):
    for length in (0, 1, 2, 12_345, 1 << 40):
        expected = by_zarr(tmp_path / str(length), (length,), (max(1, length),), dtype)
        assert array_document((length,), (max(1, length),), np.dtype(dtype)) == expected
    expected = by_zarr(tmp_path / "two", (10, 3), (4, 3), dtype)
    assert array_document((10, 3), (4, 3), np.dtype(dtype).newbyteorder(">")) == expected


@pytest.mark.parametrize(("rows", "nnz"), [(4, 0), (1, 1), (70_000, 1_234_567)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_documents_of_a_sparse_chunk_are_those_zarr_writes(tmp_path, rows, nnz, dtype):
    group = zarr.create_group(str(tmp_path / "rows-000012"), zarr_format=3)
    group.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [rows, 9]}
    )
    for name, length, kind in (
        ("data", nnz, dtype), ("indices", nnz, "int32"), ("indptr", rows + 1, "int64"),
    ):  # fmt: skip
        by_zarr(tmp_path / "rows-000012" / name, (length,), (max(1, length),), kind)
    with pytest.warns(match="[Cc]onsolidated metadata"):
        zarr.consolidate_metadata(str(tmp_path / "rows-000012"))
    written = (tmp_path / "rows-000012/zarr.json").read_bytes()
    assert chunk_document((rows, 9), nnz, np.dtype(dtype)) == written


def test_settings_of_zarr_do_not_change_the_format():
    with zarr.config.set({"default_zarr_format": 2, "array.order": "F"}):
        array_document.cache_clear()
        documents = [group_document({"a": 1}), array_document((3,), (2,), np.dtype("int32"))]
    array_document.cache_clear()
    again = [group_document({"a": 1}), array_document((3,), (2,), np.dtype("int32"))]
    assert documents == again
    assert [json.loads(document)["zarr_format"] for document in documents] == [3, 3]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes", np.int64(1)])
def test_attributes_that_are_no_json_are_refused(value):
    with pytest.raises((TypeError, ValueError)):
        group_document({"a": {"b": [value]}})


def test_neither_writing_nor_reading_imports_zarr(tmp_path):
    write_all(Folder(str(tmp_path)))
    program = f"""
import sys
from fewpass.flows.cli import main
from fewpass.storage.dataset import Dataset
for layout in {LAYOUTS}:
    assert main(["check", {str(tmp_path)!r} + "/" + layout]) == 0
    assert main(["inspect", {str(tmp_path)!r} + "/" + layout]) == 0
    dataset = Dataset.open({str(tmp_path)!r} + "/" + layout)
    for k in range(dataset.n_chunks):
        dataset.read_chunk(k)
assert "numpy" in sys.modules
sys.exit("zarr was imported" if "zarr" in sys.modules else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
