"""Where `auto` has the cores of a machine share the steps of dual ascent, and that a run keeps to it."""

import pytest

from fewpass.pipeline import cores
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning import in_rounds as rule
from fewpass.pipeline.planning.in_rounds import in_rounds
from fewpass.pipeline.planning.method_choice import MethodChoice
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training import method_at_work, prepared, walk
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.penalties import ElasticNet
from testing.datasets import make
from tests.pipeline.planning.test_auto import problem, stats, trained

LONG = {"n": 100_000, "d": 30_000}


@pytest.mark.parametrize(
    ("case", "about"),
    [
        ("rounds", {}),
        ("rounds", {"loss": "hinge"}),
        ("chain", {"cores": 5}),
        ("chain", {"n": 19_999}),
        ("chain", {"n": 30_000, "d": 100}),
        ("chain", {"models": 2}),
        ("chain", {"streams": 2}),
        ("chain", {"loss": "squared"}),
        ("chain", {"penalty": ElasticNet(1e-4, 1e-4)}),
        ("chain", {"method": Newton()}),
    ],
)
def test_what_is_stepped_in_rounds(case, about):
    about = {"loss": "logistic", "cores": 6, "models": 1, "method": Psdca()} | LONG | about
    given = problem(about["loss"])
    given = given._replace(penalty=about.get("penalty", given.penalty))
    rows = stats(about["n"], d=about["d"], streams=about.get("streams", 1))
    choice = MethodChoice(methods=(about["method"], Newton()), reason="why")
    found = in_rounds(choice, given, rows, about["models"], about["cores"])
    if case == "chain":
        assert found is choice
        return
    assert found.methods == (Psdca(batch="rounds"), Newton())
    assert found.reason == "why; in rounds, which the 6 cores of this machine share"


@pytest.fixture
def many_cores(monkeypatch):
    """A machine of 16 cores, on which rounds are worth while for few rows."""
    monkeypatch.setattr(prepared, "usable_cores", lambda: 16)
    monkeypatch.setattr(rule, "LEAST_ROWS", 1000)
    monkeypatch.setattr(rule, "LEAST_PASS", 0.0)


@pytest.mark.usefixtures("many_cores")
def test_a_run_keeps_to_rounds_whatever_the_threads(tmp_path, monkeypatch):
    """The same bits with 1 and 3 threads, and where a machine of one core goes on in mid-pass."""
    data = make(tmp_path / "set", n=3000, d=600, chunk_rows=250, layout="sparse", nnz=20)
    plan = TrainingPlan(
        dataset=data.folder.url, lam="1/n", tol=1e-3, memory="97MB", snapshot_every=1e-9
    )
    on_workers, _, _ = prepared.planned(plan, data, None, near=False)
    assert on_workers.method(plan.memory) == Psdca(batch="rounds")
    monkeypatch.setattr(walk, "SPAN_SECONDS", 0.0)  # a span is a window
    quiet, events = trained(plan, tmp_path / "quiet")
    assert quiet.methods.methods[0] == Psdca(batch="rounds")
    assert quiet.result.certificate <= 1e-3
    kinds = [event.kind for event in events]
    assert kinds.count("span") > 1.5 * quiet.result.passes, "there is no mid-pass"
    monkeypatch.setattr(method_at_work, "usable_cores", lambda: 3)
    shared = TrainingRun.start(plan, str(tmp_path / "shared"), InProcess(3))
    assert list(shared)
    begun = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    for seen, _ in enumerate(begun):
        if seen == 4:
            break
    monkeypatch.setattr(prepared, "usable_cores", lambda: 1)
    resumed, _ = trained(plan, tmp_path / "run")
    ends = {run.result.weights_sha256 for run in (quiet, shared, resumed)}
    assert len(ends) == 1


def test_cores_are_those_that_a_control_group_leaves(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/cpu.max").write_text("250000 100000\n")
    (tmp_path / "a/b/cpu.max").write_text("max 100000\n")
    (tmp_path / "cpu/c").mkdir(parents=True)
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu/c/cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu/c/cpu.cfs_period_us").write_text("100000\n")
    told = tmp_path / "cgroup"
    told.write_text("0::/a/b\n4:cpu,cpuacct:/c\n")
    assert list(cores._group_shares(tmp_path, told)) == [2.5, 0.5]
    assert cores.usable_cores() >= 1
