"""Append and forget: the rows are those of one ingest, and no crash leaves a mixture."""

import json
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fewpass
from fewpass.flows import cli
from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from testing.interruptions import Killed
from tests.pipeline.tables.changing.kinds_of_rows import (
    KINDS,
    require_equal_statistics,
    rows_of,
    write_table,
)


def whole(place):
    """Open a data set, every byte of which is as written."""
    dataset = Dataset.open(str(place))
    assert not list(dataset.verify())
    return dataset


@pytest.fixture
def table(tmp_path):
    """A data set of a table with ids, and rows to append to it."""
    old, new = write_table(tmp_path / "old.csv", 400), write_table(tmp_path / "new.csv", 150, 400)
    fewpass.ingest(old, tmp_path / "D", label="label", keep="id")
    return tmp_path, old, new


# -- append ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_append_is_one_ingest_up_to_order(tmp_path, kind):
    write, settings = KINDS[kind]
    old, new = write(tmp_path / "old.csv", 500), write(tmp_path / "new.csv", 230, 500)
    more = write(tmp_path / "more.csv", 90, 900)
    fewpass.ingest(old, tmp_path / "D", **settings)
    first = fewpass.append(tmp_path / "D", new, threads=1)
    second = fewpass.append(tmp_path / "D", more, threads=2)
    at_once = {
        name: value
        for name, value in settings.items()
        if name not in ("label", "weight", "task", "keep", "encode")
    }
    fewpass.ingest([old, new, more], tmp_path / "all", like=str(tmp_path / "D"), **at_once)

    appended, ingested = whole(tmp_path / "D"), whole(tmp_path / "all")
    assert (first.appended, second.appended, second.generation) == (230, 90, 3)
    assert second.parent == first.fingerprint != second.fingerprint
    assert rows_of(appended) == rows_of(ingested)
    require_equal_statistics(appended, ingested)
    if not settings.get("shuffle", True):
        last = np.concatenate([appended.read_chunk(k).target for k in range(appended.n_chunks)])
        every = np.concatenate([ingested.read_chunk(k).target for k in range(ingested.n_chunks)])
        np.testing.assert_array_equal(last, every)

    how = {"lam": 0.01, "tol": 1e-6, "certify": True}
    one, two = (fewpass.train(tmp_path / d, tmp_path / f"run-{d}", **how) for d in ("D", "all"))
    assert one.objective - one.certificate <= two.objective
    assert two.objective - two.certificate <= one.objective


def test_new_rows_are_dealt_among_the_others(table):
    place, _, new = table
    fewpass.append(place / "D", new)
    dataset = Dataset.open(str(place / "D"))
    old_ids = {f"c{k:04d}" for k in range(97)}
    assert {row["id"] for row in fewpass.Dataset(place / "D").to_arrow().to_pylist()} <= old_ids
    shared = [dataset.manifest.place_of(k).generation == 1 for k in range(dataset.n_chunks)]
    assert sum(shared) == 400 // dataset.manifest.chunk_rows
    assert shared != sorted(shared, reverse=True)  # fresh ones are not all behind the old ones


def test_the_same_append_is_done_once(table):
    place, old, new = table
    one = fewpass.append(place / "D", new, threads=1)
    two = fewpass.append(place / "D", new)
    assert two.already
    assert (two.fingerprint, two.generation) == (one.fingerprint, 2)
    assert fewpass.append(place / "D", new, again=True).rows == 400 + 2 * 150
    assert fewpass.ingest(old, place / "D", label="label", keep="id").rows == 700  # made by it


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("id,city,age,label", "c1,north,33,yes", "paid"),
        ("id,city,age,paid,label", "c1,north,33,2.5,maybe", "maybe"),
        ("id,city,age,paid,label", "c1,north,old,2.5,yes", "age"),
        ("city,age,paid,label", "north,33,2.5,yes", "id"),
    ],
)
def test_other_columns_types_and_labels_are_refused(table, header, row, said):
    place, *_ = table
    (place / "bad.csv").write_text(f"{header}\n" + f"{row}\n" * 3)
    before = sorted(map(str, Path(place).rglob("*")))
    with pytest.raises(BadInput, match=said):
        fewpass.append(place / "D", place / "bad.csv")
    assert sorted(map(str, Path(place).rglob("*"))) == before


