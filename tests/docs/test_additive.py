"""docs/additive.md: its table, every command, the programs, and the scorer that it names."""

import json
import re
import runpy
import shlex

import numpy as np
import pandas as pd

from fewpass import from_run
from fewpass.flows import cli
from tests.conftest import PROJECT
from tests.docs.walked import sessions, unsaid

PAGE = (PROJECT / "docs/additive.md").read_text(encoding="utf-8")
#: What the page of the default model shows of the same rides.
DEFAULT = re.search(
    r"```text\n( hour.*?)```", (PROJECT / "docs/default-model.md").read_text("utf-8"), re.DOTALL
)[1]


def run(block, names):
    exec(compile(block, "docs/additive.md", "exec"), names)
    return names


def test_the_page_works_and_a_database_and_plain_python_predict_the_same(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rides, notebook, database = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.setenv("COLUMNS", "250")
    run(rides, {})
    commands = [*sessions("docs/additive.md")]
    assert len(commands) >= 9
    for command, shown in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, command
        printed = "".join(capsys.readouterr())
        beside = DEFAULT if " ingest " in command else ""
        assert unsaid(shown + beside, printed) == [], command
    assert (tmp_path / "model/report/functions.html").exists()
    run(notebook, {})
    assert "hour x day" in capsys.readouterr().out
    table, document = pd.read_csv("rides.csv"), json.loads((tmp_path / "rides.json").read_text())
    wanted = from_run("model").predict(table)
    np.testing.assert_allclose(run(database, {})["by_database"], wanted, rtol=1e-5)
    program = runpy.run_path(str(PROJECT / "examples/score_json.py"), run_name="score")
    rows = table.head(300).to_dict("records")
    scored = [program["predict"](document, row)["prediction"] for row in rows]
    np.testing.assert_allclose(scored, wanted[:300], rtol=1e-5)
