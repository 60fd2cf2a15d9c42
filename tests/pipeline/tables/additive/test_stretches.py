"""Of tables with dates nobody's curves are taken unless they are better at all times."""

import numpy as np
import pandas as pd
import pytest

from fewpass import LinearRegressor, TableEncoder, ingest
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset


def rows_in_time(turns_at, days=365, n=2500, seed=0):
    """Rows of so many days; from a share of them on the curve of a column is upside down."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, n))
    share = np.sort(rng.random(n))
    side = np.where(share < turns_at, 1.0, -1.0)
    y = b + side * np.cos(4 * a) + 0.1 * rng.normal(size=n)
    moments = np.datetime64("2024-01-01", "s") + (share * days * 86_400).astype(np.int64)
    rows = pd.DataFrame({"a": a, "b": b, "y": y}).round(4)
    rows["on"] = moments.astype("datetime64[D]")
    return rows.sample(frac=1.0, random_state=seed)


@pytest.mark.parametrize(
    ("turns_at", "days", "is_curved"),
    [(1.0, 365, True), (0.8, 365, False), (1.0, 270, True), (0.8, 270, False)],
)
def test_curves_are_taken_unasked_where_they_hold_at_all_times(turns_at, days, is_curved, tmp_path):
    """Not where the last fifth differs."""
    rows = rows_in_time(turns_at, days)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    made = ingest(str(tmp_path / "rows.csv"), str(tmp_path / "data"), label="y")
    own = recipe_in(Dataset.open(made.dataset).schema).additive
    assert (own is not None) == is_curved
    if own is not None:
        assert own.chosen.agreed_by == "on"
        assert own.chosen.held_out_by == (None if days == 365 else "on")
        assert ("day of the year" in {part.part for part in own.splines}) == (days == 365)
        assert any("of every fifth by 'on'" in note for note in made.notes)
    elif days == 365:
        assert any("splines would be taken" in note and "'on'" in note for note in made.notes)
    X, y = rows.drop(columns="y"), rows["y"]
    model = LinearRegressor(encode="auto", tol=1e-2).fit(X, y)
    assert (model.encoder_.recipe_.additive is not None) == is_curved


def test_where_curves_are_asked_for_the_last_rows_choose():
    rows = rows_in_time(0.3)
    chosen = TableEncoder(additive=True).fit(rows.drop(columns="y"), rows["y"]).recipe_
    assert chosen.additive.chosen.held_out_by == "on"
    assert chosen.additive.chosen.held_out_rows == 500
    assert chosen.additive.chosen.agreed_by is None


def rows_of_waves(days, n=2500, seed=0):
    """Rows whose target goes up and down with their date, and bends with a column."""
    rng = np.random.default_rng(seed)
    share = rng.random(n)
    a = rng.uniform(-1, 1, n)
    y = np.sin(9 * share) + np.cos(4 * a) + 0.1 * rng.normal(size=n)
    moments = np.datetime64("2021-03-01", "s") + (share * days * 86_400).astype(np.int64)
    rows = pd.DataFrame({"a": a, "y": y}).round(4)
    rows["on"] = moments.astype("datetime64[D]")
    return rows


def parts_of(folder, name, rows, **how):
    """Return the parts of dates that have curves in a data set of rows, and its notes."""
    rows.to_csv(folder / f"{name}.csv", index=False)
    made = ingest(str(folder / f"{name}.csv"), str(folder / name), label="y", **how)
    own = recipe_in(Dataset.open(made.dataset).schema).additive
    return {one.part for one in own.splines} if own else None, made


def test_days_have_a_curve_that_ends_with_the_rows(tmp_path):
    """Of some years; nothing is paired with days, and later ones have the last value."""
    rows = rows_of_waves(1100)
    parts, made = parts_of(tmp_path, "years", rows, test_fraction=0.2)
    assert "days" in parts
    own = recipe_in(Dataset.open(made.dataset).schema).additive
    assert all("days" not in {pair.a.part, pair.b.part} for pair in own.pairs)
    (days,) = (one for one in own.splines if one.part == "days")
    ends = np.array([days.knots[-1], days.knots[-1] + 1000.0])
    for _, hat in days.features(ends):
        assert hat[0] == hat[1]


def test_rows_held_out_at_random_say_that_days_come_again(tmp_path):
    """Of part of a year: days have a curve then, and none where the last rows are to tell."""
    rows = rows_of_waves(200)
    assert "days" in parts_of(tmp_path, "random", rows, test_fraction=0.2)[0]
    for name, how in (("any", {}), ("later", {"test_fraction": 0.2, "test_by": "on"})):
        assert "days" not in (parts_of(tmp_path, name, rows, **how)[0] or {})
