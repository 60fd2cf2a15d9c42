"""Training runs: the same bits wherever they run, however often they are interrupted."""

from pathlib import Path

import numpy as np
import pytest

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.rows import resident
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.protocol import Diverged
from fewpass.storage.table import DenseTable
from testing.datasets import make, write
from testing.interruptions import resumed, trained

MEMORY = "96.1MB"  # leaves windows of a few small chunks


def train(plan, url, executor=None):
    return trained(plan, url, executor).result


def plan_for(dataset, **settings):
    return TrainingPlan(dataset=dataset.folder.url, **({"memory": MEMORY, "lam": "1/n"} | settings))


def test_an_iterator_that_is_dropped_may_be_collected_by_a_thread_that_a_span_runs_on(tmp_path):
    """Python closes it at any allocation, there in the middle of `resident_rows`."""
    dataset = make(tmp_path / "set")
    plan = plan_for(dataset, solver={"kind": "sdca"}, passes=3, snapshot_every=1e-9, memory="1GB")
    executor = InProcess()
    events = iter(TrainingRun.start(plan, str(tmp_path / "run"), executor))
    next(e for e in events if e.kind == "snapshot")

    def collect():
        with resident._keeping:
            events.close()

    executor.result(executor.submit("collects", collect))
    assert train(plan, tmp_path / "run", executor).weights_sha256 == (
        train(plan, tmp_path / "quiet").weights_sha256
    )


def test_another_plan_or_other_data_is_refused(tmp_path):
    dataset = make(tmp_path / "set")
    train(plan_for(dataset), tmp_path / "run")
    with pytest.raises(PlanMismatch, match="seed was 0, now 1"):
        train(plan_for(dataset, seed=1), tmp_path / "run")
    other = make(tmp_path / "other", seed=5)
    (tmp_path / "set").rename(tmp_path / "gone")
    Path(other.folder.url.removeprefix("file://")).rename(tmp_path / "set")
    with pytest.raises(PlanMismatch, match="was trained on data set"):
        TrainingRun.resume(str(tmp_path / "run"), InProcess())


@pytest.mark.parametrize("solver", [{"kind": "asgd"}, {"kind": "asgd", "gamma0": 30.0}])
def test_a_model_is_compared_with_the_constant_over_all_rows(tmp_path, solver):
    """The first rows, which the best constant is of, lie nearer to it than the others."""
    rng, size = np.random.default_rng(0), np.repeat([0.01, 1.0], [60, 540])
    table = DenseTable(rng.standard_normal((600, 3)), size * rng.standard_normal(600), None)
    dataset = write(tmp_path / "set", table, 3, 60, targets="values", shuffled=True)
    plan = plan_for(dataset, solver=solver, loss="huber", lam=0.01, certify=True)
    train(plan, tmp_path / "run")
    events = RunFolder(str(tmp_path / "run")).events()
    told = [e["what"] for e in events if e["event"] == "warning"]
    assert ("constant" in told) == ("gamma0" in solver)


def test_an_exploding_pass_starts_again_with_half_the_step(tmp_path):
    dataset = make(tmp_path / "set", targets="values")
    plan = plan_for(dataset, lam=1e-4, solver={"kind": "asgd", "gamma0": 100.0})
    run = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    kinds = [event.kind for event in run]
    assert kinds.count("restart") >= 3
    weights = load_model(RunFolder(str(tmp_path / "run"))).weights
    assert np.isfinite(weights.coef).all()
    assert run.result.passes == 1


def test_which_stream_explodes_first_on_the_clock_decides_nothing(tmp_path, monkeypatch):
    """Each has found a first step of its own, half of which the pass starts again with."""
    rng, size = np.random.default_rng(0), np.repeat([0.3, 6.0, 0.05, 5.0], [4500, 1500, 2000, 4000])
    X = (size[:, None] * rng.standard_normal((12000, 8))).astype(np.float32)
    table = DenseTable(X, X @ rng.standard_normal(8), None)
    dataset = write(tmp_path / "set", table, 8, 100, targets="values", shuffled=False)
    plan = plan_for(dataset, solver={"kind": "sgd", "c": 0.0}, loss="squared", streams=2)
    made = []
    for seconds in (1e-9, 1e9):
        monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", seconds)
        made.append(train(plan, tmp_path / str(seconds)))
    events = RunFolder(str(tmp_path / "1e-09")).events()
    assert [event["event"] for event in events].count("restart") > 0
    assert made[0].weights_sha256 == made[1].weights_sha256
    assert made[0].rows_seen == made[1].rows_seen


