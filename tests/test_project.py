"""The project itself: its import names, who imports whom, its README."""

import ast
import importlib
import re
import shlex
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from flows import cli
from pipeline.clicks import write_clicks
from pipeline.visits import write_visits

PROJECT = Path(__file__).parents[1]
PACKAGES = ["flows", "pipeline", "solvers", "storage"]


@pytest.mark.parametrize("name", PACKAGES)
def test_import_names_are_ours_alone(name):
    found = importlib.import_module(name).__file__
    assert Path(found) == PROJECT / name / "__init__.py"
    assert set(packages_distributions().get(name, ["fewpass"])) == {"fewpass"}


def imported(path):
    """The top-level names that a file imports, and where."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from ((name.partition(".")[0], f"{path}:{node.lineno}") for name in names)


@pytest.mark.parametrize(
    ("folder", "besides", "never"),
    [
        ("benchmarks", None, {"tests"}),
        ("tests", "tests/benchmarks", {"benchmarks"}),
        ("testing", None, {"tests", "benchmarks"}),
        *((package, None, {"tests", "benchmarks", "testing"}) for package in PACKAGES),
    ],
)
def test_what_is_tested_knows_no_tests_and_these_no_benchmarks(folder, besides, never):
    files = [
        path
        for path in (PROJECT / folder).rglob("*.py")
        if besides is None or not path.is_relative_to(PROJECT / besides)
    ]
    assert files
    assert not [where for path in files for name, where in imported(path) if name in never]


def blocks():
    """The README's terminal sessions: each a list of (command, what it prints)."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = session.replace("\\\n", " ").partition("\n")
            yield command, output


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch, capsys):
    """On less data than in the README; what they print starts every line as it is shown there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo-output").mkdir()
    write_clicks(tmp_path / "demo-output" / "clicks.svm", 1_500_000)
    write_visits(tmp_path / "demo-output" / "visits.csv", 60_000)
    commands = [(c, o) for c, o in blocks() if c.startswith("fewpass ")]
    assert {shlex.split(c)[1] for c, _ in commands} >= {"ingest", "train", "evaluate", "predict"}
    for command, shown in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, command
        printed = capsys.readouterr()
        heads = {line[:10] for line in (printed.out + printed.err).splitlines()}
        for line in shown.splitlines():
            if line.startswith(" ") and line.strip()[:1].isalpha():
                assert line[:10] in heads, f"{command}: {line}"


def test_the_readme_names_both_commands():
    commands = [command for command, _ in blocks()]
    assert "make demo" in commands
    assert "make test" in commands
