"""A Dask worker that is killed takes nothing with it: its spans run again elsewhere."""

import logging
import os
import signal
from operator import attrgetter

import dask.config
import distributed
import pytest

from fewpass.pipeline.passes.executor import LOST, open_executor
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import NotADataset
from testing.datasets import make
from testing.object_store import object_store
from testing.prefect_server import wait_for


@pytest.fixture(scope="module")
def store():
    """An S3 of this machine, its credentials in the environment of all that is started."""
    import fsspec

    with object_store("warehouse") as bucket, pytest.MonkeyPatch.context() as patch:
        for name, value in bucket.environment.items():
            patch.setenv(name, value)
        fsspec.config.set_conf_env(fsspec.config.conf)  # of this process, which has begun
        yield bucket.fs
    fsspec.config.conf.pop("s3")
    bucket.fs.clear_instance_cache()


@pytest.fixture(scope="module")
def cluster(store):
    """Two processes; whoever is killed is started again."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of every death at length
    with (
        dask.config.set({
            LOST: "240s",  # one that is back later would be given up for ever
            "distributed.worker.preload": ["fewpass.pipeline.training.training_run"],
        }),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True,
            dashboard_address="127.0.0.1:0", memory_limit=0, silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture
def two_processes(cluster):
    """Both of them, and none that died a moment ago and is not missed yet.

    They have imported what they need: who does so holds up its own signs of life.
    """
    wait_for(lambda: len(cluster.run(os.getpid, on_error="ignore")) == 2, 240, "two workers")
    return cluster


def kill_one(cluster, which):
    """Kill one of the processes that answer: one that was killed before may not be missed yet."""
    pids = wait_for(lambda: cluster.run(os.getpid, on_error="ignore"), 60, "a worker's answer")
    os.kill(sorted(pids.values())[which % len(pids)], signal.SIGKILL)


def test_the_model_is_the_same_bit_for_bit(tmp_path, two_processes, monkeypatch):
    """Where streams meet in the middle of a pass; at its end they do in test_dask_cluster.py."""
    monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", 0.01)  # more to kill at
    dataset = make(tmp_path / "set", n=20000, d=40, chunk_rows=200)
    plan = TrainingPlan(
        dataset=dataset.folder.url, lam="1/n", memory="97MB", streams=2, passes=2,
        solver={"kind": "psdca"}, snapshot_every=0.5,
    )  # fmt: skip
    quiet = TrainingRun.start(plan, str(tmp_path / "quiet"), InProcess())
    for _ in quiet:
        pass

    shaken = TrainingRun.start(plan, str(tmp_path / "shaken"), OnDask(two_processes, None))
    killed = 0
    for number, _ in enumerate(shaken):
        if number in (3, 9):
            kill_one(two_processes, number)
            killed += 1
    assert killed == 2
    assert shaken.result.weights_sha256 == quiet.result.weights_sha256
    assert shaken.result.rows_seen == quiet.result.rows_seen


class Stopping:
    """A training, quiet in this process and on a cluster with a process that is stopped."""

    def __init__(self, folder, kind, at):
        dataset = make(folder / "set", n=20000, d=40, chunk_rows=200)
        self.plan = TrainingPlan(
            dataset=dataset.folder.url, lam="1/n", memory="97MB", streams=2, passes=2,
            solver={"kind": kind}, snapshot_every=1000.0,
        )  # fmt: skip
        self.folder = folder
        self.quiet = TrainingRun.start(self.plan, str(folder / "quiet"), InProcess())
        events = sum(1 for _ in self.quiet)
        self.at = {"early": 1, "late": events - 4}[at]

    def go_on(self, executor):
        """Train; return what came of it."""
        shaken = TrainingRun.start(self.plan, str(self.folder / "shaken"), executor)
        for number, _ in enumerate(shaken):
            if number == self.at:
                os.kill(min(executor._client.run(os.getpid).values()), signal.SIGSTOP)
        return shaken.result


@pytest.mark.parametrize(("kind", "at"), [("asgd", "late"), ("gd", "early")])
def test_a_worker_of_ours_that_stands_still_is_started_again(tmp_path, monkeypatch, kind, at):
    """It answers nothing, and has states that the end of a walk needs, or subtrees of a sum."""
    monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", 0.01)
    monkeypatch.setattr("fewpass.pipeline.passes.executor.SILENT_S", 12)
    training = Stopping(tmp_path, kind, at)
    with open_executor(Execution(workers=2)) as executor:
        result = training.go_on(executor)
    assert result.weights_sha256 == training.quiet.result.weights_sha256
    assert result.rows_seen == training.quiet.result.rows_seen


def test_a_data_set_that_a_worker_cannot_open_is_the_tasks_error(tmp_path, two_processes):
    """Not the end of the worker, of which nobody would hear: no credentials there, say."""
    dataset = make(tmp_path / "set", n=500)
    before = two_processes.run(os.getpid)
    (tmp_path / "set/manifest.json").unlink()
    executor = OnDask(two_processes, None)
    with pytest.raises(NotADataset, match=str(tmp_path)):
        executor.result(executor.submit("rows", attrgetter("n_rows"), dataset))
    assert two_processes.run(os.getpid) == before


def test_data_and_run_on_s3_and_workers_that_die(tmp_path, store, two_processes):
    """Workers in other processes read the data and write snapshots with their own credentials."""
    dataset = make(tmp_path / "set", n=4000, d=20, chunk_rows=100)
    store.put(dataset.folder.url, "warehouse/set", recursive=True)
    settings = {"memory": "97MB", "passes": 2, "snapshot_every": 0.2, "streams": 2}
    quiet = TrainingRun.start(
        TrainingPlan(dataset=dataset.folder.url, **settings), str(tmp_path / "quiet"), InProcess()
    )
    for _ in quiet:
        pass

    plan = TrainingPlan(dataset="s3://warehouse/set", **settings)
    shaken = TrainingRun.start(plan, "s3://warehouse/run", OnDask(two_processes, None))
    for number, _ in enumerate(shaken):
        if number == 3:
            kill_one(two_processes, 0)
    assert number > 3
    assert shaken.result.weights_sha256 == quiet.result.weights_sha256
    store.invalidate_cache()
    assert any("snapshots/" in key for key in store.find("warehouse/run"))
    assert not (tmp_path / "run").exists()
