"""A real Prefect server on this machine, and the real `prefect` program."""

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from unittest import mock

import psutil

PROJECT = Path(__file__).parents[1]
PREFECT = str(Path(sys.executable).with_name("prefect"))
LOCKED = HTTPStatus.SERVICE_UNAVAILABLE  # SQLite is, and nothing was done
PORTS, MOST_PROCESSES = range(15_000, 32_000), 40  # of the suite, each with ports of its own
PATIENCE_S = 60  # of Prefect's own clients, for an answer of the server
START_S = 120  # a loaded machine makes its first database slowly


_given: set[int] = set()


def free_port():
    """A port for a server that begins in some seconds.

    It is below those that systems give to connections: one of them would have it by then.  Nobody
    else of the suite is given it meanwhile.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ours = [port for port in PORTS[number % MOST_PROCESSES :: MOST_PROCESSES] if port not in _given]
    for port in random.SystemRandom().sample(ours, len(ours)):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise OSError(f"No port of {PORTS} is free.")


def clean_environment(home):
    """The caller's environment without settings of Prefect's; everything goes below `home`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return kept | {"PREFECT_HOME": str(home), "PREFECT_LOGGING_LEVEL": "INFO"}


def migrated_database(folder):
    """The database of a home that is used for the first time; processes beside wait for one."""
    made = Path(folder) / "prefect.db"
    with (Path(folder) / "prefect.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            home = Path(folder) / "migrating"
            done = prefect(clean_environment(home), "server", "database", "upgrade", "-y")
            assert done.returncode == 0, done.stderr
            (home / "prefect.db").replace(made)
    return made


def start(command, environment, log=None):
    """Start a process that takes Ctrl-C, in the checkout: there the project's settings hold."""
    with Path(log or os.devnull).open("ab") as out:
        return subprocess.Popen(
            command, env=environment, cwd=PROJECT, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip


def has_ended(pid):
    """Whether a process of others has ended, also where nobody asks how."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def status_of(process, seconds, what):
    """The exit status of a process of ours, which is to end by itself."""
    wait_for(lambda: process.poll() is not None, seconds, what)
    return process.returncode


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(30)


def stop(process):
    """End a process of ours and what it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


def share_of_a_core():
    """What each process that wants a core has of one; at most 1.

    By the load of the last minute, and by the processes of the suite, which want cores before a
    minute has passed and where a container tells no load.
    """
    suite = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return min(1.0, len(os.sched_getaffinity(0)) / max(os.getloadavg()[0], suite))


def patience(seconds):
    """So many seconds of a machine that has a core for everybody, more where it has not."""
    return seconds / share_of_a_core()


def wait_for(condition, seconds, what):
    """Wait so many seconds of a machine that has a core for everybody, more where it has not."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < patience(seconds), f"{what} did not come about in {waited:.0f} s"
        time.sleep(0.5)  # a server that is asked more often computes for the answers
    return found


class Server:
    """`prefect server start` on a port of its own; killed and started again it is the same one.

    A home without a database gets a copy of `database`: to make one takes five seconds.
    """

    def __init__(self, home, database=None, program=PREFECT):
        self.home, self.port, self.program = Path(home), free_port(), program
        if database:
            shutil.copy(database, self.home / "prefect.db")
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.environment = clean_environment(home) | {"PREFECT_API_URL": self.url}
        self.log = self.home / "server.log"
        self.process = None

    def start(self):
        words = [self.program, "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = start(words, self.environment, self.log)
        wait_for(self.healthy, START_S, "the Prefect server")
        return self

    def healthy(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("health") is True
        except OSError:
            return False

    def ask(self, path, body=None, method=None):
        """GET, or POST with a body, what the API says; a busy server is asked again, as Prefect does.

        A busier one has no connection to its database left and says so with 500: what only asks
        may be asked again then, too.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/{path}", data, {"Content-Type": "application/json"}, method=method
        )
        again = {LOCKED}
        if (method or "GET") == "GET" and (body is None or path.endswith("filter")):
            again |= {HTTPStatus.INTERNAL_SERVER_ERROR}
        seconds = patience(PATIENCE_S)
        until = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(request, timeout=seconds) as response:
                    return json.loads(response.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code not in again or time.monotonic() > until:
                    raise
            time.sleep(1)

    @contextlib.contextmanager
    def asked_here(self):
        """Have this process ask this server: a program of its own imports Prefect for seconds."""
        from prefect.settings import PREFECT_API_URL, temporary_settings

        told = mock.patch.dict(os.environ, {"PREFECT_API_URL": self.url})
        with told, temporary_settings({PREFECT_API_URL: self.url}):
            yield

    def run_of(self, place):
        """The newest training of a place, which a flow run's name tells by the last two parts."""
        short = "/".join(str(place).split("/")[-2:])
        asked = {"sort": "START_TIME_DESC", "flow_runs": {"name": {"like_": short}}}
        runs = self.ask("flow_runs/filter", asked)
        named = {r["name"].partition(",")[0]: r for r in reversed(runs)}  # the newest stays
        found = [name for name in named if name.startswith("train ") and name.endswith(short)]
        return named[found[-1]] if found else None

    def artifacts(self, run):
        found = self.ask(
            "artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}, "limit": 100}
        )
        found.sort(key=lambda a: a["created"])  # of several versions the last one is shown
        return {a["key"]: a for a in found if a["key"]}


def prefect(environment, *words, timeout=280, cwd=PROJECT):
    """Run the `prefect` program to its end."""
    return subprocess.run(
        [PREFECT, *map(str, words)], env=environment, cwd=cwd, timeout=timeout,
        capture_output=True, text=True,
    )  # fmt: skip


def words_for(parameters):
    """Parameters as `prefect run` takes them; a dot in a name is written as two underscores."""
    return [f"{name.replace('__', '.')}={value}" for name, value in parameters.items()]


def run(environment, flow, **parameters):
    """`prefect run` of a flow, in a process of its own."""
    return prefect(environment, "run", flow, *(f"-p{w}" for w in words_for(parameters)))


#: What a flow's page shows at its end is waited for: a busy server takes its time.
LOOP = """
import contextlib, io, json, sys
from fewpass.flows.orchestration import artifacts
from fewpass.flows.orchestration.command import run_flow
artifacts.LAST_WORD_S = 120.0
for line in sys.stdin:
    flow, words, place = json.loads(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(place):
        asked = tuple(word for word in words if word != "--help")
        status = run_flow(flow, asked, help_=asked != tuple(words))
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


class FlowRunner:
    """Does what `prefect run` does, many times in one process: its imports take ten seconds."""

    def __init__(self, environment, log):
        self._errors = Path(log).open("ab")  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [sys.executable, "-c", LOOP], env=environment, cwd=PROJECT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def run(self, flow, **parameters):
        """(exit status, standard output, standard error)."""
        self.give(flow, **parameters)
        return self.take()

    def give(self, flow, **parameters):
        """Have a flow run, after those given before."""
        self._give(flow, words_for(parameters), ".")

    def run_words(self, flow, words, place):
        """The same as `run` of words as they are typed, in a folder."""
        self._give(flow, words, str(place))
        return self.take()

    def _give(self, *asked):
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def take(self):
        """What came of the one that was given first."""
        line = self.process.stdout.readline()
        assert line, "the process that runs flows ended"
        return json.loads(line)

    def result(self, flow, **parameters):
        """What a flow that must succeed prints."""
        status, out, err = self.run(flow, **parameters)
        assert status == 0, err
        return json.loads(out)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self._errors.close()
