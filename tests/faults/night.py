"""A night on a real server with Postgres: python -m tests.faults.night FOLDER

Schedules, deaths, refusals and publications, one after the other; what was seen of each, and where,
as a table in Markdown.  Some minutes.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fewpass.pipeline.lease import holder_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.folder import Folder
from testing.datasets import make
from testing.far_away import far_away
from testing.prefect_server import (
    PREFECT,
    PROJECT,
    FlowRunner,
    Server,
    free_port,
    kill,
    start,
    stop,
    wait_for,
)
from tests.flows.orchestration.test_postgres import Postgres

LONG = {"passes": 24, "lam": "10/n", "memory": "97MB", "snapshot_every": 0.1}
SLOW = 0.15  # seconds that each object takes


class Night:
    """A server on Postgres with our deployments, and what was seen so far."""

    def __init__(self, folder, server, rows):
        self.folder, self.server, self.rows, self.seen = folder, server, rows, []
        self.store = folder / "store"
        self.environment = server.environment | {
            "FEWPASS_HOME": str(PROJECT), "FEWPASS_STORE": str(self.store),
        }  # fmt: skip
        self.log = folder / "worker.log"

    def tell(self, what, where, seen):
        """Keep a line of the table, and print it."""
        self.seen.append((what, where, " ".join(str(seen).split()).replace("|", "/")))
        sys.stdout.write("| {} | {} | {} |\n".format(*self.seen[-1]))
        sys.stdout.flush()

    def worker(self, *before):
        words = [*before, PREFECT, "worker", "start", "--pool", "fewpass"]
        return start(words, self.environment, self.log)

    def deployment(self, name):
        return self.server.ask(f"deployments/name/{name}")

    def ask_for(self, name, **parameters):
        """A flow run of a deployment."""
        address = f"deployments/{self.deployment(name)['id']}/create_flow_run"
        return self.server.ask(address, {"parameters": parameters})

    def state(self, run):
        return self.server.ask(f"flow_runs/{run['id']}")["state"]

    def ended(self, run, seconds=240):
        """The state that a run ends in."""

        def last():
            state = self.state(run)
            return state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") and state

        return wait_for(last, seconds, f"the end of {run['name']}")

    def went_on(self, run, what):
        """See a run that was interrupted, or crashed, come to its end by itself."""
        self.rows.wait = 0.0
        began = time.monotonic()

        def completed():
            known = self.server.ask(f"flow_runs/{run['id']}")
            return known["state"]["name"] == "Completed" and known

        known = wait_for(completed, 240, f"the end of {run['name']}")
        self.tell(what, "the same run", f"Completed after {time.monotonic() - began:.0f} s, "
                  f"at its start {known['run_count']}")  # fmt: skip

    def training(self, name, **place):
        """A long training by the worker, under way; the flow run and its process."""
        self.rows.wait = SLOW
        plan, run = {"dataset": self.rows.url, **LONG}, self.folder / name
        made = self.ask_for("train/train-model", plan=plan, run=str(run), where=place)
        wait_for((run / "snapshots/000002.safetensors").exists, 180, f"snapshots of {name}")
        return made, holder_of(Folder(str(run))).pid

    def line_of_log(self, name, word):
        """The last line of a run's log with a word."""
        lines = (self.folder / name / "log.jsonl").read_text().splitlines()
        return json.loads([line for line in lines if word in line][-1])


def deployed(night):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "fewpass.flows.orchestration.deploying"], cwd=PROJECT,
        env=night.environment, check=True, capture_output=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    names = [one["name"] for one in night.server.ask("deployments/filter", {})]
    night.tell("the deployments are made", "server", f"{len(names)}, {spent:.1f} s of CPU")


def schedules(night):
    address = f"deployments/{night.deployment('train/nightly')['id']}"
    pattern = {"run": str(night.store / "nightly/{date}T{time}")}
    parameters = night.deployment("train/nightly")["parameters"] | pattern
    night.server.ask(address, {"parameters": parameters}, "PATCH")
    every = {"interval": 20, "anchor_date": datetime.now(UTC).isoformat()}
    night.server.ask(f"{address}/schedules", [{"active": True, "schedule": every}])
    asked = {"deployments": {"name": {"any_": ["nightly"]}}, "sort": "EXPECTED_START_TIME_ASC"}

    def over():
        runs = night.server.ask("flow_runs/filter", asked)
        done = [run for run in runs if run["state"]["type"] == "COMPLETED"]
        return len(done) >= 3 and done

    done = wait_for(over, 240, "three nights")
    for one in night.deployment("train/nightly")["schedules"]:
        night.server.ask(f"{address}/schedules/{one['id']}", method="DELETE")
    late = [delay(run["expected_start_time"], run["start_time"]) for run in done]
    took = [delay(run["start_time"], run["end_time"]) for run in done]
    states = [run["state"]["name"] for run in done]
    night.tell("a schedule of 20 s, no new rows", "states", ", ".join(states))
    night.tell("the same", "times", f"{late[-1]:.0f} s late, {took[-1]:.0f} s long")
    night.tell("the same", "message of the last", done[-1]["state"]["message"][:60])


