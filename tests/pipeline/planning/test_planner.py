"""Each method and memory is looked at once, whoever asks."""

import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning import planner
from fewpass.pipeline.planning.job import make_job
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ({"tol": 1e-4}, ["asgd", "newton", "psdca"]),  # the least state, and the two candidates
        ({"tol": 1e-4, "solver": {"kind": "psdca"}}, ["psdca"]),
        ({}, ["asgd", "onepass"]),
        ({"solver": {"kind": "sgd"}}, ["sgd"]),
    ],
)
def test_a_training_plans_each_method_once(tmp_path, monkeypatch, words, jobs):
    dataset, made = make(tmp_path / "set", n=400), []

    def counted(plan, problem, **place):
        made.append(plan.solver.kind)
        return make_job(plan, problem, **place)

    monkeypatch.setattr(planner, "make_job", counted)
    plan = TrainingPlan.model_validate({"dataset": dataset.folder.url} | words)
    run = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    assert [event.kind for event in run][-1] == "finish"
    assert sorted(made) == jobs


def test_streams_without_chunks_are_refused_without_a_word_on_memory(tmp_path):
    """One model of three classes: what helps where memory is short helps nobody here."""
    dataset = make(tmp_path / "set", n=400, classes=3)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", streams=9, solver={"kind": "asgd"})
    with pytest.raises(BadInput, match=r"9 streams need .*`chunk_bytes`\)\.$"):
        list(TrainingRun.start(plan, str(tmp_path / "run"), InProcess()))
