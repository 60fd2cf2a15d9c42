"""What flows say of their work, without a server."""

from types import SimpleNamespace

import pytest

from fewpass.flows.orchestration import artifacts
from fewpass.flows.orchestration import forget as forget_flow
from fewpass.flows.orchestration import ingest as ingest_flow
from fewpass.flows.orchestration.session import stages
from fewpass.pipeline.settings.change_plans import ForgetPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.progress import IngestProgress


def test_stages_of_a_training_are_named_by_their_own_passes():
    cut = stages(TrainingPlan(dataset="rows", passes=50, solver={"kind": "asgd"}), 45)
    assert [one.name for one in cut] == ["asgd: passes 46-48 of 50", "asgd: passes 49-50 of 50"]


def test_the_bar_of_an_ingest_is_the_only_share_of_it(monkeypatch):
    shown = []
    bar = SimpleNamespace(show=lambda share, text: shown.append((share, text)))
    monkeypatch.setattr(artifacts, "ProgressArtifact", lambda *_: bar)
    with ingest_flow.shown(SimpleNamespace(dataset="set")) as show:
        show(IngestProgress("partition", 0.5, 1_000, None, 10**6, None, 0, 2.0, 0.5))
    assert shown == [(0.3, "1 of 2, reading rows: 1,000 rows, 1 MB read, 0.5 MB/s")]


@pytest.mark.parametrize(("dry_run", "went"), [(True, "would go"), (False, "are gone")])
def test_rows_that_would_go_are_not_said_to_be_gone(dry_run, went, monkeypatch):
    result = SimpleNamespace(
        dataset="set", forgotten=2, test_forgotten=0, notes=(), models=("a-run",)
    )
    lines = []
    logger = SimpleNamespace(
        info=lambda *_: None, warning=lambda text, *of: lines.append(text % of)
    )
    for name, stub in {
        "get_run_logger": lambda: logger,
        "is_tried_again": lambda: False,
        "forgotten_everywhere": lambda *_, **__: result,
    }.items():
        monkeypatch.setattr(forget_flow, name, stub)
    monkeypatch.setattr(artifacts, "ProgressArtifact", lambda *_: None)
    plan = ForgetPlan(dataset="set", where="id == 1", dry_run=dry_run)
    forget_flow.delete_rows.fn(plan, None, False, False, Execution())
    assert lines == [f"a-run has learnt from rows that {went}"]
