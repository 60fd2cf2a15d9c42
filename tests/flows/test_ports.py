"""What is started listens on 127.0.0.1 alone, and pages answer to this machine's names only."""

import contextlib
import http.client
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewpass.pipeline.dashboard.hosts import names_this_machine
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from testing.datasets import make
from testing.interruptions import trained
from testing.listening import LOOPBACK, listening
from testing.prefect_server import (
    clean_environment,
    free_port,
    start,
    stop,
    wait_for,
)

FEWPASS = str(Path(sys.executable).with_name("fewpass"))
LOOK_EVERY_S = 0.05  # sockets are there as long as the work takes
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The addresses of a data set and of a run on it."""
    folder = tmp_path_factory.mktemp("ports")
    make(folder / "data", n=400, d=4)
    plan = TrainingPlan(dataset=str(folder / "data"), memory="97MB")
    trained(plan, folder / "run")
    return str(folder / "data"), str(folder / "run")


@pytest.mark.parametrize(
    "place",
    [Execution(scheduler="local"), Execution(workers=2), Execution(workers=2, encrypt=True)],
    ids=["threads", "processes", "encrypted"],
)
def test_a_cluster_started_here_is_for_this_machine(place):
    before = listening(os.getpid())
    with open_executor(place) as executor:
        executor.result(executor.submit("one", abs, -1))
        started = listening(os.getpid()) - before
    assert started
    assert {address for address, _ in started} <= LOOPBACK


WITHOUT_DASK = ("train", "evaluate", "predict")  # as what they do takes no half minute


@pytest.mark.parametrize("command", [*WITHOUT_DASK, "train on Dask"])
def test_a_command_listens_to_this_machine_alone(command, made, tmp_path):
    """Prefect's, and a cluster started by hand, are looked at in test_operations_page.py."""
    data, run = made
    train = [FEWPASS, "train", data, str(tmp_path / "run"), "--memory", "97MB"]
    words = {
        "train": train,
        "train on Dask": [*train, "--scheduler", "local"],
        "evaluate": [FEWPASS, "evaluate", run, data],
        "predict": [FEWPASS, "predict", run, data, str(tmp_path / "scores.csv")],
    }
    process = start(words[command], clean_environment(tmp_path), tmp_path / "said")
    seen = set()
    while process.poll() is None:
        seen |= listening(process.pid)
        time.sleep(LOOK_EVERY_S)
    assert process.returncode == 0, (tmp_path / "said").read_text()
    assert bool(seen) == (command not in WITHOUT_DASK)
    assert {address for address, _ in seen} <= LOOPBACK


def status(port, host):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("GET", "/fewpass/view.json", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    with contextlib.closing(connection):
        return connection.getresponse().status


def assert_answers_to_own_names(port):
    for host in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
        assert status(port, host) == 200, host
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "10.0.0.5"):
        assert status(port, host) == 403, host


def test_the_page_answers_to_this_machine_alone(made, tmp_path):
    port = free_port()
    said = tmp_path / "said"
    words = [FEWPASS, "dashboard", made[1], "--port", str(port)]
    process = start(words, clean_environment(tmp_path), said)
    try:
        wait_for(lambda: f"http://127.0.0.1:{port}/fewpass\n" in said.read_text(), 60, "the page")
        assert listening(process.pid) == {("127.0.0.1", port)}
        assert_answers_to_own_names(port)
    finally:
        stop(process)


def test_the_page_of_a_cluster_answers_to_this_machine_alone():
    with open_executor(Execution(scheduler="local")) as executor:
        port = int(executor.dashboard.split(":")[2].partition("/")[0])
        assert_answers_to_own_names(port)


def test_names_that_anybody_could_have_pointed_here_are_none_of_ours():
    assert all(map(names_this_machine, ("localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]")))
    assert not any(map(names_this_machine, ("", "0.0.0.0", "10.0.0.5", "localhost.", "a.b")))


def test_a_command_s_own_scheduler_has_dask_s_dashboard():
    """Bokeh, which it is made with, asks for pandas, which commands do without otherwise."""
    code = (
        "from fewpass.flows.spared_imports import spare; spare(); import urllib.request as web; "
        "from fewpass.pipeline.passes.executor import open_executor; "
        "from fewpass.pipeline.settings.execution import Execution\n"
        "with open_executor(Execution(scheduler='local')) as executor:\n"
        "    with web.urlopen(executor.dashboard.replace('/fewpass', '/status')) as page:\n"
        "        assert b'Dask needs bokeh' not in page.read()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
