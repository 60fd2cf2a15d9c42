"""What an address may reach: a few protocols, no chains, nothing behind a link inside a folder."""

import os
import pickle
import re
import socket
import threading
import tomllib
from pathlib import Path

import fsspec
import numpy as np
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.prediction_files import open_predictions
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.work_dir import WorkDir, work_dir_path
from fewpass.pipeline.tables.readers.finding import find
from fewpass.storage.addresses import ALLOWED, BadAddress, open_store
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal

CHAINS = [
    "dask://{host}/x::file:///any",
    "reference::{host}",
    "simplecache::memory://a/b",
    "filecache::s3://bucket/x",
    "zip://a::http://{host}/x.zip",
    "/a/folder::b",
]
STRANGE = [
    "dask://{host}/x", "reference://x", "ftp://{host}/x", "sftp://{host}/x", "ssh://{host}/x",
    "zip:///x", "data://x", "data:text/plain,1", "github://a:b@main/x", "hdfs://{host}/x",
    "DASK://{host}/x", "generic://x", "cached://x", "blockcache://x", "dir://x", "jupyter://{host}",
    "no such://x", "://x",
]  # fmt: skip


@pytest.fixture
def listener():
    """A server that is never to be called: its address, and who called."""
    called = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                called.append(connection)
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        host, port = server.getsockname()
        yield f"{host}:{port}", called
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("address", [*CHAINS, *STRANGE])
def test_other_addresses_are_refused_everywhere_and_call_nobody(address, listener, tmp_path):
    host, called = listener
    url = address.format(host=host)
    for follow in (Folder, RunFolder, Dataset.open, lambda u: find([u]), open_store,
                   lambda u: open_predictions(f"{u}.csv", ["a"]).__enter__()):  # fmt: skip
        with pytest.raises(BadAddress) as refused:
            follow(url)
        what = (
            '"::"' if "::" in url else f"supported are paths, and addresses of {', '.join(ALLOWED)}"
        )
        assert what in str(refused.value)
    plan = IngestPlan(sources=(url,), dataset=str(tmp_path / "made"))
    with pytest.raises(BadAddress):
        ingest(plan)
    assert not called


def test_a_configuration_leads_to_no_scheduler(listener, tmp_path, capsys):
    host, called = listener
    config = tmp_path / "plan.toml"
    config.write_text(f'scheduler = "tcp://{host}"\n')
    words = ["train", str(tmp_path / "data"), str(tmp_path / "new"), "--config", str(config)]
    assert main(words) == 2
    assert "whoever runs that can run code here" in capsys.readouterr().err
    assert main([*words, "--dry-run", "--scheduler", "none"]) == 0
    assert not called


def test_a_published_model_of_a_stranger_calls_nobody(listener, tmp_path, capsys):
    """A publication names a generation and a folder in it: it leads nowhere out of the store."""
    host, called = listener
    for lie in ({"generation": f"dask://{host}/x"}, {"run": f"dask://{host}/x"}, {"run": "../.."}):
        told = {"what": "published", "number": 1, "generation": 1, "run": "run-all"} | lie
        Folder(str(tmp_path)).write("events/000001.json", seal(told))
        assert main(["predict", str(tmp_path), "x.csv", str(tmp_path / "out.csv"), "--quiet"]) == 2
        assert "the store of a refresh" in capsys.readouterr().err
    assert not called


def test_a_setting_allows_more(monkeypatch, tmp_path):
    url = f"dir://{tmp_path}"
    with pytest.raises(BadAddress):
        open_store(url)
    monkeypatch.setenv("FEWPASS_PROTOCOLS", "sftp, data")
    assert open_store("data:text/plain,hello")[0].cat("data:text/plain,hello") == b"hello"
    with pytest.raises(BadAddress, match="::"):
        open_store("data::memory://x")


@pytest.mark.parametrize("option", ["protocol", "target_protocol", "target_options", "fo", "fs"])
def test_options_open_no_other_place(option, tmp_path):
    for follow in (Folder, lambda u, o: find([u], o), open_store):
        with pytest.raises(BadAddress, match=f"option {option} "):
            follow("memory://x/y", {option: "dask"})


@pytest.mark.parametrize("before", ["user:PASSWORD@", "user:PASSWORD/x@", "PASSWORD@"])
@pytest.mark.parametrize("protocol", ["s3", "gs"])
def test_a_password_before_a_bucket_is_not_repeated(protocol, before):
    with pytest.raises(BadAddress, match="begins with a bucket") as refused:
        open_store(f"{protocol}://{before}bucket/rows.csv")
    assert "PASSWORD" not in str(refused.value)


def test_an_address_of_a_path_is_read_where_it_is_written(tmp_path):
    path = tmp_path / "rows of 100 %.csv"
    path.write_text("a,y\n1,2\n")
    (one,) = find([path.as_uri()])
    assert one.path == str(path) == str(Folder(path.as_uri()).local_path())


def test_the_web_is_for_reading_only(tmp_path):
    folder = Folder("http://127.0.0.1:9/x")
    for write in (
        lambda: folder.write("a", b""), lambda: folder.create("a", b""), folder.delete_tree,
        lambda: folder.delete("a"), lambda: folder.append_line("a", ""),
        lambda: open_predictions("https://127.0.0.1:9/x.csv", ["a"]).__enter__(),
    ):  # fmt: skip
        with pytest.raises(BadAddress, match="for reading only"):
            write()


