"""lam where nobody said how strong, and rows are there to evaluate on."""

import pytest

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.lam_path import PATH, with_lam_path
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make
from testing.interruptions import trained


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Sets of two, three and thirty classes, by their number."""
    folder = tmp_path_factory.mktemp("sets")
    return {k: make(folder / str(k), n=400, d=8, classes=k) for k in (2, 3, 30)}


def plan_for(dataset, **fields):
    return TrainingPlan.model_validate({"dataset": dataset.folder.url, "lam": "auto"} | fields)


@pytest.mark.parametrize(
    ("classes", "fields", "path"),
    [
        (2, {"held_out": "test_rows"}, True),
        (30, {"held_out": "test_rows"}, False),
        (3, {"held_out": "test_rows"}, True),
        (30, {"held_out": "test_rows", "positive": "1"}, True),
        (2, {"held_out": "test_rows", "solver": {"kind": "onepass"}}, True),
        (2, {"held_out": "test_rows", "solver": {"kind": "asgd"}}, False),
        (2, {"held_out": "test_rows", "lam": "1/n"}, False),
        (2, {}, True),
        (2, {"held_out": "test_rows", "tol": 1e-4}, False),
        (2, {"held_out": "test_rows", "early_stopping": True}, False),
        (2, {"held_out": "test_rows", "start_from": "run"}, False),
        (30, {}, False),
    ],
)
def test_a_path_is_taken_where_it_costs_no_other_method(sets, classes, fields, path):
    plan = plan_for(sets[classes], **fields)
    assert with_lam_path(plan, sets[classes].manifest).lam == (PATH if path else plan.lam)


def test_the_best_of_the_path_is_kept_and_the_same_command_goes_on(sets, tmp_path):
    plan, url = plan_for(sets[2], held_out=sets[2].folder.url), str(tmp_path / "run")
    result = trained(plan, url).result
    losses = {found["lam"]: found["loss"] for found in result.candidates}
    assert sorted(losses) == sorted(PATH.values(400))
    assert result.lam == min(losses, key=losses.get)
    again = TrainingRun.start(plan, url, InProcess())
    assert [event.kind for event in again] == ["resume", "finish"]
