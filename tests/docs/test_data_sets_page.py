"""docs/data-sets.md: every command and all Python, in the order of the page."""

import shlex
import subprocess

import fewpass
from fewpass.flows import cli
from tests.conftest import PROJECT
from tests.docs.notebook_of_page import blocks


def run(command):
    """Run a command of fewpass here, another one in a shell."""
    if not command.startswith("fewpass "):
        subprocess.run(command, shell=True, check=True)
        return
    assert cli.main(shlex.split(command)[1:]) == 0, command


def test_the_page_runs(folder, capsys):
    names, n_rows = {}, 0
    for kind, content in blocks((PROJECT / "docs/data-sets.md").read_text(encoding="utf-8")):
        for line in content.split("\n") if kind == "console" else ():
            command = line.removeprefix("$ ")
            if command.startswith("fewpass forget"):
                n_rows = sum(len(fewpass.Dataset(name)) for name in ("visits", "visits-test"))
            run(command)
        if kind == "python":
            exec(compile(content, "page", "exec"), names)
    origins = {column.name: column.origin for column in names["visits"].columns}
    assert origins["visit"] == "kept"
    assert origins["spent_before"] == "feature"
    assert len(names["frame"]) == 1000
    left = [fewpass.Dataset(name).to_arrow() for name in ("visits", "visits-test")]
    assert n_rows - 6 <= sum(table.num_rows for table in left) <= n_rows - 3
    assert not {"7", "8", "11"} & {v for table in left for v in table["visit"].to_pylist()}
    assert (folder / "model-g3").is_dir()
    assert "kept" in capsys.readouterr().out
