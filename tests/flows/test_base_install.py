"""What is installed without extras: the whole way from a terminal, and advice where more is asked."""

import os
from pathlib import Path

from fewpass.pipeline.clicks import write_visits
from testing.one_process import run_all

#: As if they were not installed.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
absent = {'scipy', 'sklearn', 'joblib', 'matplotlib', 'pandas', 'polars', 'prefect', 'bokeh', 's3fs', 'onnx', 'skops', 'dask_ml', 'deltalake', 'pyiceberg', 'adbc_driver_postgresql', 'mlflow'}
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
explain model
report model
report model --html"""

AHEAD = "from fewpass.pipeline.compiling_ahead import train_stored; train_stored('logistic', 'dense', 'float32')"


def base(commands, folder):
    path = str(Path(__file__).parents[2])
    return run_all(
        commands, folder, dict(os.environ), first=f"{WITHOUT}\nsys.path.insert(0, {path!r})\n"
    )


def test_every_step_from_a_table_to_a_page(tmp_path):
    """Kernels that are compiled ahead are one; and what needs more names it."""
    write_visits(tmp_path / "visits.csv", 4000, 0)
    steps = [[AHEAD]]
    steps += [["fewpass", *line.split(), "--json"] for line in COMMANDS.splitlines()]
    estimators = [[f"from fewpass import {name}"] for name in ("LinearClassifier", "from_run")]
    (tmp_path / "lake/_delta_log").mkdir(parents=True)
    (tmp_path / "berg/metadata").mkdir(parents=True)
    (tmp_path / "berg/metadata/version-hint.text").write_text("1")
    read = "ingest {} nothing --label bought"
    extras = {
        "delta": read.format("lake"), "iceberg": read.format("berg"),
        "postgresql": f"{read.format('postgresql:///shop')} --query visits",
        "mlflow": "export model model.mlflow",
    }  # fmt: skip
    lacking = [["fewpass", *line.split()] for line in extras.values()]
    said = base([*steps, *estimators, *lacking], tmp_path)
    for step, done in zip(steps, said, strict=False):
        assert done.status == 0, (step, done.err)
    assert (tmp_path / "model/report/report.html").exists()
    asked = said[len(steps) : -len(extras)]
    for extra, refused in zip(extras, said[-len(extras) :], strict=True):
        assert refused.status == 2, refused.err
        assert f"fewpass[{extra}]" in refused.err
    assert all("pip install 'fewpass[scikit-learn]'" in refused.err for refused in asked)
