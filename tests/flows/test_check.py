"""`fewpass check`: runs that are dead, stalled or at rest, each once; stores, servers, files."""

import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from fewpass.pipeline.lease import KEY, Holder, Lease
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import FLOOR_S, TIMES, silence
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.seal import seal
from testing.aged_log import age
from testing.datasets import make
from testing.interruptions import trained


@pytest.fixture
def run(tmp_path):
    dataset = make(tmp_path / "set", n=400).folder.url
    plan = TrainingPlan(dataset=dataset, solver={"kind": "sdca"}, passes=3, memory="97MB")
    return trained(plan, tmp_path / "runs/night/one").run


def test_runs_below_a_folder_are_found_and_counted_once(
    run, as_json, fewpass, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    found = as_json("check", ".", "runs", run.url)
    assert [one["folder"] for one in found["places"]] == [run.url]
    assert found["ok"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "t.csv").write_text("a,label\n1,x\n")
    for place, why in (
        ("empty", "There is nothing at"), ("t.csv", "is a file"), ("runs/night/none", "nothing at"),
    ):  # fmt: skip
        status, out, _ = fewpass("check", place, run.url)
        assert (status, why in out, f"{run.url}: ok" in out) == (1, True, True), out


def test_alive_and_stuck_is_reported(run, as_json, fewpass):
    with Lease(run.folder):
        assert as_json("check", run.url)["places"][0]["alive"] is True
        began = time.monotonic()
        age(run, FLOOR_S + 5)
        found = Timeline.of(run).silence()
        assert found.is_stalled == (found.seconds > TIMES * found.usual)
        status, out, _ = fewpass("check", run.url, "--json")
        (one,) = json.loads(out)["places"]
        assert (status, one["stalled"], one["alive"]) == (1, True, True)
        silent = int(re.search(r"no progress for (\d+) s", one["why"])[1])
        assert FLOOR_S + 5 <= silent <= FLOOR_S + 6 + time.monotonic() - began
        assert f"{run.url}: NOT OK" in fewpass("check", run.url)[1]
    assert as_json("check", run.url)["ok"]  # nobody is at it any more


def test_a_dead_run_is_freed_when_asked_for(run, as_json, fewpass):
    holder = Holder.myself()._replace(machine="elsewhere", renewed=0.0)
    run.folder.write(KEY, seal(holder._asdict()))
    for words in ([], ["--quick"]):
        status, out, _ = fewpass("check", run.url, *words)
        assert (status, "is dead" in out) == (1, True)
        assert run.folder.exists(KEY)
    (one,) = as_json("check", "--free", run.url)["places"]
    assert (one["ok"], one["done"], run.folder.exists(KEY)) == (True, ["freed its lease"], False)
    assert as_json("check", run.url)["places"][0]["done"] == []


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
    status, out, _ = fewpass("check", run.url, "--json")
    assert status == 1
    assert "a machine that gave no name is dead" in json.loads(out)["places"][0]["why"]
    alive, why = process_state(SimpleNamespace(infrastructure_pid=str(os.getpid())))
    assert (alive, "a machine that it did not name" in why) == (None, True)


def test_a_flow_run_that_only_reads_a_model_is_not_dead_with_its_training(run):
    """One on another machine, whose model comes of a training that died: it was marked crashed."""
    from fewpass.flows.orchestration.silent_runs import _examine

    holder = Holder.myself()._replace(machine="elsewhere", renewed=0.0)
    run.folder.write(KEY, seal(holder._asdict()))
    flow_run = SimpleNamespace(
        name="it", id="1", state_name="Running", infrastructure_pid="elsewhere:1",
        parameters={"run": run.url, "inputs": ["new.csv"], "out": "scores.csv"},
    )  # fmt: skip
    marked = []
    client = SimpleNamespace(set_flow_run_state=lambda *given, force: marked.append(given))
    found = _examine(client, flow_run, free=True)
    assert (found.ok, found.alive, found.folder, marked) == (True, None, None, [])
    flow_run.parameters = {"run": run.url, "plan": {"dataset": "data"}}
    found = _examine(client, flow_run, free=True)
    assert (found.alive, found.folder, len(marked)) == (False, run.url, 1)


def test_all_flow_runs_are_looked_at():
    """Also those that a server gives on a second page."""
    from fewpass.flows.orchestration.silent_runs import PAGE, _believed_alive

    for count in (0, 1, PAGE, 2 * PAGE + 5):
        runs = [*range(count)]
        client = SimpleNamespace(
            read_flow_runs=lambda limit, offset, r=runs, **_: r[offset : offset + limit]
        )
        assert _believed_alive(client) == runs


def test_a_quick_check_looks_at_all_that_a_night_needs(run, as_json, fewpass, tmp_path):
    """Runs, data sets, stores, servers and schedulers; a probe wants the status alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # 501 to any GET
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port, data = server.server_address[1], str(tmp_path / "set")
    schedule = f"{run.url.rpartition('/')[0]}/{{date}}"
    assert "no run is there yet" in fewpass("check", schedule)[1]
    night = Path(run.url).rename(Path(run.url).with_name("2026-11-27"))
    run = RunFolder(str(night))
    found = as_json("check", "--quick", run.url, data, f"tcp://127.0.0.1:{port}", schedule)
    assert found["ok"]
    assert [one["why"] for one in found["places"]] == [
        "it is finished", "a data set of 400 rows", "takes connections",
        "2026-11-27: it is finished",
    ]  # fmt: skip
    for place, said in (
        (f"http://127.0.0.1:{port}/health", "status 501"),
        (str(tmp_path / "nothing"), "nothing"),
        ("tcp://127.0.0.1:1", "takes no connection"),
        ("http://127.0.0.1:1/x", "no answer"),
    ):
        status, shown, _ = fewpass("check", "--quick", run.url, place)
        assert (status, said in shown, f"{run.url}: ok" in shown) == (1, True, True), shown
    server.shutdown()
    server.server_close()
    for snapshot in (night / "snapshots").iterdir():
        snapshot.unlink()
    status, shown, _ = fewpass("check", "--quick", run.url, schedule)
    assert (status, f"{run.url}: ok" in shown, "and it is not finished" in shown) == (1, True, True)
    manifest = tmp_path / "set/manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    status, shown, _ = fewpass("check", "--quick", data)
    assert (status, "NOT OK" in shown) == (1, True)
