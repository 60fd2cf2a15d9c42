"""docs/backup.md: every command; what a checkout of 2026-11-25 wrote is refused by name."""

import contextlib
import csv
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
from tests.docs.walked import sessions

BEFORE = PROJECT / "tests/data/version_before.tar.xz"


@pytest.fixture
def store(tmp_path):
    """What that version wrote; and a data set, a run, and a store of two nights, of this one."""
    made = tmp_path / "store"
    with tarfile.open(BEFORE) as archive:
        archive.extractall(made, filter="data")
    (made / "data").rename(made / "begun/data")
    shutil.rmtree(made / "data-test")
    rows, data = str(made / "next.csv"), str(made / "data")
    assert cli.main(["ingest", rows, data, "--label", "y", "--test-fraction", ".25", "-q"]) == 0
    words = ["train", data, str(made / "nightly/2026-11-25"), "--lam", "1e-2", "-q"]
    assert cli.main(words) == 0
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


def test_runs_and_data_sets_of_that_version_are_refused_by_name(store, tmp_path, capsys):
    new, rows = str(tmp_path / "new"), str(store / "next.csv")
    for run in ("begun/sgd", "begun/sdca"):
        for words in (["resume", str(store / run)], ["predict", str(store / run), rows, new]):
            assert cli.main([*words, "-q"]) == 2
            said = capsys.readouterr().err
            assert f"{run}/run.json is 'fewpass-run' version 2, where" in said
    assert cli.main(["train", str(store / "begun/data"), new, "--lam", "1e-2", "-q"]) == 2
    said = capsys.readouterr().err
    assert "begun/data/manifest.json cannot be read: it is 'fewpass-dataset' version 3" in said


def test_the_page_names_what_is_there():
    text = (PROJECT / "docs/backup.md").read_text()
    for name in re.findall(r"tests/[\w/.]+", text):
        assert (PROJECT / name).exists(), name