def test_test_rows_are_held_out_of_new_rows_as_well(tmp_path):
    old, new = write_table(tmp_path / "old.csv", 400), write_table(tmp_path / "new.csv", 200, 400)
    held_out = {"test_fraction": 0.25, "test_group": "id", "keep": "id", "label": "label"}
    fewpass.ingest(old, tmp_path / "D", **held_out)
    result = fewpass.append(tmp_path / "D", new)
    assert result.appended + result.test_appended == 200
    ids = [
        {row["id"] for row in fewpass.Dataset(tmp_path / d).to_arrow().to_pylist()}
        for d in ("D", "D-test")
    ]
    assert not ids[0] & ids[1]  # groups stay together over both ingests


def test_a_few_rows_may_all_become_training_rows(tmp_path):
    old = write_table(tmp_path / "old.csv", 400)
    held_out = {"test_fraction": 0.5, "test_group": "id"}
    fewpass.ingest(old, tmp_path / "D", label="label", keep="id", **held_out)
    before = whole(tmp_path / "D-test").manifest
    ends = []
    for k in range(6):
        new = write_table(tmp_path / f"{k}.csv", 1, 400 + k)
        try:
            made = fewpass.append(tmp_path / "D", new)
        except BadInput as error:
            assert "became a training row. Append more rows." in str(error)
            ends.append("refused")
        else:
            ends.append((made.appended, made.test_appended, made.test_rows))
    assert {*ends} == {"refused", (1, 0, before.n_rows)}
    assert whole(tmp_path / "D").n_rows == 400 - before.n_rows + ends.count((1, 0, before.n_rows))
    assert whole(tmp_path / "D-test").manifest == before


def test_every_append_draws_other_test_rows(tmp_path):
    """Files that are sorted alike would have the same of their rows held out each time."""
    folder, told = tmp_path / "set", {"label": "y", "keep": ("id",), "drop": ("id",)}

    def rows(name, n):
        path = tmp_path / f"{name}.csv"
        lines = [f"{name}-{i},{i % 2},{i}.5" for i in range(n)]
        path.write_text("\n".join(["id,y,a", *lines]))
        return path

    fewpass.ingest(rows("first", 200), folder, test_fraction=0.3, **told)
    for k in range(4):
        fewpass.append(folder, rows(k, 10))
    ids = fewpass.Dataset(f"{folder}-test").to_arrow().column("id").to_pylist()
    drawn = [tuple(sorted(one for one in ids if one.startswith(f"{k}-"))) for k in range(4)]
    assert len({tuple(one.split("-")[1] for one in each) for each in drawn}) > 1
    assert {len(each) for each in drawn} == {3}


# -- readers of a generation -------------------------------------------------------------------------


def test_a_generation_is_read_to_its_end_and_said_to_be_gone(table):
    place, _, new = table
    reader = Dataset.open(str(place / "D"))
    before = rows_of(reader)
    fewpass.append(place / "D", new)
    assert rows_of(reader) == before
    assert rows_of(pickle.loads(pickle.dumps(reader))) == before
    assert "rows were appended since" in reader.became()
    fewpass.forget(place / "D", "id == 'c0003'")
    said = "rows were appended and rows were forgotten since"
    for read in (reader.read_chunk, reader.read_retained, lambda _: reader.column("mean")):
        with pytest.raises(Damaged, match=said):
            read(0)
    (fault,) = reader.verify()
    assert said in fault
    with pytest.raises(ValueError, match="generation 1 of it"):
        pickle.loads(pickle.dumps(reader))


def test_a_data_set_that_was_made_anew_is_not_called_damaged(table):
    place, _, new = table
    reader = Dataset.open(str(place / "D"))

    def ingest_anew(event):
        if event.kind == "finish":
            fewpass.ingest(new, place / "D", label="label", keep="id", overwrite=True)

    result = fewpass.train(place / "D", place / "run", on_event=ingest_anew, lam=0.01, tol=1e-3)
    assert "and it was made anew since" in result.notes[0]
    with pytest.raises(Damaged, match=r"has changed while it was read.* made anew since"):
        rows_of(reader)


