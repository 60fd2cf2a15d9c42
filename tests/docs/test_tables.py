"""docs/tables.md: every command, after the demo alone."""

import re
import shlex

from fewpass.flows import cli
from tests.conftest import PROJECT


def test_the_commands_of_the_page_run(folder, capsys):
    text = (PROJECT / "docs/tables.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        words, _, file = command.partition(" > ")
        assert cli.main(shlex.split(words)) == 0, command
        printed = capsys.readouterr().out
        if file:
            (folder / file).write_text(printed.replace('visit = "number"', 'visit = "drop"'))
        if "--config" in words:
            assert "visit " not in printed.replace("visits", "")
