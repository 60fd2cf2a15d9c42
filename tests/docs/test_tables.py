"""docs/tables.md: every command, on a table as it describes."""

import re
import shlex

from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from tests.conftest import PROJECT


def test_the_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path / "visits.csv", 3000)
    write_visits(tmp_path / "later.csv", 500, seed=1)
    text = (PROJECT / "docs/tables.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        words, _, file = command.partition(" > ")
        assert cli.main(shlex.split(words)) == 0, command
        printed = capsys.readouterr().out
        if file:
            (tmp_path / file).write_text(printed.replace('visit = "number"', 'visit = "drop"'))
        if "--config" in words:
            assert "visit " not in printed.replace("visits", "")
