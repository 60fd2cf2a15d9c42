"""Sizes whose line goes on beyond the largest, and others whose line ends with the sample."""

import numpy as np
import pandas as pd
import pytest

from fewpass import LinearRegressor, ingest, predict, train
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder

LARGEST = 3.0  # times the largest person count learnt from


def places(n=900, *, levels_off=False):
    """Return places whose shops grow with their people, or stop growing with the large ones."""
    rng = np.random.default_rng(5)
    people, income = np.round(rng.lognormal(8.0, 1.3, n)), rng.normal(30.0, 5.0, n)
    counted = np.minimum(people, 2000.0) if levels_off else people
    shops = 0.01 * counted + 0.2 * income + rng.normal(0.0, 1.0, n)
    return pd.DataFrame({"people": people, "income": income, "shops": shops})


def larger(frame):
    return frame.assign(people=LARGEST * frame.people.max()).drop(columns="shops")


@pytest.mark.parametrize("levels_off", [False, True])
def test_a_line_goes_on_where_larger_rows_are_predicted_better_by_it(tmp_path, levels_off):
    frame = places(levels_off=levels_off)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    larger(frame).to_csv(tmp_path / "new.csv", index=False)
    ingest(tmp_path / "rows.csv", tmp_path / "data", label="shops", task="regression")
    train(tmp_path / "data", tmp_path / "run", tol=1e-3)
    predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv").predicted
    wide = frame.shops.max() - min(frame.shops.min(), 0.0)
    if levels_off:
        assert found.max() <= frame.shops.max()
        assert load_model(RunFolder(str(tmp_path / "run"))).bounds[1] == frame.shops.max()
    else:
        expected = 0.01 * LARGEST * frame.people.max()
        assert abs(found.mean() / expected - 1.0) < 0.2
        assert (
            load_model(RunFolder(str(tmp_path / "run"))).bounds[1] > frame.shops.max() + 2.0 * wide
        )


def test_an_estimator_has_the_same_line():
    frame = places()
    model = LinearRegressor(encode="auto", tol=1e-3).fit(frame.drop(columns="shops"), frame.shops)
    people = next(one for one in model.encoder_.recipe_.columns if one.name == "people")
    assert people.largest == frame.people.max() and people.high == 4.0 * people.largest
    assert "(4 times the largest)" in people.summary
    found = model.predict(larger(frame))
    assert abs(found.mean() / (0.01 * LARGEST * frame.people.max()) - 1.0) < 0.2


def test_labels_and_counts_by_a_logarithm_have_no_such_line(tmp_path):
    frame = places()
    frame.assign(shops=np.round(frame.shops.clip(0.0))).to_csv(tmp_path / "rows.csv", index=False)
    ingest(tmp_path / "rows.csv", tmp_path / "data", label="shops", task="regression")
    train(tmp_path / "data", tmp_path / "run", tol=1e-3, loss="poisson")
    assert load_model(RunFolder(str(tmp_path / "run"))).bounds == (0.0, np.round(frame.shops.max()))
