"""A row of weight 0 is as if it were not there: to recipes, rows, test rows, models and estimators."""

import numpy as np
import pandas as pd
import pytest

import fewpass
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.dataset import Dataset


def table(n=600):
    """Rows, a third of which weigh nothing and are unlike all others, by labels as well."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({
        "id": [f"u{k:04}" for k in range(n)], "town": rng.choice(["Bern", "Oslo", "Rome"], n),
        "size": rng.lognormal(2, 1, n).round(3), "x": rng.standard_normal(n).round(3),
        "w": rng.choice([0.0, 1.0, 2.5], n),
    })  # fmt: skip
    score = rows.x + (rows.town == "Bern") - np.log(rows["size"]) / 2
    rows["y"] = np.where(score + rng.standard_normal(n) > 0, "yes", "no")
    gone = rows.w == 0.0
    rows.loc[gone, "size"] *= 1e6
    rows.loc[gone, "town"] = "Nowhere"
    rows.loc[gone & (rows.index % 2 == 0), "x"] = np.nan
    rows.loc[gone & (rows.index % 3 == 0), "y"] = "neither"
    return rows, gone


FILES = {
    "rows.csv": lambda rows, path: rows.to_csv(path, index=False),
    "comma.csv": lambda rows, path: rows.to_csv(path, index=False, sep=";", decimal=","),
    "rows.parquet": lambda rows, path: rows.to_parquet(path, index=False),
    "rows.jsonl": lambda rows, path: rows.to_json(path, orient="records", lines=True),
}
NUMBERS = {"label": "x", "drop": ("town", "y", "id"), "task": "regression"}


def written(tmp_path, name, change=lambda rows: rows):
    """Write all rows, and those that count, as files of a name in two folders."""
    rows, gone = table()
    for folder, some in (("all", rows), ("counting", rows[~gone])):
        (tmp_path / folder).mkdir()
        FILES[name](change(some), tmp_path / folder / name)
    return int(gone.sum())


def rows_in(place):
    data = Dataset.open(str(place))
    tables = [data.with_retained(k, data.read_chunk(k)) for k in range(data.n_chunks)]
    return [[None if part is None else part.tolist() for part in table] for table in tables]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rows.csv", {"test_fraction": 0.3}), ("comma.csv", {"test_fraction": 0.3, "shuffle": False}),
        ("rows.parquet", {"test_fraction": 0.3, "test_by": "size"}), ("rows.jsonl", {}),
        ("rows.csv", {"encode": "additive", "test_fraction": 0.2}),
        ("rows.csv", NUMBERS | {"encode": "none", "test_fraction": 0.3}),
    ],
)  # fmt: skip
def test_a_data_set_is_that_of_the_rows_that_count(tmp_path, name, options):
    plain = options.get("encode") == "none"
    n_gone = written(tmp_path, name, lambda rows: rows.fillna({"x": 99.0}) if plain else rows)
    how = {"label": "y", "weight": "w", "keep": "id"} | options
    made = [
        fewpass.ingest(tmp_path / at / name, tmp_path / at / "D", **how)
        for at in ("all", "counting")
    ]
    assert made[0].rows == made[1].rows
    assert f"{n_gone} rows of weight 0 were left out" in " ".join(made[0].notes)
    assert "of weight 0" not in " ".join(made[1].notes)
    one, two = (Dataset.open(one.dataset) for one in made)
    assert one.schema == two.schema
    assert one.manifest.targets == two.manifest.targets
    for own in ("D", "D-test") if "test_fraction" in options else ("D",):
        assert rows_in(tmp_path / "all" / own) == rows_in(tmp_path / "counting" / own)
    more = fewpass.append(tmp_path / "all" / "D", tmp_path / "all" / name, again=True)
    assert f"{n_gone} rows of weight 0 were left out" in " ".join(more.notes)
    assert more.rows == pytest.approx(2 * made[0].rows, abs=2)  # test rows are drawn anew


def test_a_model_of_files_is_that_of_the_rows_that_count(tmp_path):
    """Labels that only rows of weight 0 have are none, also where they come late."""
    written(tmp_path, "rows.csv")
    models = []
    for at in ("all", "counting"):
        run = tmp_path / at / "run"
        fewpass.train(
            tmp_path / at / "rows.csv", run, label="y", weight="w", drop="id", test_fraction=0.2,
            lam=0.01, passes=1,
        )  # fmt: skip
        models.append(load_model(RunFolder(str(run))))
    one, two = models
    np.testing.assert_array_equal(one.weights.coef, two.weights.coef)
    assert one.record.targets == two.record.targets


@pytest.mark.parametrize("encode", ["auto", "always", "additive"])
def test_an_estimator_is_that_of_the_rows_that_count(encode):
    rows, gone = table()
    X, y, w = rows[["town", "size", "x"]], rows.y, rows.w
    fits = [
        fewpass.LinearClassifier(encode=encode, lam=0.01, class_weight="balanced", tol=1e-6).fit(
            *own
        )
        for own in ((X, y, w), (X[~gone], y[~gone], w[~gone]))
    ]
    one, two = fits
    assert one.classes_.tolist() == two.classes_.tolist() == ["no", "yes"]
    assert one.encoder_.recipe_ == two.encoder_.recipe_
    np.testing.assert_array_equal(one.coef_, two.coef_)
    counts = np.where(gone, -1.0, np.arange(len(rows)) % 5)
    fewpass.LinearRegressor(encode=encode, loss="poisson", lam=0.1).fit(X, counts, w)
    with pytest.raises(ValueError, match="is for targets of at least 0"):
        fewpass.LinearRegressor(encode=encode, loss="poisson", lam=0.1).fit(X, counts, w + 1.0)


def test_labels_that_only_skipped_rows_have_are_none(tmp_path):
    rows = [f"{k},{k * 7 % 11},{('no', 'yes')[k % 2]}\n" for k in range(200)]
    rows[50] = "oops,3,never\n"
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "".join(rows))
    how = {"label": "y", "on_bad_row": "skip", "encode": "none"}
    made = fewpass.ingest(tmp_path / "rows.csv", tmp_path / "D", **how)
    assert (made.labels, made.rows, made.skipped) == (("no", "yes"), 199, 1)
    fewpass.train(tmp_path / "rows.csv", tmp_path / "run", lam=0.1, **how)
    assert load_model(RunFolder(str(tmp_path / "run"))).record.targets.labels == ("no", "yes")
