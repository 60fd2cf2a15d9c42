"""Estimators that encode tables, in scikit-learn's own tools."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.pipeline import Pipeline

from fewpass import LinearClassifier, LinearRegressor, TableEncoder


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 600
    return pd.DataFrame({
        "age": rng.integers(18, 90, n).astype(float),
        "city": rng.choice(["Bern", "Oslo", "Rome"], n),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        "noise": rng.normal(size=n),
    })  # fmt: skip


@pytest.fixture(scope="module")
def labels(frame):
    return np.where((frame.age > 50) | (frame.city == "Oslo"), "yes", "no")


@pytest.fixture(scope="module")
def fitted(frame, labels):
    return LinearClassifier(encode="auto").fit(frame, labels)


def test_to_sklearn_is_a_pipeline_with_the_encoder(frame, labels, fitted):
    same = fitted.to_sklearn()
    assert isinstance(same, Pipeline)
    assert [type(step).__name__ for step in same] == ["TableEncoder", "LogisticRegression"]
    assert (same.predict(frame) == fitted.predict(frame)).all()
    np.testing.assert_allclose(same.predict_proba(frame), fitted.predict_proba(frame), atol=1e-12)
    numbers = LinearRegressor(encode="auto").fit(frame, frame.age)
    np.testing.assert_allclose(
        np.clip(numbers.to_sklearn().predict(frame), *numbers.target_range_), numbers.predict(frame)
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_what_comes_in_is_the_frame(frame, labels, kind):
    """Ids, of which nothing is learnt, are columns of it, too, and no row needs them."""
    made = kind(frame.assign(row=range(len(frame))))
    model = LinearClassifier(encode="auto").fit(made, labels)
    assert model.feature_names_in_.tolist() == [*frame.columns, "row"]
    assert model.n_features_in_ == frame.shape[1] + 1
    assert model.coef_.shape[1] == len(model.encoder_.get_feature_names_out())
    first = model.coef_
    assert (model.predict(kind(frame)) == model.predict(made)).all()
    again = model.set_params(warm_start=True).fit(made, labels)
    assert again.n_iter_ == 1
    assert again.n_features_in_ == frame.shape[1] + 1
    np.testing.assert_allclose(again.coef_, first, atol=1e-3)


def test_an_array_that_is_encoded_has_no_names(frame, labels):
    rows = frame[["age", "noise"]].to_numpy()
    model = LinearClassifier(encode="always").fit(rows, labels)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="X has 1 features, but TableEncoder is expecting 2"):
        model.predict(rows[:, :1])


def test_frames_between_the_steps_of_others_change_no_model(frame, labels, fitted):
    """scikit-learn's configuration asks transformers for frames; what an estimator encodes is none."""
    expected = fitted.decision_function(frame)
    with config_context(transform_output="pandas"):
        np.testing.assert_array_equal(fitted.decision_function(frame), expected)
        again = LinearClassifier(encode="auto").fit(frame, labels)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)


def test_columns_are_permuted_and_varied(frame, labels, fitted):
    """By columns of the frame, not by features."""
    importance = permutation_importance(fitted, frame, labels, n_repeats=2, random_state=0)
    assert importance.importances_mean.shape == (frame.shape[1],)
    assert importance.importances_mean[:2].min() > 10 * abs(importance.importances_mean[3])
    ages = partial_dependence(fitted, frame, ["age"], grid_resolution=5)["average"][0]
    assert (np.diff(ages) > 0).all()
    cities = partial_dependence(fitted, frame, ["city"], categorical_features=["city"])
    assert cities["grid_values"][0][cities["average"][0].argmax()] == "Oslo"


@pytest.mark.parametrize(("what", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_features_are_a_frame(frame, what, kind):
    encoder = TableEncoder().fit(frame)
    dense = encoder.transform(frame).toarray()
    made = encoder.set_output(transform=what).transform(frame)
    assert isinstance(made, kind)
    assert list(made.columns) == list(encoder.get_feature_names_out())
    np.testing.assert_array_equal(made.to_numpy(), dense)


def test_too_many_features_are_no_frame(frame):
    words = pd.DataFrame({"text": [f"word{k} and word{k + 1} of word{k * k}" for k in range(300)]})
    encoder = TableEncoder(columns={"text": "text"}).set_output(transform="pandas").fit(words)
    with pytest.raises(
        ValueError, match=r"features, nearly all of them 0, and frames are for 4,096"
    ):
        encoder.transform(words)
