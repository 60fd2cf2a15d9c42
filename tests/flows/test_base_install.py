"""What is installed without extras: the whole way from a terminal, and advice where more is asked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.visits import write_visits

#: As if they were not installed.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
absent = {'scipy', 'sklearn', 'joblib', 'matplotlib', 'pandas', 'polars', 'prefect', 'bokeh', 's3fs', 'onnx', 'skops', 'dask_ml'}
class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split('.')[0] in absent else PathFinder.find_spec(name, path, target)
sys.meta_path = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
"""
COMMANDS = """\
ingest visits.csv visits --label bought --drop visit --test-fraction 0.2
train visits model --tol 1e-4 --held-out visits-test --calibrate isotonic
train visits by-s2gd --tol 1e-3 --solver s2gd+
train visits.csv straight --label bought --drop visit
evaluate model visits-test
predict model visits.csv bought.csv --probability
weights model
report model
report model --html"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("base")
    write_visits(made / "visits.csv", 4000, 0)
    return made


def base(code, folder):
    at = {"cwd": folder, "capture_output": True, "text": True}
    path = str(Path(__file__).parents[2])
    start = f"{WITHOUT}\nsys.path.insert(0, {path!r})\n"
    return subprocess.run([sys.executable, "-c", start + code], check=False, **at)


def command(words, folder):
    return base(f"from flows.cli import main; sys.exit(main({words!r}))", folder)


def test_every_step_from_a_table_to_a_page(folder):
    for line in COMMANDS.splitlines():
        done = command([*line.split(), "--json"], folder)
        assert done.returncode == 0, (line, done.stderr)
    assert "pip install 'fewpass[plots]'" in command(["report", "model"], folder).stderr
    assert json.loads(done.stdout)["image"] is None
    assert (folder / "model/report/report.html").exists()
    assert not (folder / "model/report/loss.png").exists()


def test_what_needs_more_names_it(folder):
    asked = ["evaluate", "model", "visits-test", "--reliability"]
    assert "pip install 'fewpass[plots]'" in command(asked, folder).stderr
    for name in ("LinearClassifier", "from_run"):
        told = base(f"from pipeline import {name}", folder).stderr
        assert "pip install 'fewpass[scikit-learn]'" in told


def test_kernels_are_compiled_ahead_without_estimators(folder):
    code = "from pipeline.compiling_ahead import train_stored; train_stored('logistic', 'sparse', 'float64')"
    done = base(code, folder)
    assert done.returncode == 0, done.stderr