def test_a_run_of_an_earlier_generation_says_so(table):
    place, _, new = table
    how = {"lam": 0.01, "tol": 1e-3}
    changed = []

    def append_once(_event):
        if not changed:
            changed.append(fewpass.append(place / "D", new))

    result = fewpass.train(place / "D", place / "run", on_event=append_once, **how)
    assert "rows were appended since" in result.notes[0]
    with pytest.raises(PlanMismatch, match=r"generation 1 of it.*start_from"):
        fewpass.train(place / "D", place / "run", **how)
    fewpass.train(place / "D", place / "next", start_from=str(place / "run"), **how)


def test_a_model_is_chosen_and_calibrated_by_the_held_out_rows_that_it_began_with(table):
    place, _, new = table
    fewpass.ingest(new, place / "held-out", like=str(place / "D"))
    more = write_table(place / "more.csv", 150, 900)
    how = {
        "held_out": str(place / "held-out"),
        "lam": "1e-3,1e-1",
        "calibrate": "platt",
        "tol": 1e-3,
    }
    quiet = fewpass.train(place / "D", place / "quiet", **how)
    changed = []

    def append_once(_event):
        if not changed:
            changed.append(fewpass.append(place / "held-out", more))

    found = fewpass.train(place / "D", place / "run", on_event=append_once, **how)
    assert changed
    assert (found.candidates, found.calibration) == (quiet.candidates, quiet.calibration)


# -- forget ------------------------------------------------------------------------------------------


def test_rows_are_forgotten_within_the_memory_whatever_the_threads(tmp_path):
    X = np.random.default_rng(0).standard_normal((48_000, 250), np.float32)
    data = pd.DataFrame(X).add_prefix("f").assign(y=X[:, 0] > 0, id=np.arange(len(X)))
    data.to_parquet(tmp_path / "rows.parquet")
    of = {"label": "y", "keep": "id", "drop": "id", "encode": "none", "chunk_bytes": "4MB"}
    fewpass.ingest(tmp_path / "rows.parquet", tmp_path / "D", **of)
    tracemalloc.start()
    gone = fewpass.forget(tmp_path / "D", "id == 7", memory="128MB", threads=16)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (gone.forgotten, gone.rows) == (1, 47_999)
    assert peak < 32_000_000  # with a chunk for every thread 77 MB
    whole(tmp_path / "D")


def test_forgotten_rows_are_gone_and_all_others_are_there(table):
    place, _, new = table
    fewpass.append(place / "D", new)
    fewpass.train(place / "D", place / "runs/one", lam=0.01, tol=1e-4)
    (place / "ids").write_text("c0003\nc0090\nnobody\n")
    rows = {tuple(r.values()) for r in fewpass.Dataset(place / "D").to_arrow().to_pylist()}
    result = fewpass.forget(place / "D", f"id in {place}/ids", retrain=True)

    gone = {row for row in rows if row[0] in ("c0003", "c0090")}
    left = fewpass.Dataset(place / "D").to_arrow().to_pylist()
    assert result.forgotten == 550 - len(left) == 11
    assert {tuple(row.values()) for row in left} == rows - gone
    assert result.unmatched == 1
    assert result.models == (str(place / "runs/one"),)
    assert result.retrained == (str(place / "runs/one-g3"),)

    dataset = whole(place / "D")
    inside = {path.parts[len(place.parts) + 1] for path in (place / "D").rglob("*")}
    assert inside == {"ingest.json", "manifest.json", "generations"}
    assert [path.name for path in (place / "D/generations").iterdir()] == ["000003"]
    before = (place / "old.csv").read_text().splitlines(keepends=True)
    more = (place / "new.csv").read_text().splitlines(keepends=True)[1:]
    left_over = [line for line in before + more if line[:5] not in ("c0003", "c0090")]
    (place / "left.csv").write_text("".join(left_over))
    fewpass.ingest(place / "left.csv", place / "all", like=str(place / "D"))
    ingested = whole(place / "all")
    assert rows_of(dataset) == rows_of(ingested)
    require_equal_statistics(dataset, ingested)

    again = fewpass.forget(place / "D", f"id in {place}/ids", allow_none=True)
    assert (again.forgotten, again.fingerprint) == (0, result.fingerprint)


