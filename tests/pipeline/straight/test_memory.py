"""A source several times as large as the budget goes through it."""

import tracemalloc

from pipeline.clicks import write_clicks
from pipeline.execution.threads import InProcess
from pipeline.settings.training_plan import TrainingPlan
from pipeline.streaming.windows import OVERHEAD_BYTES
from pipeline.training.training_run import TrainingRun

MEMORY = 140_000_000


def test_arrays_stay_within_the_budget_whatever_the_size_of_the_source(tmp_path):
    write_clicks(tmp_path / "clicks.svm", 120_000_000)
    source = {"sources": (str(tmp_path / "clicks.svm"),), "test_fraction": 0.2}
    plan = TrainingPlan(
        dataset="clicks", source=source, memory=MEMORY, solver={"kind": "asgd"}, seed=1
    )
    tracemalloc.start()
    try:
        training = TrainingRun.start(plan, str(tmp_path / "run"), InProcess(threads=2))
        spans = sum(event.kind == "span" for event in training)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert training.result.bytes_read > 2 * (MEMORY - OVERHEAD_BYTES)
    assert spans > 4
    assert peak < MEMORY - OVERHEAD_BYTES
