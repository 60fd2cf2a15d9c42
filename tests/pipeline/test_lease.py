"""The lease of a run's folder: one holder at a time, and nobody locked out by the dead."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from fewpass.pipeline.lease import (
    KEY,
    LASTS_S,
    Holder,
    InUse,
    Lease,
    LeaseLost,
    holder_of,
    release_stale,
)
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal
from testing.datasets import make

HOLD = """
import sys, time
from fewpass.pipeline.lease import Lease
from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal
with Lease(Folder(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path / "run"))


def left_behind(folder, **changes):
    """Write the lease of somebody else."""
    holder = Holder.myself()._replace(**changes)
    folder.write(KEY, seal(holder._asdict()))
    return holder


def test_one_at_a_time(folder):
    with Lease(folder):
        with pytest.raises(InUse, match=f"process {os.getpid()}"), Lease(folder):
            pass
        assert holder_of(folder).pid == os.getpid()
    assert holder_of(folder) is None
    with Lease(folder):
        pass
    assert folder.list() == []


def test_a_killed_holder_is_known_to_be_dead_at_once_whatever_clocks_say(folder, monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", HOLD, folder.url], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(InUse, match=f"process {child.pid}"), Lease(folder):
        pass
    assert release_stale(folder) is None
    with monkeypatch.context() as stepped:  # by which Linux's start in the time of day moves
        told = psutil.Process.create_time
        stepped.setattr(psutil.Process, "create_time", lambda self: told(self) + 3600.0)
        assert release_stale(folder) is None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert holder_of(folder).pid == child.pid
    with Lease(folder):
        assert holder_of(folder).pid == os.getpid()


@pytest.mark.parametrize(
    ("changes", "free"),
    [
        ({"machine": "elsewhere", "renewed": 0.0}, False),
        ({"machine": "elsewhere", "renewed": -LASTS_S - 60.0}, True),
        ({"host": "other", "pid": 1, "renewed": -LASTS_S - 60.0}, True),
        ({"started": 1.0}, True),  # our process id, used before by another process
        ({"pid": 2**22 + 1}, True),
        ({"pid": os.getppid(), "started": 1.0}, True),
    ],
)
def test_who_counts_as_dead(folder, changes, free):
    if "renewed" in changes:  # seconds from now
        changes = changes | {"renewed": time.time() + changes["renewed"]}
    left_behind(folder, **changes)
    if free:
        with Lease(folder) as lease:
            lease.check()
    else:
        with pytest.raises(InUse), Lease(folder):
            pass


@pytest.mark.parametrize("place", ["{tmp}/run", "memory://lease/run"])
def test_of_many_who_find_a_stale_lease_one_gets_it(tmp_path, place):
    folder = Folder(place.format(tmp=tmp_path))
    for _ in range(10):
        left_behind(folder, pid=2**22 + 1)
        start, done = threading.Barrier(6), threading.Barrier(6)
        got = []

        def take():
            start.wait()
            try:
                with Lease(folder) as lease:
                    got.append(lease)
                    done.wait()
            except InUse:
                done.wait()

        threads = [threading.Thread(target=take) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        assert folder.list() == []


def test_a_lease_counts_from_the_moment_that_it_can_be_read(folder, monkeypatch):
    create = Folder.create

    def another_looks(self, key, data, **how):
        done = create(self, key, data, **how)
        assert not holder_of(folder).is_dead()
        return done

    monkeypatch.setattr(Folder, "create", another_looks)
    with Lease(folder), pytest.raises(InUse, match=f"process {os.getpid()}"), Lease(folder):
        pass


def test_one_given_back_in_this_moment_is_not_taken_for_stale(folder, monkeypatch):
    """Else the lease of whoever is quickest to take it next would be removed."""
    answers, removed = iter([False]), []
    create, delete = Folder.create, Folder.delete
    monkeypatch.setattr(
        Folder, "create", lambda self, *of, **how: next(answers, True) and create(self, *of, **how)
    )
    monkeypatch.setattr(
        Folder, "delete", lambda self, key: removed.append(key) or delete(self, key)
    )
    with Lease(folder) as lease:
        lease.check()
        assert removed == []


def test_a_torn_lease_locks_nobody_out(folder):
    folder.write(KEY, b'{"token": ')
    with Lease(folder) as lease:
        lease.check()


def test_one_who_was_taken_for_dead_writes_no_snapshot(tmp_path):
    dataset = make(tmp_path / "set", n=2500, chunk_rows=30)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", memory="96.1MB", snapshot_every=1e-9)
    run = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    with pytest.raises(LeaseLost, match="taken over by process 1 on other"):
        for event in run:
            if event.kind == "snapshot":
                left_behind(run.run.folder, host="other", pid=1)
    assert len(run.run.snapshots.names()) == 1


def test_no_two_trainings_into_one_folder(tmp_path):
    dataset = make(tmp_path / "set", n=2500)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n")
    first = iter(TrainingRun.start(plan, str(tmp_path / "run"), InProcess()))
    next(first)
    with pytest.raises(InUse, match="fewpass check with `free`"):
        next(iter(TrainingRun.start(plan, str(tmp_path / "run"), InProcess())))
    for _ in first:
        pass
    next(iter(TrainingRun.resume(str(tmp_path / "run"), InProcess())))
