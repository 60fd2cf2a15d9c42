"""Files that a refresh cannot read are refused, told of, and tried again once they changed."""

import errno
import os
from pathlib import Path

import pytest

from fewpass import abandon, models
from fewpass.pipeline.models.refresh.store_state import store_at
from fewpass.pipeline.models.refresh.taking import AllRefused, take
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal
from testing.refreshing import EndsBefore, Interrupted, plan_of, refresh, write_rows

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
    return [[Path(f.name).name for f in g.files] for g in store_at(plan.store).generations]


def rows_of(plan, number):
    return Dataset.open(f"{plan.store}/generations/{number:06d}/data").n_rows


def refused(plan):
    """Return the files that were refused, by name."""
    return {Path(one.file.name).name: one for one in store_at(plan.store).refused}


def killed_before_it_learns(plan):
    """Take what is new, and no more."""
    with pytest.raises(Interrupted):
        refresh(plan, EndsBefore(1))


def test_bad_files_are_refused_and_the_rest_is_learnt(inbox, tmp_path, fewpass, as_json):
    plan = plan_of(tmp_path)
    for k in (1, 2):
        write_rows(inbox / f"good{k}.csv", k)
    for how in BAD:
        spoil(inbox / f"{how}.csv", how)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in inbox.iterdir()}
    assert refresh(plan).state == "published"
    assert taken_by(plan) == [["good1.csv", "good2.csv"]]
    assert rows_of(plan, 1) == 2 * ROWS
    assert not Folder(plan.store).list("generations/000001/trial")

    told = refused(plan)
    assert set(told) == {f"{how}.csv" for how in BAD}
    assert told["empty.csv"].why.startswith("the file is empty")
    assert "d" in told["other columns.csv"].why
    assert {name: one.file.bytes for name, one in told.items()} == {
        name: (inbox / name).stat().st_size for name in told
    }
    listed = as_json("store", "list", plan.store)["refused"]
    assert [one["file"] for one in listed] == sorted(f"{inbox}/{how}.csv" for how in BAD)
    status, shown, _ = fewpass("store", "list", plan.store)
    assert status == 0
    assert all(how in " ".join(shown.split()) for how in ("Refused files", "the file is empty"))

    # What did not change is not tried again, and the files are as they were.
    events = store_at(plan.store).events
    assert refresh(plan).state == "unchanged"
    assert store_at(plan.store).events == events
    for path, (raw, changed) in before.items():
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (raw, changed)

    write_rows(inbox / "cut.csv", 3)  # mended
    (inbox / "empty.csv").unlink()
    write_rows(inbox / "later.csv", 4)
    assert refresh(plan).rows == 4 * ROWS
    assert taken_by(plan)[1] == ["cut.csv", "later.csv"]
    assert set(refused(plan)) == {"other columns.csv", "no text.csv", "header alone.csv"}


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
    assert len(refused(plan)) == 2
    assert refresh(plan).state == "unchanged"
    write_rows(inbox / "x.csv", 5)
    assert refresh(plan).state == "published"
    assert taken_by(plan)[n_good_before:] == [["x.csv"]]


@pytest.mark.parametrize("odd", ["0.csv", "3.csv"])
def test_the_file_that_does_not_fit_most_others_is_the_one_refused(inbox, tmp_path, odd):
    """Each is good alone; of a first generation nobody knows the columns before."""
    plan = plan_of(tmp_path)
    for k in range(4):
        write_rows(inbox / f"{k}.csv", k)
    spoil(inbox / odd, "other columns")
    refresh(plan)
    assert odd not in taken_by(plan)[0]
    assert len(taken_by(plan)[0]) == 3
    assert list(refused(plan)) == [odd]


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
def test_nothing_is_refused_for_a_machine_that_fails(inbox, tmp_path, error, monkeypatch):
    plan = plan_of(tmp_path)
    write_rows(inbox / "good.csv", 1)
    spoil(inbox / "bad.csv", "empty")
    monkeypatch.setattr("fewpass.pipeline.models.refresh.taking.ingest", failing(error))

    class Fails(RefreshWork):
        def take(self, *of):
            return take(*of, failing(error))

    with pytest.raises(type(error)):
        refresh(plan, Fails())
    assert refused(plan) == {}
    assert taken_by(plan) == [["bad.csv", "good.csv"]]
    monkeypatch.undo()
    assert refresh(plan).state == "published"
    assert taken_by(plan) == [["good.csv"]]


