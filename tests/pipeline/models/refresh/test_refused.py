"""Files that a refresh cannot read are set aside, told of, and tried again once they changed."""

import errno
import os
from pathlib import Path

import pytest

from fewpass import abandon, models
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.generations import (
    BegunMeanwhile,
    begin_generation,
    generations,
)
from fewpass.pipeline.models.refresh.refreshing import next_generation
from fewpass.pipeline.models.refresh.taking import AllRefused, take
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from testing.refreshing import plan_of, refresh, write_rows

ROWS = 300  # of a file of `write_rows`


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def spoil(path, how):
    """Write a file that no ingest takes."""
    write_rows(path, 9)
    text = path.read_text()
    if how == "empty":
        path.write_text("")
    elif how == "cut":
        path.write_text(text[: len(text) // 2].rsplit(",", 1)[0])
    elif how == "other columns":
        path.write_text(text.replace("y,a,b,c", "y,a,b,d"))
    elif how == "no text":
        path.write_bytes(b"PAR1" + os.urandom(500))
    elif how == "header alone":
        path.write_text("y,a,b,c\n")


BAD = ("empty", "cut", "other columns", "no text", "header alone")


def taken_by(plan):
    return [[Path(f).name for f in g.files] for g in generations(Folder(plan.store))]


def rows_of(plan, number):
    data = f"{plan.store}/generations/{number:06d}/data"
    kept = [f"{data}-test"] if Folder(f"{data}-test").exists("manifest.json") else []
    return sum(Dataset.open(place).n_rows for place in (data, *kept))


def test_bad_files_are_set_aside_and_the_rest_is_learnt(inbox, tmp_path, fewpass, as_json):
    plan = plan_of(tmp_path)
    for k in (1, 2):
        write_rows(inbox / f"good{k}.csv", k)
    for how in BAD:
        spoil(inbox / f"{how}.csv", how)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in inbox.iterdir()}
    assert refresh(plan).published
    assert taken_by(plan) == [["good1.csv", "good2.csv"]]
    assert rows_of(plan, 1) == 2 * ROWS
    assert not Folder(plan.store).list("generations/000001/trial")

    told = {Path(one.file).name: one for one in models(plan.store).refused}
    assert set(told) == {f"{how}.csv" for how in BAD}
    assert told["empty.csv"].reason.startswith("the file is empty")
    assert "d" in told["other columns.csv"].reason
    assert {name: one.size for name, one in told.items()} == {
        name: (inbox / name).stat().st_size for name in told
    }
    listed = as_json("models", plan.store)["refused"]
    assert [one["file"] for one in listed] == sorted(f"{inbox}/{how}.csv" for how in BAD)
    status, shown, _ = fewpass("models", plan.store)
    assert status == 0
    assert all(how in " ".join(shown.split()) for how in ("Set aside", "the file is empty"))

    # What did not change is not tried again, and the files are as they were.
    records = {path: path.read_bytes() for path in (tmp_path / "store/refused").iterdir()}
    assert len(records) == len(BAD)
    assert refresh(plan) is None
    assert all(path.read_bytes() == raw for path, raw in records.items())
    for path, (raw, changed) in before.items():
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (raw, changed)

    write_rows(inbox / "cut.csv", 3)  # mended
    (inbox / "empty.csv").unlink()
    write_rows(inbox / "later.csv", 4)
    assert (
        refresh(plan).rows
        == rows_of(plan, 2) + Dataset.open(f"{plan.store}/generations/000001/data").n_rows
    )
    assert taken_by(plan)[1] == ["cut.csv", "later.csv"]
    left = {Path(one.file).name for one in models(plan.store).refused}
    assert left == {"other columns.csv", "no text.csv", "header alone.csv"}


@pytest.mark.parametrize("n_good_before", [0, 1])
def test_where_all_are_refused_no_generation_is_made(inbox, tmp_path, n_good_before):
    plan = plan_of(tmp_path)
    for k in range(n_good_before):
        write_rows(inbox / f"good{k}.csv", k)
        refresh(plan)
    spoil(inbox / "x.csv", "cut")
    spoil(inbox / "y.csv", "empty")
    with pytest.raises(
        AllRefused, match=r"All 2 new files were refused.*y\.csv: the file is empty"
    ):
        refresh(plan)
    assert len(taken_by(plan)) == n_good_before
    assert len(models(plan.store).refused) == 2
    assert refresh(plan) is None
    write_rows(inbox / "x.csv", 5)
    assert refresh(plan).published
    assert taken_by(plan)[n_good_before:] == [["x.csv"]]


@pytest.mark.parametrize("odd", ["0.csv", "3.csv"])
def test_the_file_that_does_not_fit_most_others_is_the_one_set_aside(inbox, tmp_path, odd):
    """Each is good alone; of a first generation nobody knows the columns before."""
    plan = plan_of(tmp_path)
    for k in range(4):
        write_rows(inbox / f"{k}.csv", k)
    spoil(inbox / odd, "other columns")
    refresh(plan)
    assert odd not in taken_by(plan)[0]
    assert len(taken_by(plan)[0]) == 3
    assert [Path(one.file).name for one in models(plan.store).refused] == [odd]


def failing(error):
    def make(plan):
        raise error

    return make


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "spill"),
        ConnectionResetError("the network"),
        PermissionError(errno.EACCES, "Permission denied", "a folder"),
        MemoryError(),
    ],
)
def test_nothing_is_set_aside_for_a_machine_that_fails(inbox, tmp_path, error, monkeypatch):
    plan = plan_of(tmp_path)
    write_rows(inbox / "good.csv", 1)
    spoil(inbox / "bad.csv", "empty")
    monkeypatch.setattr("fewpass.pipeline.models.refresh.taking.ingest", failing(error))
    generation = next_generation(plan)
    with pytest.raises(type(error)):
        take(plan, generation, failing(error))
    assert models(plan.store).refused == ()
    assert next_generation(plan).files == generation.files
    monkeypatch.undo()
    assert refresh(plan).published
    assert taken_by(plan) == [["good.csv"]]


