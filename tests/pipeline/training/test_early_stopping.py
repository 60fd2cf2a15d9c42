"""Held-out rows that end a training: the best model is kept, whatever happens on the way."""

import shutil

import numpy as np
import pytest

from fewpass import Execution, LinearClassifier, train
from fewpass.pipeline.errors import PlanMismatch
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.reporting.learning import learning
from fewpass.pipeline.reporting.report import read_report
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.validation import LEAST_GAIN, ValidationPoint, extended
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.trained_models import held_out_rows
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.pipeline.training.unchanged import trained_already
from testing.datasets import make
from testing.interruptions import trained

METHODS = {
    "asgd": {"passes": 40},
    "sdca": {"tol": 1e-9},
    "s2gd+": {"tol": 1e-9},
    "newton": {"tol": 1e-9},
}


@pytest.fixture(
    scope="module", params=[("asgd", 2), ("asgd", 3), ("sdca", 3), ("s2gd+", 2), ("newton", 2)]
)
def plan(request, tmp_path_factory):
    """Few rows of many columns and hardly a penalty: more passes soon do harm."""
    kind, classes = request.param
    at = tmp_path_factory.mktemp("sets")
    rows = make(at / "rows", 240, 60, seed=1, classes=classes)
    test_rows = make(at / "test_rows", 400, 60, seed=2, classes=classes)
    return TrainingPlan(
        dataset=rows.folder.url, held_out=test_rows.folder.url, solver={"kind": kind}, lam=1e-6,
        memory="128MB", early_stopping=True, n_iter_no_change=3, certify=True, **METHODS[kind],
    )  # fmt: skip


@pytest.fixture(scope="module")
def quiet(plan, tmp_path_factory):
    """What a plan comes to when nothing disturbs it, and what is looked at in many ways."""
    return trained(plan, tmp_path_factory.mktemp("quiet") / "run")


def losses(run):
    return [event["loss"] for event in run.run.events() if event["event"] == "validation"]


def test_the_model_of_the_lowest_loss_is_kept(plan, quiet):
    seen, told = losses(quiet), quiet.result
    assert told.stopped_early
    assert told.passes < plan.passes
    kept = load_model(quiet.run)
    evaluated = evaluate(kept, held_out_rows(quiet._engine._training), InProcess())
    assert evaluated.loss == min(seen) == told.candidates[0]["loss"]
    assert seen.index(min(seen)) < len(seen) - 1, "not the last one"
    assert evaluated.error == told.candidates[0]["error"]
    here = evaluate(kept, quiet._engine._states.job.dataset, InProcess())
    assert told.objective == pytest.approx(here.objective, rel=1e-12), "it is certified itself"
    assert told.certificate > 0.0


def test_a_training_that_was_interrupted_anywhere_comes_to_the_same_bits(plan, quiet, tmp_path):
    curve = quiet.newest.validation.curve
    for stop_at in (1, 4, 9):
        run = TrainingRun.start(plan, str(tmp_path / f"{stop_at}"), InProcess())
        for number, _ in enumerate(run):
            if number == stop_at:
                run.stop()
        while not run.finished:
            run = TrainingRun.resume(str(tmp_path / f"{stop_at}"), InProcess())
            for number, _ in enumerate(run):
                if number == 6:
                    run.stop()
        assert run.result.weights_sha256 == quiet.result.weights_sha256
        assert run.newest.validation.curve == curve
        assert run.newest.certificate == quiet.newest.certificate


@pytest.mark.parametrize("kind", ["sdca", "psdca"])
def test_the_model_that_the_last_certificate_leaves_is_evaluated_itself(tmp_path, kind):
    """Where passes end, dual ascent reads the rows once more, and may find better weights."""
    plan = TrainingPlan(
        dataset=make(tmp_path / "rows", 2400, 60, seed=1).folder.url,
        held_out=make(tmp_path / "test_rows", 400, 60, seed=2).folder.url,
        solver=kind, lam=1e-4, memory="128MB", early_stopping=True, n_iter_no_change=30, passes=3,
    )  # fmt: skip
    run = trained(plan, tmp_path / "run")
    evaluated = evaluate(load_model(run.run), held_out_rows(run._engine._training), InProcess())
    assert run.result.candidates[0]["loss"] == pytest.approx(evaluated.loss, rel=1e-12)
    assert min(losses(run)) == run.result.candidates[0]["loss"]


