"""Training runs: the same bits wherever they run, however often they are interrupted."""

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest

from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.rows import resident
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.packing import unpack_state
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.dual.sdca_state import SdcaState
from fewpass.solvers.gradient import GRADIENT
from fewpass.solvers.protocol import Diverged, Weights
from fewpass.storage.folder import Damaged
from fewpass.storage.table import DenseTable
from testing.datasets import make, write
from testing.interruptions import trained
from testing.jobs import job_of

MEMORY = "96.1MB"  # leaves windows of a few small chunks


def train(plan, url, executor=None):
    return trained(plan, url, executor).result


def plan_for(dataset, **settings):
    return TrainingPlan(dataset=dataset.folder.url, **({"memory": MEMORY, "lam": "1/n"} | settings))


def test_the_same_command_again_continues_and_then_does_nothing(tmp_path):
    plan = plan_for(make(tmp_path / "set"))
    first = train(plan, tmp_path / "run")
    lines = len((tmp_path / "run/log.jsonl").read_text().splitlines())
    again = train(plan, tmp_path / "run")
    assert again.weights_sha256 == first.weights_sha256
    events = [json.loads(x) for x in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events[lines:]] == ["resume", "finish"]


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


@pytest.mark.parametrize("solver", ["asgd", "sdca", "s2gd"])
def test_a_training_that_is_dropped_gives_back_its_state_at_once(tmp_path, solver):
    """Not at Python's next search for circles: a notebook's next training needs that memory."""
    run = TrainingRun.start(
        plan_for(make(tmp_path / "set"), solver={"kind": solver}, passes=2),
        str(tmp_path / "run"), InProcess(),
    )  # fmt: skip
    gc.collect()
    gc.disable()
    try:
        for _ in run:
            pass
        engine = weakref.ref(run._engine)
        del run, _
        assert engine() is None
    finally:
        gc.enable()


def test_a_damaged_newest_snapshot_is_named_and_passed_over(tmp_path):
    dataset = make(tmp_path / "set", n=2500, chunk_rows=30)
    plan = plan_for(dataset, snapshot_every=1e-9)
    quiet = train(plan, tmp_path / "quiet")
    run = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    snapshots = 0
    for event in run:
        snapshots += event.kind == "snapshot"
        if snapshots == 3:
            break
    newest = max((tmp_path / "run/snapshots").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)

    resumed = TrainingRun.resume(str(tmp_path / "run"), InProcess())
    events = list(resumed)
    assert events[0].kind == "resume"
    assert events[0].facts.snapshot < newest.stem
    assert len(events[0].facts.damaged) == 1
    assert newest.name in events[0].facts.damaged[0]
    assert resumed.result.weights_sha256 == quiet.weights_sha256


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


def test_the_certificate_bounds_the_true_gap_and_tol_stops(tmp_path):
    dataset = make(tmp_path / "set")
    one = train(plan_for(dataset, lam=0.05, certify=True), tmp_path / "one")
    many = train(plan_for(dataset, lam=0.05, passes=60, tol=1e-5), tmp_path / "many")
    assert many.certificate <= 1e-5
    assert 1 < many.passes < 60
    assert 0 <= one.objective - many.objective <= one.certificate


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


def test_a_gather_adds_every_row_once_with_the_same_bits_on_any_workers(tmp_path):
    dataset = make(tmp_path / "set", n=2300, chunk_rows=50)
    job = job_of(plan_for(dataset), dataset)
    at = Weights(np.linspace(-1, 1, dataset.n_features), 0.5)
    executor = InProcess()
    total = executor.result(reduce(executor, job, GRADIENT, at, lambda _: None))
    assert total.rows == 2300
    for execution in (
        Execution(threads=3), Execution(scheduler="local", threads=3), Execution(workers=2),
    ):  # fmt: skip
        with open_executor(execution) as executor:
            other = executor.result(reduce(executor, job, GRADIENT, at, lambda _: None))
        assert (other.loss, other.g_b) == (total.loss, total.g_b)
        assert np.array_equal(other.G, total.G)


def test_a_damaged_chunk_stops_training_by_its_name(tmp_path):
    dataset = make(tmp_path / "set")
    victim = tmp_path / "set/X/c.3.0"
    content = bytearray(victim.read_bytes())
    content[100] ^= 1
    victim.write_bytes(content)
    with pytest.raises(Damaged, match=r"X/c\.3\.0"):
        train(plan_for(dataset), tmp_path / "run")


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
    resumed = TrainingRun.resume(str(tmp_path / "cut"), InProcess())
    for _ in resumed:
        pass
    assert resumed.result.weights_sha256 == quiet.weights_sha256
    other = make(tmp_path / "narrow", d=7)
    with pytest.raises(BadInput, match="30 features"):
        train(plan_for(other, start_from=str(tmp_path / "gone")), tmp_path / "refused")


def test_a_state_of_another_version_is_refused_with_what_to_do(tmp_path):
    dataset = make(tmp_path / "set")
    train(plan_for(dataset, solver={"kind": "sdca"}), tmp_path / "run")
    snapshot, _ = RunFolder(str(tmp_path / "run")).snapshots.latest()
    assert isinstance(unpack_state((SdcaState,), snapshot, 0), SdcaState)
    del snapshot.arrays["0.fresh"]
    with pytest.raises(BadInput, match="`start_from"):
        unpack_state((SdcaState,), snapshot, 0)


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
