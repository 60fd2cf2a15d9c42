"""What `fewpass` offers a Python user: the commands as functions, and nothing imported too early."""

import subprocess
import sys

import numpy as np
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from testing.prefect_server import patience


def test_from_files_to_predictions(tmp_path, rng):
    X = rng.standard_normal((400, 3))
    rows = np.column_stack([X, X @ [1.0, -1.0, 0.5] + rng.standard_normal(400) > 0])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c,y", comments="")
    made = fewpass.ingest(
        tmp_path / "rows.csv", tmp_path / "set", label="y", test_fraction=0.25, memory="130MB"
    )
    assert (made.rows + made.test_rows, made.features) == (400, 3)
    events = []
    result = fewpass.train(
        made.dataset, tmp_path / "run", tol=1e-6, memory="130MB", on_event=events.append
    )
    assert result.converged
    assert events[-1].kind == "finish"
    found = fewpass.evaluate(tmp_path / "run", made.test_dataset)
    assert found.rows == made.test_rows
    for wrong in (
        lambda: fewpass.evaluate(tmp_path / "run", made.test_dataset, label="y"),
        lambda: fewpass.train(made.dataset, tmp_path / "other", label="y"),
        lambda: fewpass.predict(tmp_path / "run", made.dataset, tmp_path / "s.npy", label="y"),
    ):
        with pytest.raises(BadInput, match=r"label.* says how files are read, but .* is no source"):
            wrong()
    scored = fewpass.predict(tmp_path / "run", tmp_path / "rows.csv", tmp_path / "scores.npy")
    assert scored.rows == 400
    assert fewpass.load_model(tmp_path / "run").weights.coef.shape == (3,)
    same = fewpass.train(made.dataset, tmp_path / "run", tol=1e-6, memory="130MB")
    assert same.weights_sha256 == result.weights_sha256


def test_wrong_settings_are_named(tmp_path):
    with pytest.raises(BadInput, match="colour"):
        fewpass.train(tmp_path, tmp_path / "run", colour="red")
    with pytest.raises(BadInput, match=r'no setting "tolerance"\. Did you mean tol\?'):
        fewpass.train("d", "r", tolerance=1e-3)
    with pytest.raises(
        BadInput, match=r"held_out = 0.2 is a number, and the address of a data set"
    ):
        fewpass.train("d", "r", held_out=0.2)
    with pytest.raises(BadInput, match=r"execution is 'local'. Give Execution"):
        fewpass.train("d", "r", execution="local")
    with pytest.raises(BadInput, match=r"^drop"):
        fewpass.ingest("rows.csv", tmp_path / "set", drop=[None])
    assert fewpass.SourceOptions(drop="a", column="b=hash", cross="a,b").drop == ("a",)
    with pytest.raises(BadInput, match="memory is 1"):
        fewpass.ingest("rows.csv", tmp_path / "set", memory="1MB")
    with pytest.raises(AttributeError, match="'fewpass' has no attribute 'fit'"):
        fewpass.fit


HEAVY = {"numba", "pandas", "scipy", "sklearn", "pyarrow", "dask", "distributed", "prefect"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import fewpass", HEAVY),
        (
            "from fewpass import LinearClassifier, LinearRegressor",
            {"numba", "pydantic", "fsspec", "zarr", "dask", "distributed", "prefect", "matplotlib"},
        ),
    ],
)
def test_an_import_brings_nothing_that_it_does_not_need(code, absent):
    code += "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(60),
    )
    assert not absent & set(done.stdout.split())
