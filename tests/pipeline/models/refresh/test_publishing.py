"""Models of a store: what is published is used, forward and back, by one publisher at a time."""

import threading

import pytest

from fewpass import from_run, models, publish
from fewpass.pipeline.models.refresh.store_log import Overtaken
from fewpass.pipeline.models.refresh.store_state import publications, published, store_at
from fewpass.storage.folder import Folder
from testing.refreshing import EndsBefore, Interrupted, plan_of, refresh, write_rows

PUBLISHERS = 8


@pytest.fixture
def plan(tmp_path):
    """A store with two generations, the second one published."""
    (tmp_path / "inbox").mkdir()
    plan = plan_of(tmp_path)
    for seed in (1, 2):
        write_rows(tmp_path / f"inbox/{seed}.csv", seed)
        assert refresh(plan).state == "published"
    return plan


def weights(store):
    return from_run(store).coef_.tolist()


def moves(store):
    return [*publications(store_at(store).events)]


def test_forward_and_back(plan, tmp_path, fewpass, as_json):
    store = plan.store
    own = [weights(f"{store}/generations/{k:06d}/run-all") for k in (1, 2)]
    assert own[0] != own[1]
    assert weights(store) == own[1]
    back = as_json("store", "publish", store, "000001", "--because", "complaints")
    assert (back["generation"], back["why"]) == (1, "complaints")
    assert back["run"] == f"{store}/generations/000001/run-all"
    assert weights(store) == own[0]
    as_json("predict", store, tmp_path / "inbox/1.csv", tmp_path / "scores.csv", "--label", "y")
    told = as_json("store", "list", store)
    assert told["published"] == 1
    assert [g["state"] for g in told["generations"]] == ["published", "quarantined"]
    assert [one["generation"] for one in told["events"] if one["what"] == "published"] == [1, 2, 1]
    status, shown, _ = fewpass("store", "list", store)
    assert status == 0
    assert f"{told['generations'][1]['loss']:.6f}" in shown
    assert "complaints" in shown
    assert told["events"][-1]["at"][:16].replace("T", " ") + "Z" in shown
    assert publish(store, 2).number > back["number"]
    assert weights(store) == own[1]
    assert store_at(store).past.used == (1, 2)

    # The next refresh does not undo what a person chose.
    publish(store, 1)
    assert refresh(plan).state == "unchanged"
    assert published(store).generation == 1
    write_rows(tmp_path / "inbox/3.csv", 3)
    assert refresh(plan).nights == (1, 3)
    states = [one.state for one in models(store).generations]
    assert states == ["published before", "quarantined", "published"]


def test_what_cannot_be_published_is_refused(plan, tmp_path, fewpass):
    store = plan.store
    number = published(store).number
    for words, said in (
        (("publish", store, "7"), "no generation 000007"),
        (("publish", store, "2"), "it is the one that is used"),
        (("publish", store, "newest"), "of at least 1, not 'newest'"),
        (("publish", store, "1", "--after", str(number - 1)), "published generation 000002"),
        (("list", tmp_path / "nowhere"), "the store of a refresh was expected"),
        (("take", store, "2"), "neither waits nor is quarantined"),
        (("take", tmp_path / "nowhere", "2"), "There is nothing at"),
    ):
        status, _, err = fewpass("store", *words)
        assert (status, said in err) == (2, True), err
    assert not (tmp_path / "nowhere").exists()
    write_rows(tmp_path / "inbox/3.csv", 3)
    with pytest.raises(Interrupted):
        refresh(plan, EndsBefore(2))
    assert "not finished" in fewpass("store", "publish", store, "3")[2]
    assert [one.generation for one in moves(store)] == [1, 2]


def test_of_many_who_publish_at_once_one_wins(plan):
    store, start = plan.store, threading.Barrier(PUBLISHERS)
    after, won, told = published(store).number, [], []

    def go(k):
        start.wait()
        try:
            won.append(publish(store, 1, after=after, because=str(k)))
        except Overtaken as error:
            told.append(str(error))

    threads = [threading.Thread(target=go, args=(k,)) for k in range(PUBLISHERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(told)) == (1, PUBLISHERS - 1)
    assert published(store) == won[0]
    assert all("Nothing was changed: the newest publication is" in sentence for sentence in told)


@pytest.mark.parametrize("left", ["empty", "half", "another generation"])
def test_a_publication_that_cannot_be_read_is_named_and_passed_over(
    plan, left, tmp_path, caplog, as_json
):
    folder, number = Folder(plan.store), published(plan.store).number
    key = f"events/{number:06d}.json"
    whole = folder.read(key)
    changed = whole.replace(b'"generation": 2', b'"generation": 1')
    folder.write(key, {"empty": b"", "half": whole[: len(whole) // 2]}.get(left, changed))
    assert published(plan.store).generation == 1
    assert f"{number:06d}.json is no event" in caplog.text
    assert weights(plan.store) == weights(f"{plan.store}/generations/000001/run-all")
    as_json("predict", plan.store, tmp_path / "inbox/1.csv", tmp_path / "s.csv", "--label", "y")
    assert as_json("store", "list", plan.store)["published"] == 1

    assert refresh(plan).state == "published"  # what is not in the log is done again
    assert published(plan.store).number == number + 1
    assert published(plan.store).generation == 2
