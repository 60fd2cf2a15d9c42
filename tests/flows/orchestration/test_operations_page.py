"""docs/operations.md: every command of it, in its order, with a real server and a real cluster.

Its first commands begin in a fresh home, where Prefect makes its database, and nothing but this
machine is ever looked up.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewpass.pipeline.clicks import write_clicks
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import weights_digest
from testing.flow_words import SHIM, flows_of_scripts
from testing.interruptions import trained
from testing.listening import LOOPBACK as ADDRESSES
from testing.listening import listening
from testing.prefect_server import PROJECT, START_S, free_port

#: Put on the path as sitecustomize: writes down every host that a process looks up.
LOOKUPS = """
import os, socket
_real = socket.getaddrinfo
def getaddrinfo(host, *args, **kwargs):
    with open(os.environ["LOOKUPS"], "a") as file:
        print(host if isinstance(host, str) else bytes(host or b"").decode(), file=file)
    return _real(host, *args, **kwargs)
socket.getaddrinfo = getaddrinfo
"""


#: Exits with 0 when an address answers.
ANSWERS = """
import sys, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=5)
except OSError:
    sys.exit(1)
"""

LOOK_EVERY_S = 1.0  # servers are there for seconds, and every look is at all processes
LOOPBACK = {"127.0.0.1", "localhost", "::1", "0.0.0.0", "", "None"}
PAGE = (PROJECT / "docs/operations.md").read_text(encoding="utf-8")


def commands():
    """The lines that begin with $ in the page's terminal sessions."""
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        yield from re.findall(r"^\$ (.*)$", block, re.MULTILINE)


def script(store, ports):
    """The commands as one shell script: places and ports of this test, servers waited for.

    The first flow is run by the program itself, which has a server for the while; the others by a
    process that runs flows, with a server that is there.
    """
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p)' EXIT"]
    for command in commands():
        for port, here in ports.items():
            command = re.sub(rf"\b{port}\b", str(here), command)
        command = command.replace("/data/fewpass", str(store))
        command = command.replace("demo-output/", f"{store.parent}/")
        if command.startswith("prefect run ingest"):  # the page's two streams need two chunks
            command += " -p chunk_bytes=64KiB"
        lines += [f"echo '+' {shlex.quote(command)}", command]
        if command.startswith("prefect run ingest"):
            lines.append(SHIM)
        if command.startswith("prefect server"):
            wait = f"python {store.parent / 'answers.py'} http://127.0.0.1:{ports[4200]}/api/health"
            lines.append(f"for k in $(seq {START_S}); do {wait} && break; sleep 1; done")
    return "\n".join(lines) + "\n"


def finished(environment, folder):
    """The script's process at its end, and the sockets that were seen on the way."""
    with (folder / "out").open("w") as said:
        process = subprocess.Popen(
            ["bash", str(folder / "page.sh")], cwd=PROJECT, env=environment, text=True,
            stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            seen = sockets_until_the_end(process, 850)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process, seen


def sockets_until_the_end(process, seconds):
    """Every socket that the script's processes ever listen on, in the order of their beginning."""
    seen, until = [], time.monotonic() + seconds
    while process.poll() is None:
        assert time.monotonic() < until
        seen += listening(process.pid).difference(seen)
        time.sleep(LOOK_EVERY_S)
    return seen


def require_for_this_machine(seen, servers):
    """First comes what `prefect run` has for itself, then what the page starts."""
    assert {address for address, _ in seen} <= ADDRESSES
    found = [port for _, port in seen]
    assert found[0] not in servers
    assert set(servers) < set(found[1:])


@pytest.mark.timeout(900)
def test_every_command_runs(flow_runner, tmp_path):
    """Whatever listens, Prefect's, Dask's and ours, listens to this machine alone."""
    store = tmp_path / "store"
    write_clicks(tmp_path / "clicks.svm", 400_000)
    ports = {port: free_port() for port in (4200, 8786, 8787, 8788)}
    (tmp_path / "page.sh").write_text(script(store, ports))
    (tmp_path / "sitecustomize.py").write_text(LOOKUPS)
    (tmp_path / "answers.py").write_text(ANSWERS)
    # Continuous integration is something that Prefect spares by itself.
    spared = ("PREFECT_", "CI", "DO_NOT_TRACK", "GITHUB_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(spared)}
    binaries = str(Path(sys.executable).parent)
    environment = clean | {
        "PATH": f"{binaries}:{os.environ['PATH']}", "PREFECT_HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{tmp_path}:{PROJECT}", "LOOKUPS": str(tmp_path / "lookups"),
    }  # fmt: skip
    assert shutil.which("fewpass", path=environment["PATH"])
    with flows_of_scripts(tmp_path, flow_runner) as more:
        process, seen = finished(environment | more, tmp_path)
    assert process.returncode == 0, (tmp_path / "out").read_text()[-3000:]
    require_for_this_machine(seen, [ports[port] for port in (4200, 8786, 8787)])
    for made in ("data/manifest.json", "first/run.json", "second/report/model-card.md", "scores.csv",
                 "live/events/000001.json", "scores.parquet", "third/run.json"):  # fmt: skip
        assert (store / made).exists(), made
    hosts = set((tmp_path / "lookups").read_text().splitlines())
    assert hosts <= LOOPBACK | {socket.gethostname()}, hosts
    plan = RunFolder(str(store / "first")).record().plan
    assert (plan.solver.kind, plan.lam.written, plan.passes) == ("sgd", "10/n", 2)
    quiet = trained(plan, tmp_path / "quiet")
    there = load_model(RunFolder(str(store / "first"))).weights
    assert weights_digest(there) == quiet.result.weights_sha256


def test_what_the_page_names_is_there():
    for name in re.findall(r"\]\(([\w/.-]+)\)", PAGE):
        assert (PROJECT / "docs" / name).exists(), name
    for option in ("--encrypt", "--dry-run"):
        assert option in PAGE
