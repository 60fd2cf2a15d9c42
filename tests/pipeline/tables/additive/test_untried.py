"""Every table hears why its columns have curves, or none."""

import numpy as np
import pandas as pd
import pytest

from fewpass import ingest
from fewpass.pipeline.tables.additive import rules
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset

N = 2400


def table(seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, N))
    return pd.DataFrame({"a": a, "b": b, "y": np.cos(4 * a) + b + 0.1 * rng.normal(size=N)}).round(
        4
    )


def wide():
    more = pd.DataFrame(np.random.default_rng(1).normal(size=(N, 150)).round(2)).add_prefix("x")
    return pd.concat([more, table()], axis=1)


def noted(folder, rows, **how):
    """Return the notes on the form of a table's data set, and its recipe."""
    rows.to_csv(folder / "rows.csv", index=False)
    made = ingest(str(folder / "rows.csv"), str(folder / "data"), label="y", overwrite=True, **how)
    schema = Dataset.open(made.dataset).schema
    notes = [one for one in made.notes if "curves" in one or "form" in one]
    return notes, recipe_in(schema)


@pytest.mark.parametrize(
    ("rows", "how", "why"),
    [
        (table().head(40), {}, "there are about 41 rows, and curves are tried for 50 to 500,000"),
        (table().assign(a=table()["a"].head(20), town="x").head(40), {}, "there are about 40 rows"),
        (table(), {"column": {"a": "bins:4"}}, "a column holds bins"),
        (wide(), {}, "there are 152 columns"),
        (table().assign(town="x", shop="y"), {"cross": ("town,shop",)}, "columns are crossed"),
    ],
    ids=["few plain rows", "few rows", "bins", "many columns", "crossed"],
)  # fmt: skip
def test_why_no_curves_were_tried(tmp_path, rows, how, why):
    (note,), recipe = noted(tmp_path, rows, **how)
    assert note.startswith(f"No curves were tried: {why}")
    assert recipe is None or recipe.additive is None


def test_many_rows_are_counted(tmp_path, monkeypatch):
    assert "500,001 rows" in rules.against_curves(["number"], 500_001)
    assert "not counted" in rules.against_curves(["number"], None)
    assert not rules.against_curves(["number", "text", "date"], 500_000)


def test_text_and_curves_are_of_one_model(tmp_path):
    """The words say a part of the target, and the curve of a number another."""
    rng = np.random.default_rng(1)
    rows = table()
    words = np.array([*"abcdefghijklmnopqrst"])
    drawn = rng.integers(0, 20, (N, 6))
    rows["said"] = [" ".join(words[one] + "word") for one in drawn]
    rows["y"] += (drawn == 0).sum(axis=1)
    (note,), recipe = noted(tmp_path, rows)
    assert "splines" in note
    assert {part.kind for part in recipe.parts} >= {"text", "spline"}
    only = rows[["said", "y"]]
    (note,), recipe = noted(tmp_path, only)
    assert note == "The columns have no curves: no column is a number that differs."
    assert recipe.additive is None
