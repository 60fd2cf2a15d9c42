"""Predicted numbers stay within the range of the targets that a model learnt from."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from fewpass import LinearRegressor, evaluate, from_run, ingest, load_model, predict, train
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.problem import problem_of
from fewpass.pipeline.reporting.quality import CELLS, quality
from fewpass.pipeline.rows.targets import clip_range, range_of, union_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.stream import first_rows
from fewpass.storage.dataset import Dataset

COEF = np.array([3.0, -2.0, 1.0])


def rows(n=400, seed=0, least=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1, (n, 3))
    y = np.clip(X @ COEF + rng.normal(0, 0.5, n) + least, least, 6.0)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)


def wide(n=300):
    """Rows that the linear function predicts far too low and too high."""
    return rows(n, seed=1).assign(a=np.linspace(-9, 9, n))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clipped")
    rows().to_csv(folder / "rows.csv", index=False)
    wide().to_csv(folder / "wide.csv", index=False)
    ingest(folder / "rows.csv", folder / "data", label="y", task="regression", encode="linear")
    train(folder / "data", folder / "run", tol=1e-8, loss="squared")
    return folder


def predicted(run, out, **how):
    predict(run, out.with_name("wide.csv"), out, overwrite=True, **how)
    return pd.read_parquet(out)["predicted"].to_numpy()


def test_every_way_to_predict_clips_alike(work):
    free = predicted(work / "run", work / "free.parquet", clip=False)
    assert free.min() < 0.0 and free.max() > 6.0
    expected = np.clip(free, 0.0, 6.0)  # no target is below 0
    np.testing.assert_array_equal(predicted(work / "run", work / "p.parquet"), expected)
    X = wide().drop(columns="y")
    np.testing.assert_allclose(from_run(work / "run").predict(X), expected, atol=1e-5)
    figures = evaluate(work / "run", work / "wide.csv")
    assert figures.r2 == pytest.approx(r2_score(wide().y, expected), abs=1e-6)
    assert figures.loss == pytest.approx(0.5 * ((free - wide().y) ** 2).mean(), rel=1e-5)
    ingest(work / "wide.csv", work / "wide", like=str(work / "data"))
    assert evaluate(work / "run", work / "wide").r2 == pytest.approx(figures.r2, abs=1e-9)


def test_the_picture_of_predicted_numbers_is_of_clipped_ones(work):
    wide().assign(y=lambda f: 2.0 * f.y).to_csv(work / "twice.csv", index=False)
    ingest(work / "twice.csv", work / "twice", like=str(work / "data"))
    cells = quality(load_model(work / "run"), Dataset.open(str(work / "twice")), InProcess()).cells
    assert (cells.low, cells.high) == (2.0, 12.0)
    beyond = np.linspace(2.0, 12.0, CELLS + 1)[:-1] > 6.0
    assert cells.counts.sum() == 300
    assert cells.counts[:, beyond].sum() == 0


def test_a_training_may_ask_for_none(work):
    train(work / "data", work / "plain", tol=1e-8, clip=False, loss="squared")
    free = predicted(work / "run", work / "free.parquet", clip=False)
    np.testing.assert_array_equal(predicted(work / "plain", work / "q.parquet"), free)
    assert from_run(work / "plain").predict(wide().drop(columns="y")).max() > 6.0


def test_a_model_that_starts_from_another_has_seen_what_that_had(work):
    rows(seed=2, least=-3.0)[lambda f: f.y < 2].to_csv(work / "later.csv", index=False)
    ingest(work / "later.csv", work / "later", like=str(work / "data"))
    train(work / "later", work / "next", start_from=str(work / "run"), passes=2)
    assert load_model(work / "next").bounds == (-3.0, 6.0)


def test_straight_from_a_source_all_rows_count(work, monkeypatch):
    monkeypatch.setattr(first_rows, "FIRST_BYTES", 1)
    monkeypatch.setattr("fewpass.pipeline.tables.stream.source_pieces.PIECE_BYTES", 4000)
    frame = rows(2000).sample(frac=1.0, random_state=0)
    frame.loc[frame.index[-1], "y"] = 50.0  # in the last piece
    frame.to_csv(work / "long.csv", index=False)
    train(work / "long.csv", work / "straight", label="y", task="regression")
    assert RunFolder(str(work / "straight")).record().seen[1] == 6.0
    assert load_model(work / "straight").bounds == (0.0, 50.0)


def test_an_estimator_clips_to_what_it_was_fitted_on():
    frame, new = rows(), wide().drop(columns="y").to_numpy()
    X, y = frame.drop(columns="y").to_numpy(), frame.y.to_numpy()
    model = LinearRegressor().fit(X, y)
    free = new @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(new), np.clip(free, 0.0, 6.0), rtol=1e-12)
    assert model.target_range_ == (y.min(), y.max())
    plain = LinearRegressor(clip=False).fit(X, y)
    np.testing.assert_allclose(plain.predict(new), free, rtol=1e-12)
    batches = LinearRegressor().partial_fit(X[:200], y[:200]).partial_fit(X[200:], 10 * y[200:])
    assert batches.target_range_ == (y[:200].min(), 10 * y[200:].max())


def test_ranges():
    assert clip_range((2.0, 5.0)) == (0.0, 5.0) and clip_range((-2.0, -1.0)) == (-2.0, -1.0)
    assert clip_range((2.0, 5.0), 4.0) == (0.0, 14.0)
    assert clip_range((-2.0, -1.0), 4.0) == (-5.0, 2.0)
    assert union_of(None, (1.0, 2.0)) == (1.0, 2.0) and union_of((0.0, 1.5), (1.0, 2.0)) == (
        0.0,
        2.0,
    )


def test_labels_that_are_numbers_have_a_range_and_classes_have_none(tmp_path):
    rows(100).assign(y=np.arange(100) % 3).to_csv(tmp_path / "rows.csv", index=False)
    ingest(tmp_path / "rows.csv", tmp_path / "data", label="y")
    data = Dataset.open(str(tmp_path / "data")).manifest
    for loss, positive, expected in (
        ("squared", None, (0.0, 2.0)),
        ("squared", "1", None),
        (None, None, None),
    ):
        plan = TrainingPlan(dataset="data", loss=loss, positive=positive)
        assert range_of(data, problem_of(plan, data).loss, positive) == expected
