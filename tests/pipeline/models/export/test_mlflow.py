"""Models as MLflow's: what its pyfunc predicts is what `fewpass predict` writes."""

import numpy as np
import pandas as pd
import pytest

from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from fewpass.pipeline.errors import BadInput

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow's own modules, several


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table, a run of it, and the run's predictions."""
    place = tmp_path_factory.mktemp("mlflow")
    write_visits(place / "visits.csv", 2000)
    words = ["--label", "bought", "--drop", "visit", "-q"]
    assert cli.main(["train", f"{place}/visits.csv", f"{place}/run", *words]) == 0
    predict = ["predict", f"{place}/run", f"{place}/visits.csv", f"{place}/out.parquet"]
    assert cli.main([*predict, "--probability", "-q"]) == 0
    return place


def frame_of(place):
    return pd.read_csv(place / "visits.csv").drop(columns=["bought", "visit"])


def assert_predicted(ours, place):
    wanted = pd.read_parquet(place / "out.parquet")
    assert list(ours.columns) == list(wanted.columns)
    if ours["predicted"].dtype.kind != "f":
        assert ours["predicted"].tolist() == wanted["predicted"].tolist()
    for name in wanted.select_dtypes("float"):
        np.testing.assert_allclose(ours[name], wanted[name], atol=1e-6)


def test_an_exported_folder_predicts_what_the_run_predicts(made):
    from mlflow import pyfunc

    out = made / "visits.mlflow"
    assert cli.main(["export", f"{made}/run", str(out), "-q"]) == 0
    model, frame = pyfunc.load_model(str(out)), frame_of(made)
    assert_predicted(model.predict(frame), made)
    inputs = model.metadata.signature.inputs
    assert {one.name: str(one.type) for one in inputs} == dict.fromkeys(frame, "Any")
    with pytest.raises(Exception, match="country"):
        model.predict(frame.drop(columns="country"))
    for some in (frame, frame.head(0)):
        spent = some["spent_before"].round()
        given = some.assign(
            country=some["country"].astype("category"), spent_before=spent.astype("Int64")
        )
        got, wanted = model.predict(given), model.predict(some.assign(spent_before=spent))
        pd.testing.assert_frame_equal(got, wanted)
    assert cli.main(["export", f"{made}/run", str(out), "-q"]) != 0
    assert cli.main(["export", f"{made}/run", str(out), "-q", "--overwrite"]) == 0
    assert not [path for path in made.iterdir() if path.name.startswith(".")]


def test_a_model_is_logged_registered_and_loaded_by_its_name(made):
    import mlflow

    import fewpass.mlflow

    mlflow.set_tracking_uri(f"sqlite:///{made}/tracking.db")
    mlflow.create_experiment("visits", artifact_location=f"file://{made}/artifacts")
    mlflow.set_experiment("visits")
    frame = frame_of(made)
    with mlflow.start_run():
        info = fewpass.mlflow.log_model(
            f"{made}/run", input_example=frame.head(3), registered_model_name="visits"
        )
    assert "spent_before" in info.signature.inputs.input_names()
    loaded = mlflow.pyfunc.load_model("models:/visits/1")
    assert_predicted(loaded.predict(frame), made)


def test_numbers_are_predicted_too_and_what_is_not_ours_is_not_replaced(tmp_path):
    from mlflow import pyfunc

    import fewpass.mlflow

    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=X @ [1.0, -2.0, 0.5] + 3)
    table.to_parquet(tmp_path / "rows.parquet")
    words = [f"{tmp_path}/rows.parquet", f"{tmp_path}/run", "--label", "y", "-q"]
    assert cli.main(["train", *words]) == 0
    fewpass.mlflow.save_model(f"{tmp_path}/run", tmp_path / "model")
    predict = ["predict", f"{tmp_path}/run", f"{tmp_path}/rows.parquet", f"{tmp_path}/out.parquet"]
    assert cli.main([*predict, "-q"]) == 0
    model = pyfunc.load_model(str(tmp_path / "model"))
    assert_predicted(model.predict(table.drop(columns="y")), tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(BadInput, match="exists already"):
        fewpass.mlflow.save_model(f"{tmp_path}/run", tmp_path / "mine", overwrite=True)
