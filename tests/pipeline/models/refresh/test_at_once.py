"""Of refreshes that begin at once one wins; no file is skipped, and none is learnt twice."""

import subprocess
import sys
import threading
from collections import Counter
from uuid import uuid4

import fsspec
import pytest

from fewpass.pipeline.errors import BusyPlace
from fewpass.pipeline.models.refresh.file_states import FileState
from fewpass.pipeline.models.refresh.store_events import RefusedFile
from fewpass.pipeline.models.refresh.store_log import events_of, write_event
from fewpass.pipeline.models.refresh.store_state import publications, store_at
from fewpass.storage.folder import Folder
from testing.object_store import object_store
from testing.prefect_server import patience
from testing.refreshing import plan_of, refresh, write_rows

AT_ONCE, ROUNDS = 3, 2

#: Says that it is ready, waits for a line, refreshes and says what became of it; and again.
REFRESHES = """
import sys
from testing.refreshing import plan_of, refresh
from fewpass.pipeline.errors import BadInput
plan = plan_of(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    try:
        made = refresh(plan)
        print("won" if made.state == "published" else "nothing new", flush=True)
    except BadInput as error:
        print(type(error).__name__, error, flush=True)
"""


def taken_by(store):
    return Counter(file.name for one in store_at(store).generations for file in one.files)


def published_by(store):
    return [made.generation for made in publications(store_at(store).events)]


def test_of_processes_that_begin_at_once_one_wins(tmp_path):
    plan = plan_of(tmp_path)
    (tmp_path / "inbox").mkdir()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", REFRESHES, str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(AT_ONCE)
    ]  # fmt: skip
    try:
        assert [child.stdout.readline() for child in children] == ["ready\n"] * AT_ONCE
        for k in range(ROUNDS):
            for name in ("a", "b"):
                write_rows(tmp_path / f"inbox/{k}{name}.csv", k)
            for child in children:
                child.stdin.write("go\n")
                child.stdin.flush()
            told = [child.stdout.readline() for child in children]
            assert told.count("won\n") == 1, told
            assert all(
                one in ("won\n", "nothing new\n") or "is being refreshed by process" in one
                for one in told
            ), told
    finally:
        for child in children:
            child.communicate(timeout=patience(60))
    assert set(taken_by(plan.store).values()) == {1}
    assert len(taken_by(plan.store)) == 2 * ROUNDS
    assert published_by(plan.store) == list(range(1, ROUNDS + 1))
    assert not (tmp_path / "store/refresh.lease.json").exists()


def together(work, n=8):
    """Call a function in threads that begin at once; return what each came to."""
    start, ends = threading.Barrier(n), []

    def go():
        start.wait()
        try:
            ends.append(work())
        except Exception as error:
            ends.append(error)

    threads = [threading.Thread(target=go) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, tmp_path, monkeypatch):
    """Address of a store, on each kind of storage."""
    if request.param == "local":
        yield str(tmp_path / "store")
    elif request.param == "memory":
        yield f"memory://{uuid4().hex}/store"
    else:
        with object_store("bucket") as served:
            monkeypatch.setattr(fsspec.config, "conf", {"s3": served.options})
            yield "s3://bucket/store"


def test_of_events_that_are_written_at_once_each_has_a_number(store):
    """Also by those who keep nobody out."""
    folder, count = Folder(store), 8

    def write():
        event = RefusedFile(
            file=FileState(name="a.csv", place="file:/a.csv"), why=str(threading.get_ident())
        )
        return write_event(folder, event)

    ends = together(write, count)
    events = events_of(folder)
    assert [one.number for one in events] == list(range(1, count + 1))
    assert sorted(ends, key=lambda one: one.number) == events


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_threads_keep_each_other_out_of_a_store_elsewhere(store, tmp_path):
    (tmp_path / "inbox").mkdir()
    write_rows(tmp_path / "inbox/1.csv", 1)
    plan = plan_of(tmp_path).model_copy(update={"store": store})
    ends = together(lambda: refresh(plan), 4)
    made = [one for one in ends if not isinstance(one, BusyPlace)]
    assert [one.state for one in made].count("published") == 1, ends
    assert published_by(store) == [1]
