"""docs/backup.md: every command, on what a checkout of 2026-11-25 wrote; and its models' bits."""

import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fewpass.flows import cli
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from testing.prefect_server import PROJECT, clean_environment
from testing.refreshing import refresh
from tests.docs.test_pages_of_commands import sessions

BEFORE = PROJECT / "tests/data/version_before.tar.xz"


@pytest.fixture
def store(tmp_path):
    """Data, runs and scores as that version wrote them; a store of two nights of this one."""
    made = tmp_path / "store"
    with tarfile.open(BEFORE) as archive:
        archive.extractall(made, filter="data")
    shutil.rmtree(made / "live")
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    names, *rows = (made / "next.csv").read_text().splitlines(keepends=True)
    plan = RefreshPlan(
        sources=(f"{inbox}/*.csv",), store=str(made / "live"), settle=0,
        ingest={"options": {"label": "y"}}, training={"lam": "1e-2"},
    )  # fmt: skip
    for night in range(2):
        (inbox / f"{night}.csv").write_text(names + "".join(rows[night::2]))
        refresh(plan)
    return made


def scores(file):
    """The rows of a file of scores, but for the names of its columns."""
    with Path(file).open(newline="") as opened:
        return [*csv.reader(opened)][1:]


def test_every_command_of_the_page(store, tmp_path, monkeypatch, prefect_database):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(prefect_database, home / "prefect.db")
    shutil.copy(store / "next.csv", "rows.csv")
    monkeypatch.setenv("PREFECT_HOME", str(home))
    assert cli.main(["predict", str(store / "live"), "rows.csv", "before.csv"]) == 0
    binaries = Path(sys.executable).parent
    environment = clean_environment(home) | {"PATH": f"{binaries}:{os.environ['PATH']}"}
    for command, _ in sessions("docs/backup.md"):
        words = command.strip().replace("$STORE", str(store)).replace("$PREFECT_HOME", str(home))
        if words.startswith("fewpass "):
            assert cli.main(shlex.split(words)[1:]) == 0, words
        elif not words.startswith("export "):
            done = subprocess.run(
                words, shell=True, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    assert scores("after.csv") == scores("before.csv")
    with contextlib.closing(sqlite3.connect("prefect-backup.db")) as copied:
        assert copied.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert copied.execute("select count(*) from alembic_version").fetchone() == (1,)
    assert (tmp_path / "prefect-backup.db").stat().st_size == (home / "prefect.db").stat().st_size
    assert [p for p in (tmp_path / "restored").rglob("*") if p.is_file()]


def test_scores_of_that_version_are_the_same(store, tmp_path):
    nightly = str(store / "nightly/2026-11-25")
    assert cli.main(["predict", nightly, str(store / "next.csv"), str(tmp_path / "n.csv")]) == 0
    assert scores(tmp_path / "n.csv") == scores(store / "scores-nightly.csv")


@pytest.fixture
def begun(store):
    """Runs that were begun, at the address of their data set that they know."""
    place = Path("/tmp/fewpass-version-before")
    place.unlink(missing_ok=True)
    place.symlink_to(store)
    yield store / "begun"
    place.unlink()


def test_runs_that_version_began_go_on_or_are_refused_by_name(begun, tmp_path, capsys):
    assert cli.main(["resume", str(begun / "sgd"), "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["passes"] == 12
    assert cli.main(["resume", str(begun / "sdca"), "-q"]) == 2
    assert "begun by a version of fewpass whose SdcaState was another" in capsys.readouterr().err
    words = ["train", str(begun.parent / "data"), str(tmp_path / "new"), "--lam", "1e-2", "-q"]
    assert cli.main([*words, "--start-from", str(begun / "sdca")]) == 0
    assert cli.main(["predict", str(begun / "sdca"), str(begun.parent / "next.csv"),
                     str(tmp_path / "p.csv"), "-q"]) == 0  # fmt: skip


def test_the_page_names_what_is_there():
    text = (PROJECT / "docs/backup.md").read_text()
    for name in re.findall(r"tests/[\w/.]+", text):
        assert (PROJECT / name).exists(), name
