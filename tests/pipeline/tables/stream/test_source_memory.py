"""A source several times as large as the budget goes through it."""

import re
import tracemalloc
from contextlib import closing

import pytest

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.clicks import write_clicks
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning import default_memory
from fewpass.pipeline.planning.source_job import planned_for_source
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import parse_bytes
from fewpass.pipeline.tables.stream.sources import read_first_rows
from fewpass.pipeline.training.training_run import TrainingRun

MEMORY = 140_000_000


def trained(source, run):
    """A training straight through a source; it, and how many spans it had."""
    sources = {"sources": (str(source),), "test_fraction": 0.2}
    plan = TrainingPlan(
        dataset="clicks", source=sources, memory=MEMORY, solver={"kind": "asgd"}, seed=1
    )
    training = TrainingRun.start(plan, str(run), InProcess(threads=2), open_source=read_first_rows)
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
    assert training.result.bytes_read > 2 * (MEMORY - PROGRAM_BYTES)
    assert spans > 4
    assert peak < MEMORY - PROGRAM_BYTES


def wide_plan(source, d, memory):
    """A plan for a source of so many columns."""
    sources = {"sources": (str(source),), "options": {"n_features": d}}
    asgd = {"kind": "asgd"}
    return TrainingPlan(dataset="clicks", source=sources, memory=memory, solver=asgd, lam=0.01)


def test_wide_rows_are_learnt_from_without_copies_of_the_state(tmp_path):
    write_clicks(tmp_path / "clicks.svm", 400_000)
    weights = []
    for memory in (140_000_000, 1_000_000_000):  # 32 bytes a column fit, and 80
        plan = wide_plan(tmp_path / "clicks.svm", 600_000, memory)
        run = TrainingRun.start(
            plan, str(tmp_path / str(memory)), InProcess(), open_source=read_first_rows
        )
        assert any(event.kind == "finish" for event in run)
        weights.append(run.result.weights_sha256)
    assert weights[0] == weights[1]


def test_memory_is_raised_for_several_learners_and_named_where_it_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr(default_memory, "usable_memory_bytes", lambda: 64 << 30)
    write_clicks(tmp_path / "clicks.svm", 400_000)
    sources = {"sources": (str(tmp_path / "clicks.svm"),), "options": {"n_features": 4_000_000}}

    def chosen(**memory):
        plan = TrainingPlan(dataset="clicks", source=sources, lam=0.01, **memory)
        with closing(read_first_rows(plan)) as source:
            plan, choice = planned_for_source(source.plan, source)
        return plan.memory, choice.methods[0].kind, choice.reason

    raised, kind, _ = chosen()
    assert kind == "onepass"
    assert raised > TrainingPlan(dataset="clicks").memory
    given, kind, reason = chosen(memory="1GiB")
    assert (given, kind) == (1 << 30, "asgd")
    named = parse_bytes(re.search("memory=([0-9]+MB)` would do", reason)[1])
    assert chosen(memory=named)[:2] == (named, "onepass")


def test_columns_that_nothing_has_room_for_are_refused_before_any_array_is_made(tmp_path):
    write_clicks(tmp_path / "clicks.svm", 400_000)
    plan = wide_plan(tmp_path / "clicks.svm", 1 << 30, 4_000_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=r"1,073,741,824 columns.*memory=34456MB"):
            TrainingRun.start(plan, str(tmp_path / "run"), InProcess(), open_source=read_first_rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000_000
