"""Generations of a store: what is published is used, forward and back, by one publisher at a time."""

import threading

import pytest

from fewpass import from_run, models, publish
from fewpass.pipeline.executors.threads import InProcess
from fewpass.pipeline.models.refresh.generations import generations
from fewpass.pipeline.models.refresh.publications import (
    PublishedMeanwhile,
    history,
    published,
)
from fewpass.pipeline.models.refresh.publications import publish as move
from fewpass.pipeline.models.refresh.refreshing import next_generation, training_plan
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from testing.refreshing import finished, judged, plan_of, refresh, trained, write_rows

PUBLISHERS = 8


@pytest.fixture
def plan(tmp_path):
    """A store with two generations, the second one published."""
    (tmp_path / "inbox").mkdir()
    plan = plan_of(tmp_path)
    for seed in (1, 2):
        write_rows(tmp_path / f"inbox/{seed}.csv", seed)
        assert refresh(plan).published
    return plan


def weights(store):
    return from_run(store).coef_.tolist()


def test_forward_and_back(plan, tmp_path, fewpass, as_json):
    store = plan.store
    own = [weights(f"{store}/generations/{k:06d}/run") for k in (1, 2)]
    assert own[0] != own[1]
    assert weights(store) == own[1]
    back = as_json("publish", store, "000001", "--because", "complaints")
    assert (back["number"], back["generation"], back["why"]) == (3, 1, "complaints")
    assert weights(store) == own[0]
    as_json("predict", store, tmp_path / "inbox/1.csv", tmp_path / "scores.csv", "--label", "y")
    told = as_json("models", store)
    assert told["published"] == 1
    assert [g["state"] for g in told["generations"]] == ["published", "published before"]
    assert [p["generation"] for p in told["publications"]] == [1, 2, 1]
    losses = [g["decision"]["loss"] for g in told["generations"]]
    assert losses == [judged(plan, g.run) for g in generations(Folder(store))]
    status, shown, _ = fewpass("models", store)
    assert status == 0
    assert f"{losses[0]:.6f}" in shown
    assert "complaints" in shown
    assert publish(store, 2).number == 4
    assert weights(store) == own[1]

    # The next refresh trains on from what is published, and does not undo what a person chose.
    publish(store, 1)
    assert next_generation(plan) is None
    assert published(store).generation == 1
    write_rows(tmp_path / "inbox/3.csv", 3)
    refresh(plan)
    warm = RunFolder(f"{store}/generations/000003/run").record().plan.start_from
    assert warm == f"{store}/generations/000001/run"
    assert [s.state for s in models(store)] == ["published before"] * 2 + ["published"]


def test_a_refresh_goes_on_with_the_learners_of_one_pass(tmp_path):
    """Rows before are counted: the model is nearer to the optimum of all rows than a new one."""
    (tmp_path / "inbox").mkdir()
    plan = plan_of(tmp_path)
    for seed in range(4):
        write_rows(tmp_path / f"inbox/{seed}.csv", seed)
        assert refresh(plan).published
    made = generations(Folder(plan.store))
    runs = [RunFolder(g.run) for g in made]
    assert {run.record().method() for run in runs} == {"onepass"}
    (state,) = runs[-1].snapshots.load(load_model(runs[-1]).snapshot).attributes["streams"]
    assert state["t"] >= sum(Dataset.open(g.data).n_rows for g in made)

    values = training_plan(plan, made[-1]).model_dump() | {"start_from": None}
    finished(TrainingPlan.model_validate(values), tmp_path / "anew")
    everything = str(tmp_path / "all")
    ingest(IngestPlan(sources=plan.sources, dataset=everything, like=made[0].data))
    exact = {"dataset": everything, "solver": {"kind": "newton"}, "passes": 20, "tol": 1e-9}
    least = finished(TrainingPlan.model_validate(values | exact), tmp_path / "best").objective
    on, anew = (
        evaluate(load_model(run), Dataset.open(everything), InProcess()).objective - least
        for run in (runs[-1], RunFolder(str(tmp_path / "anew")))
    )
    assert on < anew