# -- links -----------------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path):
    """A file and a folder that nothing may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_bytes(b"precious")
    return folder


def unchanged(outside):
    return [p.name for p in outside.iterdir()] == ["precious"] and (
        outside / "precious"
    ).read_bytes() == b"precious"


OPERATIONS = {
    "read": lambda f, k: f.read(k),
    "read_into": lambda f, k: f.read_into(k, memoryview(bytearray(4))),
    "write": lambda f, k: f.write(k, b"new"),
    "create": lambda f, k: f.create(k, b"new"),
    "append": lambda f, k: f.append_line(k, "new"),
    "size": lambda f, k: f.size(k),
    "exists": lambda f, k: f.exists(k),
    "sync": lambda f, k: f.sync([k]),
    "local_path": lambda f, k: f.local_path(k),
    "delete_tree": lambda f, k: f.delete_tree(k),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_link_inside_a_folder_is_followed(name, tmp_path, outside):
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").symlink_to(outside / "precious")
    (root / "linked").symlink_to(outside)
    operation = OPERATIONS[name]
    for folder, key in (
        (Folder(str(root)), "a/file"),
        (Folder(str(root)), "linked/precious"),
        (Folder(str(root)).child("a"), "file"),
        (Folder(str(root)).child("linked"), "precious"),
        (Folder(str(root)).child("linked").child("deep"), "precious"),
    ):
        with pytest.raises(Damaged, match=r"/(file|linked) is a symbolic link"):
            operation(folder, key)
    with pytest.raises(Damaged, match="symbolic link"):
        Folder(str(root)).child("linked").list()
    with pytest.raises(Damaged, match="symbolic link"):
        Folder(str(root)).delete("linked/precious")
    assert unchanged(outside)


def test_a_child_remembers_where_links_end(tmp_path, outside):
    (tmp_path / "root").mkdir()
    child = Folder(str(tmp_path / "root")).child("linked")
    again = pickle.loads(pickle.dumps(child))
    assert again.url == child.url
    (tmp_path / "root" / "linked").symlink_to(outside)
    for folder in (child, again):
        with pytest.raises(Damaged, match="symbolic link"):
            folder.read("precious")
        folder.prefetch("precious")  # says nothing, and does nothing


def test_a_folder_may_be_reached_through_links(tmp_path):
    (tmp_path / "disk" / "run").mkdir(parents=True)
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    (tmp_path / "own").symlink_to(tmp_path / "disk" / "run")
    for root in (tmp_path / "data" / "run", tmp_path / "own"):
        folder = Folder(str(root))
        folder.write("a/b", b"here")
        assert folder.child("a").read("b") == b"here"
        assert folder.list() == ["a/b"]
        assert folder.local_path() == root


# -- the folder of unfinished work ---------------------------------------------------------------


def source(folder):
    path = folder / "rows.npy"
    np.save(path, np.arange(50.0).reshape(10, 5) % 2)
    return path


def plan_with_spill(tmp_path):
    return IngestPlan(
        sources=(str(source(tmp_path)),), dataset=str(tmp_path / "data"),
        spill=str(tmp_path / "spill"),
    )  # fmt: skip


@pytest.mark.parametrize("prepared", ["link", "file", "open to all"])
def test_unfinished_work_is_kept_in_a_private_folder_or_nowhere(prepared, tmp_path, outside):
    plan = plan_with_spill(tmp_path)
    place = work_dir_path(Folder(plan.dataset), plan.spill)
    place.parent.mkdir()
    if prepared == "link":
        place.symlink_to(outside)
    elif prepared == "file":
        place.write_text("x")
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(BadInput, match=r"link to one\. Remove it|Remove it, or name a folder"):
        ingest(plan)
    assert unchanged(outside)
    assert not Path(plan.dataset, "manifest.json").exists()


def test_unfinished_work_of_somebody_else_is_refused(tmp_path, monkeypatch):
    place = work_dir_path(Folder(str(tmp_path / "data")), str(tmp_path / "spill"))
    place.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    with pytest.raises(BadInput, match="belongs to another user"), WorkDir(place).owned():
        pass


def test_unfinished_work_is_private(tmp_path):
    for spill in (None, str(tmp_path / "spill")):
        path = work_dir_path(Folder(str(tmp_path / "data")), spill)
        with WorkDir(path).owned():
            assert path.stat().st_mode & 0o777 == 0o700


def test_links_in_unfinished_work_are_taken_away_not_followed(tmp_path, outside):
    plan = plan_with_spill(tmp_path)
    place = work_dir_path(Folder(plan.dataset), plan.spill)
    place.mkdir(parents=True, mode=0o700)
    (place / "lock").touch()
    (place / "part-000000").symlink_to(outside)
    (place / "mapped.json").symlink_to(outside / "precious")
    with pytest.raises(Damaged, match="symbolic link"):
        ingest(plan)
    WorkDir(place).clear()
    assert ingest(plan).rows == 10
    assert unchanged(outside)


@pytest.mark.parametrize(
    "protocol", ["http", "https", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"]
)
def test_a_library_that_is_missing_is_told_with_its_extra(monkeypatch, protocol):
    def missing(*_, **__):
        raise ImportError("words of fsspec's")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(BadAddress) as told:
        open_store(f"{protocol}://host/rows.csv")
    extra = re.search(r"needs (\w+), .*pip install 'fewpass\[(\w+)\]'", str(told.value))
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (line,) = project["optional-dependencies"][extra[2]]
    assert line.startswith(extra[1])
    pinned = "\n" + (Path(__file__).parents[2] / "constraints.txt").read_text()
    assert f"\n{extra[1]}==" in pinned
