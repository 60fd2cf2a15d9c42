"""Slices and single rows of a data set under models, by their predictions and by pandas."""

import numpy as np
import pandas as pd
import pytest

import fewpass
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring import compared_rows as module
from fewpass.pipeline.scoring.compared_rows import compared_rows
from fewpass.storage.dataset import Dataset

NUMBERS = ("numbers", "counts")


def table(n, task):
    rng = np.random.default_rng(5)
    city = rng.choice(["north", "south", "east|west"], n, p=[0.5, 0.3, 0.2])
    x = rng.uniform(-2.0, 2.0, n).round(3)
    at = x + 1.5 * (city == "north") - 0.7 + rng.logistic(0.0, 0.5, n)
    y = {
        "numbers": at.round(4), "counts": rng.poisson(2.0 * np.exp(0.5 * at)), "two": np.where(at > 0, "yes", "no"),
        "three": np.select([at < -0.5, at > 0.5], ["low", "high"], "mid"),
    }[task]  # fmt: skip
    frame = pd.DataFrame({"id": [f"r{k:04}" for k in range(n)], "city": city, "x": x, "y": y})
    if task == "counts":
        frame["years"] = rng.integers(1, 5, n)
    frame.loc[frame.index % 37 == 5, "city"] = None
    return frame


def evaluated(run, path, out, task):
    """Of every row of a file its loss, the figure of slices, and the prediction."""
    is_number = task in NUMBERS
    fewpass.predict(run, path, out, probability=not is_number, overwrite=True)
    found, frame = pd.read_parquet(out), pd.read_csv(path)
    if is_number:
        square = (found.predicted - frame.y).to_numpy() ** 2
        if task == "numbers":
            return square / 2.0, square, found.predicted
        gone = found.predicted - frame.y + frame.y * np.log(frame.y.clip(lower=1) / found.predicted)
        return gone.to_numpy(), square, found.predicted  # half the deviance
    chances = np.array([found[f"probability_{label}"][k] for k, label in enumerate(frame.y)])
    return -np.log(chances), -np.log(chances), found.predicted


@pytest.fixture(scope="module", params=["two", "three", *NUMBERS])
def made(request, tmp_path_factory):
    task, folder = request.param, tmp_path_factory.mktemp("beside")
    frame = table(700, task)
    frame.to_csv(folder / "rows.csv", index=False)
    fewpass.ingest(
        folder / "rows.csv", folder / "d", label="y", keep=["id"], column={"id": "drop"},
        encode="always", task="regression" if task in NUMBERS else "classification",
        exposure="years" if task == "counts" else None,
    )  # fmt: skip
    loss = {"two": "logistic", "three": "softmax", "numbers": "squared", "counts": "poisson"}[task]
    runs = [str(folder / name) for name in ("old", "new")]
    for run, lam in zip(runs, (1.0, 1e-3), strict=True):
        fewpass.train(folder / "d", run, loss=loss, lam=lam, tol=1e-6)
    return task, frame, runs, str(folder / "d")


def test_slices_and_worst_rows_are_those_of_the_predictions(made, tmp_path):
    task, frame, runs, place = made
    models = [load_model(RunFolder(run)) for run in runs]
    found = compared_rows(models, Dataset.open(place))
    assert (found.rows, found.of) == (700, 700)
    path = f"{place}/../rows.csv"
    old, new = (evaluated(run, path, tmp_path / "p.parquet", task) for run in runs)
    frame = frame.assign(old=old[1], new=new[1])
    figure = "mse" if task in NUMBERS else "log_loss"
    assert {one.column for one in found.slices} == {"city", "x"} | {"y"} - {"y" * (task in NUMBERS)}
    for one in found.slices:
        if one.column == "x":
            continue
        rows = frame[frame[one.column].fillna("missing") == one.value]
        assert len(rows) == one.rows > 0
        before, now = ({f.metric: f for f in figures}[figure] for figures in one.figures)
        assert before.value == pytest.approx(rows.old.mean(), rel=1e-4)
        assert now.value == pytest.approx(rows.new.mean(), rel=1e-4)
        assert now.difference == pytest.approx(now.value - before.value, abs=1e-9)
        apart = rows.new - rows.old
        within = 1.96 * apart.std(ddof=0) / np.sqrt(len(rows))
        assert now.within == pytest.approx(within, rel=1e-3, abs=1e-6)
    ranges = [one for one in found.slices if one.column == "x"]
    assert sum(one.rows for one in ranges) == 700
    edges = [float(one.value.rpartition(" ")[2]) for one in ranges[:-1]]
    assert edges == sorted(edges)
    below = frame[frame.x < edges[0]]
    assert ranges[0].rows == len(below)

    for rows, badness in ((found.worst, new[0]), (found.fallen, new[0] - old[0])):
        expected = frame.assign(bad=badness).nlargest(10, "bad")
        assert [row.cells["id"] for row in rows] == expected.id.tolist()
        assert [row.cells["x"] for row in rows] == pytest.approx(expected.x.tolist(), abs=1e-5)
        cities = [None if pd.isna(city) else city for city in expected.city]
        assert [row.cells["city"] for row in rows] == cities
        for row, k in zip(rows, expected.index, strict=True):
            assert row.losses == pytest.approx((old[0][k], new[0][k]), rel=1e-3, abs=1e-5)
            own = (old[2][k], new[2][k])
            assert row.predicted == (pytest.approx(own, rel=1e-4) if task in NUMBERS else own)


def test_of_many_rows_the_first_are_looked_at(made, monkeypatch):
    _, _, runs, place = made
    monkeypatch.setattr(module, "MOST_ROWS", 250)
    found = compared_rows([load_model(RunFolder(runs[1]))], Dataset.open(place))
    assert (found.rows, found.of) == (250, 700)
    assert sum(one.rows for one in found.slices if one.column == "city") == 250
    assert found.fallen == ()
