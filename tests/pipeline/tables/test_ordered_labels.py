"""Labels that come as often as grades do are said to be in an order; others are not."""

import numpy as np
import pandas as pd
import pytest

from fewpass import evaluate, ingest, train
from fewpass.pipeline.rows.grades import look_ordered


def test_what_rises_and_falls_is_in_order():
    assert look_ordered([3, 20, 180, 300, 190, 30, 4])
    assert look_ordered([900, 700, 500, 300, 200, 100])
    assert look_ordered([3, 20, 180, 300, 299, 190, 191, 30, 4])  # within chance
    assert not look_ordered([3, 20, 180, 30, 190, 30, 4])
    assert not look_ordered([100] * 10)
    assert not look_ordered([10, 500, 20])  # too few to tell


def r2_of(data):
    train(str(data), f"{data}-run", tol=1e-3)
    return evaluate(f"{data}-run", str(data)).r2


@pytest.mark.parametrize(
    ("kind", "is_said"), [("grades", True), ("codes", False), ("words", False)]
)
def test_grades_are_said_to_be_taken_for_labels(tmp_path, kind, is_said):
    rng = np.random.default_rng(0)
    grades = np.clip(np.round(rng.normal(11, 3, 900)), 4, 18).astype(int)
    of = {"grades": grades, "codes": (7 * grades) % 19, "words": [f"g{one:02}" for one in grades]}
    rows = pd.DataFrame({"hours": grades + rng.normal(size=900).round(3), "grade": of[kind]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    made = ingest(str(tmp_path / "rows.csv"), str(tmp_path / "data"), label="grade")
    said = [one for one in made.notes if "whose order says" in one]
    assert bool(said) == is_said
    if is_said:
        assert "15 whole numbers, 4 to 18" in said[0]
        made = ingest(
            str(tmp_path / "rows.csv"), str(tmp_path / "numbers"), label="grade", task="regression"
        )
        assert not any("whose order says" in one for one in made.notes)
    by_labels = r2_of(tmp_path / "data")
    assert (by_labels is not None) == is_said
    if by_labels is not None:
        assert 0.7 < by_labels < r2_of(tmp_path / "numbers")
