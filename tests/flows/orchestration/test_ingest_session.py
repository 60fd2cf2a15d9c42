"""An ingest in stages: the same set, few of them, each tried again from what is there."""

import threading
from contextlib import closing

import numpy as np
import pytest

from fewpass.flows.orchestration import ingest_session
from fewpass.flows.orchestration.ingest_session import MOST_STAGES, IngestSession
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest import mapping, progress, writing
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.span_map import SpanMap
from fewpass.pipeline.tables.ingest.writing import GroupWriter
from fewpass.pipeline.tables.readers import lines

CLUSTER, HERE = Execution(scheduler="local", threads=2), Execution()


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Of some hundred pieces, with progress told of each."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(lines, "SPAN_BYTES", 10_000)
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.0)
    monkeypatch.setattr(ingest_session, "LEAST_S", 0.0)
    monkeypatch.setattr(writing, "LEAF_VALUES", 600)
    X = np.random.default_rng(1).standard_normal((6_000, 4)).round(3)
    rows = (",".join(map(str, (int(x[0] > 0), *x))) for x in X)
    (tmp_path / "rows.csv").write_text("y,a,b,c,d\n" + "\n".join(rows) + "\n")
    return IngestPlan(
        sources=(str(tmp_path / "rows.csv"),), dataset=str(tmp_path / "set"), chunk_bytes="4kB",
        test_fraction=0.2, options={"label": "y"},
    )  # fmt: skip


@pytest.fixture
def expected(plan):
    return ingest(plan.model_copy(update={"dataset": f"{plan.dataset}-alone"})).fingerprint


@pytest.mark.parametrize("place", [HERE, CLUSTER], ids=["threads", "tasks"])
def test_stages_make_the_set_and_tell_how_far_it_is(place, plan, expected):
    names, told = [], []
    with closing(IngestSession(plan, place)) as session:
        for stage in session.stages():
            names.append(stage.name)
            told += session.advance(stage)
    assert session.result.fingerprint == expected
    assert names[0] == "look at the sources" and names[-1] == "commit"
    for verb in ("map rows", "write chunks"):
        shares = [name for name in names if name.startswith(verb)]
        assert 10 < len(shares) <= MOST_STAGES
        assert len({*shares}) == len(shares)
    assert len(told) > len(names)
    with closing(IngestSession(plan, place)) as session:
        for stage in session.stages():
            assert [*session.advance(stage)] == []
    assert stage.name == "look at the sources"  # all was there
    assert session.result.fingerprint == expected


@pytest.mark.parametrize(("fails", "spans"), [("map", SpanMap), ("written", GroupWriter)])
def test_a_stage_that_fails_is_tried_again_from_what_is_there(
    fails, spans, plan, expected, monkeypatch
):
    done, failed, own, one = [], [], getattr(spans, fails), threading.Lock()

    def fails_once(self, *given):
        with one:  # called from threads of the cluster
            if len(done) >= 7 and not failed:
                failed.append(1)
                raise OSError("a worker's disk is full")
        made = own(self, *given)
        done.append(given[0])
        return made

    monkeypatch.setattr(spans, fails, fails_once)
    with closing(IngestSession(plan, CLUSTER)) as session:
        for stage in session.stages():
            for _ in range(2):  # as Prefect tries a task again
                try:
                    for _ in session.advance(stage):
                        pass
                    break
                except OSError:
                    assert failed == [1]
    assert failed == [1]
    assert session.result.fingerprint == expected
    if spans is SpanMap:
        assert sorted(done) == [*range(len(done))]


def test_a_session_that_is_closed_leaves_the_work_to_the_next(plan, expected):
    with closing(IngestSession(plan, CLUSTER)) as session:
        for stage in session.stages():
            [*session.advance(stage)]
            if stage.name.startswith("map"):
                break
    assert session.result is None
    assert ingest(plan).fingerprint == expected
