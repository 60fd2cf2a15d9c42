"""Zarr documents: zarr-python would write the same, reads all that they describe, and is asked by nobody else."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec

from fewpass.storage.array_layout import chunk_document
from fewpass.storage.zarr_documents import array_document, group_document


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
    (tmp_path / "dense.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    (tmp_path / "sparse.svm").write_text("1 1:2 7:1\n0 3:4\n")
    program = f"""
import sys
from fewpass.flows.cli import main
from fewpass.storage.dataset import Dataset
for name in ("dense.csv", "sparse.svm"):
    source = {str(tmp_path)!r} + "/" + name
    assert main(["ingest", source, source + ".set", "-q"]) == 0
    assert main(["check", source + ".set"]) == main(["inspect", source + ".set"]) == 0
    assert Dataset.open(source + ".set").read_chunk(0).n_rows == 2
sys.exit("zarr was imported" if "zarr" in sys.modules else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
