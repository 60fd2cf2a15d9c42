"""The database of an older Prefect, taken over: python -m tests.faults.older_prefect FOLDER 3.0.11

Installs that version into FOLDER, has its server write records of a flow, its runs and their
artifacts, in SQLite and, where it is there, in PostgreSQL; then upgrades each database as
docs/backup.md says, and looks for the records with today's Prefect, on which our deployments are
made, too.  Some two minutes and a download.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from testing.prefect_server import PROJECT, Server, clean_environment, prefect, stop
from tests.flows.orchestration.test_postgres import FOUND, Postgres

#: What an older Prefect did not know to be too new for it, or forgot to ask for.
CAPS = ("pydantic<2.11", "sqlalchemy<2.1", "fastapi<0.116", "asyncpg", "importlib_metadata")
WRITES = """
from prefect import flow
from prefect.artifacts import create_markdown_artifact

@flow(name="train")
def train(run: str = "r"):
    create_markdown_artifact("a card", key="old-card")
    return run

for k in range(3):
    train(f"r{k}")
"""
DATABASE = "PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL"


def installed(folder, version):
    """An environment with that Prefect."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        words = [str(python), "-m", "pip", "install", "-q", f"prefect=={version}", *CAPS]
        subprocess.run(words, check=True)
    return python


def records(server):
    """What a server has on record, by the API that both versions have."""
    kinds = ("flows", "deployments", "flow_runs", "artifacts")
    return {kind: len(server.ask(f"{kind}/filter", {"limit": 100})) for kind in kinds}


def taken_over(folder, python, database=None):
    """Write with the older, upgrade, read with today's."""
    folder.mkdir(parents=True)
    more = dict.fromkeys(DATABASE, database) if database else {}
    older = Server(folder, program=str(python.with_name("prefect")))
    older.environment |= more
    older.start()
    try:
        quiet = {"cwd": folder, "check": True, "capture_output": True}
        subprocess.run([python, "-c", WRITES], env=older.environment, **quiet)
        before = records(older)
    finally:
        stop(older.process)
    environment = clean_environment(folder) | more
    done = prefect(environment, "server", "database", "upgrade", "-y")
    assert done.returncode == 0, done.stderr
    newer = Server(folder)
    newer.environment |= more
    newer.start()
    try:
        after = records(newer)
        assert after == before, (before, after)
        subprocess.run(
            [sys.executable, "-m", "fewpass.flows.orchestration.deploying"], cwd=PROJECT,
            env=newer.environment | {"FEWPASS_HOME": str(PROJECT), "FEWPASS_STORE": str(folder)},
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deployed = records(newer)["deployments"] - after["deployments"]
    finally:
        stop(newer.process)
    kept = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in after.items())
    return f"{kept} kept; {deployed} deployments made on it"


def main(folder, version):
    """Do so with both kinds of databases."""
    python = installed(folder / f"prefect-{version}", version)
    os.environ.pop("PREFECT_API_URL", None)
    place = Path(tempfile.mkdtemp(dir=folder))
    sys.stdout.write(f"SQLite of Prefect {version}: {taken_over(place / 'sqlite', python)}\n")
    if FOUND is None:
        return
    with contextlib.ExitStack() as started:
        postgres = Postgres(started.enter_context(tempfile.TemporaryDirectory()))
        started.callback(postgres.stop)
        postgres.make()
        said = taken_over(place / "postgres", python, postgres.url)
    sys.stdout.write(f"PostgreSQL of Prefect {version}: {said}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])
