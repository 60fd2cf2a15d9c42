"""examples/: every script runs, at a small size."""

import runpy
import sys

import pytest

from tests.conftest import PROJECT

SIZES = {
    "in_memory": 2_000, "dask_frame": 4_000, "larger_than_memory": 2, "text_corpus": 1_600,
    "nightly_refresh": 600,
}  # fmt: skip


SCORERS = {"score_json"}  # of exported models, tested with the exports


def test_every_example_has_a_size():
    assert {path.stem for path in (PROJECT / "examples").glob("*.py")} == set(SIZES) | SCORERS


@pytest.mark.parametrize("name", SIZES)
def test_an_example_runs(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(SIZES[name])])
    runpy.run_path(str(PROJECT / f"examples/{name}.py"), run_name="__main__")
    assert capsys.readouterr().out
