"""Of tables with dates nobody's curves are taken unless they are better at all times."""

import numpy as np
import pandas as pd
import pytest

from fewpass import LinearRegressor, TableEncoder, ingest
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset


def rows_in_time(turns_at, n=2500, seed=0):
    """Rows of a year; from a share of it on the curve of a column is upside down."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, n))
    share = np.sort(rng.random(n))
    side = np.where(share < turns_at, 1.0, -1.0)
    y = b + side * np.cos(4 * a) + 0.1 * rng.normal(size=n)
    days = np.datetime64("2024-01-01", "s") + (share * 365 * 86_400).astype(np.int64)
    rows = pd.DataFrame({"a": a, "b": b, "on": days.astype("datetime64[D]"), "y": y}).round(4)
    return rows.sample(frac=1.0, random_state=seed)


@pytest.mark.parametrize("turns_at", [1.0, 0.8])
def test_curves_that_turn_with_time_are_not_taken_unasked(turns_at, tmp_path):
    """Though rows drawn at random are predicted better by them; so no last rows need to say so."""
    rows = rows_in_time(turns_at)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    made = ingest(str(tmp_path / "rows.csv"), str(tmp_path / "data"), label="y")
    own = recipe_in(Dataset.open(made.dataset).schema).additive
    assert (own is not None) == (turns_at == 1.0)
    if own is not None:
        assert own.chosen.agreed_by == "on" and own.chosen.held_out_by is None
        assert any("of every fifth by 'on'" in note for note in made.notes)
    X, y = rows.drop(columns="y"), rows["y"]
    model = LinearRegressor(encode="auto", tol=1e-2).fit(X, y)
    assert (model.encoder_.recipe_.additive is not None) == (turns_at == 1.0)


def test_where_curves_are_asked_for_the_last_rows_choose():
    rows = rows_in_time(0.3)
    chosen = TableEncoder(additive=True).fit(rows.drop(columns="y"), rows["y"]).recipe_
    assert chosen.additive.chosen.held_out_by == "on"
    assert chosen.additive.chosen.held_out_rows == 500
    assert chosen.additive.chosen.agreed_by is None
