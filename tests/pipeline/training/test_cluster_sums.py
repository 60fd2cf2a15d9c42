"""Reductions as one graph: the same bits for any number of leaves a task has, and any workers."""

import threading
import time
from functools import partial

import numpy as np
import pytest
from distributed import Client, LocalCluster

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes import reduce as reductions
from fewpass.pipeline.passes import reduce_on_cluster as on_cluster
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.passes.sum_tree import SumTree
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.job import require_processes
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.gradient import GRADIENT
from fewpass.solvers.protocol import Weights
from testing.datasets import make
from testing.interruptions import resumed, trained
from testing.jobs import job_of

CHUNKS = 67


@pytest.fixture(scope="module")
def cluster():
    """Four workers of a thread each, in this process."""
    with LocalCluster(
        n_workers=4, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0,
        host="127.0.0.1", protocol="tcp",
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture
def executor(cluster):
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(4, timeout=60)
        yield OnDask(client, None)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    dataset = make(tmp_path_factory.mktemp("sums") / "set", n=CHUNKS * 10, d=7, chunk_rows=10)
    return job_of(TrainingPlan(dataset=dataset.folder.url, lam="1/n"), dataset)


@pytest.fixture(autouse=True)
def a_leaf_per_chunk(monkeypatch):
    monkeypatch.setattr(reductions, "SMALL_SPAN_VALUES", 1)


AT = Weights(np.linspace(-1, 1, 7), 0.5)


def added(executor, job, what=GRADIENT, **more):
    reports = []
    total = executor.result(reduce(executor, job, what, AT, reports.append, **more))
    assert sum(report.rows for report in reports) == CHUNKS * 10
    assert len(reports) == -(-CHUNKS // reductions.chunks_per_span(job))
    return total


def assert_same(one, other):
    assert (one.loss, one.g_b, one.rows) == (other.loss, other.g_b, other.rows)
    assert np.array_equal(one.G, other.G)


def as_text(left, right):
    return f"({left}{right})"


@pytest.mark.parametrize("leaves", [1, 2, 3, 11, 16, 37, 64])
def test_subtrees_and_adds_of_any_size_keep_the_order(leaves):
    def summed(values):
        tree = SumTree(as_text)
        for value in values:
            tree.push(value)
        return tree.total()

    whole = summed(map(str, range(leaves)))
    for own in (1, 2, 8):
        subtrees = [
            (summed(map(str, range(k, min(leaves, k + own)))),) for k in range(0, leaves, own)
        ]
        for together in (2, 4, 16):
            tree = on_cluster.tree_of("sum", subtrees, together)
            done = {}
            for key, (first, *given) in tree.tasks.items():
                done[key] = summed(done[part.key] for part in given) if given else first
            assert done[tree.root] == whole


@pytest.mark.parametrize("leaves_a_chunk", [16, CHUNKS])
def test_the_same_bits_as_on_threads(executor, job, monkeypatch, leaves_a_chunk):
    monkeypatch.setattr(reductions, "LEAST_SPANS", leaves_a_chunk)
    expected = added(InProcess(3), job)
    assert_same(added(InProcess(1), job), expected)
    monkeypatch.setattr(on_cluster, "TASKS_PER_THREAD", 1)
    for threads in ([1], [1] * 2, [1] * 4, [2] * 16):
        monkeypatch.setattr(executor.together, "threads", lambda threads=threads: threads)
        assert_same(added(executor, job), expected)


def test_memory_for_few_parts_makes_smaller_tasks():
    assert on_cluster.cut_to_tasks(1024, [1] * 64, 8_000, 1 << 24) == (4, 16)
    assert on_cluster.cut_to_tasks(1024, [1], 8_000, 1 << 24) == (256, 16)
    assert on_cluster.cut_to_tasks(1024, [1], 8_000_000, 1 << 25) == (4, 4)
    assert on_cluster.cut_to_tasks(1024, [16], 8_000_000, 1 << 24) == (1, 2)


@pytest.mark.parametrize("solver", ["asgd", "s2gd"])
def test_many_streams_are_joined_in_pairs(executor, tmp_path, monkeypatch, solver):
    dataset = make(tmp_path / "set", n=1000, d=7, chunk_rows=50, classes=3)
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver={"kind": solver}, streams=18, passes=2, lam="10/n",
        classes="ovr", memory="128MB", snapshot_every=1000.0,
    )  # fmt: skip
    expected = trained(plan, tmp_path / "threads", InProcess(2)).result
    assert (
        trained(plan, tmp_path / "cluster", executor).result.weights_sha256
        == expected.weights_sha256
    )
    monkeypatch.setattr("fewpass.pipeline.training.walk.MOST_JOINED", 100)
    together = trained(plan, tmp_path / "together", InProcess(2)).result
    assert together.weights_sha256 != expected.weights_sha256
    a, b = (load_model(RunFolder(str(tmp_path / n))).weights for n in ("threads", "together"))
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-12)


