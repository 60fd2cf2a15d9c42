"""No row is taken twice: not by another name of its file, nor with a later version of its table."""

import os
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.change_plans import AppendPlan
from fewpass.pipeline.tables.changing.appending import append
from fewpass.pipeline.tables.readers.seen_files import SeenFiles
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import TakenFile

HOW = {"label": "y", "keep": "id"}


def rows(first, n):
    ids = np.arange(first, first + n)
    return pa.table({"id": ids, "a": ids * 0.5, "b": ids % 7, "y": ids % 2})


def write(path, first, n):
    path.parent.mkdir(exist_ok=True)
    rows(first, n).to_pandas().to_csv(path, index=False)
    return path


def ids(place="D"):
    return Counter(map(int, fewpass.Dataset(place).to_arrow().column("id").to_pylist()))


def once(*ranges):
    return Counter(k for first, n in ranges for k in range(first, first + n))


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A data set of data/a.csv, to which data/b.csv was appended."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data/a.csv", 0, 60)
    write(tmp_path / "data/b.csv", 100, 20)
    fewpass.ingest("data/a.csv", "D", **HOW)
    fewpass.append("D", "data/b.csv")
    return tmp_path


A, B, C = (0, 60), (100, 20), (200, 10)


def link(make, target, name):
    make(target, name)
    return name


def moved(name, to):
    Path(to).parent.mkdir()
    Path(name).rename(to)
    return to


#: Ways to name files that were taken, some of them with data/c.csv, which was not.
NAMES = {
    "the file of the ingest": lambda: "data/a.csv",
    "the appended file": lambda: "data/b.csv",
    "dots": lambda: "data/../data/./b.csv",
    "an absolute path": lambda: str(Path("data/b.csv").absolute()),
    "an address": lambda: f"file://{Path('data/b.csv').absolute()!s}",
    "a symbolic link": lambda: link(os.symlink, "data/b.csv", "l.csv"),
    "a hard link": lambda: link(os.link, "data/b.csv", "h.csv"),
    "a linked folder": lambda: link(os.symlink, "data", "linked") + "/b.csv",
    "the folder": lambda: "data",
    "a glob": lambda: "data/*.csv",
    "moved": lambda: moved("data/b.csv", "old/b.csv"),
}


@pytest.mark.parametrize("way", NAMES)
@pytest.mark.parametrize("new", [False, True])
def test_a_file_is_taken_once_whatever_it_is_called(at, way, new):
    if new:
        write(at / "data/c.csv", *C)
    named = NAMES[way]()
    result = fewpass.append("D", [named, *(["data/c.csv", "data/c.csv"] if new else [])])
    assert ids() == once(A, B, *([C] if new else []))
    assert result.already == (not new)
    assert result.appended == (10 if new else 0)
    assert result.taken_before or not new
    if not new:
        assert fewpass.append("D", named, again=True).appended >= 20
        assert max(ids().values()) == 2  # what was named once more, once


def test_who_tries_a_call_again_takes_nothing_twice_that_is_asked_for_again(at):
    asked = AppendPlan(dataset="D", sources=("data/b.csv",), again=True)
    found = Dataset.open("D").manifest.fingerprint
    assert [append(asked, since=found).already for _ in range(3)] == [False, True, True]
    assert append(asked, since=Dataset.open("D").manifest.fingerprint).appended >= 20
    assert max(ids().values()) == 3


@pytest.mark.parametrize("way", sorted({*NAMES} - {"moved"}))
def test_an_ingest_takes_a_file_once_and_says_so(at, way):
    result = fewpass.ingest(["data/b.csv", NAMES[way](), "data/b.csv"], "E", **HOW)
    of_a = way in ("the folder", "a glob", "the file of the ingest")
    assert ids("E") == once(B, *([A] if of_a else []))
    (said,) = [note for note in result.notes if "taken once" in note]
    assert "b.csv" in said
    few = fewpass.ingest(["data/a.csv", "data/b.csv"], "F", **HOW)
    assert not any("taken once" in note for note in few.notes)


@pytest.mark.parametrize("named", ["data", "data/?.csv"])
def test_a_training_on_files_takes_a_file_once_and_says_so(at, as_json, named):
    (at / "data/c.csv").symlink_to("b.csv")
    os.link(at / "data/b.csv", at / "data/d.csv")
    how = ("--label", "y", "--lam", "0.1", "--solver", "onepass", "--scheduler", "none")
    trained = as_json("train", named, "R", *how)
    assert trained["rows_seen"] == 80
    assert any("taken once" in note and "d.csv" in note for note in trained["notes"])


@pytest.mark.parametrize("name", ["data/a.csv", "data/b.csv", "h.csv", "data"])
def test_a_file_that_has_grown_is_refused_and_taken_with_again(at, name):
    os.link("data/b.csv", "h.csv")
    for path, first in (("data/a.csv", 300), ("data/b.csv", 400)):
        grown = rows(first, 5).to_pandas().to_csv(index=False, header=False)
        with (at / path).open("a") as file:
            file.write(grown)
    with pytest.raises(BadInput, match=r"has grown or was written anew.*again=true"):
        fewpass.append("D", name)
    assert ids() == once(A, B)
    fewpass.append("D", name, again=True)
    assert fewpass.append("D", name).already


def test_a_file_of_the_same_size_that_was_written_anew_is_another(at):
    content = (at / "data/b.csv").read_bytes()
    (at / "data/b.csv").write_bytes(content.replace(b"100,50.0", b"900,50.0"))
    with pytest.raises(BadInput, match="written anew"):
        fewpass.append("D", "data/b.csv")


