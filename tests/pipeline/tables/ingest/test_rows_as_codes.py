"""Rows of additive models are stored as codes, and read as the rows that they would have been."""

import numpy as np
import pytest
import zarr

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.chunking import rows_per_chunk
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers.table_source import TableSource
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged
from testing.datasets import table_of

N = 4000


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A file of numbers with gaps, words and dates, with weights."""
    drawn = np.random.default_rng(3)
    x, z = drawn.normal(size=(2, N)).round(3)
    word = np.array(["a", "b", "c", "d"])[drawn.integers(0, 4, N)]
    when = np.datetime64("2024-01-01") + drawn.integers(0, 500, N)
    y = (np.sin(2 * x) * (word == "a") + z**2 + drawn.normal(size=N)).round(3)
    path = tmp_path_factory.mktemp("codes") / "rows.csv"
    cells = [
        f"{'' if k % 11 == 0 else a},{b},{c},{d},{e},{1 + k % 3}"
        for k, (a, b, c, d, e) in enumerate(zip(x, z, word, when, y, strict=True))
    ]
    path.write_text("\n".join(["x,z,word,when,y,w", *cells, ""]))
    return path


def plan(source, place, **more):
    options = {"label": "y", "weight": "w", "encode": "additive", "pairs": "x:word"}
    options |= {"knots": 16, "dtype": more.pop("dtype", "float32")}
    rest = {"test_fraction": 0.2, "chunk_bytes": 100_000} | more
    return IngestPlan(sources=[str(source)], dataset=str(place), options=options, **rest)


@pytest.fixture(scope="module")
def stored(source, tmp_path_factory):
    place = tmp_path_factory.mktemp("stored") / "data"
    ingest(plan(source, place))
    return place


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_those_that_values_would_have_been(source, tmp_path, monkeypatch, dtype):
    every = {}
    for name in ("codes", "values"):
        ingest(plan(source, tmp_path / name, dtype=dtype))
        every[name] = [Dataset.open(str(tmp_path / f"{name}{part}")) for part in ("", "-test")]
        monkeypatch.setattr(TableSource, "parse_codes", lambda _: None)
    for mine, other in zip(every["codes"], every["values"], strict=True):
        assert mine.manifest.coded and not other.manifest.coded
        assert mine.manifest.nnz == other.manifest.nnz and mine.manifest.dtype == dtype
        for a, b in zip(table_of(mine), table_of(other), strict=True):
            assert a is b is None or np.array_equal(a, b)
        for name in mine.manifest.columns:
            np.testing.assert_allclose(mine.column(name), other.column(name), rtol=1e-12)
        sizes = [
            each.manifest.chunks.bytes_of(each.manifest.chunks.objects) for each in (mine, other)
        ]
        assert 3 * sizes[0] < sizes[1]


def test_neither_files_nor_threads_say_what_is_stored(source, stored, tmp_path, monkeypatch):
    wanted = Dataset.open(str(stored)).manifest
    for threads in (3, 1):
        ingest(plan(source, tmp_path / str(threads)), threads=threads)
        found = Dataset.open(str(tmp_path / str(threads))).manifest
        assert found.chunks == wanted.chunks and found.columns == wanted.columns
        monkeypatch.setattr(Budget, "retained", 0)


def test_rows_like_those_are_codes_too(source, stored, tmp_path):
    again = plan(source, tmp_path / "again", test_fraction=0.0).model_copy(
        update={"like": str(stored)}
    )
    ingest(again)
    found = Dataset.open(str(tmp_path / "again"))
    assert found.manifest.codes == Dataset.open(str(stored)).manifest.codes
    assert found.schema == Dataset.open(str(stored)).schema


def test_few_rows_are_few_chunks(source, tmp_path):
    """As many rows as fit into a chunk, unless somebody gives its size, or memory is little."""
    ingest(plan(source, tmp_path / "usual", chunk_bytes=None))
    assert Dataset.open(str(tmp_path / "usual")).n_chunks == 1
    many = IngestPlan(sources=["x"], dataset="d")
    assert rows_per_chunk(many, 5_000, 5_000 * 1_500) == 5_000
    assert rows_per_chunk(many, 10**6, 1_500 * 10**6) == (8 << 20) // 1_500
    assert rows_per_chunk(many, 10**9, 1_500 * 10**9) == 1_500 * 10**9 // 65_536 // 1_500
    assert rows_per_chunk(many, 10**10, 1_500 * 10**10) == many.budget.chunk // 1_500
    given = many.model_copy(update={"chunk_bytes": 8 << 20})
    assert rows_per_chunk(given, 10**10, 1_500 * 10**10) == (8 << 20) // 1_500
    little = many.model_copy(update={"memory": 128_000_000})
    assert 1_500 * rows_per_chunk(little, 5_000, 5_000 * 1_500) <= little.chunk_limit


def test_any_zarr_reader_has_the_codes(stored):
    dataset = Dataset.open(str(stored))
    codes = zarr.open_group(str(stored), mode="r")["codes"]
    assert codes.shape == (dataset.manifest.codes, dataset.n_rows)
    made = dataset.expansion.csr(np.ascontiguousarray(codes[:, :]), "float32")
    rows = table_of(dataset)
    assert dataset.n_chunks > 2
    for mine, other in zip(made, rows[:3], strict=True):
        assert np.array_equal(mine, other)


def test_codes_that_make_other_rows_are_damage(stored, monkeypatch):
    dataset = Dataset.open(str(stored))
    missing = np.full((dataset.manifest.codes, dataset.manifest.chunk_rows), np.nan)
    made = dataset.expansion.expand
    monkeypatch.setattr(dataset.expansion, "expand", lambda _, *rest: made(missing, *rest))
    with pytest.raises(Damaged, match="codes of other rows"):
        dataset.read_chunk(0)
