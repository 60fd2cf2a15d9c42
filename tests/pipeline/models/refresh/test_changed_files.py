"""Files that grow or are written anew: their rows are evaluated before they take the old ones' place."""

from contextlib import suppress

import pytest

from fewpass import evaluate, models, publish, take
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh import old_generations, refreshing
from fewpass.pipeline.models.refresh.inbox import arrivals
from fewpass.pipeline.models.refresh.store_events import RefusedFile
from fewpass.pipeline.models.refresh.store_log import write_event
from fewpass.pipeline.models.refresh.store_state import run_of
from fewpass.pipeline.models.refresh.taking import reading_of
from fewpass.storage.folder import Folder
from testing.refreshing import EndsBefore, Interrupted, Nights, refresh, write_rows

ROWS = 300  # of a night


@pytest.fixture
def nights(tmp_path):
    return Nights(tmp_path)


def changed(nights, night, seed, *, turned=False, n=ROWS):
    """Write a file of a night anew, and refresh."""
    write_rows(nights.folder / f"inbox/{night:02d}.csv", seed, n, turned)
    return refresh(nights.plan)


def test_rows_are_evaluated_by_the_published_model_before_they_take_the_old_ones_place(nights):
    nights.nights(3)
    run = run_of(nights.plan.store, nights.store.published)
    made = changed(nights, 2, 99, n=2 * ROWS)
    assert (made.state, made.generation) == ("published", 4)
    assert nights.rows_learnt == {1: ROWS, 2: 2 * ROWS, 3: ROWS}
    assert (made.nights, made.rows) == ((1, 4, 3), 4 * ROWS)
    assert "Files of 000002 had changed" in made.message
    assert made.loss == pytest.approx(evaluate(run, nights.store.data_of(2)).loss, rel=1e-12)
    assert made.deviations < 4
    assert nights.night().nights == (1, 4, 3, 5)


def test_odd_rows_wait_and_the_old_ones_stay_until_somebody_takes_them(nights):
    nights.nights(4)
    before = nights.store
    made = changed(nights, 3, 3, turned=True)
    assert (made.state, made.generation, made.explained) == ("waits", 5, True)
    for words in ("Files of 000003 have changed", "000004 stays published", "store take"):
        assert words in made.message
    assert (nights.store.past, nights.store.published) == (before.past, before.published)
    assert nights.store.data_of(3) == before.data_of(3)
    assert models(nights.plan.store).generations[-1].state == "waits to replace"
    assert refresh(nights.plan).state == "unchanged"
    assert nights.night().nights == (1, 2, 3, 4, 6)  # nights go on meanwhile

    take(nights.plan.store, 5, because="it was mended")
    with pytest.raises(BadInput, match="neither waits nor is quarantined"):
        take(nights.plan.store, 5)
    taken = refresh(nights.plan)
    assert (taken.state, taken.nights) == ("published", (1, 2, 5, 4, 6))
    assert not (nights.folder / "store/generations/000003/data").exists()
    assert refresh(nights.plan).state == "unchanged"


def test_a_file_that_is_mended_replaces_its_rows_and_what_waited_is_removed(nights):
    nights.nights(4)
    assert changed(nights, 3, 3, turned=True).state == "waits"
    made = changed(nights, 3, 33)
    assert (made.state, made.nights) == ("published", (1, 2, 6, 4))
    with pytest.raises(BadInput, match="neither waits nor is quarantined"):
        take(nights.plan.store, 5)
    there = [Folder(one.data).exists("manifest.json") for one in nights.store.generations]
    assert there == [True, True, False, True, False, True]


def test_as_many_versions_wait_as_nights_may(tmp_path):
    nights = Nights(tmp_path, most_waiting=2)
    nights.nights(4)
    states = [changed(nights, 3, seed, turned=True).state for seed in (3, 33, 333)]
    assert states == ["waits", "waits", "published"]
    assert nights.store.of_night(3).number == 7


def test_a_night_that_waits_is_learnt_from_once_its_file_is_mended(nights):
    nights.nights(4)
    assert nights.night(turned=True).state == "waits"
    still = changed(nights, 5, 55, turned=True)
    assert (still.state, nights.store.past.waiting) == ("settled", (5,))
    made = changed(nights, 5, 5)
    assert (made.state, made.nights) == ("published", (1, 2, 3, 4, 7))
    assert nights.store.past.waiting == ()


def test_new_files_that_are_all_refused_do_not_hide_what_was_replaced(nights):
    nights.nights(2)
    (nights.folder / "inbox/bad.csv").write_text("")
    made = changed(nights, 1, 98)
    assert (made.state, made.generation) == ("published", 3)
    assert [one.file.name for one in made.refused] == [f"{nights.folder}/inbox/bad.csv"]
    assert "1 file refused" in made.message
    assert refresh(nights.plan).state == "unchanged"


def test_a_file_that_nobody_can_open_is_written_down_once(nights, monkeypatch):
    nights.nights(2)
    nights.come()
    (file,) = arrivals(nights.plan.sources, {1: nights.store.generations[0].files,
                                             2: nights.store.generations[1].files}).new  # fmt: skip
    closed = file.model_copy(update={"version": None})  # as where the right to read is missing
    event = RefusedFile(file=closed, why="closed", reading=reading_of(nights.plan.ingest))
    write_event(nights.store.folder, event)
    count = len(nights.store.events)
    monkeypatch.setattr(refreshing, "cannot_open", lambda _name: True)
    assert refresh(nights.plan).state == "unchanged"
    assert len(nights.store.events) == count
    monkeypatch.undo()
    assert refresh(nights.plan).state == "published"


@pytest.mark.parametrize("what", ["remove_unused", "remove_rows"])
def test_a_removal_that_was_killed_is_finished_by_the_next_refresh(nights, monkeypatch, what):
    nights.nights(2)

    def killed(*of):
        if what == "remove_rows":  # between the event and what it says
            old_generations._forget_night(nights.store.folder, *of[1:])
        raise Interrupted

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(refreshing if what == "remove_unused" else old_generations, what, killed)
        changed(nights, 1, 98)
    assert (nights.folder / "store/generations/000001/data").exists()
    assert (nights.folder / "store/generations/000002/run-1").exists()
    assert refresh(nights.plan).state == "unchanged"
    assert not (nights.folder / "store/generations/000001/data").exists()
    own = {path.name for path in (nights.folder / "store/generations/000002").glob("run-*")}
    assert own == {nights.store.generations[1].learnt.run}
    assert [one.state for one in models(nights.plan.store).generations] == [
        "removed", "published before", "published",
    ]  # fmt: skip


def test_going_back_to_a_model_whose_rows_took_the_place_of_others(nights):
    nights.nights(3)
    changed(nights, 2, 99)
    nights.nights(2)
    publish(nights.plan.store, 4)
    past = nights.store.past
    assert (past.used, past.quarantined) == ((1, 2, 3), (4, 5))
    publish(nights.plan.store, 1)
    past = nights.store.past
    assert (past.used, past.quarantined) == ((1,), (2, 3, 4, 5))
    assert len(past.usual) == 1


def test_a_replacement_that_ends_anywhere_is_gone_on_with(nights):
    nights.nights(4)
    write_rows(nights.folder / "inbox/03.csv", 3, ROWS, turned=True)
    for n in range(2):
        with suppress(Interrupted):
            refresh(nights.plan, EndsBefore(n))
    assert refresh(nights.plan).generation == 5
    assert nights.store.past.used == (1, 2, 3, 4)
    assert models(nights.plan.store).generations[-1].state == "waits to replace"
