"""Storage that fails at any point: a clear message each time, and the quiet run's bits after it."""

import errno
import os

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

import storage.local_files
from pipeline.streaming.in_process import InProcess
from pipeline.training.plan import TrainingPlan
from pipeline.training.training_run import TrainingRun
from tests.datasets import make

OFTEN = {"memory": "96.1MB", "snapshot_every": 1e-9}  # a snapshot after every span


def train(plan, url, options=None):
    run = TrainingRun.start(plan, url, InProcess(), options)
    for _ in run:
        pass
    return run.result.weights_sha256


class Disk:
    """A disk with room for so many bytes: a write that does not fit is cut short by an error."""

    def __init__(self, monkeypatch):
        self.room = None
        self.used = 0
        self._write = os.write
        monkeypatch.setattr(storage.local_files.os, "write", self.write)

    def write(self, descriptor, data):
        if self.room is not None and self.used + len(data) > self.room:
            self._write(descriptor, data[: max(0, self.room - self.used)])
            self.used = self.room
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += len(data)
        return self._write(descriptor, data)


def test_a_disk_that_is_full_at_any_byte(tmp_path, monkeypatch):
    dataset = make(tmp_path / "set", n=2500, chunk_rows=30)
    plan = TrainingPlan(dataset=dataset.folder.url, **OFTEN)
    train(plan, str(tmp_path / "first"))  # compiles: slow spans are short ones, of more bytes
    disk = Disk(monkeypatch)
    quiet = train(plan, str(tmp_path / "quiet"))
    whole, full = disk.used, 0
    # A run writes more or less by the digits of its seconds: the last disk has room to spare.
    rooms = [whole * step // 25 + step % 7 for step in range(25)] + [2 * whole]
    for step, room in enumerate(rooms):
        url = str(tmp_path / f"run{step}")
        disk.used, disk.room = 0, room
        try:
            assert train(plan, url) == quiet
        except OSError as error:
            full += 1
            assert error.errno == errno.ENOSPC
            assert "Free some space or choose another place" in str(error)
            assert str(tmp_path) in str(error)
        disk.room = None
        assert train(plan, url) == quiet, f"after {room} of {whole} bytes"
    assert 20 <= full < len(rooms)


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
    """For every k; what was refused is asked for again by the next run."""
    local = make(tmp_path / "set", n=900, chunk_rows=90, d=5)
    fsspec.filesystem("memory").put(local.folder.url, "/faults/set", recursive=True)
    plan = TrainingPlan(dataset="memory://faults/set", **OFTEN)
    methods = ("cat_file", "pipe_file", "info", "find", "rm_file", "rm")
    store = Store(monkeypatch, MemoryFileSystem, methods)
    assert refuse_each(store, plan, "memory://faults", {}, 1) > 50


def test_s3_that_refuses_the_kth_request(tmp_path, monkeypatch):
    """For every seventh k: each of the 104 was refused once by hand, which takes two minutes."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"key": "testing", "secret": "testing", "endpoint_url": f"http://{host}:{port}"}
    fs = fsspec.filesystem("s3", **options)
    fs.mkdir("faults")
    local = make(tmp_path / "set", n=900, chunk_rows=450, d=5)
    fs.put(local.folder.url, "faults/set", recursive=True)
    plan = TrainingPlan(dataset="s3://faults/set", memory="96.1MB")
    store = Store(monkeypatch, S3FileSystem, ["_call_s3"])
    try:
        assert refuse_each(store, plan, "s3://faults", options, 7) > 10
    finally:
        server.stop()