def delay(before, after):
    moments = [datetime.fromisoformat(moment) for moment in (before, after)]
    return (moments[1] - moments[0]).total_seconds()


def killed_flow(night):
    run, process = night.training("killed")
    began = time.monotonic()
    os.kill(process, signal.SIGKILL)
    state = night.ended(run)
    night.tell("kill -9 of a flow", "its state", f"{state['name']} after "
               f"{time.monotonic() - began:.0f} s: {state['message']}")  # fmt: skip
    night.went_on(run, "it is tried again by itself")


def killed_worker(night, worker):
    run, _ = night.training("orphaned")
    began = time.monotonic()
    kill(worker)
    state = night.ended(run)
    night.tell("kill -9 of the worker, its flow alive", "the flow's state",
               f"{state['name']} after {time.monotonic() - began:.0f} s")  # fmt: skip
    worker = night.worker()
    night.went_on(run, "a worker is started again")
    return worker


def stopped_worker(night, worker):
    """A worker that waits for its flows is stopped during a training, and started again."""
    stop(worker)
    outlasting = [sys.executable, "-m", "fewpass.flows.orchestration.outlasting"]
    worker = night.worker(*outlasting)
    run, _ = night.training("stopped")
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.wait(120)
    took = time.monotonic() - began
    kept = night.line_of_log("stopped", '"event":"stop"')["snapshot"]
    night.tell("SIGTERM to a worker that waits for its flows", "log of the run; state",
               f"snapshot {kept}, ended after {took:.0f} s; {night.state(run)['name']}")  # fmt: skip
    worker = night.worker(*outlasting)
    night.went_on(run, "the worker is started again")
    return worker


def killed_server(night):
    run, _ = night.training("through")
    kill(night.server.process)
    newest = int(RunFolder(str(night.folder / "through")).snapshots.names()[-1])
    later = night.folder / f"through/snapshots/{newest + 6:06d}.safetensors"
    wait_for(later.exists, 180, "snapshots without a server")
    night.tell("kill -9 of the server during a training", "run folder",
               "six snapshots more while nobody answered")  # fmt: skip
    night.server.start()
    night.rows.wait = 0.0
    state = night.ended(run)
    finish = night.line_of_log("through", '"event":"finish"')
    night.tell(
        "the server is back", "state; log", f"{state['name']}; finish at {finish['time'][11:19]}"
    )


def server_away_at_the_end(night):
    """The server dies during a training, and comes back when that has ended."""
    run, process = night.training("unheard")
    kill(night.server.process)
    night.rows.wait = 0.0
    log = night.folder / "unheard/log.jsonl"
    wait_for(lambda: '"event":"finish"' in log.read_text(), 120, "the end without a server")
    began = time.monotonic()
    time.sleep(15)
    alive = "its process waits" if Path(f"/proc/{process}").exists() else "its process ended"
    night.tell("a training ends while the server is dead", "run folder", f"the model; {alive}")
    night.server.start()
    state = night.ended(run)
    night.tell("the server is back", "state", f"{state['name']} after "
               f"{time.monotonic() - began:.0f} s: {(state['message'] or '')[:120]}")  # fmt: skip
    said = [line for line in night.log.read_text().splitlines() if "rror" in line or "WARN" in line]
    night.tell("the same", "worker's log", " / ".join(line[15:95] for line in said[-3:]))


