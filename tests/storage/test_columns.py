"""Column copies: what is in them, how much memory they take, and what becomes of damaged ones."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from fewpass.storage.column_copy import (
    FOLDER,
    KEY,
    copy_bytes,
    faults,
    has_columns,
    load_columns,
    map_columns,
)
from fewpass.storage.column_copy_writer import ranges, write_columns
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from fewpass.storage.table import SparseTable
from testing import datasets
from testing.datasets import table_of

SMALL = 64 * 500  # bytes: 500 values are sorted at a time


def skewed(n, d, seed=0):
    """A table whose first column has a value in every row and whose last has none."""
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d - 1, 0.05, random_state=seed, dtype=np.float32).tolil()
    X[:, 0] = rng.standard_normal((n, 1)).astype(np.float32)
    X = sparse.csr_matrix(X)
    y = (rng.random(n) < 0.5).astype(float)
    return SparseTable(X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), y, None)


@pytest.mark.parametrize("memory", [1 << 30, SMALL, 1])
def test_sparse_copy_is_scipys(tmp_path, memory):
    dataset = datasets.write(tmp_path / "set", skewed(700, 90), 90, 64)
    size = write_columns(dataset, memory)
    found, table = map_columns(dataset), table_of(dataset)
    csr = sparse.csr_matrix((table.data, table.indices, table.indptr), (700, 90))
    for name, expected in (("rows", csr), ("columns", csr.tocsc())):
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(found[f"{name}/{part}"], getattr(expected, part))
    assert np.array_equal(found["target"], table.target)
    on_disk = [p for p in (tmp_path / "set" / FOLDER).rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in on_disk if p.name != KEY) == size == copy_bytes(dataset)


@pytest.mark.parametrize("memory", [1 << 30, 1])
def test_dense_copy_is_the_transpose(tmp_path, memory):
    dataset = datasets.make(tmp_path / "set", 500, 30, 64)
    write_columns(dataset, memory)
    found, table = map_columns(dataset), table_of(dataset)
    assert np.array_equal(found["rows"], table.X)
    assert np.array_equal(found["columns"], table.X.T)
    assert found["columns"].flags.c_contiguous


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_copy_in_memory_is_that_on_disk(tmp_path, layout):
    dataset = datasets.make(tmp_path / "set", 300, 20, 64, layout=layout)
    write_columns(dataset, SMALL)
    mapped, loaded = map_columns(dataset), load_columns(dataset)
    assert mapped.keys() == loaded.keys()
    for name, array in mapped.items():
        assert array.dtype == loaded[name].dtype
        assert np.array_equal(array, loaded[name])


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("most", [100, 5_000, 10_000])
def test_where_files_may_not_grow_the_copy_is_named_and_there_is_none(tmp_path, layout, most):
    table = (
        skewed(700, 90) if layout == "sparse" else table_of(datasets.make(tmp_path / "a", 500, 30))
    )
    dataset = datasets.write(tmp_path / "set", table, 90 if layout == "sparse" else 30, 64)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        with pytest.raises(OSError, match=r"Allow larger files .* run the same") as refused:
            write_columns(dataset, SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(tmp_path / "set") in refused.value.filename
    assert not has_columns(dataset)
    write_columns(dataset, SMALL)
    assert has_columns(dataset)


def test_ranges_hold_what_they_may_or_one_column():
    indptr = np.array([0, 3, 5, 5, 25, 26, 30])
    bounds = ranges(indptr, 6)
    assert bounds.tolist() == [0, 3, 4, 6]
    assert ranges(indptr, 1000).tolist() == [0, 6]


@pytest.mark.parametrize("name", ["rows/data", "columns/indices", "columns/indptr", "target", KEY])
def test_a_changed_byte_is_found(tmp_path, name):
    dataset = datasets.write(tmp_path / "set", skewed(200, 30), 30, 64)
    write_columns(dataset, 1 << 30)
    assert list(faults(dataset)) == []
    path = tmp_path / "set" / FOLDER / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)
    with pytest.raises(Damaged, match=name.rpartition("/")[2]):
        map_columns(dataset)
    assert len(list(faults(dataset))) == 1


@pytest.mark.parametrize("damage", ["short", "missing"])
def test_a_short_or_missing_file_is_found(tmp_path, damage):
    dataset = datasets.make(tmp_path / "set", 100, 8, 64)
    write_columns(dataset, 1 << 30)
    path = tmp_path / "set" / FOLDER / "columns"
    path.unlink() if damage == "missing" else os.truncate(path, 12)
    with pytest.raises(Damaged, match="columns"):
        map_columns(dataset)


def test_a_copy_of_other_data_is_none(tmp_path):
    old = datasets.make(tmp_path / "set", 100, 8, 64)
    write_columns(old, 1 << 30)
    (tmp_path / "set" / KEY).unlink()
    new = datasets.make(tmp_path / "set", 100, 8, 64, seed=1)
    assert not has_columns(new)
    with pytest.raises(FileNotFoundError, match="fewpass column-copy"):
        map_columns(new)
    write_columns(new, 1 << 30)
    assert np.array_equal(map_columns(new)["rows"], table_of(new).X)


def test_far_away_nothing_is_mapped(tmp_path):
    dataset = datasets.make("memory://columns-test", 100, 8, 64)
    with pytest.raises(ValueError, match="not on this machine"):
        write_columns(dataset, 1 << 30)
    assert not has_columns(dataset)


MEASURE = """
import sys
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.storage.column_copy_writer import write_columns
from fewpass.storage.dataset import Dataset
dataset = Dataset.open(sys.argv[1])
dataset.read_chunk(0)
before = peak_memory_bytes()
write_columns(dataset, int(sys.argv[2]))
print(peak_memory_bytes() - before)
"""


def test_building_keeps_to_its_memory(tmp_path):
    """48 MB by row and by column are made in 8 MB, and some for the bytes of a chunk or two."""
    n, d, nnz = 60_000, 2_000, 50
    table = _rows(n, d, nnz)
    dataset = datasets.write(tmp_path / "set", table, d, 2_000)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "set"), str(8 << 20)]
    taken = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert copy_bytes(dataset) > 48e6
    assert taken < (8 << 20) + 8e6


def _rows(n, d, nnz):
    """Rows with a value in every (d / nnz)-th column, shifted from row to row."""
    indices = (np.arange(nnz) * (d // nnz) + np.arange(n)[:, None] % (d // nnz)).astype(np.int32)
    data = np.random.default_rng(0).standard_normal(n * nnz).astype(np.float32)
    y = (np.arange(n) % 2).astype(float)
    return SparseTable(data, indices.ravel(), np.arange(n + 1, dtype=np.int64) * nnz, y, None)


def test_reopening_is_as_good_as_having_kept_it(tmp_path):
    dataset = datasets.make(tmp_path / "set", 100, 8, 64)
    write_columns(dataset, 1 << 30)
    arrays = map_columns(Dataset.open(str(tmp_path / "set")))
    arrays["rows"][0, 0] += 1.0  # private to this process
    assert list(faults(dataset)) == []
