"""`fewpass doctor` on run folders: dead, stalled, at rest, each counted once."""

import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.lease import KEY, Holder, Lease
from fewpass.pipeline.runs.pace import FLOOR_S, TIMES, silence
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.seal import seal
from testing.aged_log import age
from testing.datasets import make


@pytest.fixture
def run(tmp_path):
    dataset = make(tmp_path / "set", n=400).folder.url
    plan = TrainingPlan(dataset=dataset, solver={"kind": "sdca"}, passes=3, memory="97MB")
    for _ in TrainingRun.start(plan, str(tmp_path / "runs/night/one"), InProcess()):
        pass
    return RunFolder(str(tmp_path / "runs/night/one"))


def doctor(as_json, *words):
    return as_json("doctor", *words)


def test_runs_below_a_folder_are_found_and_counted_once(
    run, as_json, fewpass, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    told = doctor(as_json, ".", "runs", run.url)
    assert [f["folder"] for f in told["runs"]] == [run.url]
    assert (told["ill"], told["stalled"]) == (0, 0)
    (tmp_path / "empty").mkdir()
    status, _, err = fewpass("doctor", "empty")
    assert (status, "no run at" in err) == (2, True)


def test_alive_and_stuck_is_told(run, as_json, fewpass):
    with Lease(run.folder):
        assert doctor(as_json, run.url)["runs"][0]["alive"] is True
        began = time.monotonic()
        age(run, FLOOR_S + 5)
        found = Timeline.of(run).silence()
        assert found.is_stalled == (found.seconds > TIMES * found.usual)
        status, out, _ = fewpass("doctor", run.url, "--json")
        told = json.loads(out)
        assert (status, told["stalled"], told["ill"]) == (1, 1, 0)
        silent = int(re.search(r"no progress for (\d+) s", told["runs"][0]["why"])[1])
        assert FLOOR_S + 5 <= silent <= FLOOR_S + 6 + time.monotonic() - began
        shown = fewpass("doctor", run.url)[1]
        assert f"{run.url}: stalled" in shown
        assert "0 dead, 1 stalled" in shown
    assert doctor(as_json, run.url)["stalled"] == 0  # nobody is at it any more


def test_a_silence_is_long_by_the_spans_before_it():
    assert silence([1.0, 1.0], 1e9) is None
    assert not silence([1.0] * 5, FLOOR_S).is_stalled
    assert silence([1.0] * 5, FLOOR_S + 1).is_stalled
    assert not silence([20.0] * 5, 199.0).is_stalled
    assert silence([20.0] * 5, 201.0).is_stalled


def test_a_machine_without_a_name_is_not_left_blank(run, fewpass):
    from fewpass.flows.orchestration.silent_runs import process_state

    holder = Holder.myself()._replace(host="", machine="elsewhere", renewed=0.0)
    run.folder.write(KEY, seal(holder._asdict()))
    status, out, _ = fewpass("doctor", "--dry-run", run.url, "--json")
    assert status == 1
    assert "a machine that gave no name is dead" in json.loads(out)["runs"][0]["why"]
    alive, why = process_state(SimpleNamespace(infrastructure_pid=str(os.getpid())))
    assert (alive, "a machine that it did not name" in why) == (None, True)


def test_health_looks_at_all_that_a_night_needs(run, as_json, fewpass, tmp_path):
    """Runs, data sets, stores, servers and schedulers; a probe wants the status alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # 501 to any GET
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port, data = server.server_address[1], str(tmp_path / "set")
    schedule = f"{run.url.rpartition('/')[0]}/{{date}}"
    assert "no run is there yet" in fewpass("health", schedule)[1]
    night = Path(run.url).rename(Path(run.url).with_name("2026-11-27"))
    run = RunFolder(str(night))
    told = as_json("health", run.url, data, f"tcp://127.0.0.1:{port}", schedule)
    assert told["healthy"]
    assert [one["why"] for one in told["places"]] == [
        "it is finished", "a data set of 400 rows", "takes connections",
        "2026-11-27: it is finished",
    ]  # fmt: skip
    for place, said in (
        (f"http://127.0.0.1:{port}/health", "status 501"),
        (str(tmp_path / "nothing"), "nothing"),
        ("tcp://127.0.0.1:1", "takes no connection"),
        ("http://127.0.0.1:1/x", "no answer"),
    ):
        status, shown, _ = fewpass("health", run.url, place)
        assert (status, said in shown, f"{run.url}: ok" in shown) == (1, True, True), shown
    server.shutdown()
    server.server_close()
    for snapshot in (night / "snapshots").iterdir():
        snapshot.unlink()
    status, shown, _ = fewpass("health", run.url, schedule)
    assert (status, f"{run.url}: ok" in shown, "and it is not finished" in shown) == (1, True, True)
    manifest = tmp_path / "set/manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    status, shown, _ = fewpass("health", data)
    assert (status, "NOT OK" in shown) == (1, True)
    assert fewpass("health")[0] == 2