def test_test_rows_and_rows_on_their_way_are_forgotten_as_well(tmp_path):
    old = write_table(tmp_path / "old.csv", 400)
    fewpass.ingest(old, tmp_path / "D", label="label", keep=["id", "city"], test_fraction=0.3)
    left = tmp_path / "D/.ingest/appending"
    left.mkdir(parents=True)
    (left.parent / "lock").touch()
    (left / "rows").write_text("of an append that was cut short")
    result = fewpass.forget(tmp_path / "D", 'city == "north"')
    assert result.forgotten
    assert result.test_forgotten
    assert not (tmp_path / "D/.ingest").exists()
    for name in ("D", "D-test"):
        cities = {row["city"] for row in fewpass.Dataset(tmp_path / name).to_arrow().to_pylist()}
        assert cities == {"south", "west"}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("name == 'x'", "keeps 'id'"),
        ("id", "character 3"),
        ("id == 7", "holds text, such as 'c0"),
        ("id != 'x'", "No row"),
        ("id == 'c0'", "None of the 400 rows"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(table, where, said):
    place, *_ = table
    before = sorted((path, path.stat().st_mtime_ns) for path in (place / "D").rglob("*.*"))
    with pytest.raises(BadInput, match=said):
        fewpass.forget(place / "D", where)
    assert sorted((path, path.stat().st_mtime_ns) for path in (place / "D").rglob("*.*")) == before


def write_ids(path, ids):
    rng = np.random.default_rng(0)
    lines = [f"{i},{rng.normal():.3f},{rng.choice(['no', 'yes'])}\n" for i in ids]
    path.write_text("id,a,label\n" + "".join(lines))
    fewpass.ingest(path, path.parent / "D", label="label", keep="id", drop="id", test_fraction=0.3)
    names = ("D", "D-test")
    return [
        [r["id"] for r in fewpass.Dataset(path.parent / d).to_arrow().to_pylist()] for d in names
    ]


def test_neither_set_is_touched_where_one_cannot_be(tmp_path):
    """What the columns hold, and that rows are left, is known of both before one is written."""
    rows, test_rows = write_ids(tmp_path / "numbers.csv", range(60))
    fingerprints = [whole(tmp_path / d).manifest.fingerprint for d in ("D", "D-test")]

    def refused(where, match):
        with pytest.raises(BadInput, match=match):
            fewpass.forget(tmp_path / "D", where)
        now = [whole(tmp_path / d).manifest.fingerprint for d in ("D", "D-test")]
        assert now == fingerprints

    refused(f"id in ({', '.join(test_rows)})", "No row of .*D-test")
    refused(f"id in ({', '.join(rows)})", "No row of .*D would be left")
    place = tmp_path / "with text"
    place.mkdir()
    one_text = [*range(59), "A7"]
    rows, test_rows = write_ids(place / "rows.csv", one_text)
    here = place / ("D" if "A7" in test_rows else "D-test")  # the one of numbers alone
    before = whole(here).manifest.fingerprint
    with pytest.raises(BadInput, match="holds text, such as 'A7'"):
        fewpass.forget(place / "D", "id < 30")
    assert whole(here).manifest.fingerprint == before


def test_a_dry_run_counts_what_the_deletion_deletes(tmp_path):
    write_ids(tmp_path / "rows.csv", range(80))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    fewpass.train(tmp_path / "D", tmp_path / "run", lam=0.1)
    kept = set(tmp_path.rglob("*"))
    looked = fewpass.forget(tmp_path / "D", "id >= 40", dry_run=True, retrain=True)
    assert set(tmp_path.rglob("*")) == kept
    assert all(path.read_bytes() == content for path, content in files.items())
    assert len(looked.examples) == 5
    assert all(int(row["id"]) >= 40 for row in looked.examples)
    assert (looked.models, looked.retrained) == ((str(tmp_path / "run"),), ())
    done = fewpass.forget(tmp_path / "D", "id >= 40")
    counts = (done.forgotten, done.test_forgotten)
    assert (looked.forgotten, looked.test_forgotten) == counts
    assert sum(counts) == 40
    assert (looked.rows, looked.test_rows) == (
        done.rows + done.forgotten, done.test_rows + done.test_forgotten,
    )  # fmt: skip
    assert done.examples == ()
    assert done.models == looked.models


def test_the_command_fails_where_no_row_goes(tmp_path, capsys):
    write_ids(tmp_path / "rows.csv", range(40))
    forget = ["forget", str(tmp_path / "D"), "--where", "id == 99", "--json"]
    assert cli.main(forget) == 1
    assert "--allow-none" in capsys.readouterr().err
    assert cli.main([*forget, "--allow-none"]) == 0
    assert json.loads(capsys.readouterr().out)["unmatched"] == 1
    assert cli.main(["forget", str(tmp_path / "D"), "--where", "id = 9"]) == 2
    assert "Write `==`" in capsys.readouterr().err


def test_without_a_column_to_know_rows_by_nothing_is_forgotten(tmp_path):
    fewpass.ingest(write_table(tmp_path / "a.csv", 90), tmp_path / "D", label="label")
    with pytest.raises(BadInput, match=r"keeps no column.*keep=COLUMN"):
        fewpass.forget(tmp_path / "D", "id == 'c0003'")


def test_a_data_set_in_a_store_changes_like_one_on_disk(tmp_path):
    old, new = write_table(tmp_path / "old.csv", 200), write_table(tmp_path / "new.csv", 90, 200)
    fewpass.ingest(old, place := "memory://changes/D", label="label", keep="id")
    fewpass.append(place, new)
    before = {tuple(row.values()) for row in fewpass.Dataset(place).to_arrow().to_pylist()}
    fewpass.forget(place, "id == 'c0003'")
    after = {tuple(row.values()) for row in fewpass.Dataset(place).to_arrow().to_pylist()}
    assert not list(Dataset.open(place).verify())
    assert after == {row for row in before if row[0] != "c0003"} != before
    keys = {key.partition("/")[0] for key in Folder("memory://changes").list()}
    assert keys == {"D"}


# -- crashes -----------------------------------------------------------------------------------------


def crash_at(monkeypatch, number):
    """Have the k-th call that changes a folder end the process, before or after it is done."""
    calls = [0]

    def breaking(name):
        own = getattr(Folder, name)

        def call(self, *arguments, **words):
            calls[0] += 1
            if calls[0] == number and number % 2:
                raise Killed
            result = own(self, *arguments, **words)
            if calls[0] == number:
                raise Killed
            return result

        monkeypatch.setattr(Folder, name, call)

    for name in ("write", "delete", "delete_tree", "append_line", "sync", "sync_deleted"):
        breaking(name)
    return calls


@pytest.mark.parametrize("change", ["append", "forget"])
def test_a_crash_at_any_call_leaves_the_old_or_the_new_generation(tmp_path, change):
    old, new = write_table(tmp_path / "old.csv", 60), write_table(tmp_path / "new.csv", 30, 60)
    place = tmp_path / "D"

    def made():
        Folder(str(place)).delete_tree()
        fewpass.ingest(old, place, label="label", keep="id", chunk_bytes=1024, threads=1)

    def changed():
        if change == "append":
            return fewpass.append(place, new, threads=1)
        return fewpass.forget(place, "id == 'c0040'", threads=1, allow_none=True)

    made()
    before = Dataset.open(str(place)).manifest.fingerprint
    with pytest.MonkeyPatch.context() as patch:
        calls = crash_at(patch, -1)
        after = changed().fingerprint
    assert calls[0] > 30
    for number in range(1, calls[0] + 1, 5 if change == "append" else 3):
        made()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            crash_at(patch, number)
            changed()
        assert whole(place).manifest.fingerprint in (before, after)
        result = changed()
        assert result.fingerprint == after
        whole(place)
        assert not (place / ".ingest").exists()
        places = {path.name for path in (place / "generations").iterdir()}
        assert places == ({"000001.json", "000002"} if change == "append" else {"000002"})
