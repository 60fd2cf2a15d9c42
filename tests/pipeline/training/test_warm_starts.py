"""Trainings that start from another run's model, whatever the method."""

import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.gradient import GRADIENT, certificate
from testing.datasets import make
from testing.jobs import job_of
from tests.pipeline.training.test_training import plan_for, train

MANY_PASSES = (
    "s2gd",
    "s2gd+",
    "svrg",
    "sdca",
    "psdca",
    "asdca",
    "gd",
    "agd",
    "sag",
    "sag+",
    "lbfgs",
    "newton",
)


def test_every_method_of_many_passes_goes_on_from_a_model(tmp_path):
    """One pass certifies what another method came to, by the same number, and few more suffice."""
    dataset = make(tmp_path / "set", n=2500, chunk_rows=100, layout="sparse", weighted=True)
    plan = plan_for(dataset, loss="squared_hinge", lam="10/n", snapshot_every=1e-9)
    good = train(with_solver(plan, "sdca", tol=1e-6), tmp_path / "good")
    for kind in MANY_PASSES:
        warm = with_solver(plan, kind, tol=1e-3, start_from=good.run)
        run = TrainingRun.start(warm, str(tmp_path / kind), InProcess())
        proven = [event.facts for event in run if event.kind == "certificate"]
        assert proven[0].objective == pytest.approx(good.objective, rel=1e-12)
        assert proven[0].gap == pytest.approx(first_gap(dataset, warm, good), rel=1e-6)
        cold_plan = with_solver(plan, kind, tol=1e-3, snapshot_every=60.0)
        cold = train(cold_plan, tmp_path / f"{kind}-cold")
        assert run.result.passes < cold.passes, kind
        assert run.result.objective <= good.objective + run.result.certificate


def with_solver(plan, kind, **changes):
    values = plan.model_dump(exclude={"passes", "tol", "solver"})
    return TrainingPlan.model_validate(values | {"solver": {"kind": kind}} | changes)


def first_gap(dataset, plan, run):
    """What a gradient proves of a run's model."""
    job = job_of(plan, dataset)
    at = load_model(RunFolder(run.run)).weights
    executor = InProcess()
    total = executor.result(reduce(executor, job, GRADIENT, at, lambda _: None))
    return certificate(job.problem, at, total).gap


def test_models_of_several_classes_go_on_too(tmp_path):
    dataset = make(tmp_path / "set", n=1500, chunk_rows=50, classes=4)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="10/n", classes="ovr")
    good = train(with_solver(plan, "s2gd+", tol=1e-6), tmp_path / "good")
    for kind in MANY_PASSES:
        warm = train(with_solver(plan, kind, tol=1e-3, start_from=good.run), tmp_path / kind)
        assert warm.passes == 1
        assert warm.objective == pytest.approx(good.objective, rel=1e-12)


@pytest.mark.parametrize("kind", ["s2gd+", "sdca", "psdca", "asdca", "sag"])
def test_a_warm_start_that_is_cut_short_has_the_quiet_runs_bits(tmp_path, kind):
    """A poor model to start from: what goes with its weights is made anew, or lies in the folder."""
    dataset = make(tmp_path / "set", n=1000, chunk_rows=30)
    poor = train(plan_for(dataset, lam="1/n"), tmp_path / "poor")
    plan = with_solver(plan_for(dataset, lam="1/n", snapshot_every=1e-9), kind, passes=5,
                       start_from=poor.run)  # fmt: skip
    quiet = train(plan, tmp_path / "quiet")
    for stop in ("start", "snapshot", "span"):
        for event in TrainingRun.start(plan, str(tmp_path / stop), InProcess()):
            if event.kind == stop:
                break
        patient = plan.model_copy(update={"snapshot_every": 60.0})
        assert train(patient, tmp_path / stop).weights_sha256 == quiet.weights_sha256


def test_dual_variables_of_a_bad_model_are_shortened(tmp_path):
    """What they prove is never worse than nothing, for the plain hinge, too."""
    dataset = make(tmp_path / "set", n=2500, chunk_rows=30)
    wrong = train(plan_for(dataset, positive="-1", lam="10/n"), tmp_path / "wrong")
    plan = with_solver(plan_for(dataset, loss="hinge", lam="10/n"), "sdca", passes=20)
    cold = train(plan, tmp_path / "cold")
    for streams in (1, 2):
        short = plan.model_copy(update={"start_from": wrong.run, "streams": streams, "passes": 3})
        run = TrainingRun.start(short, str(tmp_path / f"short{streams}"), InProcess())
        proven = [event.facts for event in run if event.kind == "certificate"]
        assert all(told.gap <= told.objective for told in proven)
        lower = [told.objective - told.gap for told in proven]
        assert max(lower) <= cold.objective


def test_a_model_of_other_columns_is_refused_before_a_run_is_begun(tmp_path):
    few, many = (make(tmp_path / str(d), n=300, d=d, layout="dense") for d in (5, 7))
    plan = TrainingPlan(dataset=few.folder.url, lam="10/n", solver={"kind": "newton"})
    good = train(plan, tmp_path / "good")
    other = plan.model_copy(update={"dataset": many.folder.url, "start_from": good.run})
    with pytest.raises(BadInput, match="7 features"):
        TrainingRun.start(other, str(tmp_path / "refused"), InProcess())
    assert not RunFolder(str(tmp_path / "refused")).exists()
