"""Handles, states and rows of a training are freed when it ends, however it does: no cycle has them.

Python looks for cycles by the number of its objects, and an array of gigabytes is one.
"""

import gc
import os
import weakref
from contextlib import suppress

import numpy as np
import pytest
from distributed import Client, LocalCluster

from fewpass import LinearClassifier
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.passes.threads import InProcess, PoolTask
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.driver import Driver
from fewpass.pipeline.training.sweeps import Sweeps
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.pipeline.training.walk import WalkDriver
from testing.datasets import make
from testing.prefect_server import wait_for

KINDS = [("asgd", 2), ("psdca", 1), ("gd", 1), ("newton", 1)]
ENDS = ["whole", "stopped", "dropped", "failed"]


@pytest.fixture(autouse=True)
def without_collector(monkeypatch):
    """No cycle is looked for; spans are short, so that several are under way."""
    monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", 1e-3)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def cluster():
    """Two workers in this process."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0,
        host="127.0.0.1", protocol="tcp", silence_logs="CRITICAL",
    ) as cluster:  # fmt: skip
        yield cluster


def train(folder, executor, kind, streams, end):
    """Train in one of the ways that a training ends."""
    dataset = make(folder / "set", n=4000, d=20, chunk_rows=100)
    plan = TrainingPlan(
        dataset=dataset.folder.url, passes=2, streams=streams, solver={"kind": kind},
        snapshot_every=1e-3, lam="10/n",
    )  # fmt: skip
    run = TrainingRun.start(plan, str(folder / "run"), executor)
    if end == "failed":
        for path in (folder / "set").rglob("*"):
            if path.is_file() and path.name != "manifest.json":
                os.truncate(path, 0)
    for number, _ in enumerate(run):
        if number == 1 and end == "stopped":
            run.stop()
        if number == 1 and end == "dropped":
            break
    assert end != "failed"


def with_all_below(kind):
    return {kind}.union(*map(with_all_below, kind.__subclasses__()))


def alive():
    """What has states, or rows, by its type: a weak proxy of another test, asked for its class, may have nothing left."""
    kinds = set().union(*map(with_all_below, (PoolTask, Driver, Sweeps, WalkDriver, Job)))
    return [each for each in gc.get_objects() if type(each) in kinds]  # of a million objects


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("kind", "streams"), KINDS)
def test_in_this_process(tmp_path, kind, streams, end):
    before = alive()  # and it stays, though another test may only now let go of it
    known = set(map(id, before))
    executor = InProcess(2)
    with suppress(OSError):
        train(tmp_path, executor, kind, streams, end)
    executor.close()
    assert [type(each).__name__ for each in alive() if id(each) not in known] == []


def statuses(client):
    return {state.status for state in client.futures.values()}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("kind", "streams"), KINDS[:1] + KINDS[2:3])
def test_on_a_cluster(tmp_path, cluster, kind, streams, end):
    with Client(cluster, set_as_default=False) as client:
        with suppress(OSError):
            train(tmp_path, OnDask(client, None), kind, streams, end)
        # Dask has a cycle of its own on the error that was raised, which has no data
        wait_for(lambda: statuses(client) <= {"error"}, 60, "a client without handles")
        wait_for(lambda: not any(client.has_what().values()), 60, "workers without results")


@pytest.mark.parametrize("brief", [True, False])
def test_rows_of_a_fit(brief):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60 if brief else 6000, 10))
    y = rng.integers(0, 2, len(X))
    model = LinearClassifier(lam="1/n").fit(X, y)
    rows = weakref.ref(X)
    del X
    assert rows() is None
    assert model.coef_.shape == (1, 10)
