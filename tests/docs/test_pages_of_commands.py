"""README, docs/coming-from.md, docs/using.md and docs/tutorials: every command, and the Python.

Each in an empty folder, after the demo alone.
The tutorial of a nightly refresh is run where a Prefect server is, in tests/flows/orchestration.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from fewpass.pipeline.settings import ingest_plan
from tests.conftest import PROJECT
from tests.docs.walked import sessions, unsaid
from website.made_pages import MADE

#: Pages whose figures are of chunks as large as they are everywhere.
FIGURES, CHUNK_BYTES = ("README.md", "docs/using.md"), ingest_plan.CHUNK_BYTES
ROWS_OF_README = 200_000  # of the table that `make demo` makes

README = (PROJECT / "README.md").read_text(encoding="utf-8")

#: The command, with chunks as small as the demo is here.
FEWPASS = (
    "from fewpass.pipeline.settings import ingest_plan; ingest_plan.CHUNK_BYTES = 1 << 16; "
    "from fewpass.flows.cli import main; import sys; sys.exit(main())"
)


def python_of(page):
    text = (PROJECT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_fewpass(page, capsys):
    """What a page shows below a command is what the command prints."""
    commands = [(c, o) for c, o in sessions(page) if c.startswith("fewpass ")]
    assert len(commands) >= 3
    for command, shown in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, command
        printed = capsys.readouterr()
        assert unsaid(shown, printed.out + printed.err) == [], command


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/coming-from.md",
        "docs/default-model.md",
        "docs/using.md",
        "docs/tutorials/csv.md",
        "docs/tutorials/clicks.md",
    ],
)
def test_the_commands_of_a_page_run(page, folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    if page in FIGURES:
        monkeypatch.setattr(ingest_plan, "CHUNK_BYTES", CHUNK_BYTES)
    if page == "README.md":
        (folder / "demo-output/visits.csv").unlink()  # shared by all folders after the demo
        write_visits(folder / "demo-output/visits.csv", ROWS_OF_README, 0)
    run_fewpass(page, capsys)


def test_a_loaded_model_explains_as_its_page_says(folder, capsys):
    for command in ("ingest demo-output/visits.csv visits --label bought --drop visit",
                    "train visits visits-run"):  # fmt: skip
        assert cli.main(command.split()) == 0
    names = {}
    for block in python_of("docs/using.md"):
        exec(compile(block, "docs/using.md", "exec"), names)
    why = names["why"]
    assert why.score[0] == pytest.approx(why.base[0] + why.contributions[0].sum())


@pytest.mark.parametrize("page", ["README.md", "docs/coming-from.md"])
def test_the_python_of_a_page_runs(page, folder, capsys):
    names, printed = {}, []
    for block in python_of(page):
        exec(compile(block, page, "exec"), names)
        printed.append(capsys.readouterr().out)
    if page == "README.md":
        text = (PROJECT / page).read_text(encoding="utf-8")
        (shown,) = re.findall(r"```python\n[^`]*```\n\n    (.*)\n", text)
        assert printed[0] == f"{shown}\n"
        assert names["result"].converged
        assert len(pd.read_csv("bought.csv")) == len(pd.read_csv("demo-output/visits.csv"))


def test_the_readme_names_both_commands():
    commands = [command for command, _ in sessions("README.md")]
    assert "make demo" in commands
    assert "make test" in commands


def test_the_promises_have_the_figures_of_the_results():
    """What the README says was measured is on the pages that it names, which the results make."""
    rows = re.findall(r"^\|[^|]+\| ([^|]+) \| \[\w+\]\(docs/([\w-]+\.md)", README, re.MULTILINE)
    assert len(rows) >= 10
    made = {page: re.sub(r"[*`]", "", MADE[page]()) for _, page in rows}
    for measured, page in rows:
        numbers = re.findall(r"\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+|\d+ of \d+", measured)
        assert not [number for number in numbers if number not in made[page]], measured


def finish(script, folder, settings):
    """Run a page in a shell that has our commands, and end what it leaves in the background."""
    (folder / "bin").mkdir()
    for name, what in (("fewpass", f'-c "{FEWPASS}"'), ("dask", "-m dask"), ("prefect", None)):
        own = Path(sys.executable)
        line = f'"{own}" {what}' if what else f'"{own.parent}/prefect"'
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        program.chmod(0o755)
    (folder / "pyproject.toml").write_bytes((PROJECT / "pyproject.toml").read_bytes())
    environment = os.environ | settings | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(PROJECT),
    }  # fmt: skip
    with (folder / "printed").open("wb") as printed:
        shell = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=folder, env=environment, stdout=printed,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = shell.wait(500)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    assert code == 0, (folder / "printed").read_text(errors="replace")[-3000:]
