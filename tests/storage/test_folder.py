"""Folders: the same on every address; an object is written whole or not at all."""

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from fewpass.storage import local_files
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Values
from fewpass.storage.snapshot import SnapshotStore
from fewpass.storage.table import DenseTable
from fewpass.storage.writer import DatasetWriter
from testing.object_store import object_store

SECRET = "canary-7f3a"


@pytest.fixture(scope="module")
def s3():
    with object_store("bucket1", SECRET) as store:
        yield store.options


@pytest.fixture(params=["local", "file", "memory", "s3"])
def folder(request, tmp_path):
    if request.param == "local":
        return Folder(str(tmp_path / "here"))
    if request.param == "file":
        return Folder(f"file://{tmp_path}/the%20re")
    if request.param == "memory":
        return Folder(f"memory://{tmp_path.name}/there")
    return Folder(f"s3://bucket1/{tmp_path.name}", request.getfixturevalue("s3"))


def test_every_address_behaves_alike(folder):
    assert folder.list() == []
    folder.require_writable()
    assert folder.list() == []
    folder.write("a/b/c", b"12345")
    folder.write("a/d", bytearray(b""))
    folder.write("e", memoryview(b"old"), durable=False)
    folder.write("e", b"new", durable=False)
    folder.write("ab", b"not below a")
    folder.sync(["a/b/c", "e"])
    assert folder.list() == ["a/b/c", "a/d", "ab", "e"]
    assert folder.list("a") == folder.list("a/") == ["a/b/c", "a/d"]
    assert folder.child("a").list() == ["b/c", "d"]
    assert (folder.read("e"), folder.read("a/d"), folder.size("a/b/c")) == (b"new", b"", 5)
    assert [folder.exists(key) for key in ("e", "a", "a/b", "x", "e/x")] == [True] + [False] * 4
    assert folder.sizes(["e", "a/b/c", "a", "x", "e/x"]) == {"e": 3, "a/b/c": 5}
    for room in (0, 2, 5, 9):
        buffer = bytearray(room)
        assert folder.read_into("a/b/c", memoryview(buffer)).size == 5
        assert bytes(buffer) == b"12345"[:room].ljust(room, b"\0")
    folder.append_line("log", "one")
    folder.append_line("log", "two é")
    assert folder.read("log").decode() == "one\ntwo é\n"
    again = pickle.loads(pickle.dumps(folder))
    assert (again.url, again.is_local, again.read("e")) == (folder.url, folder.is_local, b"new")
    assert folder.url.endswith(f"/{folder.name}")
    folder.delete("e")
    folder.delete("e")
    folder.delete_tree("a")
    folder.delete_tree("a")
    assert folder.list() == ["ab", "log"]
    folder.delete_tree()
    assert folder.list() == []


def test_what_is_absent_is_named_by_its_address(folder):
    buffer = memoryview(bytearray(1))
    assert folder.sizes(["x/y"]) == {}
    for call in (folder.read, folder.size, *[lambda key: folder.sync([key])] * folder.is_local):
        with pytest.raises(FileNotFoundError, match=f"{folder.url}/x/y"):
            call("x/y")
    with pytest.raises(FileNotFoundError, match=f"{folder.url}/x/y"):
        folder.read_into("x/y", buffer)


def test_keys_stay_below_the_folder(folder):
    for key in ("../x", "a/../../x", "/etc/passwd", "a\\b", "a\0b"):
        with pytest.raises(ValueError, match="below a folder"):
            folder.read(key)
        with pytest.raises(ValueError, match="below a folder"):
            folder.write(key, b"")


def test_credentials_are_never_shown(s3):
    folder = Folder("s3://bucket1/x", s3)
    with pytest.raises(FileNotFoundError) as caught:
        folder.read("absent")
    assert SECRET not in f"{folder!r} {folder.url} {caught.value} {folder.address('a')}"
    with pytest.raises(ValueError, match="carries a password") as refused:
        Folder(f"https://me:{SECRET}@example.org/x")
    assert SECRET not in str(refused.value)


def test_unknown_kinds_of_address_are_refused():
    with pytest.raises(ValueError, match=r"foo is not supported; supported are paths, .* Copy"):
        Folder("foo://x")


def test_not_found_and_not_allowed_are_kept_apart(tmp_path, monkeypatch):
    def denied(self, key, expected=None):
        raise PermissionError(errno.EACCES, "Permission denied")

    folder = Folder(str(tmp_path))
    monkeypatch.setattr(local_files.LocalFiles, "read", denied)
    monkeypatch.setattr(local_files.LocalFiles, "size", denied)
    for call in (folder.read, folder.size, folder.exists):
        with pytest.raises(PermissionError, match=f"{tmp_path}/x .*Check the permissions"):
            call("x")


def test_errors_of_a_store_become_storage_errors(monkeypatch):
    class NoCredentialsError(Exception):
        pass

    def unreachable(self, path, **options):
        raise NoCredentialsError("Unable to locate credentials")

    folder = Folder("memory://unreachable")
    monkeypatch.setattr(type(folder._files._fs), "cat_file", unreachable)
    with pytest.raises(OSError, match=r"memory://unreachable/x cannot be reached .*locate"):
        folder.read("x")


