"""Classes trained in groups, as the states of all do not fit into the memory."""

import numpy as np
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import usable_memory_bytes
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.auto import choose
from fewpass.pipeline.planning.default_memory import with_memory
from fewpass.pipeline.planning.forecast import forecast
from fewpass.pipeline.planning.job import groups_of, is_grouped
from fewpass.pipeline.planning.method_choice import MethodRequest
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.registry import loss_class
from testing.datasets import make
from testing.interruptions import stopped_often, trained
from testing.jobs import job_of

CLASSES, D = 7, 4_000
TOL = 1e-3
METHODS = ["psdca", "s2gd+"]  # with numbers per row, and with whole gradients


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    at = tmp_path_factory.mktemp("many") / "set"
    return make(at, n=120, d=D, chunk_rows=40, layout="sparse", nnz=6, seed=3, classes=CLASSES)


def plan_for(dataset, solver="sdca", **fields):
    """A budget that some of the classes fit into, unless another is given."""
    known = {"dataset": dataset.folder.url, "solver": {"kind": solver}, "classes": "ovr"}
    plan = TrainingPlan.model_validate(known | {"lam": 0.02, "tol": TOL, "passes": 300} | fields)
    if "memory" in fields or solver == "auto":
        return plan
    for memory in range(96_000_000, 120_000_000, 100_000):
        tried = plan.model_copy(update={"memory": memory})
        try:
            if 1 < job_of(tried, dataset).models < CLASSES:
                return tried
        except BadInput:
            continue
    raise AssertionError("no budget leaves room for some of the classes")


@pytest.mark.parametrize("solver", METHODS)
def test_every_class_is_proven_as_near_as_all_at_once(dataset, tmp_path, solver):
    plan = plan_for(dataset, solver)
    run = trained(plan, tmp_path / "groups")
    whole = trained(plan.model_copy(update={"memory": 10**9}), tmp_path / "whole")
    told = [event for event in run.run.events() if event["event"] == "group"]
    assert told[0]["first"] == 0 and len(told) == run.forecast.groups - 1 > 0
    assert run.result.converged and whole.result.converged
    mine, other = run.newest, whole.newest
    assert mine.weights.coef.shape == (CLASSES, D)
    for own, at_once in zip(mine.certificate.models, other.certificate.models, strict=True):
        (objective, gap), (elsewhere, other_gap) = own, at_once
        assert gap <= TOL * max(1.0, objective)
        assert objective - gap <= elsewhere and elsewhere - other_gap <= objective
    # strong convexity: two models that are so near to the optimum are near to each other
    lam, gaps = (
        run.problem.lam,
        [
            a[1] + b[1]
            for a, b in zip(mine.certificate.models, other.certificate.models, strict=True)
        ],
    )
    apart = np.linalg.norm(mine.weights.coef - other.weights.coef, axis=1)
    assert (apart <= 2.0 * np.sqrt(2.0 * np.array(gaps) / lam)).all()
    passes = sum(done.passes for done in mine.groups)
    assert passes == run.result.passes


@pytest.mark.parametrize("solver", METHODS)
def test_stopped_anywhere_it_is_the_same_in_the_end(dataset, tmp_path, solver):
    plan = plan_for(dataset, solver)
    quiet = trained(plan, tmp_path / "quiet")
    events = sum(1 for _ in quiet.run.events())
    stopped = stopped_often(plan, tmp_path / "stopped", events // 5)
    assert stopped.result.weights_sha256 == quiet.result.weights_sha256
    assert stopped.newest.certificate == quiet.newest.certificate
    again = trained(plan, tmp_path / "stopped")
    assert again.result.weights_sha256 == quiet.result.weights_sha256


def test_a_model_to_start_from_rows_to_evaluate_and_calibration(dataset, tmp_path):
    first = trained(plan_for(dataset, passes=2, tol=None), tmp_path / "first")
    test_rows = make(
        tmp_path / "test_rows", n=90, d=D, layout="sparse", nnz=6, seed=4, classes=CLASSES
    )
    plan = plan_for(
        dataset, start_from=first.run.url, held_out=test_rows.folder.url, calibrate="platt"
    )
    run = trained(plan, tmp_path / "run")
    assert run.result.converged
    assert run.newest.calibration is not None
    figures = evaluate(load_model(RunFolder(run.run.url)), test_rows, InProcess())
    (candidate,) = run.result.candidates
    assert candidate["error"] == figures.error
    assert run.cursor.rows_before == first.cursor.rows_seen


def test_what_evaluates_classes_together_is_refused_in_words(dataset, tmp_path):
    memory = plan_for(dataset).memory
    plan = plan_for(dataset, memory=memory, held_out=dataset.folder.url, early_stopping=True)
    with pytest.raises(BadInput, match="Without `early_stopping`"):
        TrainingRun.start(plan, str(tmp_path / "run"), InProcess())


def test_more_memory_is_taken_before_groups_are(dataset):
    short = plan_for(dataset)
    assert is_grouped(job_of(short, dataset))
    open_end = TrainingPlan.model_validate(short.model_dump(exclude={"memory"}, exclude_unset=True))
    roomy = with_memory(Planner(open_end, dataset), usable_memory_bytes())
    assert not is_grouped(job_of(roomy, dataset))


def test_the_forecast_counts_the_passes_of_all_groups(dataset):
    plan = plan_for(dataset)
    told, whole = (
        forecast(p, job_of(p, dataset)) for p in (plan, plan.model_copy(update={"memory": 10**9}))
    )
    assert told.groups > whole.groups == 1
    assert told.models == whole.models == CLASSES
    assert told.passes == told.groups * whole.passes
    assert told.state_bytes + told.window_bytes + told.overhead_bytes <= plan.memory


def test_auto_takes_groups_rather_than_a_method_that_proves_nothing(dataset):
    plan = plan_for(dataset, "auto")
    job = job_of(plan, dataset)
    never, always = (lambda _: False), (lambda _: True)
    for loss in ("logistic", "hinge"):
        problem = job.problem._replace(loss=loss_class(loss)())
        found = choose(MethodRequest(plan, problem, job.stats, never, always, models=CLASSES))
        assert [method.kind for method in found.methods] == ["psdca"]
        assert "some models at a time" in found.reason


@pytest.mark.parametrize("at_once", range(1, CLASSES + 1))
def test_groups_are_all_classes_each_once(dataset, at_once):
    job = job_of(plan_for(dataset, memory=10**9), dataset)._replace(models=at_once)
    groups = groups_of(job)
    assert [k for group in groups for k in group] == list(range(CLASSES))
    assert max(map(len, groups)) <= at_once
