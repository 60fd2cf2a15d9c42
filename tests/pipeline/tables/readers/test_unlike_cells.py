"""Missing numbers where none was missing before: counted and shown, however rows are read."""

import numpy as np
import pandas as pd
import pytest

from fewpass import append, ingest, predict, train
from testing.refreshing import Nights, refresh, write_rows

SAID = "{} are missing, and none was among the rows that its recipe was made by"


def rows(n, seed=0, gaps=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n).round(3)
    x[:gaps] = np.nan
    city = rng.choice(["oslo", "rome"], n)
    return pd.DataFrame({"x": x, "city": city, "y": (np.nan_to_num(x) > 0).astype(int)})


@pytest.mark.parametrize("encode", ["linear", "additive"])  # by terms, and by codes
def test_gaps_are_counted_by_append_and_predict(tmp_path, encode):
    rows(400).to_csv(tmp_path / "old.csv", index=False)
    rows(300, 1, gaps=7).to_csv(tmp_path / "new.csv", index=False)
    made = ingest(tmp_path / "old.csv", tmp_path / "d", label="y", encode=encode)
    assert not any("missing" in note for note in made.notes)
    train(tmp_path / "d", tmp_path / "run", lam="1/n", verbose=0)
    for name, n in (("old.csv", 0), ("new.csv", 7)):
        result = predict(tmp_path / "run", [str(tmp_path / name)], tmp_path / f"of-{name}")
        assert [SAID.format(f"Column 'x': {n} cells") in note for note in result.notes] == [
            True
        ] * (n > 0)
    notes = append(tmp_path / "d", tmp_path / "new.csv").notes
    assert [SAID.format("Column 'x': 7 cells") in note for note in notes] == [True]


def test_where_the_sample_has_gaps_they_have_a_column_and_no_note(tmp_path):
    rows(400, gaps=3).to_csv(tmp_path / "old.csv", index=False)
    rows(300, 1, gaps=7).to_csv(tmp_path / "new.csv", index=False)
    ingest(tmp_path / "old.csv", tmp_path / "d", label="y")
    assert not append(tmp_path / "d", tmp_path / "new.csv").notes


def test_a_refresh_shows_the_gaps_of_its_night(tmp_path):
    nights = Nights(tmp_path, ingest={"options": {"label": "y", "encode": "always"}})
    nights.night()
    night = tmp_path / "inbox/02.csv"
    write_rows(night, 2)
    frame = pd.read_csv(night)
    frame.loc[:4, "b"] = np.nan
    frame.to_csv(night, index=False)
    (said,) = (note for note in refresh(nights.plan).notes if "'b'" in note)
    assert SAID.format("5 cells") in said