def changed_data(night):
    """Rows are appended to the data set of the nightly training, and some are deleted."""
    sources, data = night.folder / "sources", night.folder / "people"
    sources.mkdir()
    for k in (1, 2):
        write_rows(sources / f"{k}.csv", k)
    plan = {"sources": [f"{sources}/1.csv"], "dataset": str(data), "keep": ["city"],
            "options": {"label": "y"}}  # fmt: skip
    wanted = {"plan": {"dataset": str(data), "passes": 2, "lam": "10/n"}, "skip_unchanged": True,
              "run": str(night.folder / "people-nights/{date}T{time}")}  # fmt: skip

    def done(name, **parameters):
        run = night.ask_for(name, **parameters)
        state = night.ended(run)
        shown = night.server.ask(f"flow_runs/{run['id']}")["name"]
        return f"{state['name']} ({shown}): {(state['message'] or '')[:80]}"

    night.tell("rows are ingested", "ingest/make-data", done("ingest/make-data", plan=plan))
    night.tell("a night", "train/nightly", done("train/nightly", **wanted))
    night.tell("a night without new rows", "train/nightly", done("train/nightly", **wanted))
    added = {"plan": {"dataset": str(data), "sources": [f"{sources}/2.csv"]}}
    night.tell("rows are appended", "append/append-rows", done("append/append-rows", **added))
    night.tell("the same files again", "append/append-rows", done("append/append-rows", **added))
    night.tell("the next night", "train/nightly", done("train/nightly", **wanted))
    gone = {"plan": {"dataset": str(data), "where": "city == 'oslo'"}, "runs": str(night.folder)}
    night.tell("rows are deleted", "forget/forget-rows", done("forget/forget-rows", **gone))
    for name, wrong in (
        ("forget/forget-rows", {"plan": {"dataset": str(data), "where": "oslo"}}),
        ("append/append-rows", {"plan": {"dataset": str(data), "sources": ["s3://u:p@b/x"]}}),
    ):
        try:
            night.ask_for(name, **wrong)
        except urllib.error.HTTPError as error:
            night.tell("a condition that is none; an address with a password", name,
                       f"the server answers {error.code}, and no run is made")  # fmt: skip


def cancelled(night):
    run, _ = night.training("cancelled")
    began = time.monotonic()
    asked = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
    night.server.ask(f"flow_runs/{run['id']}/set_state", asked)
    stopped = wait_for(
        lambda: '"event":"stop"' in (night.folder / "cancelled/log.jsonl").read_text(), 120, "stop"
    )
    assert stopped
    took = time.monotonic() - began
    night.tell("a run is cancelled on its page", "log; state",
               f"a snapshot after {took:.0f} s; {night.ended(run)['name']}")  # fmt: skip


