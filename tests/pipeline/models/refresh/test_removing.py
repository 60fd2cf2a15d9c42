"""What is old goes, what anybody may want stays, and a removal that was killed goes on."""

import json

import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.lease import Lease
from fewpass.pipeline.models.refresh import old_generations
from fewpass.pipeline.models.refresh.listing import models
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.models.refresh.old_generations import clean_store
from fewpass.pipeline.models.refresh.publishing import publish
from fewpass.pipeline.models.refresh.store_state import store_at
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import REMOVED, remove_old_runs, runs_of
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.pipeline.training.unchanged import trained_already
from fewpass.storage.folder import Folder
from testing.datasets import make
from testing.refreshing import Nights, plan_of, refresh, write_rows

NIGHTS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")


def test_old_generations_go_and_their_records_stay(tmp_path, capsys):
    plan = plan_of(tmp_path)
    (tmp_path / "inbox").mkdir()
    for k in range(5):
        write_rows(tmp_path / f"inbox/{k}.csv", k)
        assert refresh(plan).state == "published"
    publish(plan.store, 2)
    assert clean_store(plan.store, 2) == []  # the nights that are learnt from are 1 and 2
    write_rows(tmp_path / "inbox/5.csv", 5)
    assert refresh(plan).nights == (1, 2, 6)
    before = sorted(Folder(plan.store).list())
    assert (
        main(["store", "clean", plan.store, "--keep-generations", "1", "--dry-run", "--json"]) == 0
    )
    looked = json.loads(capsys.readouterr().out)
    assert (
        main(["store", "clean", plan.store, "--dry-run", "--json"]) == 0
    )  # the most that could go
    assert json.loads(capsys.readouterr().out) == looked
    assert main(["store", "clean", plan.store, "--json"]) == 2
    capsys.readouterr()
    assert sorted(Folder(plan.store).list()) == before
    # 6 is published, and 2 was before it
    assert [one["what"] for one in looked["removed"]] == [
        f"generation {number:06d}{' but its model' * (number == 2)}" for number in range(1, 6)
    ]  # fmt: skip
    removed = clean_store(plan.store, 1)
    assert [one.address for one in removed] == [one["address"] for one in looked["removed"]]
    left = {key for key in Folder(plan.store).list() if not key.startswith("events/")}
    gone = {key for key in before if not key.startswith("events/")} - left
    assert sum(one.objects for one in removed) == len(gone)
    assert {key for key in left if "/000003/" in key} == {
        f"generations/000003/{name}" for name in ("drift.json", REMOVED)
    }
    assert [one.state for one in models(plan.store).generations] == [
        *["removed"] * 5, "published"
    ]  # fmt: skip
    with pytest.raises(BadInput, match="model of generation 000003 was removed"):
        publish(plan.store, 3)
    load_model(RunFolder(f"{plan.store}/generations/000002/run-all"))
    assert clean_store(plan.store, 1) == []
    assert refresh(plan).state == "unchanged"  # no file is taken twice
    write_rows(tmp_path / "inbox/more.csv", 9)
    made = refresh(plan)  # with the columns of 6
    assert (made.state, made.nights) == ("published", (6, 7))


def test_a_model_that_somebody_publishes_while_old_ones_are_removed_stays(tmp_path, monkeypatch):
    plan = plan_of(tmp_path, windows=["all"])
    (tmp_path / "inbox").mkdir()
    for k in range(4):
        write_rows(tmp_path / f"inbox/{k}.csv", k)
        refresh(plan)
    removed = old_generations.removed

    def publishing(*of, dry_run, **more):
        if not dry_run and store_at(plan.store).published.generation == 4:
            publish(plan.store, 2)
        return removed(*of, dry_run=dry_run, **more)

    monkeypatch.setattr(old_generations, "removed", publishing)
    assert [one.address[-6:] for one in clean_store(plan.store, 1)] == ["000001", "000003"]
    assert run_at(plan.store).url == f"{plan.store}/generations/000002/run-all"
    load_model(run_at(plan.store))


def test_a_refresh_keeps_so_many_nights(tmp_path):
    plan = plan_of(tmp_path, keep_generations=2, windows=["all"])
    (tmp_path / "inbox").mkdir()
    for k in range(4):
        write_rows(tmp_path / f"inbox/{k}.csv", k)
        made = refresh(plan)
    assert made.nights == (3, 4)
    assert store_at(plan.store).past.used == (3, 4)
    assert store_at(plan.store).nights == [3, 4]
    assert len(store_at(plan.store).past.usual) == 4  # losses stay true without the rows


