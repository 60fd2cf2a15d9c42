"""A data set's bytes depend on no number of threads, whatever kind of file its rows come from."""

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from fewpass.pipeline.settings.formats import EXTENSIONS, FORMATS, TABLES
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest import mapping
from fewpass.pipeline.tables.ingest.phases import ingest

N = 900
GROUP = 100  # rows that columnar files keep together
TOWNS = np.array(["Graz", "Linz", "Wien", "Wels"])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """A few kilobytes are many pieces."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2_000)


def numbers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 6)).round(3).astype(np.float32)
    return X, (X[:, 0] + rng.standard_normal(N) > 0.0).astype(np.int8)


def table(*, words):
    """Columns of numbers and the label y; with words, a column of towns, some of them missing."""
    X, y = numbers()
    columns = {f"x{j}": x for j, x in enumerate(X.T.copy())}
    if words:
        towns = np.random.default_rng(1).choice(TOWNS, N).astype(object)
        columns["town"] = pa.array(np.where(np.arange(N) % 50 == 7, None, towns), pa.string())
    return pa.table(columns | {"y": y})


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


def write_libsvm(path):
    X, y = numbers()
    write_lines(path, (f"{v} " + " ".join(f"{j + 1}:{a}" for j, a in enumerate(x))
                       for x, v in zip(X, y, strict=True)))  # fmt: skip


def write_vw(path):
    X, y = numbers()
    write_lines(path, (f"{2 * v - 1} | " + " ".join(f"f{j}:{a}" for j, a in enumerate(x))
                       for x, v in zip(X, y, strict=True)))  # fmt: skip


def write_npy(path):
    X, y = numbers()
    np.save(path, np.column_stack([X, y]).astype(np.float32))


def write_npz(path):
    X, y = numbers()
    np.savez(path, X=X, y=y)


def write_jsonl(path):
    write_lines(path, map(json.dumps, table(words=True).to_pylist()))


def write_arrow(path, *, words=True):
    feather.write_feather(table(words=words), path, chunksize=GROUP)


def write_sqlite(path):
    rows = table(words=True)
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE rows ({', '.join(rows.column_names)})")
    marks = ", ".join("?" * rows.num_columns)
    cells = (tuple(row.values()) for row in rows.to_pylist())
    connection.executemany(f"INSERT INTO rows VALUES ({marks})", cells)
    connection.commit()
    connection.close()


LABEL = {"label": "y"}
#: A word of the test: how a source of the kind is written, what it is called, how it is read.
KINDS = {
    "libsvm": (write_libsvm, "rows.svm", {}),
    "vw": (write_vw, "rows.vw", {}),
    "npy": (write_npy, "rows.npy", {}),
    "npz": (write_npz, "rows.npz", {}),
    "csv": (lambda path: csv.write_csv(table(words=False), path), "rows.csv", LABEL),
    "parquet": (
        lambda path: parquet.write_table(table(words=False), path, row_group_size=GROUP),
        "rows.parquet", LABEL,
    ),
    "csv of words": (lambda path: csv.write_csv(table(words=True), path), "rows.csv", LABEL),
    "parquet of words": (
        lambda path: parquet.write_table(table(words=True), path, row_group_size=GROUP),
        "rows.parquet", LABEL,
    ),
    "arrow": (write_arrow, "rows.arrow", LABEL),
    "jsonl": (write_jsonl, "rows.jsonl", LABEL),
    "sqlite": (write_sqlite, "rows.sqlite", LABEL),
}  # fmt: skip


def test_every_kind_of_source_is_tried():
    tried = {EXTENSIONS[Path(name).suffix] for _, name, _ in KINDS.values()}
    assert tried == {*FORMATS, *TABLES}


def bytes_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file()}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_one_two_and_four_threads_make_the_same_bytes(kind, tmp_path):
    write, name, options = KINDS[kind]
    write(tmp_path / name)
    place, made = tmp_path / "set", []
    plan = IngestPlan(sources=(str(tmp_path / name),), dataset=str(place), options=options)
    for threads in (1, 2, 4):
        assert ingest(plan, threads=threads).rows == N
        made.append(bytes_of(place))
        shutil.rmtree(place)
    assert made[0] == made[1] == made[2]
    assert len(made[0]) > 3
