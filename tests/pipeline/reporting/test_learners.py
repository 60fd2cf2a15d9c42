"""Which of several learners a model is from: said when a run ends, and in its report."""

import numpy as np
import pytest

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.reporting.report import read_report
from fewpass.pipeline.runs.events import Learners
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make


@pytest.mark.parametrize("classes", [2, 3])
def test_a_run_and_its_report_say_which_learner_won(tmp_path, classes):
    dataset = make(tmp_path / "set", n=3000, classes=classes)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", solver={"kind": "onepass"})
    events = list(TrainingRun.start(plan, str(tmp_path / "run"), InProcess()))
    (told,) = [event.facts.models for event in events if event.kind == "learners"]
    assert len(told) == (1 if classes == 2 else classes)
    run = RunFolder(str(tmp_path / "run"))
    assert read_report(run).report.learners == told
    kept = run.snapshots.load(load_model(run).snapshot).attributes["streams"][0]
    for model, own in zip(told, kept.get("models", [kept]), strict=True):
        assert model["objective"] == own["lead.objective"]
        assert model["lead"] == own["lead.by"]
    sentence = Learners(told).sentence()
    assert all(model["learner"] in sentence for model in told)


def test_averaged_sgd_alone_has_no_learners(tmp_path):
    dataset = make(tmp_path / "set", n=500)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", solver={"kind": "asgd"})
    events = list(TrainingRun.start(plan, str(tmp_path / "run"), InProcess()))
    assert not [event for event in events if event.kind == "learners"]
    assert read_report(RunFolder(str(tmp_path / "run"))).report.learners == []


def test_of_many_models_learners_are_counted():
    models = [{"learner": name, "objective": 1.0, "runner_up": "c", "lead": 0.1} for name in "aab"]
    assert Learners(models).sentence() == (
        "a for 2 models, b for 1 model, by their progressive objectives"
    )
    assert np.all([name in Learners(models[:1]).sentence() for name in ("a", "c", "0.1")])
