"""`make deploy` on a real server, a real worker, and kill -9 of everything in turn."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from unittest import mock
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from fewpass.pipeline.lease import KEY, holder_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.folder import Folder
from testing.datasets import make
from testing.far_away import far_away
from testing.interruptions import trained
from testing.one_process import run_all
from testing.prefect_server import (
    PREFECT,
    PROJECT,
    Server,
    has_ended,
    kill,
    patience,
    start,
    status_of,
    stop,
    wait_for,
    words_for,
)

FEWPASS = str(Path(sys.executable).with_name("fewpass"))
LONG = {"passes": 96, "lam": "10/n", "memory": "97MB", "snapshot_every": 0.1}  # rows do not fit
#: Seconds for which a training waits for each of the twelve objects that a pass reads: on any
#: machine it lasts two minutes, in which it can be disturbed, and hardly computes.
SLOW = 0.15
SCHEDULED_EVERY, PER_RUN = 5, 4  # seconds; what a run takes of a core
#: Prefect's looks, every second instead of every five: of a worker for runs that are due, and of the
#: server for what did not come about.
LOOKS = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT1S"}
FAR_EAST = "Pacific/Kiritimati"  # 14 hours before UTC
pytestmark = pytest.mark.timeout(900)  # processes that take their time when the machine is loaded


def newest_snapshot(run):
    """Number of a run's newest snapshot; 0 where there is none."""
    return max(map(int, RunFolder(str(run)).snapshots.names()), default=0)


