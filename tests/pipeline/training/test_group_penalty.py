"""The group penalty on tables: whole columns, their certificate, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import fewpass
from fewpass import LinearClassifier, LinearRegressor
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.storage.dataset import Dataset

N = 600


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    towns = np.array(["Ulm", "Bonn", "Kiel", "Jena", "Trier"])
    frame = pd.DataFrame(
        {
            "town": rng.choice(towns, N),
            "shop": rng.choice(["north", "south", "west"], N),
            "day": pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(400, size=N), "D"),
            "size": rng.normal(size=N).round(3),
            "noise": rng.choice(["a", "b", "c", "d"], N),
        }
    )
    score = (
        frame["town"].map(dict(zip(towns, (2.0, -1.0, 0.5, 1.0, -2.0), strict=True)))
        + frame["size"]
    )
    frame["y"] = (score + rng.normal(size=N)).round(4)
    return frame


@pytest.fixture(scope="module")
def stored(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    table.to_csv(folder / "rows.csv", index=False)
    fewpass.ingest(str(folder / "rows.csv"), str(folder / "rows"), label="y")
    return folder


def test_columns_are_whole_or_nothing_and_the_objective_is_evaluates(stored):
    data, run = str(stored / "rows"), str(stored / "run")
    trained = fewpass.train(data, run, penalty="group_lasso", lam=".1max", tol=1e-8)
    assert trained.certificate / trained.objective <= 1e-8
    dataset = Dataset.open(data)
    groups = dataset.column_order.sourced(dataset.feature_groups)
    weights = load_model(RunFolder(run)).weights.coef != 0.0
    of_group = np.bincount(groups, weights)
    sizes = np.bincount(groups)
    seen = dataset.column("count") > 0  # nobody is rare or missing here: no such weight
    present = np.bincount(groups, seen)
    assert np.isin(of_group, (0, *present)).all()
    assert ((of_group == 0) | (of_group == present)).all()
    assert 0 < np.count_nonzero(of_group) < len(sizes)
    assert sizes.max() > 10  # the date's
    evaluated = fewpass.evaluate(run, data)
    assert evaluated.objective == pytest.approx(trained.objective, rel=1e-6)


def test_the_estimator_on_a_frame_trains_the_same_model(table, stored):
    frame = table.drop(columns="y")
    common = {"penalty": "group_lasso", "lam": 0.05, "tol": 1e-10}
    model = LinearRegressor(encode="always", **common).fit(frame, table["y"])
    other = fewpass.train(str(stored / "rows"), str(stored / "same"), **common)
    assert model.objective_ == pytest.approx(other.objective, rel=1e-6)
    zero = LinearRegressor(encode="always", penalty="group_lasso", lam="1.001max", tol=1e-8)
    assert not zero.fit(frame, table["y"]).coef_.any()
    some = LinearRegressor(encode="always", penalty="group_lasso", lam=".99max", tol=1e-8)
    assert some.fit(frame, table["y"]).coef_.any()


def test_lam_is_chosen_for_groups_by_the_command_too(stored):
    done = fewpass.train(str(stored / "rows"), str(stored / "auto"), penalty="group_lasso")
    assert done.certificate / done.objective <= 1e-3
    assert done.lam > 0.0


def test_what_has_no_groups_is_refused(table):
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    with pytest.raises(ValueError, match="no column is known to have become several"):
        LinearClassifier(penalty="group_lasso", lam=0.1).fit(X, y)
    with pytest.raises(ValueError, match="No method takes hinge with a group_lasso penalty"):
        LinearClassifier(penalty="group_lasso", lam=0.1, loss="hinge", encode="always").fit(
            table.drop(columns="y"), y.repeat(12)
        )


def test_texts_and_hashes_are_words_of_their_own():
    recipe = Recipe.model_validate(
        {
            "columns": [
                {"kind": "category", "name": "a", "values": ["x", "y"]},
                {"kind": "hashed", "name": "b", "bits": 3},
                {"kind": "category", "name": "c", "values": ["x"]},
            ]
        }
    )
    assert recipe.groups == ((0, 4), (13, 3))


def test_a_column_of_too_many_categories_names_the_way_out(monkeypatch, table):
    monkeypatch.setattr("fewpass.solvers.batch.working_set.MOST_SET", 4)
    with pytest.raises((BadInput, ValueError), match=r"became 21 features.*Have it hashed"):
        LinearRegressor(encode="always", penalty="group_lasso", lam=0.1).fit(
            table.drop(columns="y"), table["y"]
        )
