"""Estimators that encode tables themselves, as the command line does."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fewpass import LinearClassifier, LinearRegressor, from_run
from fewpass.flows.cli import main
from fewpass.pipeline.models.estimators.table_encoder import TableEncoder
from fewpass.storage.dataset import Dataset
from tests.pipeline.test_tables import people

SETTINGS = {"tol": 1e-5, "encode": "auto"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encode")
    people(1200).to_csv(folder / "rows.csv", index=False)
    source, data, run = (str(folder / name) for name in ("rows.csv", "data", "run"))
    assert main(["ingest", source, data, "--label", "bought", "-q"]) == 0
    options = ["--tol", "1e-5", "--passes", "1000", "--certify", "--scheduler", "none", "-q"]
    assert main(["train", data, run, "--lam", "1/n", *options]) == 0
    return folder


def test_files_are_encoded_to_the_bits_of_the_command_line(folder, tmp_path):
    found = LinearClassifier(**SETTINGS, folder=tmp_path / "own")
    found.fit(folder / "rows.csv", "bought")
    fingerprints = [
        Dataset.open(str(place)).manifest.fingerprint for place in (folder / "data", found.dataset_)
    ]
    assert fingerprints[0] == fingerprints[1]
    of_command = from_run(folder / "run")
    np.testing.assert_array_equal(found.coef_, of_command[-1].coef_)
    np.testing.assert_array_equal(found.intercept_, of_command[-1].intercept_)
    frame = people(500, seed=3).drop(columns="bought")
    np.testing.assert_array_equal(
        found.decision_function(frame), of_command.decision_function(frame)
    )
    assert found.encoder_.recipe_ == of_command[0].recipe_
    assert found.feature_names_in_.tolist() == ["city", "income", "seen"]  # "user" is an id
    assert found.coef_.shape[1] == len(found.encoder_.get_feature_names_out())


def test_a_data_set_that_was_encoded_predicts_raw_rows(folder):
    frame = people(500, seed=3)
    found = LinearClassifier(**SETTINGS).fit(folder / "data")
    expected = from_run(folder / "run").decision_function(frame)
    np.testing.assert_array_equal(found.decision_function(frame), expected)


def test_frames_are_encoded_as_by_the_transformer():
    frame = people(1200)
    X, y = frame.drop(columns="bought"), frame.bought
    encoder = TableEncoder().fit(X)
    found = LinearClassifier(**SETTINGS).fit(X, y)
    expected = LinearClassifier(tol=1e-5).fit(encoder.transform(X), y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.score(X[X.columns[::-1]], y) == expected.score(encoder.transform(X), y)


def test_plain_numbers_stay_as_they_are():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    y = frame.a - 2 * frame.b
    found = LinearRegressor(encode="auto").fit(frame, y)
    assert not hasattr(found, "encoder_")
    np.testing.assert_array_equal(found.coef_, LinearRegressor().fit(frame, y).coef_)
    encoded = LinearRegressor(encode="always").fit(frame, y)
    assert encoded.encoder_.recipe_.outputs == ["a", "b"]


def test_a_fit_anew_forgets_the_recipe():
    frame = people(300)
    rng = np.random.default_rng(0)
    found = LinearClassifier(**SETTINGS).fit(frame.drop(columns="bought"), frame.bought)
    assert hasattr(found, "encoder_")
    found.fit(rng.normal(size=(100, 2)), np.arange(100) % 2)
    assert not hasattr(found, "encoder_")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_targets_and_weights_are_columns_of_any_frame(kind):
    frame = people(200)
    frame["counts"] = np.arange(len(frame)) % 3 + 0.5
    rest = kind(frame.drop(columns=["bought", "counts"]))
    model = LinearClassifier(encode="auto").fit(rest, frame["bought"], frame["counts"].to_numpy())
    named = LinearClassifier(encode="auto").fit(kind(frame), "bought", "counts")
    np.testing.assert_array_equal(model.coef_, named.coef_)
    assert named.score(kind(frame.drop(columns="counts")), "bought") == model.score(
        rest, frame["bought"]
    )


def test_no_rows_have_no_predictions():
    frame = people(300)
    model = LinearClassifier(encode="auto").fit(frame.drop(columns="bought"), frame["bought"])
    none = frame.drop(columns="bought")[:0]
    assert model.predict(none).shape == (0,)
    assert model.predict_proba(none).shape == (0, 2)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_targets_may_be_a_column_of_one():
    frame = people(300)
    rest, alone = frame.drop(columns="bought"), frame[["bought"]]
    column = LinearClassifier(encode="auto").fit(rest, alone)
    model = LinearClassifier(encode="auto").fit(rest, frame["bought"])
    np.testing.assert_array_equal(column.coef_, model.coef_)
