"""How many streams the workers of a cluster step, how often these meet, and that a run keeps to it."""

from types import SimpleNamespace

import pytest
from distributed import LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning import in_streams as rule
from fewpass.pipeline.planning.in_streams import affordable, because, meetings_of, streams_for
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.prepared import planned
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make


def rows(n, chunks=4096, columns=100_000):
    """What the rule asks of a data set of rows with 40 numbers each."""
    return SimpleNamespace(n_rows=n, nnz=40 * n, n_chunks=chunks, n_features=columns)


@pytest.mark.parametrize(
    ("n", "workers", "streams"),
    [(10**7, 4, 1), (10**9, 4, 4), (10**9, 64, 9), (10**11, 64, 64), (10**9, 1, 1)],
)
def test_streams_are_as_many_as_save_time(n, workers, streams):
    assert streams_for(rows(n), workers) == streams


def test_streams_need_chunks_whatever_the_pass():
    assert streams_for(rows(10**11, chunks=48 * 5 + 47), 64) == 5


@given(st.integers(10**3, 10**12), st.integers(1, 10**5), st.integers(2, 100))
def test_meetings_take_a_tenth_of_a_pass_or_are_sixteen(n, chunks, streams):
    data = rows(n, chunks)
    often = meetings_of(data, streams)
    assert 1 <= often <= 64
    if often > 16:
        assert often * rule.meeting_ns(data, streams) <= 0.1 * rule.pass_ns(data) / streams
    elif often < 16:
        assert often == max(1, chunks // (3 * streams))
    assert affordable(data, streams) <= affordable(rows(10 * n, chunks), streams)


def test_columns_that_move_cost_meetings():
    few, many = rows(10**9, columns=100), rows(10**9, columns=10**7)
    assert meetings_of(many, 4) < meetings_of(few, 4)


def test_streams_that_do_not_meet_are_refused(tmp_path):
    dataset = make(tmp_path / "set", n=550, chunk_rows=50)
    asked = {"dataset": dataset.folder.url, "lam": "1/n", "solver": {"kind": "psdca"}, "streams": 2}
    with pytest.raises(BadInput, match=r"need 6 chunks each .*12 in all, and the data set has 11"):
        TrainingRun.start(TrainingPlan.model_validate(asked), str(tmp_path / "run"), InProcess())
    assert not (tmp_path / "run").exists()
    for other in ({"solver": {"kind": "asgd"}}, {"streams": 1}):
        planned(TrainingPlan.model_validate(asked | other), dataset, None, near=True)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Many chunks."""
    folder = tmp_path_factory.mktemp("streams") / "set"
    return make(folder, n=2000, d=600, chunk_rows=10, layout="sparse", nnz=20)


@pytest.fixture
def meetings_are_free(monkeypatch):
    for name in ("WORKER", "STREAM", "COLUMN"):
        monkeypatch.setattr(rule, name, 1e-3)


@pytest.mark.usefixtures("meetings_are_free")
@pytest.mark.parametrize(
    ("words", "workers", "streams", "reason"),
    [
        ({"tol": 1e-3}, 3, 3, "; 3 streams: the cluster has 3 workers"),
        ({"tol": 1e-3}, 9, 4, "; 4 streams: for more of the cluster's 9 workers a pass is too short"),
        ({"tol": 1e-3, "streams": 1}, 3, 1, "to 0.001"),
        ({"tol": 1e-3, "solver": "psdca"}, 3, 3, "3 streams: the cluster has 3 workers"),
        ({"tol": 1e-3, "solver": {"kind": "psdca", "batch": "rounds"}}, 3, 1, None),
        ({"tol": 1e-3, "solver": {"kind": "psdca", "columns": "apart"}}, 3, 1, None),
        ({"tol": 1e-3, "solver": "newton"}, 3, 1, None),
        ({"passes": 1}, 3, 1, "was asked for"),
    ],
)  # fmt: skip
def test_what_a_plan_has_in_streams(dataset, words, workers, streams, reason):
    plan = TrainingPlan.model_validate({"dataset": dataset.folder.url, "lam": "1/n"} | words)
    planner, plan, _ = planned(plan, dataset, None, near=False, workers=workers)
    choice = planner.choice(plan.memory)
    assert (plan.streams, planner.job(plan.memory).stats.streams) == (streams, streams)
    assert choice.reason.endswith(reason) if reason else choice is None


def test_a_pass_too_short_is_one_stream(dataset):
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", tol=1e-3)
    planner, plan, _ = planned(plan, dataset, None, near=False, workers=3)
    assert plan.streams == 1
    assert planner.choice(plan.memory).reason.endswith(because(1, 3))


@pytest.mark.usefixtures("meetings_are_free")
def test_a_run_keeps_its_streams_wherever_it_goes_on(tmp_path, monkeypatch):
    """Two on a cluster of two; the same command goes on in threads, to the bits of two streams."""
    monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", 0.0)
    dataset = make(tmp_path / "set", n=2000, d=60, chunk_rows=20)
    asked = {
        "dataset": dataset.folder.url, "lam": "1/n", "solver": {"kind": "psdca"}, "passes": 3,
        "memory": "128MB",
    }  # fmt: skip
    plan, run = TrainingPlan.model_validate(asked), str(tmp_path / "run")
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0",
            memory_limit=0, host="127.0.0.1", protocol="tcp", silence_logs="CRITICAL",
        ) as cluster,
        open_executor(Execution(scheduler=cluster.scheduler_address), "asked for") as executor,
    ):  # fmt: skip
        begun = TrainingRun.start(plan, run, executor)
        for number, _ in enumerate(begun):
            if number == 20:
                begun.stop()
        assert not begun.finished
    assert RunFolder(run).record().plan.streams == 2
    ends = []
    for place, own in (
        (run, plan),
        (str(tmp_path / "own"), plan.model_copy(update={"streams": 2})),
    ):
        again = TrainingRun.start(own, place, InProcess(2))
        list(again)
        ends.append((again.stats.streams, again.result.weights_sha256))
    assert ends[0] == ends[1]
    assert ends[0][0] == 2
