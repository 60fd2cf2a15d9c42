"""The memory that a training takes where nobody said how much."""

import pytest

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.memory import _group_limits, usable_memory_bytes
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning import default_memory
from fewpass.pipeline.planning.default_memory import with_memory
from fewpass.pipeline.planning.job import bytes_of_models, is_grouped
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training import prepared
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.manifest import Manifest
from testing.datasets import make
from testing.interruptions import trained
from testing.jobs import job_of

DEFAULT = TrainingPlan.model_fields["memory"].default
GRID = ",".join(f"{10.0 ** (-k / 100):.4g}" for k in range(400))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Few rows of many columns: what takes memory is the state of many models."""
    folder = tmp_path_factory.mktemp("wide") / "set"
    return make(folder, n=90, d=20_000, chunk_rows=30, layout="sparse", nnz=4, seed=1)


@pytest.fixture(scope="module")
def planner_of_rows(tmp_path_factory):
    """More rows than a default of 8 MB and what the program takes would hold."""
    folder = tmp_path_factory.mktemp("rows") / "set"
    dataset = make(folder, n=20_000, d=500, chunk_rows=2000, layout="sparse", nnz=60)
    plan = plan_for(dataset)
    plan.__dict__["memory"] = PROGRAM_BYTES + 8 * 10**6  # not as if it was given
    planner = Planner(plan, dataset)
    assert planner.problem.stats.n == 20_000
    return planner


def plan_for(dataset, **fields):
    known = {"dataset": dataset.folder.url, "solver": {"kind": "sdca"}, "passes": 3}
    known |= {"held_out": dataset.folder.url} if "lam" in fields else {}
    return TrainingPlan.model_validate(known | fields)


def test_a_small_job_takes_what_it_always_took(wide):
    assert with_memory(Planner(plan_for(wide), wide), 1 << 40).memory == DEFAULT


def test_many_models_take_what_they_need_and_no_more(wide):
    plan = plan_for(wide, lam=GRID)
    assert is_grouped(job_of(plan, wide))
    found = with_memory(Planner(plan, wide), 1 << 40)
    assert job_of(found, wide).resident and not is_grouped(job_of(found, wide))
    less = found.model_copy(update={"memory": int(found.memory / 1.05)})
    assert is_grouped(job_of(less, wide))


def test_one_pass_takes_what_its_learners_need(tmp_path):
    """Of 64 models; where that is not there, averaged SGD is what fits."""
    grid, url = ",".join(f"{2.0**-k:.4g}" for k in range(64)), str(tmp_path / "set")
    dataset = make(url, n=90, d=90_000, chunk_rows=30, layout="sparse", nnz=4, seed=1)
    plan = TrainingPlan(dataset=url, lam=grid, held_out=url)
    planner = Planner(plan, dataset)
    assert planner.method(plan.memory).kind == "asgd"
    found = with_memory(planner, 1 << 40)
    assert planner.method(found.memory).kind == "onepass"
    assert planner.job(found.memory).windows == planner.job(plan.memory).windows
    assert with_memory(planner, found.memory - 1) == plan


def test_what_was_given_or_is_not_there_is_not_taken(wide):
    given = plan_for(wide, lam=GRID, memory="2GB")
    assert with_memory(Planner(given, wide), 1 << 40) == given
    plan = plan_for(wide, lam=GRID)
    assert with_memory(Planner(plan, wide), DEFAULT // 2) == plan
    less = DEFAULT + (1 << 20)  # than all take together: they go in groups
    found = with_memory(Planner(plan, wide), less)
    assert found.memory <= less and is_grouped(job_of(found, wide))


def test_the_same_command_on_another_machine_is_the_same_plan(wide, tmp_path, monkeypatch):
    plan, url = plan_for(wide), str(tmp_path / "run")
    resized = lambda p: p.plan.model_copy(update={"memory": 3 * DEFAULT})  # noqa: E731
    monkeypatch.setattr(prepared, "with_memory", resized)
    trained(plan, url)
    assert RunFolder(url).record().plan.memory == 3 * DEFAULT
    monkeypatch.undo()
    again = TrainingRun.start(plan, url, InProcess())
    assert [event.kind for event in again] == ["resume", "finish"]
    assert again.plan.memory == 3 * DEFAULT


@pytest.mark.parametrize(
    ("coded", "times", "stay"), [(False, 0, True), (True, 2, True), (True, 0, False)]
)
def test_rows_of_codes_stay_expanded_where_they_take_little(
    planner_of_rows, monkeypatch, coded, times, stay
):
    planner, usual = planner_of_rows, planner_of_rows.plan.memory
    monkeypatch.setattr(Manifest, "coded", coded)
    monkeypatch.setattr(default_memory, "EXPANDED", times)
    found = with_memory(planner, 1 << 40).memory
    assert (found > usual, planner.job(found).resident) == (stay, stay)


def test_limits_of_control_groups_are_found(tmp_path, monkeypatch):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/memory.max").write_text("5000000\n")
    (tmp_path / "a/b/memory.max").write_text("max\n")
    told = tmp_path / "cgroup"
    told.write_text("0::/a/b\n")
    assert _group_limits(tmp_path, told) == [5_000_000]
    assert usable_memory_bytes() > 0


def test_few_rows_of_many_classes_are_read_for_each_group(tmp_path):
    """Half a gigabyte of states is more than reading some kilobytes a few times."""
    url = str(tmp_path / "set")
    dataset = make(url, n=90, d=300_000, chunk_rows=30, layout="sparse", nnz=4, classes=40, seed=1)
    plan = TrainingPlan(dataset=url, solver={"kind": "asgd"}, classes="ovr")
    at_once = plan.model_copy(update={"memory": 1 << 40})
    whole = job_of(at_once, dataset)
    assert not is_grouped(whole)
    needed = bytes_of_models(at_once, whole)
    assert needed > DEFAULT
    found = with_memory(Planner(plan, dataset), 1 << 40)
    assert is_grouped(job_of(found, dataset))
    assert found.memory < needed