def killed_scheduler(night):
    port = free_port()
    words = [sys.executable, "-m", "dask"]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = [*words, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = [*words, "worker", address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny",
              "--memory-limit", "0", "--no-dashboard"]  # fmt: skip
    with contextlib.ExitStack() as running:
        processes = []
        for command in (scheduler, worker):
            processes.append(start(command, night.environment, night.folder / "dask.log"))
            running.callback(stop, processes[-1])
        run, _ = night.training("dask", scheduler=address, wait_workers=60)
        began = time.monotonic()
        kill(processes[0])
        asked = {"task_runs": {"flow_run_id": {"any_": [run["id"]]}}}

        def retrying():
            tasks = night.server.ask("task_runs/filter", asked)
            return [t for t in tasks if t["state"]["name"] in ("AwaitingRetry", "Retrying")]

        wait_for(retrying, 120, "a task that is tried again")
        night.tell("kill -9 of the Dask scheduler", "state of the task",
                   f"AwaitingRetry after {time.monotonic() - began:.0f} s")  # fmt: skip
        for command in (scheduler, worker):
            running.callback(stop, start(command, night.environment, night.folder / "dask.log"))
        night.rows.wait = 0.0
        state = night.ended(run)
        night.tell("scheduler and worker are started again", "state", state["name"])


def paused_pool(night):
    night.server.ask("work_pools/fewpass", {"is_paused": True}, "PATCH")
    run = night.ask_for("models/list-models", store=str(night.folder / "nothing"))
    time.sleep(25)
    night.tell("the pool is paused", "state of a run", night.state(run)["name"])
    night.server.ask("work_pools/fewpass", {"is_paused": False}, "PATCH")
    state = night.ended(run)
    night.tell(
        "the pool goes on; the store is none", "state", f"{state['name']}: {state['message'][:60]}"
    )


def write_rows(path, seed, yes=0.0, age=40.0):
    rng = np.random.default_rng(seed)
    ages = rng.normal(age, 10, 600)
    label = np.where(rng.logistic(size=600) + yes + (ages - 40) / 5 > 0, "yes", "no")
    lines = [
        f"{a:.1f},{rng.choice(['oslo', 'rome'])},{y}" for a, y in zip(ages, label, strict=True)
    ]
    path.write_text("age,city,y\n" + "\n".join(lines) + "\n")


def refreshes(night):
    inbox, store = night.folder / "inbox", night.store / "live"
    inbox.mkdir()
    runners = [FlowRunner(night.environment, night.folder / f"{k}.log") for k in range(2)]
    settings = {
        "sources": f"{inbox}/*.csv", "store": store, "label": "y", "scheduler": "none",
    }  # fmt: skip
    write_rows(inbox / "1.csv", 1)
    (inbox / "bad.csv").write_text("age,city\n")
    for runner in runners:
        runner.give("refresh", **settings)
    ends = [runner.take() for runner in runners]
    for status, out, err in sorted(ends, key=lambda end: end[0]):
        said = json.loads(out)["message"] if status == 0 else err.rpartition("prefect run: ")[2]
        night.tell("two refreshes at once", "exit status, message", f"{status}: {said[:110]}")
    ask = runners[0].run
    told = json.loads(ask("models", store=store)[1])
    for one in told["refused"]:
        night.tell(
            "a file that cannot be read",
            "fewpass store list",
            f"{Path(one['file']).name}: {one['reason'][:70]}",
        )
    write_rows(inbox / "2.csv", 2, age=55.0)
    status, _, err = ask("refresh", **settings, max_drift=0.25)
    night.tell(
        "rows that drifted, max_drift=0.25",
        "exit status, message",
        f"{status}: {err.rpartition('prefect run: ')[2][:157]}",
    )
    status, out, err = ask("refresh", **settings, max_drift=10, gates="auc>=0.999")
    night.tell(
        "the same with max_drift=10, gates=auc>=0.999", "state", json.loads(out)["message"][:120]
    )
    write_rows(inbox / "3.csv", 3)
    status, out, err = ask("refresh", **settings, gates="auc>=0.5")
    night.tell("new rows, gates=auc>=0.5", "state", json.loads(out)["message"][:120])
    status, out, err = ask("publish", store=store, generation=1, because="complaints")
    night.tell(
        "roll back",
        "publication",
        "generation {generation}, number {number}".format(**json.loads(out)),
    )
    shown = night.server.ask("artifacts/filter", {"limit": 200})
    tables = [one for one in shown if one["key"] and one["key"].endswith("-drift")]
    rows = json.loads(tables[0]["data"])
    night.tell("the same", f"table `drift` of the refresh, {len(rows)} lines", rows[0])
    words = [str(Path(sys.executable).with_name("fewpass")), "store", "clean", str(store)]
    for option in ("--keep-generations", "--keep-artifacts"):
        done = subprocess.run(
            [*words, option, "1", "--dry-run", "--json"], env=night.environment, cwd=PROJECT,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        removed = [
            f"{one['what']} ({one['objects']})" for one in json.loads(done.stdout)["removed"]
        ]
        night.tell(f"`fewpass store clean STORE {option} 1 --dry-run`", "would be removed",
                   f"{len(removed)}: {', '.join(removed[:3])}")  # fmt: skip
    for one in json.loads(ask("models", store=store)[1])["events"]:
        night.tell("the log of the store", f"fewpass store list, generation {one['generation']}",
                   f"{one['what']}: {one.get('why', '')[:70]}")  # fmt: skip
    for runner in runners:
        runner.close()


def artifacts(night):
    found = night.server.ask("artifacts/filter", {"limit": 200})
    runs = night.server.ask("flow_runs/filter", {"limit": 200})
    versions = Counter((one["flow_run_id"], one["key"]) for one in found)
    night.tell("the whole night", "server", f"{len(found)} artifacts of {len(runs)} flow runs, "
               f"at most {max(versions.values())} of a kind in a run")  # fmt: skip
    log = night.server.log.read_text()
    night.tell("the whole night", "server's log", f"{log.count('database is locked')} times locked")


def main(folder):
    """Go through the night."""
    folder.mkdir(parents=True)
    make(folder / "store/data", n=9000, d=40, chunk_rows=1500)
    with contextlib.ExitStack() as started:
        place = started.enter_context(tempfile.TemporaryDirectory())
        postgres = Postgres(place)
        started.callback(postgres.stop)
        postgres.make()
        server = Server(folder)
        server.environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = postgres.url
        server.start()
        started.callback(lambda: stop(server.process))
        rows = started.enter_context(far_away(folder / "store/data"))
        night = Night(folder, server, rows)
        sys.stdout.write("| what happened | seen where | what was seen |\n|---|---|---|\n")
        deployed(night)
        worker = night.worker()
        workers = [worker]
        started.callback(lambda: [stop(one) for one in workers])
        steps = (schedules, killed_flow, lambda n: workers.append(killed_worker(n, workers[-1])),
                 lambda n: workers.append(stopped_worker(n, workers[-1])),
                 killed_server, server_away_at_the_end, cancelled, killed_scheduler, paused_pool,
                 changed_data, refreshes, artifacts)  # fmt: skip
        for step in steps:
            step(night)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