def test_files_are_tried_again_where_they_are_read_otherwise(inbox, tmp_path):
    write_rows(inbox / "good.csv", 1)
    wrong = plan_of(tmp_path, label="nothing")
    with pytest.raises(AllRefused, match="nothing"):
        refresh(wrong)
    assert refresh(wrong) is None
    assert refresh(plan_of(tmp_path)).published
    assert models(tmp_path / "store").refused == ()


def test_a_file_that_went_away_holds_nothing_up(inbox, tmp_path):
    """It was listed, the refresh was killed, and somebody moved it; it is taken when it is back."""
    plan = plan_of(tmp_path)
    for k in (1, 2):
        write_rows(inbox / f"{k}.csv", k)
    next_generation(plan)
    (inbox / "2.csv").rename(tmp_path / "2.csv")
    assert refresh(plan).published
    assert taken_by(plan) == [["1.csv"]]
    assert [one.size for one in models(plan.store).refused] == [None]
    (tmp_path / "2.csv").rename(inbox / "2.csv")
    refresh(plan)
    assert taken_by(plan) == [["1.csv"], ["2.csv"]]
    assert models(plan.store).refused == ()


def test_too_few_rows_for_a_first_generation_wait_for_more(inbox, tmp_path):
    plan = plan_of(tmp_path)
    (inbox / "1.csv").write_text("y,a,b,c\n1,0,0,0\n0,1,1,1\n")
    with pytest.raises(BadInput, match="became a test row"):
        refresh(plan)
    write_rows(inbox / "2.csv", 2)
    assert refresh(plan).published
    assert taken_by(plan) == [["1.csv", "2.csv"]]


def test_a_record_that_was_changed_counts_as_none(inbox, tmp_path):
    plan = plan_of(tmp_path)
    write_rows(inbox / "1.csv", 1)
    spoil(inbox / "2.csv", "cut")
    refresh(plan)
    (record,) = (tmp_path / "store/refused").iterdir()
    whole = record.read_bytes()
    for damaged in (b"", whole.replace(b"cut", b"cat"), whole[:-9], b"[]"):
        if damaged != whole:
            record.write_bytes(damaged)
            assert models(plan.store).refused == ()
    with pytest.raises(AllRefused):
        refresh(plan)
    assert len(models(plan.store).refused) == 1


# -- given up by hand --------------------------------------------------------------------------


def test_a_generation_is_given_up_by_hand(inbox, tmp_path, fewpass, as_json):
    plan = plan_of(tmp_path)
    write_rows(inbox / "1.csv", 1)
    take(plan, next_generation(plan))  # and the training fails for ever, say
    status, _, err = fewpass("refresh", plan.store)
    assert (status, "--abandon" in err) == (2, True)
    made = as_json("refresh", plan.store, "--abandon", "--because", "it never ends")
    assert (made["abandoned"], made["files"]) == (1, [f"{inbox}/1.csv"])
    (state,) = models(plan.store)
    assert state.state == "abandoned"
    assert "it never ends" in state.decision["reason"]
    assert "abandoned" in fewpass("publish", plan.store, "1")[2]
    for command in (
        ("refresh", plan.store, "--abandon"),
        ("refresh", tmp_path / "no", "--abandon"),
    ):
        assert fewpass(*command)[0] == 2

    # The next one is the first whose columns and held-out rows all others have.
    write_rows(inbox / "2.csv", 2)
    second = refresh(plan)
    assert (second.published, second.rows) == (True, Dataset.open(
        f"{plan.store}/generations/000002/data").n_rows)  # fmt: skip
    assert taken_by(plan) == [["1.csv"], ["1.csv", "2.csv"]]
    write_rows(inbox / "3.csv", 3)
    next_generation(plan)
    assert abandon(plan.store).number == 3
    fourth = refresh(plan)
    assert fourth.published
    assert fourth.rows == second.rows + ROWS
    assert taken_by(plan)[3] == ["3.csv"]


def test_a_generation_is_begun_and_decided_once(inbox, tmp_path):
    plan = plan_of(tmp_path)
    store = Folder(plan.store)
    begin_generation(store, 1, (FileState.named("a.csv"),))
    with pytest.raises(BegunMeanwhile, match="another refresh"):
        begin_generation(store, 1, (FileState.named("b.csv"),))
    assert generations(store)[0].files == ("a.csv",)
