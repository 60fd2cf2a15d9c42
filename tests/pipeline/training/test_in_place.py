"""A state that is stepped in place, as the memory has no room for copies of it."""

import tracemalloc

import pytest

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.forecast import forecast
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import wide_table, write
from testing.interruptions import stopped_often, trained
from testing.jobs import job_of

N, D, NNZ = 4_000, 300_000, 10
BYTES_PER_COLUMN = 32
SHORT = PROGRAM_BYTES + BYTES_PER_COLUMN * D + 400_000
ROOMY = 10**9


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    table = wide_table(N, D, NNZ, lambda values: (values[::NNZ] > 0.0).astype(float))
    return write(tmp_path_factory.mktemp("wide") / "set", table, D, 200)


def plan_for(dataset, memory=SHORT, **fields):
    known = {"dataset": dataset.folder.url, "memory": memory, "lam": "1/n", "passes": 2}
    return TrainingPlan.model_validate(known | {"solver": {"kind": "asgd"}} | fields)


@pytest.mark.parametrize("solver", ["asgd", "sgd"])
def test_it_is_the_same_model_as_with_copies(dataset, tmp_path, solver):
    one = {
        "solver": {"kind": solver},
        "passes": 1,
    }  # later passes draw windows, which are larger with more
    short, roomy = plan_for(dataset, **one), plan_for(dataset, ROOMY, **one)
    assert job_of(short, dataset).in_place and not job_of(roomy, dataset).in_place
    mine, other = trained(short, tmp_path / "short"), trained(roomy, tmp_path / "roomy")
    assert mine.result.weights_sha256 == other.result.weights_sha256


def test_stopped_anywhere_it_is_the_same_in_the_end(dataset, tmp_path):
    plan = plan_for(dataset)
    quiet = trained(plan, tmp_path / "quiet", InProcess(threads=2))
    stopped = stopped_often(plan, tmp_path / "stopped", 1)
    assert stopped.result.weights_sha256 == quiet.result.weights_sha256
    found = load_model(stopped.run).weights.coef
    assert (found == load_model(quiet.run).weights.coef).all() and found.any()


def test_a_pass_that_explodes_begins_again(dataset, tmp_path):
    wild = {"passes": 1, "loss": "squared", "solver": {"kind": "asgd", "gamma0": 10.0}}
    plans = [plan_for(dataset, memory, **wild) for memory in (SHORT, ROOMY)]
    mine, other = (trained(plan, tmp_path / str(plan.memory)) for plan in plans)
    assert mine.cursor.restarts == other.cursor.restarts > 0
    assert mine.result.weights_sha256 == other.result.weights_sha256


def test_arrays_stay_within_what_is_told(dataset, tmp_path):
    plan = plan_for(dataset, passes=1)
    trained(plan, tmp_path / "first")  # what compiling takes is no array of columns
    plan = plan_for(dataset, passes=1, solver={"kind": "asgd", "gamma0": 0.1})
    told = forecast(plan, job_of(plan, dataset))
    assert told.state_bytes == BYTES_PER_COLUMN * D
    tracemalloc.start()
    try:
        trained(plan, tmp_path / "run")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < told.state_bytes + told.window_bytes + 1_000_000


@pytest.mark.parametrize("fields", [{"certify": True}, {"streams": 2}, {"tol": 0.1}])
def test_what_needs_copies_is_refused_with_the_memory_that_would_do(dataset, fields):
    with pytest.raises(BadInput, match=r"Use `memory=\d+MB` or more"):
        job_of(plan_for(dataset, **fields), dataset)


def test_workers_elsewhere_are_refused(dataset, tmp_path):
    class Elsewhere(InProcess):
        near = False

    with pytest.raises(BadInput, match="leave `scheduler` and `workers` out"):
        TrainingRun.start(plan_for(dataset), str(tmp_path / "run"), Elsewhere())


def test_a_cluster_of_threads_steps_in_place_as_well(dataset, tmp_path):
    plan = plan_for(dataset, passes=1)
    with open_executor(Execution(scheduler="local", threads=2)) as executor:
        mine = trained(plan, tmp_path / "dask", executor)
    other = trained(plan, tmp_path / "threads")
    assert mine.result.weights_sha256 == other.result.weights_sha256