class Place:
    """A server with our deployments, data, and what the long training comes to in peace."""

    def __init__(self, server, folder, rows):
        self.server, self.folder, self.rows = server, folder, rows
        self.store = folder / "store"
        near = make(self.store / "data", n=9000, d=40, chunk_rows=1500).folder.url
        plan = TrainingPlan(dataset=near, **LONG)
        self.quiet = trained(plan, folder / "quiet").result
        self.workers = []

    def deploy(self):
        done = subprocess.run(
            ["make", "deploy", f"STORE={self.store}"], cwd=PROJECT, env=self.server.environment,
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def deploy_second_version(self, found, put):
        """Deploy from another folder with one text of prefect.yaml replaced."""
        home = Path(tempfile.mkdtemp(dir=self.folder))
        (home / "flows").symlink_to(PROJECT / "flows")
        for name in ("prefect.yaml", "automation.yaml"):
            text = (PROJECT / name).read_text()
            (home / name).write_text(text.replace(found, put))
        assert put in (home / "prefect.yaml").read_text()
        self.deploy_again(home)

    def deploy_again(self, home=PROJECT):
        """What `make deploy` does, in this process."""
        from fewpass.flows.orchestration.deploying import main

        own = {"FEWPASS_HOME": str(home), "FEWPASS_STORE": str(self.store)}
        with mock.patch.dict(os.environ, own), self.server.asked_here():
            assert main() == 0

    def worker(self, *before):
        command = [*before, PREFECT, "worker", "start", "--pool", "fewpass"]
        self.workers.append(start(command, self.server.environment, self.folder / "worker.log"))
        return self.workers[-1]

    def pool(self, **changed):
        self.server.ask("work_pools/fewpass", changed, "PATCH")

    def deployment(self, name):
        """What the server knows of a deployment of the training."""
        return self.server.ask(f"deployments/name/train/{name}")

    def start_ad_hoc(self, run):
        """Have a worker run the long training into folder/run."""
        plan = {"dataset": self.rows.url, **LONG}
        asked = {"parameters": {"plan": plan, "run": str(self.folder / run)}}
        self.server.ask(
            f"deployments/{self.deployment('train-model')['id']}/create_flow_run", asked
        )

    def runs(self, deployment, **wanted):
        """Flow runs of a deployment, those that are wanted, in the order in which they are due."""
        asked = {"deployments": {"name": {"any_": [deployment]}}, "flow_runs": wanted}
        return self.server.ask("flow_runs/filter", asked | {"sort": "EXPECTED_START_TIME_ASC"})

    def due(self, deployment):
        """Flow runs of a schedule that should have begun."""
        now = datetime.now(UTC).isoformat()
        return self.runs(deployment, expected_start_time={"before_": now})

    def end_runs(self, deployment):
        """Have nothing of a deployment be due, and wait for what runs: a later test kills workers."""
        cancelled = {"state": {"type": "CANCELLED"}, "force": True}

        def ended():
            for run in self.runs(deployment, state=of_type("SCHEDULED", "PENDING")):
                self.server.ask(f"flow_runs/{run['id']}/set_state", cancelled)
            return not self.runs(deployment, state=of_type("SCHEDULED", "PENDING", "RUNNING"))

        wait_for(ended, 120, f"the end of {deployment}")

    def state(self, run):
        return self.known(run)["state"]["name"]

    def known(self, run):
        """What the server knows of a flow run now."""
        return self.server.ask(f"flow_runs/{run['id']}")

    def trained(self, run, seconds=120):
        """Have a training wait no longer for its rows; its last line in the log."""
        self.rows.wait = 0.0
        log = self.folder / run / "log.jsonl"

        def finished():
            last = log.read_text().rstrip("\n").rpartition("\n")[2] if log.exists() else ""
            return last.endswith("}") and '"event":"finish"' in last and json.loads(last)

        return wait_for(finished, seconds, f"the end of {run}")

    def flow_begun(self, run):
        """Start the long training into folder/run and wait until it has got further; its pid."""
        before = newest_snapshot(self.folder / run)
        self.rows.wait = SLOW
        self.start_ad_hoc(run)
        return self.walking(run, before + 2)

    def gone_on(self, run, flow_run, count):
        """Wait until a flow run has begun so many times, and got further; its pid."""
        wait_for(lambda: self.known(flow_run)["run_count"] == count, 120, f"start {count} of {run}")
        return self.walking(run, newest_snapshot(self.folder / run) + 2)

    @contextlib.contextmanager
    def retried_soon(self, which, within):
        """Have runs that crashed, or were lost, be tried again after so many seconds, not minutes."""
        asked = {"automations": {"name": {"any_": [f"fewpass-retry-{which}-runs"]}}}
        (retry,) = self.server.ask("automations/filter", asked)
        trigger = {k: v for k, v in retry["trigger"].items() if k != "id"}
        wanted = {k: retry[k] for k in ("name", "description", "enabled", "actions")}
        address = f"automations/{retry['id']}"
        self.server.ask(
            address, wanted | {"trigger": trigger | {"within": patience(within)}}, "PUT"
        )
        yield
        self.server.ask(address, wanted | {"trigger": trigger}, "PUT")

    def run_alone(self, run, **settings):
        """`prefect run` of the long training, without a worker; its process, on its way."""
        self.rows.wait = SLOW
        words = {"dataset": self.rows.url, "run": self.folder / run, **LONG, **settings}
        process = start(
            [PREFECT, "run", "train", *(f"-p{word}" for word in words_for(words))],
            self.server.environment, self.folder / f"{run}.log",
        )  # fmt: skip
        self.walking(run, 2)
        return process

    def walking(self, run, snapshot):
        """Wait until that snapshot is whole; the pid of the process that trains."""
        file = self.folder / run / f"snapshots/{snapshot:06d}.safetensors"
        wait_for(file.exists, 90, str(file))
        holder = holder_of(Folder(str(self.folder / run)))
        assert holder is not None, f"{run} ended before it could be disturbed"
        return holder.pid


@pytest.fixture(scope="module")
def place(prefect_database, tmp_path_factory):
    """With a server of its own: it is killed, and has these deployments and automations alone."""
    folder = tmp_path_factory.mktemp("deployments")
    server = Server(tmp_path_factory.mktemp("prefect-home"), prefect_database)
    server.environment |= LOOKS
    server.start()
    with far_away(folder / "store/data") as rows:
        place = Place(server, folder, rows)
        place.deploy()
        place.worker()  # there is one at any time, but where a test has killed it
        yield place
        for process in (*place.workers, server.process):
            stop(process)


@pytest.fixture(scope="module")
def silent(place):
    """A flow run, started ad hoc, whose process was killed: nobody is there to tell."""
    kill(place.run_alone("silent"))
    return place.server.run_of("/silent")


def named(name):
    return {"name": {"any_": [name]}}


def of_type(*types):
    return {"type": {"any_": types}}


@pytest.fixture(scope="module")
def scheduled(place):
    """Have train/nightly be due every some seconds in a paused pool; how many, and its address."""
    deployment = place.deployment("nightly")
    address = f"deployments/{deployment['id']}"
    parameters = deployment["parameters"] | {"run": str(place.store / "nightly/{date}T{time}")}
    place.server.ask(address, {"parameters": parameters}, "PATCH")
    place.pool(is_paused=True)
    every = max(SCHEDULED_EVERY, patience(PER_RUN))  # else a busy machine has ever more of them
    anchor = datetime.now(UTC).isoformat()
    interval = {"interval": every, "anchor_date": anchor, "timezone": FAR_EAST}
    place.server.ask(f"{address}/schedules", [{"active": True, "schedule": interval}])
    return every, address


def test_a_schedule_fires_and_late_runs_are_made_up_for_once(place, scheduled, silent):
    """The pool goes on late: the first run that is due does the work of the newest that is.

    They become late while the silent run is begun.
    """
    (every, address), runs = scheduled, place.store / "nightly"
    wait_for(lambda: len(place.due("nightly")) >= 2, 120 + 2 * every, "two late runs")
    oldest = place.due("nightly")[0]
    place.pool(is_paused=False)
    wait_for(lambda: place.runs("nightly", state=named("Completed")), 150, "a scheduled run's end")
    unchanged = wait_for(
        lambda: place.runs("nightly", state=named("Unchanged")), 150, "a night without new rows"
    )
    for schedule in place.deployment("nightly")["schedules"]:
        place.server.ask(f"{address}/schedules/{schedule['id']}", method="DELETE")
    first = min(runs.iterdir())
    assert '"event":"finish"' in (first / "log.jsonl").read_text()
    assert [first] == [*runs.iterdir()]
    late = place.runs("nightly")
    newest = datetime.fromisoformat(place.due("nightly")[-1]["expected_start_time"])
    assert newest_due_for(place, oldest) >= newest  # whether that one waits, runs or has ended
    place.end_runs("nightly")
    (trained,) = [run for run in late if run["parameters"]["run"] == str(first)]  # for check
    assert trained["name"].startswith(f"train nightly/{first.name}, ")
    assert (
        trained["name"]
        .replace("-", "")
        .replace(":", "")
        .endswith(first.name.replace("-", "").replace("T", " "))
    )
    message = unchanged[0]["state"]["message"]
    assert message.startswith("Nothing to do: ")
    assert str(first) in message
    assert first.name > in_far_east(oldest)
    assert first.name in {in_far_east(run) for run in late}


def in_far_east(run):
    """A run's scheduled start as clocks there show it: another date than in UTC, for most hours."""
    start = datetime.fromisoformat(run["expected_start_time"]).astimezone(ZoneInfo(FAR_EAST))
    return f"{start:%Y-%m-%dT%H%M%S}"


def newest_due_for(place, run):
    """The newest start of its schedule that a run would find to be due now."""
    from prefect import get_client

    from fewpass.flows.orchestration.scheduled_dates import _later_ones

    with place.server.asked_here(), get_client(sync_client=True) as client:
        run = client.read_flow_run(UUID(run["id"]))
        schedules = client.read_deployment(run.deployment_id).schedules
        due = (run, run.deployment_id, run.expected_start_time, schedules)
        return max(_later_ones(client, *due))


def test_a_deployment_refuses_what_its_form_does_not_take(place):
    """Before a run is made of it."""
    before, known = place.deployment("nightly")["parameters"], len(place.runs("nightly"))
    wrong = {"parameters": {"plan": before["plan"] | {"memory": "many"}}}
    address = f"deployments/{place.deployment('nightly')['id']}/create_flow_run"
    with pytest.raises(urllib.error.HTTPError, match="409"):  # what the page's form asks for
        place.server.ask(address, wrong)
    assert len(place.runs("nightly")) == known
    deployments = place.server.ask("deployments/filter", {})
    assert len({one["name"] for one in deployments}) == len(deployments) == 12
    (scores,) = (one for one in deployments if one["name"] == "predict-new-files")
    (schedule,) = scores["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (True, "30 * * * *")


def test_deploying_again_leaves_what_somebody_paused(place):
    """An upgrade pauses the pool, deploys, and then lets it go on."""
    hourly = "deployments/name/refresh/hourly"
    (schedule,) = place.server.ask(hourly)["schedules"]
    deployment = f"deployments/{schedule['deployment_id']}"
    place.server.ask(f"{deployment}/schedules/{schedule['id']}", {"active": False}, "PATCH")
    place.server.ask(f"{deployment}/pause_deployment", {})
    pool = place.server.ask("work_pools/fewpass")
    given = {"TZ": "UTC", **place_of_variables(pool)}
    place_of_variables(pool).update(given)
    template = {"base_job_template": pool["base_job_template"]}
    automations = place.server.ask("automations/filter", {})
    place.server.ask(
        "work_pools/fewpass", template | {"is_paused": True, "concurrency_limit": 7}, "PATCH"
    )
    place.deploy_again()
    after, pool = place.server.ask(hourly), place.server.ask("work_pools/fewpass")
    assert [one["active"] for one in after["schedules"]] == [False]
    assert (after["paused"], pool["is_paused"], pool["concurrency_limit"]) == (True, True, 7)
    assert place_of_variables(pool) == given
    # The trigger as it was: one that is written anew would not notice runs that are silent already.
    assert place.server.ask("automations/filter", {}) == automations
    assert len(automations) == 3
    assert given.keys() == {"TZ", "PREFECT_PLUGINS_ENABLED"}
    free = {"is_paused": False, "concurrency_limit": None}
    place.server.ask("work_pools/fewpass", free, "PATCH")


def place_of_variables(pool):
    """The variables of a pool's processes."""
    return pool["base_job_template"]["variables"]["properties"]["env"]["default"]


def test_the_automation_notices_a_silent_run(place, silent):
    assert place.server.ask(f"flow_runs/{silent['id']}")["state"]["type"] in ("RUNNING", "CRASHED")
    wait_for(lambda: place.state(silent) == "Crashed", 180, "the automation")
    assert "No sign of life" in place.server.ask(f"flow_runs/{silent['id']}")["state"]["message"]


def test_one_run_that_is_cancelled_killed_stopped_and_suspended(place):
    """It goes on from its snapshots each time, by itself, and comes to the quiet one's model."""
    place.flow_begun("shaken")
    cancel(place)
    flow = place.flow_begun("shaken")  # in the folder of the one that was cancelled
    run = place.runs("train-model")[-1]
    with place.retried_soon("crashed", 8):
        os.kill(flow, signal.SIGKILL)
        wait_for(lambda: place.state(run) == "Crashed", 60, "the worker's word of the crash")

        flow = place.gone_on("shaken", run, 2)
        kill(place.workers[-1])  # Prefect ends a flow whose worker is gone
        wait_for(lambda: has_ended(flow), 60, "the end of the flow without a worker")
        wait_for(lambda: place.state(run) == "Crashed", 60, "the flow's own word")

        place.worker()
        flow = place.gone_on("shaken", run, 3)
        os.kill(place.workers[-1].pid, signal.SIGSTOP)  # so that it can tell nobody
        os.kill(flow, signal.SIGKILL)
        kill(place.workers[-1])
        looked, cured = check(place, [], ["--free"])  # all is left to do by a dry run
        assert looked.status == 1, looked.out
        assert [one["alive"] for one in json.loads(looked.out)["places"]].count(False) == 1
        dead = next(f for f in json.loads(cured.out)["places"] if f["alive"] is False)
        assert "goes on from snapshot" in dead["advice"]
        assert dead["done"] == [
            "marked it crashed, which frees its concurrency slot", "freed its lease",
        ]  # fmt: skip
        assert not (place.folder / "shaken" / KEY).exists()

        outlasted = place.worker(sys.executable, "-m", "fewpass.flows.orchestration.outlasting")
        place.gone_on("shaken", run, 4)  # at all only if the dead one's slot is free
    handed_back(place, run, outlasted)
    place.worker()
    suspended(place, run, place.gone_on("shaken", run, 5))
    place.server.ask(f"flow_runs/{run['id']}/resume", {})
    assert place.trained("shaken")["weights_sha256"] == place.quiet.weights_sha256
    wait_for(lambda: place.state(run) == "Completed", 60, "the flow's last word")
    assert place.known(run)["run_count"] == 5  # going on after a suspension is no new start
    assert place.runs("train-model")[-1]["id"] == run["id"]
    assert check(place, [])[0].status == 0
    place.deploy_again()


def handed_back(place, run, worker):
    """Stop a worker behind `outlasting`: its run waits for the next one, with its own parameters."""
    worker.send_signal(signal.SIGTERM)
    assert status_of(worker, 60, "the end of the worker") == 0
    known = place.known(run)
    assert (known["state"]["type"], known["state"]["name"]) == ("SCHEDULED", "Interrupted")
    assert known["infrastructure_pid"] is None  # or who cancels it would wait for ever
    *_, last = RunFolder(str(place.folder / "shaken")).events()
    goes_on = f"fewpass resume {place.folder}/shaken goes on from snapshot {last['snapshot']}"
    assert goes_on in known["state"]["message"]
    entry = "  entrypoint: flows/orchestration/train.py:train\n"
    other = entry + "  parameters:\n    require_tol: true\n"  # which the run would be refused for
    place.deploy_second_version(entry, other)
    again = place.known(run)
    assert (again["state"]["id"], again["parameters"]) == (
        known["state"]["id"],
        known["parameters"],
    )


def test_a_run_that_lost_its_worker_before_it_began_is_taken_by_another(place):
    models = place.server.ask("deployments/name/models/list-models")["id"]
    with place.retried_soon("lost", 15):
        asked = {"state": {"type": "PENDING"}}
        run = place.server.ask(f"deployments/{models}/create_flow_run", asked)
        wait_for(lambda: place.known(run)["run_count"], 120, "the start of a lost run")


def test_a_run_without_a_worker_that_is_stopped_says_how_to_go_on(place):
    """By Ctrl-C; a worker passes SIGTERM on to its runs in the tests around this one."""
    process = place.run_alone("broken")
    process.send_signal(signal.SIGINT)
    assert status_of(process, 60, "its end") == 128 + signal.SIGINT
    state = place.server.run_of("/broken")["state"]
    assert (state["type"], state["name"]) == ("CANCELLED", "Interrupted")
    said = (place.folder / "broken.log").read_text()
    assert f"prefect run: {state['message']}" in said
    assert f"fewpass resume {place.folder}/broken goes on from snapshot" in said
    assert "Traceback" not in said


def cancel(place):
    """What a click on "cancel" asks for; the worker passes it on as a SIGTERM."""
    run = place.runs("train-model")[-1]
    log, last_word = place.folder / "worker.log", "cancellation_manager - Cancelled flow run"
    before = log.read_text().count(last_word)
    asked = {"state": {"type": "CANCELLING", "name": "Cancelling", "message": "Rita: wrong rows"}}
    place.server.ask(f"flow_runs/{run['id']}/set_state", asked)
    wait_for(lambda: log.read_text().count(last_word) > before, 60, "the worker's word of it")
    state = place.known(run)["state"]
    assert state["name"] == "Cancelled"
    assert state["message"].startswith("Rita: wrong rows")
    # The worker calls it cancelled when it has asked for that, and the end may come after it.
    events = RunFolder(str(place.folder / "shaken")).events
    last = wait_for(lambda: [e for e in events() if e["event"] == "stop"], 60, "the end")[-1]
    assert last["snapshot"] is not None
    assert "CancelledRun" not in (place.folder / "worker.log").read_text()


def suspended(place, run, flow):
    """What the page's "Pause" asks for; the run's process ends with a snapshot."""
    details = {"pause_reschedule": True, "pause_timeout": "2100-01-01T00:00:00Z"}
    asked = {"state": {"type": "PAUSED", "name": "Suspended", "state_details": details}}
    place.server.ask(f"flow_runs/{run['id']}/set_state", asked)
    wait_for(lambda: has_ended(flow), 60, "the end of a suspended run")
    assert place.state(run) == "Suspended"
    *_, last = RunFolder(str(place.folder / "shaken")).events()
    assert last["event"] == "stop", last
    assert last["snapshot"] is not None


def check(place, *looks):
    """What `fewpass check` says, asked once with the words of each look."""
    commands = [["fewpass", "check", *words, "--json"] for words in looks]
    return run_all(commands, PROJECT, place.server.environment)


def longest_silence(log, since=0.0):
    """Seconds between two lines of a run's log, the longest of them from a moment on."""
    lines = [json.loads(line)["time"] for line in log.read_text().splitlines() if line[-1] == "}"]
    times = [datetime.fromisoformat(time).timestamp() for time in lines]
    times = [time for time in times if time >= since]
    return max(after - before for before, after in pairwise(times))


def test_a_dead_server_costs_its_view_of_a_run_not_the_run(place):
    """Two flows without a worker: no row is delayed, one ends, one is cancelled afterwards.

    They look themselves whether they are being cancelled.
    """
    endless = place.run_alone("endless", passes=100_000)
    alone = place.run_alone("alone")
    log = place.folder / "endless/log.jsonl"
    usual, killed = longest_silence(log), time.time()
    kill(place.server.process)
    newest = newest_snapshot(place.folder / "endless")
    place.walking("endless", newest + 8)  # with nobody to tell of it
    assert longest_silence(log, killed) < patience(usual + 2.0)
    place.server.start()
    run = place.server.run_of("/endless")
    asked = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
    place.server.ask(f"flow_runs/{run['id']}/set_state", asked)
    wait_for(lambda: place.state(run) == "Cancelled", 90, "the end of a cancelled run")
    assert status_of(endless, 60, "the end of its process") == 1
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], last["snapshot"] is not None) == ("stop", True)
    assert "Traceback" not in (place.folder / "endless.log").read_text()
    require_quiet_end(place, alone)


def require_quiet_end(place, alone):
    """What ran on comes to the model of the quiet one, though its flow may end as failed."""
    place.rows.wait = 0.0
    status = status_of(alone, 120, "the end of the other flow")
    if status != 0:
        assert status == 1
        assert "prefect run: " in (place.folder / "alone.log").read_text()
        resumed = subprocess.run(
            [FEWPASS, "resume", str(place.folder / "alone"), "-q"], timeout=120
        )
        assert resumed.returncode == 0
    assert place.trained("alone")["weights_sha256"] == place.quiet.weights_sha256