def test_a_run_that_no_step_can_save_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("fewpass.pipeline.training.driver.MOST_RESTARTS", 1)
    dataset = make(tmp_path / "set", targets="values")
    plan = plan_for(dataset, lam=1e-4, solver={"kind": "asgd", "gamma0": 1000.0})
    with pytest.raises(Diverged, match=r"exploded 2 times.*`scale` of an ingest"):
        train(plan, tmp_path / "run")


def test_plans_that_do_not_fit_their_data_are_refused_before_anything_is_written(tmp_path):
    numbers = make(tmp_path / "numbers", targets="values")
    for wrong, said in [
        ({"loss": "hinge"}, "needs labels"),
        ({"memory": "1MB"}, "`memory="),
        ({"streams": 1000}, "Use fewer streams"),
        ({"lam": 1.0, "solver": {"kind": "asgd", "gamma0": 2.0}}, "gamma0"),
    ]:
        with pytest.raises(ValueError, match=said):
            train(plan_for(numbers, **wrong), tmp_path / "run")
        assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="10/n"):
        plan_for(numbers, lam="n/10")


def test_rows_in_no_random_order_are_visited_in_random_order(tmp_path):
    sorted_set = make(tmp_path / "sorted", shuffled=False)
    shuffled_set = make(tmp_path / "shuffled")
    a = train(plan_for(sorted_set), tmp_path / "a")
    b = train(plan_for(shuffled_set), tmp_path / "b")
    assert a.weights_sha256 != b.weights_sha256


def test_a_run_may_start_from_another_ones_model(tmp_path):
    """Its first rows are predicted by that model, and it is not needed any more after that."""
    dataset = make(tmp_path / "set", n=2500, chunk_rows=30)
    before = train(plan_for(dataset, passes=5, lam="10/n"), tmp_path / "before")
    plan = plan_for(dataset, start_from=before.run, lam="10/n", snapshot_every=1e-9)
    quiet = train(plan, tmp_path / "warm")
    first = {
        name: next(e for e in RunFolder(str(tmp_path / name)).events() if e["event"] == "span")
        for name in ("before", "warm")
    }
    assert first["warm"]["metrics"]["loss"] < first["before"]["metrics"]["loss"]
    for event in TrainingRun.start(plan, str(tmp_path / "cut"), InProcess()):
        if event.kind == "span":
            break
    (tmp_path / "before").rename(tmp_path / "gone")
    again = resumed(tmp_path / "cut")
    assert again.result.weights_sha256 == quiet.weights_sha256
    other = make(tmp_path / "narrow", d=7)
    with pytest.raises(BadInput, match="30 features"):
        train(plan_for(other, start_from=str(tmp_path / "gone")), tmp_path / "refused")


@pytest.mark.parametrize("solver", ["newton", "asgd"])
def test_a_display_hears_of_reductions(tmp_path, solver):
    dataset = make(tmp_path / "set")
    plan = plan_for(dataset, solver={"kind": solver}, passes=2, certify=True)
    run, heard = TrainingRun.start(plan, str(tmp_path / "run"), InProcess()), []
    run.hear(heard.append)
    for _ in run:
        pass
    rows = {counts: sum(e.facts.rows for e in heard if e.facts.counts is counts)
            for counts in (True, False)}  # fmt: skip
    n = dataset.n_rows
    passes = {"newton": (2 * n, 0), "asgd": (0, n)}[solver]  # the one's are sums, and certify
    assert (rows[True], rows[False]) == passes