def test_other_held_out_rows_in_their_place_are_refused(tmp_path):
    make(tmp_path / "test_rows", 400, 60, seed=2)
    plan = TrainingPlan(
        dataset=make(tmp_path / "rows", 240, 60).folder.url, held_out=str(tmp_path / "test_rows"),
        lam=1e-6, passes=9, early_stopping=True,
    )  # fmt: skip
    for number, _ in enumerate(run := TrainingRun.start(plan, str(tmp_path / "0"), InProcess())):
        if number == 4:
            run.stop()
    assert not run.finished
    trained(plan, tmp_path / "2026-01-01")
    assert trained_already(plan, str(tmp_path / "{date}")) is not None
    shutil.rmtree(tmp_path / "test_rows")
    make(tmp_path / "test_rows", 400, 60, seed=3)
    with pytest.raises(PlanMismatch, match=r"held-out rows .*test_rows is now"):
        TrainingRun.resume(str(tmp_path / "0"), InProcess())
    with pytest.raises(PlanMismatch, match=r"held-out rows .*test_rows is now"):
        TrainingRun.start(plan, str(tmp_path / "0"), InProcess())
    assert trained_already(plan, str(tmp_path / "{date}")) is None


def test_it_stops_where_the_rule_says(plan, quiet):
    """The rule in plain Python, on the losses that the log tells."""
    seen, level, waited = losses(quiet), np.inf, 0
    for number, loss in enumerate(seen):
        fell = loss < level * (1.0 - LEAST_GAIN)
        level, waited = (loss, 0) if fell else (level, waited + 1)
        assert (waited == plan.n_iter_no_change) == (number == len(seen) - 1)


@pytest.mark.parametrize("plan", [("asgd", 2), ("sdca", 3)], indirect=True)
def test_the_report_draws_the_curve(quiet):
    assert "the model that is used" in learning(read_report(quiet.run))


def test_slow_gains_count_together():
    """Falls of less than the least gain each, but not together, are gains."""
    seen = extended(None, ValidationPoint(1.0, 1.0), 1, None)
    for number in range(2, 6):
        seen = extended(
            seen, ValidationPoint(number, 1.0 - 0.4 * LEAST_GAIN * (number - 1)), number, None
        )
    assert [seen.waited, seen.is_at_best] == [1, True]


def test_the_first_figure_after_none_is_a_gain():
    """Of a metric without meaning, such as precision where nothing is called positive."""
    seen = extended(None, ValidationPoint(1.0, 1.0, cost=np.inf), 1, None)
    seen = extended(seen, ValidationPoint(2.0, 1.0, cost=-0.5), 2, None)
    assert (seen.waited, seen.level, seen.is_at_best) == (0, -0.5, True)


def test_estimators_keep_the_best_model(rng):
    X = rng.standard_normal((400, 80))
    y = X[:, 0] + 2.0 * rng.standard_normal(400) > 0
    early = LinearClassifier(lam=1e-7, early_stopping=True, validation_fraction=0.3)
    model = early.fit(X, y)
    passes, loss = model.validation_curve_.T
    assert model.passes_ == passes[-1] < 1000
    assert model.candidates_[0]["loss"] == loss.min() < loss[-1]
    assert len(passes) - 1 - loss.argmin() <= model.n_iter_no_change
    assert np.linalg.norm(model.coef_) < np.linalg.norm(LinearClassifier(lam=1e-7).fit(X, y).coef_)


def test_a_stored_fit_that_stops_early_goes_on_after_a_kill(rng, tmp_path):
    import dask.array as da

    X = rng.standard_normal((600, 80))
    y = (X[:, 0] + 2.0 * rng.standard_normal(600) > 0).astype(int)
    rows = da.from_array(X, chunks=(150, -1)), da.from_array(y, chunks=150)
    make_one = LinearClassifier(lam=1e-7, early_stopping=True, folder=tmp_path / "fit")
    first = make_one.fit(*rows)
    assert len(first.validation_curve_) == len(make_one.fit(*rows).validation_curve_)
    assert first.candidates_[0]["loss"] == first.validation_curve_[:, 1].min()


def test_what_does_not_fit_together_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Name a data set with `held_out`"):
        TrainingPlan(dataset="x", early_stopping=True)
    with pytest.raises(ValueError, match="Leave one of them out"):
        TrainingPlan(dataset="x", early_stopping=True, held_out="y", lam="1e-2,1e-3")
    with pytest.raises(ValueError, match="validation_fraction is 2"):
        LinearClassifier(early_stopping=True, validation_fraction=2).fit(
            np.eye(9), np.arange(9) % 2
        )


@pytest.mark.parametrize("classes", [2, 3])
def test_wherever_it_runs_it_stops_with_the_same_bits(classes, tmp_path):
    """Held-out rows are read, and calibrated on, by the workers that train."""
    rows = make(tmp_path / "rows", 400, 60, seed=1, classes=classes).folder.url
    test_rows = make(tmp_path / "test_rows", 400, 60, seed=2, classes=classes).folder.url
    found = []
    for where in (Execution(scheduler="none"), Execution(scheduler="local")):
        run = tmp_path / where.scheduler
        result = train(
            rows, run, held_out=test_rows, calibrate="platt", early_stopping=True, lam=1e-6,
            tol=1e-9, solver="sdca", memory="200MB", execution=where,
        )  # fmt: skip
        found.append(
            (result.weights_sha256, result.candidates, load_model(RunFolder(str(run))).calibration)
        )
    assert found[0] == found[1]