def noted(kinds, value):
    kinds.append(type(value))
    return value


@pytest.mark.parametrize(
    ("streams", "solver"), [(18, {"kind": "asgd"}), (3, {"kind": "sdca"})], ids=["pairs", "numbers"]
)
def test_a_snapshot_inside_a_walk_is_written_where_the_states_are(
    executor, tmp_path, monkeypatch, streams, solver
):
    monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", 1e-9)
    dataset = make(tmp_path / "set", n=8000, d=40, chunk_rows=50)
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver=solver, streams=streams, passes=2, lam="10/n",
        memory="98MB", snapshot_every=1000.0,
    )  # fmt: skip
    expected = trained(plan, tmp_path / "threads", InProcess(2)).result
    run = TrainingRun.start(plan, str(tmp_path / "cut"), executor)
    kinds, ask = [], executor.result
    with monkeypatch.context() as patch:
        patch.setattr(executor, "result", lambda handle: noted(kinds, ask(handle)))
        for event in run:
            if event.kind == "span":
                run.stop()
    assert kinds
    assert not set(kinds).intersection(plan.solver.states)
    folder = RunFolder(str(tmp_path / "cut"))
    newest, problems = folder.snapshots.latest()
    assert not problems
    assert not folder.snapshots.verify(newest.name)
    assert len(newest.attributes["streams"]) == streams
    halfway = load_model(folder).weights
    assert np.isfinite(halfway.coef).all()
    again = resumed(tmp_path / "cut", executor).result
    assert again.weights_sha256 == expected.weights_sha256


def test_each_process_has_memory_for_its_own_streams(executor, tmp_path):
    dataset = make(tmp_path / "set", n=6400, d=7, chunk_rows=100)
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver={"kind": "asgd"}, streams=32, lam="10/n",
        memory="96.3MB", snapshot_every=1000.0,
    )  # fmt: skip
    spread = Planner(plan, dataset, distributed=True).job(plan.memory)
    assert (spread.streams_per_process, spread.windows.chunks_per_window) == (8, 1)
    result = trained(plan, tmp_path / "cluster", executor).result
    with pytest.raises(BadInput, match="or more"):
        trained(plan, tmp_path / "threads", InProcess(2)).result
    wider = plan.model_copy(update={"memory": 97_300_000})
    assert Planner(wider, dataset).job(wider.memory).windows == spread.windows
    assert (
        trained(wider, tmp_path / "wider", InProcess(2)).result.weights_sha256
        == result.weights_sha256
    )
    with pytest.raises(BadInput, match="Start 4 or more, of 8 threads at most"):
        require_processes(spread, [1, 1, 1])
    with pytest.raises(BadInput, match="of up to 16 threads"):
        require_processes(spread, [16] * 4)


def test_dask_shows_the_pass_and_its_share(executor, job):
    executor.together.submit_at(0, "pass 1 at 30 %, walk-asgd", as_text, "a", "b").result()
    added(executor, job, label="pass 2, reduce-gradient")
    seen = executor._client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.task_prefixes])
    assert {"pass 1 at 30 %, walk-asgd", "pass 2, reduce-gradient"} <= set(seen)


def test_a_worker_that_dies_costs_its_own_spans(cluster, executor, job, monkeypatch):
    monkeypatch.setattr(reductions, "LEAST_SPANS", CHUNKS)
    monkeypatch.setattr("fewpass.pipeline.passes.reduce_span.READ_TOGETHER", 1)
    expected = added(InProcess(1), job)
    died, visits, closing = [], [], threading.Event()

    def check():
        if not died and len(visits) > CHUNKS // 2:
            died.append(cluster.workers[0])
            cluster.loop.add_callback(partial(died[0].close, executor_wait=False))
            closing.set()

    def count(problem, at, block, part):
        visits.append(1)
        if len(visits) > CHUNKS // 2:
            closing.wait(60)  # however late it is looked
        time.sleep(0.02)
        return GRADIENT.add(problem, at, block, part)

    what = GRADIENT._replace(name="reduce-dying", add=count, reports=False)
    COUNT[:] = [count]
    assert_same(added(executor, job, what._replace(add=add_and_count), check=check), expected)
    assert died
    assert CHUNKS <= len(visits) < 2 * CHUNKS
    cluster.scale(len(cluster.worker_spec) + 1)


COUNT = []


def add_and_count(problem, at, block, part):
    return COUNT[0](problem, at, block, part)