def test_places_that_cannot_be_written_are_refused_early(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PermissionError, match=f"Nothing can be written to {tmp_path}/file/x"):
        Folder(str(tmp_path / "file" / "x")).require_writable()
    with pytest.raises(PermissionError, match="Nothing can be written"):
        Folder("/proc/nothing-here").require_writable()


def failing_call(monkeypatch, k, error):
    """Let the k-th call that a local write makes to the system fail; say how many were made."""
    made = [0]

    def counted(original):
        def call(*arguments, **options):
            made[0] += 1
            if made[0] == k:
                raise error
            return original(*arguments, **options)

        return call

    def short(descriptor, data):
        return original_write(descriptor, data[:3])

    original_write = os.write
    monkeypatch.setattr(os, "write", counted(short))
    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    for name in ("mkdir", "open", "replace"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    return made


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_write_that_fails_anywhere_leaves_the_old_object_and_nothing_else(
    tmp_path, monkeypatch, code
):
    failures = 0
    for k in range(1, 100):
        folder = Folder(str(tmp_path / str(k)))
        folder.write("a/b", b"old", durable=False)
        with monkeypatch.context() as patch:
            made = failing_call(patch, k, OSError(code, os.strerror(code)))
            try:
                folder.write("a/b", b"new content")
            except OSError as error:
                assert str(tmp_path / str(k) / "a" / "b") in str(error)
                if code == errno.ENOSPC:
                    assert error.errno == code
                    assert "Free some space" in str(error)
                failures += 1
        assert folder.read("a/b") in (
            (b"old", b"new content") if made[0] >= k else (b"new content",)
        )
        assert [p.name for p in (tmp_path / str(k) / "a").iterdir()] == ["b"]
        if made[0] < k:
            break
    assert failures == k - 1 >= 7


def test_what_a_killed_writer_leaves_is_not_listed_and_can_be_removed(tmp_path):
    folder = Folder(str(tmp_path))
    folder.write("a/b", b"1")
    (tmp_path / "a" / ".b.0123456789ab.partial").write_bytes(b"half")
    assert folder.list() == ["a/b"]
    folder.delete_partials()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_a_place_is_tried_while_another_command_removes_partials(tmp_path, monkeypatch):
    folder, written = Folder(str(tmp_path)), local_files._write_all

    def write_all(file, data):
        folder.delete_partials()
        written(file, data)

    monkeypatch.setattr(local_files, "_write_all", write_all)
    folder.require_writable()
    assert not any(tmp_path.iterdir())


def test_a_line_cut_short_spoils_no_other(tmp_path):
    folder = Folder(str(tmp_path))
    folder.append_line("log", "one")
    with (tmp_path / "log").open("a") as file:
        file.write("tw")
    folder.append_line("log", "three")
    assert folder.read("log") == b"one\ntw\nthree\n"


def test_of_a_line_that_a_full_disk_cuts_short_nothing_stays(tmp_path, monkeypatch):
    folder, written = Folder(str(tmp_path)), local_files._write_all
    folder.append_line("log", "one")

    def write_some(file, data):
        written(file, data[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(local_files, "_write_all", write_some)
        with pytest.raises(OSError, match="No space left"):
            folder.append_line("log", "two")
    folder.append_line("log", "three")
    assert folder.read("log") == b"one\nthree\n"


def test_data_sets_and_snapshots_live_anywhere(folder):
    rng = np.random.default_rng(0)
    table = DenseTable(rng.standard_normal((25, 3)), rng.standard_normal(25), None)
    writer = DatasetWriter(folder.child("set"), "dense", 3, 25, 10, "float64", has_weight=False)
    records = [
        writer.write_chunk(k, DenseTable(table.X[r], table.target[r], None))
        for k, r in enumerate([slice(0, 10), slice(10, 20), slice(20, 25)])
    ]
    writer.commit(records, targets=Values(mean=0, variance=1, minimum=-1, maximum=1))
    dataset = pickle.loads(pickle.dumps(Dataset.open(folder.child("set"))))
    found = np.concatenate([dataset.read_chunk(k).X for k in range(3)])
    np.testing.assert_array_equal(found, table.X)
    assert not list(dataset.verify())
    folder.child("set").delete("target/c.1")
    assert [f"{folder.url}/set/target/c.1 is missing" in s for s in dataset.verify()] == [True]
    store = SnapshotStore(folder.child("snapshots"))
    for step in range(3):
        store.save({"step": step}, {"w": np.full(4, float(step))})
    content = folder.read("snapshots/000003.safetensors")
    folder.write("snapshots/000003.safetensors", content[:-1])
    snapshot, passed_over = store.latest()
    assert (snapshot.attributes, len(passed_over)) == ({"step": 1}, 1)
    assert f"{folder.url}/snapshots/000003.safetensors is damaged" in passed_over[0]
    store.prune(keep=2)
    assert store.names() == ["000002", "000003"]
