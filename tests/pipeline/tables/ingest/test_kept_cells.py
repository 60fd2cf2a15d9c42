"""Columns that are kept as they were written, from every format that names its columns."""

import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.retained_columns import words_of_retained
from fewpass.storage.dataset import Dataset

KEPT_FROM = {
    "t.csv": lambda rows, path: rows.to_csv(path, index=False),
    "t.jsonl": lambda rows, path: rows.to_json(path, orient="records", lines=True),
    "t.parquet": lambda rows, path: rows.to_parquet(path, index=False),
    "t.sqlite": lambda rows, path: _to_sqlite(rows, path),
}


def _to_sqlite(rows, path):
    with closing(sqlite3.connect(path)) as connection:
        rows.to_sql("t", connection, index=False)


@pytest.mark.parametrize("file", KEPT_FROM)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"drop": ["town"]},
        {"drop": ["at"], "test_by": "at", "test_fraction": 0.2},
        {"drop": ["at"], "test_group": "at", "test_fraction": 0.2},
    ],
    ids=["kept alone", "dropped", "held out by", "grouped"],
)
def test_what_is_kept_stands_in_the_rows_whatever_their_format(tmp_path, file, more):
    """Also of columns that are no features, which a reader need not look at otherwise."""
    rows = pd.DataFrame({
        "id": [f"u{k:03}" for k in range(300)], "town": [("Bern", "Oslo")[k % 2] for k in range(300)],
        "at": [f"2025-01-{1 + k % 28:02}" for k in range(300)], "x": [k * 7 % 11 for k in range(300)],
        "y": [k % 3 == 0 for k in range(300)],
    })  # fmt: skip
    KEPT_FROM[file](rows.astype({"y": int}), tmp_path / file)
    options = {"label": "y"} | {name: more[name] for name in more if name == "drop"}
    plan = {name: more[name] for name in more if name != "drop"}
    made = ingest(IngestPlan(
        sources=(str(tmp_path / file),), dataset=str(tmp_path / "set"), keep=("id", "town", "at"),
        options=options, **plan,
    ))  # fmt: skip
    kept = []
    for place in filter(None, (made.dataset, made.test_dataset)):
        dataset = Dataset.open(place)
        for k in range(dataset.n_chunks):
            retained = dataset.read_retained(k)
            kept += zip(*(words_of_retained(retained, c).tolist() for c in range(3)), strict=True)
    assert sorted(kept) == [
        tuple(cell.encode() for cell in row)
        for row in zip(rows.id, rows.town, rows["at"], strict=True)
    ]


def test_ids_of_two_types_in_json_are_refused_by_line(tmp_path):
    lines = [
        f'{{"id": {k if k % 2 else chr(34) + str(k) + chr(34)}, "x": {k}, "y": {k % 3}}}'
        for k in range(60)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    plan = IngestPlan(
        sources=(str(tmp_path / "t.jsonl"),), dataset=str(tmp_path / "set"), keep=("id",),
        options={"label": "y"},
    )  # fmt: skip
    with pytest.raises(BadInput, match="line 2: column 'id' holds"):
        ingest(plan)


def test_kept_cells_go_with_their_rows_however_many_are_skipped(tmp_path):
    """Of plain numbers, whose kernel gives up at the first bad row."""
    n, bad = 1000, 150
    cells = [f"u{k:04},{'oops' if k % 5 == 1 and k < 5 * bad else k},{k % 2}\n" for k in range(n)]
    (tmp_path / "t.csv").write_text("id,x,y\n" + "".join(cells))
    made = ingest(IngestPlan(
        sources=(str(tmp_path / "t.csv"),), dataset=str(tmp_path / "set"), keep=("id",),
        scale="none", options={"label": "y", "encode": "none", "on_bad_row": "skip"},
    ))  # fmt: skip
    assert made.skipped == bad
    data, numbers, names = Dataset.open(made.dataset), [], []
    for k in range(data.n_chunks):
        numbers += data.read_stored(k).X[:, 0].tolist()
        names += words_of_retained(data.read_retained(k), 0).tolist()
    assert len(names) == n - bad
    assert all(name == f"u{int(x):04}".encode() for name, x in zip(names, numbers, strict=True))