def test_files_are_tried_again_where_they_are_read_otherwise(inbox, tmp_path):
    write_rows(inbox / "good.csv", 1)
    wrong = plan_of(tmp_path, label="nothing")
    with pytest.raises(AllRefused, match="nothing"):
        refresh(wrong)
    assert refresh(wrong).state == "unchanged"
    assert refresh(plan_of(tmp_path)).state == "published"
    assert refused(wrong) == {}


def test_a_file_that_went_away_holds_nothing_up(inbox, tmp_path):
    """It was listed, the refresh was killed, and somebody moved it; it is taken when it is back."""
    plan = plan_of(tmp_path)
    for k in (1, 2):
        write_rows(inbox / f"{k}.csv", k)
    with pytest.raises(Interrupted):
        refresh(plan, EndsBefore(0))
    (inbox / "2.csv").rename(tmp_path / "2.csv")
    assert refresh(plan).state == "published"
    assert taken_by(plan) == [["1.csv"]]
    (tmp_path / "2.csv").rename(inbox / "2.csv")
    refresh(plan)
    assert taken_by(plan) == [["1.csv"], ["2.csv"]]
    assert refused(plan) == {}


def test_an_event_that_was_changed_counts_as_none(inbox, tmp_path, caplog):
    plan = plan_of(tmp_path)
    write_rows(inbox / "1.csv", 1)
    spoil(inbox / "2.csv", "cut")
    refresh(plan)
    (number,) = (one.number for one in store_at(plan.store).events if one.what == "refused")
    record = tmp_path / f"store/events/{number:06d}.json"
    whole = record.read_bytes()
    other = seal(unseal(whole) | {"what": "\x1b]0;title\x07"})
    for damaged in (b"", whole.replace(b"2.csv", b"3.csv"), whole[:-9], b"[]", other):
        record.write_bytes(damaged)
        assert refused(plan) == {}
    assert "\x1b" not in caplog.text
    assert f"{number:06d}.json is no event" in caplog.text


# -- given up by hand --------------------------------------------------------------------------


def test_a_generation_is_given_up_by_hand(inbox, tmp_path, fewpass, as_json):
    plan = plan_of(tmp_path)
    write_rows(inbox / "1.csv", 1)
    killed_before_it_learns(plan)  # and the training fails for ever, say
    made = as_json("store", "abandon", plan.store, "--because", "it never ends")
    assert (made["abandoned"], made["files"]) == (1, [f"{inbox}/1.csv"])
    (state,) = models(plan.store).generations
    assert (state.state, state.why) == ("abandoned", "it never ends")
    assert "abandoned" in fewpass("store", "publish", plan.store, "1")[2]
    for store in (plan.store, tmp_path / "no"):
        assert fewpass("store", "abandon", store)[0] == 2

    # The next one is the first whose columns all others have.
    write_rows(inbox / "2.csv", 2)
    second = refresh(plan)
    assert (second.state, second.rows) == ("published", 2 * ROWS)
    assert taken_by(plan) == [["1.csv"], ["1.csv", "2.csv"]]
    write_rows(inbox / "3.csv", 3)
    killed_before_it_learns(plan)
    past = store_at(plan.store).past
    assert abandon(plan.store).number == 3
    assert store_at(plan.store).past == past
    fourth = refresh(plan)
    assert (fourth.state, fourth.rows) == ("published", 3 * ROWS)
    assert taken_by(plan)[3] == ["3.csv"]
