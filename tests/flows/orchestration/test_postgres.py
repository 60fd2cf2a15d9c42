"""Postgres as the database of Prefect's server: flows side by side, and nothing is locked."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from testing.datasets import make
from testing.prefect_server import PROJECT, FlowRunner, Server, free_port, kill, stop, wait_for

DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
FOUND = shutil.which("initdb") or (str(DEBIAN[-1]) if DEBIAN else None)
pytestmark = [
    pytest.mark.skipif(FOUND is None, reason="there is no Postgres on this machine"),
    pytest.mark.timeout(600),
]
USER = "postgres" if os.geteuid() == 0 else None  # it does not run as root
RUNS = 2  # of each of two processes


class Postgres:
    """A database server of its own, on a port of this machine."""

    def __init__(self, folder, port=None, user="fewpass"):
        self.folder, self.port, self.user = Path(folder), port or free_port(), user
        self.binaries = Path(FOUND).resolve().parent
        if USER:
            shutil.chown(self.folder, USER)
        self.run("initdb", "-D", self.folder / "data", "-A", "trust", "-U", user, "--no-sync")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -k {self.folder}"
        self.run("pg_ctl", "-D", self.folder / "data", "-o", options, "-l", self.folder / "log",
                 "-w", "start")  # fmt: skip
        self.url = f"postgresql+asyncpg://{user}@127.0.0.1:{self.port}/prefect"

    def make(self, name="prefect"):
        self.run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", self.user, name)

    def run(self, program, *words):
        done = subprocess.run(
            [str(self.binaries / program), *map(str, words)], user=USER, cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            timeout=120, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()

    def of_page(self, program, folder):
        """Do what docs/backup.md says of one of PostgreSQL's programs."""
        page = (PROJECT / "docs/backup.md").read_text()
        line = re.search(rf"^    {program} (.*)$", page, re.MULTILINE)[1]
        address = self.url.replace("+asyncpg", "")
        words = shlex.split(line.replace("$DATABASE", address))
        self.run(program, *(folder / word if word.endswith(".dump") else word for word in words))

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")


@pytest.fixture
def server(tmp_path_factory):
    with contextlib.ExitStack() as started:
        # Not below pytest's own folder, which nobody else may enter.
        postgres = Postgres(started.enter_context(tempfile.TemporaryDirectory()))
        started.callback(postgres.stop)
        postgres.make()
        backups = Path(started.enter_context(tempfile.TemporaryDirectory()))
        backups.chmod(0o777)
        server = Server(tmp_path_factory.mktemp("prefect-on-postgres"))
        server.environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = postgres.url
        server.start()
        started.callback(lambda: stop(server.process))
        yield server, postgres, backups


def test_flows_side_by_side_a_server_that_is_killed_and_a_backup(server, tmp_path):
    server, postgres, backups = server
    dataset = make(tmp_path / "set", n=2000).folder.url
    runners = [FlowRunner(server.environment, tmp_path / f"{k}.log") for k in range(2)]
    for number in range(RUNS):
        for k, runner in enumerate(runners):
            runner.give("train", dataset=dataset, run=tmp_path / f"{k}-{number}", scheduler="none")
    for runner in runners:
        for _ in range(RUNS):
            status, _, err = runner.take()
            assert status == 0, err

    def completed():
        found = server.ask(
            "flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
        )
        return len(found) == 2 * RUNS

    wait_for(completed, 90, "all runs on record")
    log = server.log.read_text()
    assert "database is locked" not in log
    assert not list(server.home.glob("*.db"))  # no SQLite beside it
    postgres.of_page("pg_dump", backups)
    runners[0].run("train", dataset=dataset, run=tmp_path / "later", scheduler="none")
    assert server.run_of(tmp_path / "later")
    kill(server.process)
    postgres.of_page("pg_restore", backups)
    server.start()
    assert completed()
    assert not server.run_of(tmp_path / "later")
    assert server.run_of(tmp_path / "0-0")
    assert (
        runners[0].run("train", dataset=dataset, run=tmp_path / "later", scheduler="none")[0] == 0
    )
    for runner in runners:
        runner.close()
