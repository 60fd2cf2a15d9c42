"""docs/backup.md: every command, on what a checkout of 2026-11-25 wrote; and its models' bits."""

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fewpass.flows import cli
from fewpass.pipeline.models.refresh.generations import models, publish_generation
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from testing.prefect_server import PROJECT, clean_environment
from testing.refreshing import refresh
from tests.docs.test_pages_of_commands import sessions

BEFORE = PROJECT / "tests/data/version_before.tar.xz"


@pytest.fixture
def store(tmp_path):
    """Data, a run and a store of two generations; scores of rows as that version wrote them."""
    with tarfile.open(BEFORE) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    return tmp_path / "store"


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
    assert scores("after.csv") == [row[:2] for row in scores(store / "scores.csv")]
    assert (tmp_path / "prefect-backup.db").stat().st_size == (home / "prefect.db").stat().st_size
    assert [p for p in (tmp_path / "restored").rglob("*") if p.is_file()]


def test_a_store_of_that_version_is_refreshed_on_and_moved_back(store, tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    shutil.copy(store / "next.csv", inbox / "3.csv")
    plan = RefreshPlan(
        sources=(f"{inbox}/*.csv",), store=str(store / "live"), margin=1.0,
        ingest={"options": {"label": "y"}}, training={"lam": "1e-2", "passes": 2},
    )  # fmt: skip
    assert [one.state for one in models(plan.store)] == ["published before", "published"]
    made = refresh(plan)
    assert (made.published, made.rows) == (True, 442 + 240)
    assert publish_generation(plan.store, 2).number == 4
    nightly = str(store / "nightly/2026-11-25")
    assert cli.main(["predict", nightly, str(inbox / "3.csv"), str(tmp_path / "n.csv")]) == 0
    assert scores(tmp_path / "n.csv") == scores(store / "scores-nightly.csv")


def test_the_page_names_what_is_there():
    text = (PROJECT / "docs/backup.md").read_text()
    for name in re.findall(r"tests/[\w/.]+", text):
        assert (PROJECT / name).exists(), name