def test_nights_that_wait_and_files_that_change_take_no_other_nights_place(tmp_path):
    plan = plan_of(tmp_path, keep_generations=2, windows=["all"])
    (tmp_path / "inbox").mkdir()
    for k in range(4):
        write_rows(tmp_path / f"inbox/{k}.csv", k)
        refresh(plan)
    for n in (301, 302, 303):  # a log that grows: one night, whatever number its generation has
        write_rows(tmp_path / "inbox/3.csv", 3, n)
        assert refresh(plan).nights == (3, 3 + n - 299)
    assert store_at(plan.store).past.used == (3, 4)
    data = [Folder(f"{plan.store}/generations/{k:06d}/data").exists("manifest.json")
            for k in range(1, 8)]  # fmt: skip
    assert data == [False, False, True, False, False, False, True]
    for k in (4, 5):
        write_rows(tmp_path / f"inbox/{k}.csv", k, turned=True)
        if k == 4:
            assert refresh(plan).state == "waits"
            assert store_at(plan.store).past.used == (3, 4)
    assert refresh(plan).state == "published"
    assert store_at(plan.store).past.used == (5, 6)


def test_a_night_that_waits_stays_until_it_is_decided(tmp_path):
    nights = Nights(tmp_path, keep_generations=1)
    nights.nights(3)
    assert nights.night(turned=True).state == "waits"
    (tmp_path / "inbox/few.csv").write_text("y,a,b,c\n" + "1,-3,0,0\n0,3,0,0\n" * 3)
    assert refresh(nights.plan).state == "published"  # so few rows decide nothing
    assert (nights.store.past.used, nights.store.past.waiting) == ((5,), (4,))
    assert Folder(nights.store.data_of(4)).exists("manifest.json")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make(tmp_path_factory.mktemp("nights") / "data", n=400, d=5).folder.url


def trained(data, url, passes=2, stop=False, **more):
    training = TrainingRun.start(
        TrainingPlan(dataset=data, passes=passes, **more), str(url), InProcess()
    )
    for _ in training:
        if stop:
            training.stop()
    return RunFolder(str(url))


def test_old_runs_of_a_schedule_go_but_what_is_not_finished(data, tmp_path, caplog):
    pattern = f"{tmp_path}/nightly/{{date}}"
    runs = [trained(data, pattern.replace("{date}", night)) for night in NIGHTS]
    begun = trained(data, f"{tmp_path}/nightly/2026-11-19", 50, stop=True, start_from=runs[0].url)
    other = trained(data, f"{tmp_path}/nightly/mine")
    (tmp_path / "nightly" / NIGHTS[1] / "notes.txt").write_text("of the night")
    assert [run.folder.name for run in runs_of(pattern)] == [*reversed(NIGHTS), "2026-11-19"]
    with Lease(runs[2].folder):
        assert remove_old_runs(pattern, 1) == []  # started from; others' files; in use
    assert "notes.txt is not of a run" in caplog.text
    runs[2].folder.create(REMOVED, b"{}\n")
    runs[2].folder.delete("run.json")  # killed half-way
    assert [one.address for one in remove_old_runs(pattern, 1)] == [runs[2].url]
    assert not (tmp_path / "nightly" / NIGHTS[2]).exists()
    for run in (runs[0], runs[1], runs[3], begun, other):
        load_model(run)
    with pytest.raises(BadInput, match="is one run"):
        remove_old_runs(runs[3].url, 1)


def test_a_night_without_new_rows_is_a_repetition(data, tmp_path):
    pattern, plan = (
        f"{tmp_path}/n/{{date}}T{{time}}",
        TrainingPlan(dataset=data, lam="1/n", passes=2),
    )
    assert trained_already(plan, pattern) is None
    first = trained(data, f"{tmp_path}/n/2026-11-20T020000")
    assert trained_already(plan, pattern).url == first.url
    trained(data, f"{tmp_path}/n/2026-11-21T020000", 50, stop=True)  # a newer one was cut short
    assert trained_already(plan, pattern).url == first.url
    for changed in ({"passes": 3}, {"lam": "1/n", "tol": 0.1}, {"start_from": first.url}):
        again = TrainingPlan.model_validate({"dataset": data, "passes": 2} | changed)
        assert trained_already(again, pattern) is None, changed
    more = make(tmp_path / "more", n=401, d=5).folder.url
    assert trained_already(TrainingPlan(dataset=more, lam="1/n", passes=2), pattern) is None
    with pytest.raises(BadInput, match=r"no \{date\}"):
        trained_already(plan, first.url)
