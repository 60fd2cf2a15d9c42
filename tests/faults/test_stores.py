"""Object stores that refuse a request: a clear message each time, and the quiet run's bits (P3)."""

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make
from testing.object_store import object_store

OFTEN = {"memory": "96.1MB", "snapshot_every": 1e-9}  # a snapshot after every span


def train(plan, url, options=None):
    run = TrainingRun.start(plan, url, InProcess(), options)
    for _ in run:
        pass
    return run.result.weights_sha256


class Store:
    """An object store that refuses one request; which methods of fsspec's are one is told."""

    def __init__(self, monkeypatch, kind, methods):
        self.asked, self.refuse = 0, None
        for name in methods:
            monkeypatch.setattr(kind, name, self.counted(getattr(kind, name)))

    def counted(self, call):
        def refusing(fs, *args, **kwargs):
            self.asked += 1
            if self.asked == self.refuse:
                raise PermissionError(f"Access Denied: request {self.refuse}")
            return call(fs, *args, **kwargs)

        return refusing


def refuse_each(store, plan, runs, options, stride):
    """Refuse request k = 1, 1 + stride, ... until a run passes clean."""
    quiet = train(plan, f"{runs}/quiet", options)
    refused = 0
    for k in range(1, 1000, stride):
        store.asked, store.refuse = 0, k
        try:
            assert train(plan, f"{runs}/run{k}", options) == quiet
        except PermissionError as error:
            refused += 1
            assert runs in str(error)
            assert "may not be accessed" in str(error)
        clean, store.refuse = store.asked < k, None
        if clean:
            return refused
        assert train(plan, f"{runs}/run{k}", options) == quiet, f"after request {k}"
    raise AssertionError("no run passed clean")


def test_a_store_that_refuses_the_kth_request(tmp_path, monkeypatch):
    """For every third k; what was refused is asked for again by the next run."""
    local = make(tmp_path / "set", n=900, chunk_rows=90, d=5)
    fsspec.filesystem("memory").put(local.folder.url, "/faults/set", recursive=True)
    plan = TrainingPlan(dataset="memory://faults/set", **OFTEN)
    methods = ("cat_file", "pipe_file", "info", "find", "rm_file", "rm")
    store = Store(monkeypatch, MemoryFileSystem, methods)
    assert refuse_each(store, plan, "memory://faults", {}, 3) > 13


def test_s3_that_refuses_the_kth_request(tmp_path, monkeypatch):
    """For every thirteenth k: each was refused once by hand, which takes two minutes."""
    from s3fs import S3FileSystem

    local = make(tmp_path / "set", n=900, chunk_rows=450, d=5)
    plan = TrainingPlan(dataset="s3://faults/set", memory="96.1MB", lam="1/n")
    with object_store("faults") as bucket:
        bucket.fs.put(local.folder.url, "faults/set", recursive=True)
        store = Store(monkeypatch, S3FileSystem, ["_call_s3"])
        assert refuse_each(store, plan, "s3://faults", bucket.options, 13) > 5
