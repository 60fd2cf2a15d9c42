"""What Prometheus reads of a run is what its log and its store say."""

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fewpass.pipeline.dashboard.metrics import METRICS, exposition, samples_of
from fewpass.pipeline.dashboard.routes import _serve, runs_at
from fewpass.pipeline.dashboard.shown_run import shown_run
from fewpass.pipeline.dashboard.view import NO_ROWS_YET, facts
from fewpass.pipeline.lease import Lease
from fewpass.pipeline.models.refresh.past_nights import Past
from fewpass.pipeline.models.refresh.store_events import Begun, Published, RowsEvaluated
from fewpass.pipeline.models.refresh.store_log import write_event
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_log import LOG
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import speeds
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.folder import Folder
from testing.datasets import make
from testing.interruptions import trained
from testing.prefect_server import wait_for

PROJECT = Path(__file__).parents[2]


def parsed(text):
    """Values by (name, labels)."""
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of one generation, published."""
    folder = tmp_path_factory.mktemp("metrics") / 'a "store"\\'
    dataset = make(folder / "data", n=4000).folder.url
    plan = TrainingPlan(
        dataset=dataset, lam="1/n", solver={"kind": "sdca"}, passes=4, memory="97MB"
    )
    run = folder / "generations/000001/run-all"
    trained(plan, run)
    for event in (
        Begun(generation=1, files=(), night=1),
        RowsEvaluated(generation=1, verdict="first", past=Past(used=(1,))),
        Published(generation=1, run="run-all", nights=(1,)),
    ):
        write_event(Folder(str(folder)), event)
    return str(folder)


def test_the_page_says_why_there_are_no_rows_yet(store):
    shown = shown_run(runs_at([store])[0])
    assert NO_ROWS_YET not in [*facts(shown)]
    waiting = shown._replace(state="running", timeline=Timeline(passes=4))
    assert [*facts(waiting)][-1] == NO_ROWS_YET


def test_the_numbers_are_the_runs_own(store):
    (run,) = runs_at([store])
    assert runs_at([run]) == [run]
    nights = [f"{store}/nights/2026-11-{day}" for day in (28, 27)]
    for night in nights:
        shutil.copytree(run, night)
    assert runs_at([f"{store}/nights/{{date}}"]) == nights
    shown, last = shown_run(run), list(RunFolder(run).events())[-1]
    found = parsed(exposition(samples_of(shown)))
    labels = (("run", run),)

    def value(name, labels=labels):
        return found[name, labels]

    assert last["event"] == "finish"
    assert value("fewpass_passes") == last["passes"]
    assert value("fewpass_certificate") == last["certificate"]
    assert value("fewpass_objective") == last["objective"]
    cursor = RunFolder(run).snapshots.latest()[0].attributes["cursor"]
    assert value("fewpass_bytes_read_total") == cursor["bytes_read"]
    assert value("fewpass_loss") == shown.timeline.losses[-1].average
    assert value("fewpass_rows_per_second") == value("fewpass_silence_seconds") == 0.0
    assert value("fewpass_generation", (*labels, ("store", store))) == 1
    assert value("fewpass_published_generation", (("store", store),)) == 1
    states = {dict(k)["state"]: v for (name, k), v in found.items() if name == "fewpass_state"}
    assert states == {"running": 0.0, "stopped": 0.0, "finished": 1.0}
    names = {name for name, _ in found}
    assert names == set(METRICS)


def test_a_run_that_is_at_work_is_silent_for_a_while(store):
    (run,) = runs_at([store])
    with Lease(RunFolder(run).folder):
        shown = shown_run(run)._replace(state="running")
        found = parsed(exposition(samples_of(shown, now=shown.timeline.last + 40.0)))
    assert found["fewpass_silence_seconds", (("run", run),)] == 40.0
    assert (
        found["fewpass_rows_per_second", (("run", run),)] == speeds(shown.timeline.marks)[-1].rows
    )


def test_a_run_whose_process_was_killed_is_at_work_no_more(store, tmp_path):
    """It writes nothing of that, and was looked at while it lived."""
    (trained,) = runs_at([store])
    run = shutil.copytree(trained, tmp_path / "run")
    lines = (run / LOG).read_text().splitlines(keepends=True)
    (run / LOG).write_text("".join(line for line in lines if '"finish"' not in line))
    holds = "with Lease(Folder(sys.argv[1])): print(flush=True); time.sleep(600)"
    imports = (
        "import sys, time; from fewpass.pipeline.lease import Lease; "
        "from fewpass.storage.folder import Folder\n"
    )
    words = [sys.executable, "-c", imports + holds, str(run)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        states = [shown_run(str(run)).state]
        process.kill()
        process.wait()
    assert [*states, shown_run(str(run)).state] == ["running", "stopped"]


def test_they_are_on_the_pages_port(store, tmp_path):
    """Also where another store cannot be read: its log has lost how a generation began."""
    other = str(shutil.copytree(store, tmp_path / "store"))
    min((tmp_path / "store/events").iterdir()).unlink()
    urls, loop = [], asyncio.new_event_loop()
    shown = (other, store, str(tmp_path / "no run"))
    serving = loop.create_task(_serve(shown, 0, urls.append))
    thread = threading.Thread(target=lambda: _until_cancelled(loop, serving))
    thread.start()
    try:
        wait_for(lambda: urls, 60, "the server of the page")
        answer = httpx.get(f"{urls[0]}/metrics", timeout=60)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        (run,) = runs_at([store])
        found = parsed(answer.text)
        assert ("fewpass_passes", (("run", run),)) in found
        errors = {labels: n for (name, labels), n in found.items() if name.endswith("_errors")}
        assert errors == {(("run", run),): 0.0, (("run", other),): 1.0}
        view = httpx.get(f"{urls[0]}/view.json?which=0", timeout=60).json()
        assert view["runs"] == [other, run]
        assert "The event by which generation 000001 began is not there" in view["error"]
        hostile = httpx.get(f"{urls[0]}/metrics", headers={"Host": "attacker.example"}, timeout=60)
        assert hostile.status_code == 403
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()
        loop.close()


def _until_cancelled(loop, serving):
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(serving)


def test_grafana_asks_for_what_is_told():
    board = json.loads((PROJECT / "docs/grafana.json").read_text())
    asked = [t["expr"] for panel in board["panels"] for t in panel.get("targets", ())]
    assert len(asked) >= 10
    for expression in asked:
        assert any(name in expression for name in METRICS), expression
    words = {
        word
        for e in asked
        for word in e.replace("(", " ").replace("{", " ").split()
        if word.startswith("fewpass_")
    }
    assert words <= set(METRICS), words
