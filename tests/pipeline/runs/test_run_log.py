"""The log of a run on a store: segments, each line in one of them once, whatever ends the writer."""

from types import SimpleNamespace

import pytest

from fewpass.pipeline.runs import run_log
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_log import RunLog, Segment
from fewpass.storage.folder import Folder


@pytest.fixture
def folder():
    folder = Folder("memory://run-log")
    folder.delete_tree()
    yield folder
    folder.delete_tree()


def numbers(folder):
    return [int(line) for _, _, line in RunLog(folder).read()]


def test_every_line_once_and_in_order_whatever_is_compacted(folder, monkeypatch):
    monkeypatch.setattr(run_log, "MOST_SEGMENTS", 4)
    written = 0
    for session in range(5):
        log = RunLog(folder)
        for _ in range(11):
            log.append(str(written))
            written += 1
            if written % 7 == 0:
                log.compact()
            assert numbers(folder) == list(range(written))
            assert len(folder.list("log")) <= 2 * 4 + 4 * (session + 1)
    assert len(folder.list("log")) < written / 2


def test_lines_that_may_wait_are_written_together(folder, monkeypatch):
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])  # of others of this process it goes on
    monkeypatch.setattr(run_log, "time", clock)
    log = RunLog(folder)
    for k in range(10):
        log.append(str(k), may_wait=True)
    assert (numbers(folder), len(folder.list("log"))) == ([0], 1)
    now[0] += 1.0
    log.append("10", may_wait=True)
    assert (numbers(folder), len(folder.list("log"))) == (list(range(11)), 2)
    log.append("11", may_wait=True)
    log.append("12")
    assert (numbers(folder), len(folder.list("log"))) == (list(range(13)), 3)


def test_a_segment_that_is_left_of_a_compaction_counts_once(folder):
    for k in range(1, 5):
        folder.write(Segment(k, k).key, f"{k}\n".encode())
    folder.write(Segment(2, 3).key, b"2\n3\n")
    folder.write("log/notes.jsonl", b"17\n")
    assert numbers(folder) == [1, 2, 3, 4]


def test_a_file_stays_a_file_and_faults_have_their_place(tmp_path, folder):
    local, remote = RunFolder(str(tmp_path / "run")), RunFolder("memory://run-log")
    for run in (local, remote):
        run.log("start", a=1)
        run.log("span", a=2)
        run.log("stop", a=3)
        assert [event["a"] for event in run.events()] == [1, 2, 3]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["log.jsonl"]
    folder.write(Segment(2, 2).key, b"{}\n")
    (fault,) = remote.log_faults()
    assert "log/00000002-00000002.jsonl, line 1," in fault
