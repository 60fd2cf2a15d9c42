"""docs/additive.md and docs/tutorials/additive.md: their table, every command, the programs."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest

from fewpass import from_run
from fewpass.flows import cli
from tests.conftest import PROJECT


def page(name):
    return (PROJECT / "docs" / name).read_text(encoding="utf-8")


def programs(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def commands(text):
    return re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE)


@pytest.fixture
def rides(tmp_path, monkeypatch):
    """A folder with the table, of fewer rows than on the page."""
    monkeypatch.chdir(tmp_path)
    block = programs(page("additive.md"))[0].replace("n = 6000", "n = 2500")
    exec(compile(block, "docs/additive.md", "exec"), {})
    return tmp_path


def test_the_commands_of_the_page_run(rides, capsys):
    assert len(commands(page("additive.md"))) >= 8
    for command in commands(page("additive.md")):
        assert cli.main(shlex.split(command)) == 0, command
        printed = capsys.readouterr().out
        if command == "shapes model":
            assert "hour x day" in printed  # the rush of working days
    assert (rides / "model/report/importance.png").exists()
    _, notebook = programs(page("additive.md"))
    exec(compile(notebook, "docs/additive.md", "exec"), {})
    assert "hour x day" in capsys.readouterr().out


def test_a_database_and_sixty_lines_predict_the_same(rides):
    tutorial = page("tutorials/additive.md")
    for command in commands(tutorial):
        assert cli.main([*shlex.split(command), "-q"]) == 0, command
    database, program = programs(tutorial)
    assert len([line for line in program.splitlines() if line.strip()]) <= 60
    table, names = pd.read_csv("rides.csv"), {}
    for k, block in enumerate((database, program)):
        exec(compile(block, f"docs/tutorials/additive.md {k}", "exec"), names)
    wanted = from_run("model").predict(table)
    shapes = json.loads((rides / "rides.json").read_text())["shapes"]
    scored = [names["scores"](shapes, row)[0] for row in table.head(300).to_dict("records")]
    clipped = np.clip(scored, wanted.min(), wanted.max())
    np.testing.assert_allclose(clipped, wanted[:300], rtol=1e-5)
    np.testing.assert_allclose(names["by_database"], wanted, rtol=1e-5)