def test_what_cannot_be_published_is_refused(plan, tmp_path, fewpass):
    store = plan.store
    for words, said in (
        (("publish", store, "7"), "no generation 000007"),
        (("publish", store, "2"), "it is the one that is used"),
        (("publish", store, "newest"), "takes a whole number, not 'newest'"),
        (("publish", store, "1", "--after", "1"), "published generation 000002"),
        (("models", tmp_path / "nowhere"), "the store of a refresh was expected"),
    ):
        status, _, err = fewpass(*words)
        assert (status, said in err) == (2, True), err
    write_rows(tmp_path / "inbox/3.csv", 3)
    trained(plan, next_generation(plan))
    assert "not decided" in fewpass("publish", store, "3")[2]
    assert [p.generation for p in history(store)] == [1, 2]


def test_of_many_who_publish_at_once_one_wins(plan):
    store, start = plan.store, threading.Barrier(PUBLISHERS)
    won, told = [], []

    def go(k):
        start.wait()
        try:
            won.append(move(store, 1, after=2, why=str(k)))
        except PublishedMeanwhile as error:
            told.append(str(error))

    threads = [threading.Thread(target=go, args=(k,)) for k in range(PUBLISHERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(told)) == (1, PUBLISHERS - 1)
    assert published(store) == won[0]
    assert all("Nothing was changed: the newest publication is" in sentence for sentence in told)


def test_a_refresh_that_was_overtaken_judges_anew(plan, tmp_path):
    """Somebody goes back to an older model while a newer one is being judged."""
    write_rows(tmp_path / "inbox/3.csv", 3)
    with pytest.raises(PublishedMeanwhile, match="published generation 000001"):
        refresh(plan, before_it_is_decided=lambda: publish(plan.store, 1))
    assert published(plan.store).generation == 1
    assert models(plan.store)[-1].state == "not decided"
    made = refresh(plan)  # the training is done: it is only judged, by the model used now
    assert (made.published, made.after) == (True, 3)
    assert made.loss_before == judged(plan, f"{plan.store}/generations/000001/run")
    assert published(plan.store).generation == 3


def test_a_death_between_decision_and_publication(plan):
    folder = Folder(plan.store)
    folder.delete("publications/000002.json")
    assert published(plan.store).generation == 1
    assert next_generation(plan) is None  # carries out what was decided
    assert published(plan.store).generation == 2


@pytest.mark.parametrize("left", ["empty", "half", "another generation"])
def test_a_publication_that_cannot_be_read_is_named_and_passed_over(
    plan, left, tmp_path, caplog, fewpass, as_json
):
    folder, key = Folder(plan.store), "publications/000002.json"
    whole = folder.read(key)
    changed = whole.replace(b'"generation": 2', b'"generation": 1')
    folder.write(key, {"empty": b"", "half": whole[: len(whole) // 2]}.get(left, changed))
    assert published(plan.store).generation == 1
    assert "000002.json is no publication" in caplog.text
    assert [move.number for move in history(plan.store)] == [1]
    assert weights(plan.store) == weights(f"{plan.store}/generations/000001/run")
    as_json("predict", plan.store, tmp_path / "inbox/1.csv", tmp_path / "s.csv", "--label", "y")
    assert as_json("models", plan.store)["published"] == 1

    assert next_generation(plan) is None  # the decision to publish it is carried out again
    assert [move.number for move in history(plan.store)] == [1, 3]
    assert published(plan.store).generation == 2
    assert publish(plan.store, 1, after=3).number == 4
    with pytest.raises(PublishedMeanwhile, match="is number 4"):
        publish(plan.store, 2, after=3)


def test_without_any_publication_that_can_be_read_a_new_one_helps(plan, fewpass):
    folder = Folder(plan.store)
    for number in (1, 2):
        folder.write(f"publications/{number:06d}.json", b"")
    status, _, told = fewpass("weights", plan.store)
    assert status == 1
    assert f"fewpass publish {plan.store} NUMBER" in told.replace("\n", " ")
    assert fewpass("publish", plan.store, "2")[0] == 0
    assert published(plan.store)[:2] == (3, 2)
    assert fewpass("weights", plan.store)[0] == 0
