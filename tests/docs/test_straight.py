"""docs/straight.md: every command, after the demo alone."""

import io
import re
import shlex
import sys

from fewpass.flows import cli
from tests.conftest import PROJECT


def test_the_commands_of_the_page_run(folder, monkeypatch, capsys):
    text = (PROJECT / "docs/straight.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ *\$ (.*fewpass .*)$", text, re.MULTILINE)
    assert len(commands) >= 9
    for command in commands:
        piped, _, words = command.rpartition("fewpass ")
        if piped:
            read = io.BytesIO((folder / shlex.split(piped)[1]).read_bytes())
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(read))
        assert cli.main(shlex.split(words)) == 0, command
        capsys.readouterr()


def test_options_for_reading_go_with_no_data_set(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "nowhere", "run", "--label", "x"]) == 2
    assert "is no source" in capsys.readouterr().err
    (tmp_path / "rows.svm").write_text("1 1:1\n0 1:2\n")
    assert cli.main(["train", "rows.svm", "run", "--tol", "1e-3"]) == 2
    assert "--ingest-into" in capsys.readouterr().err
    assert cli.main(["train", "rows.svm", "run", "--scheduler", "local"]) == 2
    assert "--ingest-into" in capsys.readouterr().err
    assert cli.main(["train", "rows.svm", "run", "--dry-run", "--test-fraction", "0.5"]) == 0
    plan = capsys.readouterr().out
    assert "test_fraction = 0.5" in plan
    for more, status in ((["--dry-run"], 0), (["--tol", "-1"], 2)):
        words = ["train", "rows.svm", "run", "--ingest-into", "kept", *more]
        assert (cli.main(words), (tmp_path / "kept").exists()) == (status, False)
    capsys.readouterr()
    (tmp_path / "plan.toml").write_text(plan)
    assert cli.main(["train", "rows.svm", "run", "--dry-run", "--config", "plan.toml"]) == 0
    assert capsys.readouterr().out == plan
