"""docs/additive.md: its table, then every command."""

import re
import shlex

from fewpass.flows import cli
from tests.conftest import PROJECT


def test_the_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (PROJECT / "docs/additive.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "docs/additive.md", "exec"), {})
    commands = re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        assert cli.main(shlex.split(command)) == 0, command
        printed = capsys.readouterr().out
        if command == "shapes model":
            assert "hour x day" in printed  # the rush of working days
    assert (tmp_path / "model/report/importance.png").exists()