def test_what_was_forgotten_does_not_come_back_with_its_file(at):
    fewpass.forget("D", "id < 110")
    assert fewpass.append("D", "data").already
    assert ids() == once((110, 10))


def test_rows_of_a_database_come_once_and_are_refused_where_they_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    every, late = "select * from t order by id", "select * from t where id >= 300 order by id"

    def add(first, n):
        with sqlite3.connect("x.db") as base:
            rows(first, n).to_pandas().to_sql("t", base, if_exists="append", index=False)

    add(*A)
    fewpass.ingest("x.db", "D", query=every, **HOW)
    assert fewpass.append("D", "x.db", query=every).already
    add(300, 5)
    with pytest.raises(BadInput, match="again=true"):
        fewpass.append("D", "x.db", query=every)
    assert fewpass.append("D", "x.db", query=late).appended == 5
    assert ids() == once(A, (300, 5))


# -- tables ------------------------------------------------------------------------------------------


def delta(place):
    from deltalake import DeltaTable, write_deltalake

    class Delta:
        def add(self, first, n):
            write_deltalake(place, rows(first, n), mode="append")

        def remove(self):
            DeltaTable(place).delete("id = 3")

        def name(self):
            return place

    return Delta()


def iceberg(place):
    from pyiceberg.catalog.sql import SqlCatalog

    Path(place).mkdir(parents=True)
    at = str(Path(place).absolute())
    catalog = SqlCatalog("shop", uri=f"sqlite:///{at}/c.db", warehouse=f"file://{at}/w")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0, 1).schema)

    class Iceberg:
        def add(self, first, n):
            table.append(rows(first, n))

        def remove(self):
            table.delete("id = 3")

        def name(self):
            return table.metadata_location.removeprefix("file://")

    return Iceberg()


@pytest.mark.parametrize("made", [delta, iceberg])
def test_a_later_version_of_a_table_brings_its_new_rows_alone(tmp_path, monkeypatch, made):
    monkeypatch.chdir(tmp_path)
    table = made("t")
    table.add(*A)
    fewpass.ingest(table.name(), "D", **HOW)
    assert fewpass.append("D", table.name()).already
    for new in (B, C):
        table.add(*new)
        assert fewpass.append("D", table.name()).appended == new[1]
    Path("l").symlink_to("t")
    assert fewpass.append("D", table.name().replace("/t/", "/l/", 1)).already
    assert ids() == once(A, B, C)

    table.add(300, 5)
    table.remove()
    with pytest.raises(BadInput, match=r"deleted or written anew.*again=true"):
        fewpass.append("D", table.name())
    assert fewpass.append("D", table.name(), again=True).appended == 94
    table.add(400, 5)
    assert fewpass.append("D", table.name()).appended == 5
    assert fewpass.append("D", table.name()).already


# -- forms -------------------------------------------------------------------------------------------

LIBSVM = "".join(
    f"{k % 2} " + " ".join(f"{j}:{k * j % 11 + 1}" for j in range(1 + k % 3, 20, 4)) + " 20:1\n"
    for k in range(90)
)
DENSE = "".join(
    f"{k % 2} " + " ".join(f"{j}:{10 ** (j % 4) * k + 1}" for j in range(1, 21)) + "\n"
    for k in range(90)
)
TABLE = "x,z,y\n" + "".join(f"{k * 0.1},{k % 7},{k % 2}\n" for k in range(90))


@pytest.mark.parametrize(
    ("old", "new", "settings"),
    [
        (LIBSVM, DENSE, {"format": "libsvm", "dtype": "float64"}),
        (DENSE, LIBSVM, {"format": "libsvm"}),
        (LIBSVM, DENSE, {"format": "libsvm"}),
        (LIBSVM, LIBSVM, {"format": "libsvm", "layout": "dense", "dtype": "float64"}),
        (TABLE, TABLE, {"label": "y", "dtype": "float64", "encode": "none"}),
        (TABLE, TABLE, {"label": "y", "dtype": "float64", "encode": "splines"}),
    ],
)
@pytest.mark.parametrize("test_fraction", [0.0, 0.3])
def test_rows_come_in_the_form_of_the_data_set(
    tmp_path, monkeypatch, old, new, settings, test_fraction
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").write_text(old)
    (tmp_path / "new").write_text(new)
    fmt = {} if "format" in settings else {"format": "csv"}
    fewpass.ingest("old", "D", **settings, **fmt, test_fraction=test_fraction)
    before = fewpass.Dataset("D").shape
    result = fewpass.append("D", "new", **fmt)
    assert result.appended + result.test_appended == 90
    assert fewpass.Dataset("D").shape == (before[0] + result.appended, before[1])
    names = {"old", "new", "D"} | ({"D-test"} if test_fraction else set())
    assert {path.name for path in Path().iterdir()} == names
    assert not Path("D/.ingest").exists()


def test_another_type_than_that_of_the_data_set_is_refused(at):
    write(at / "data/c.csv", *C)
    with pytest.raises(BadInput, match=r"dtype.*float32"):
        fewpass.append("D", "data/c.csv", dtype="float64")
    assert ids() == once(A, B)


@pytest.mark.parametrize(("store", "is_same"), [("file", True), ("s3", False)])
def test_what_is_gone_from_this_machine_was_moved_and_objects_never_are(store, is_same):
    then, now = (
        TakenFile(place=f"{store}:/{folder}/nowhere/a.csv", bytes=10, version="7")
        for folder in ("old", "new")
    )
    assert SeenFiles([then]).has(now, "a.csv") == is_same
