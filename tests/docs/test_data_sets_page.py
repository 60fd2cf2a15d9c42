"""docs/data-sets.md: every command and all Python, in the order of the page."""

import shlex

import fewpass
from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from tests.conftest import PROJECT
from tests.docs.notebook_of_page import blocks


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path / "visits.csv", 1500)
    write_visits(tmp_path / "monday.csv", 200, seed=1)
    (tmp_path / "gone.txt").write_text("7\n8\n11\n")
    names = {}
    for kind, content in blocks((PROJECT / "docs/data-sets.md").read_text(encoding="utf-8")):
        for command in content.split("\n") if kind == "console" else ():
            assert cli.main(shlex.split(command.removeprefix("$ "))[1:]) == 0, command
        if kind == "python":
            exec(compile(content, "page", "exec"), names)
    origins = {column.name: column.origin for column in names["visits"].columns}
    assert origins["visit"] == "kept"
    assert origins["country"] == origins["spent_before"] == "original"
    assert len(names["frame"]) == 1000
    left = [fewpass.Dataset(name).to_arrow() for name in ("visits", "visits-test")]
    assert sum(table.num_rows for table in left) == 1700 - 6  # the ids begin anew on Monday
    assert not {"7", "8", "11"} & {v for table in left for v in table["visit"].to_pylist()}
    assert (tmp_path / "model-g3").is_dir()
    assert "kept" in capsys.readouterr().out
