"""A source several times as large as the budget goes through it."""

import tracemalloc

from pipeline.clicks import write_clicks
from pipeline.execution.threads import InProcess
from pipeline.settings.training_plan import TrainingPlan
from pipeline.streaming.windows import OVERHEAD_BYTES
from pipeline.training.training_run import TrainingRun

MEMORY = 140_000_000


def trained(source, run):
    """A training straight through a source; it, and how many spans it had."""
    sources = {"sources": (str(source),), "test_fraction": 0.2}
    plan = TrainingPlan(
        dataset="clicks", source=sources, memory=MEMORY, solver={"kind": "asgd"}, seed=1
    )
    training = TrainingRun.start(plan, str(run), InProcess(threads=2))
    return training, sum(event.kind == "span" for event in training)


def test_arrays_stay_within_the_budget_whatever_the_size_of_the_source(tmp_path):
    write_clicks(tmp_path / "few.svm", 400_000)
    trained(tmp_path / "few.svm", tmp_path / "first")  # what compiling takes is no array of rows
    write_clicks(tmp_path / "clicks.svm", 120_000_000)
    tracemalloc.start()
    try:
        training, spans = trained(tmp_path / "clicks.svm", tmp_path / "run")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert training.result.bytes_read > 2 * (MEMORY - OVERHEAD_BYTES)
    assert spans > 4
    assert peak < MEMORY - OVERHEAD_BYTES
