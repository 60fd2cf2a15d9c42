"""Frames that pandas writes with its index: that is no column, unless somebody asks for it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from fewpass.pipeline.tables.readers import Expected
from tests.pipeline.tables.readers.test_tables import read, source_of


def frame(words, index):
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    if words:
        made["word"] = rng.choice(["x", "z"], 60)
    return made.assign(y=rng.choice(["no", "yes"], 60)).set_index(index)


INDEXES = {
    "__index_level_0__": (pd.Index([k * k for k in range(60)]), "number"),
    "who": (pd.Index([f"id{k}" for k in range(60)], name="who"), "category"),
    "day": (pd.date_range("2026-01-01", periods=60, name="day"), "date"),
}


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("name", [*INDEXES])
def test_an_index_is_left_out_and_told(tmp_path, name, form, words):
    index, kind = INDEXES[name]
    path, rows = tmp_path / f"rows.{form}", frame(words, index.take(range(59, -1, -1)))
    bare = rows.reset_index(drop=True)
    if form == "parquet":
        rows.to_parquet(path)
        bare.to_parquet(tmp_path / f"bare.{form}", index=False)
    else:
        pa.feather.write_feather(rows, str(path), compression="uncompressed")
        pa.feather.write_feather(bare, str(tmp_path / f"bare.{form}"), compression="uncompressed")
    source = source_of(path)
    assert any(f"`column={name}={kind}`" in note for note in source.notes)
    alone = source_of(tmp_path / f"bare.{form}")
    np.testing.assert_array_equal(read(source)[0], read(alone)[0])
    again = source_of(path, Expected(alone.schema), label=None)  # nothing unknown is in it
    np.testing.assert_array_equal(read(again)[0], read(alone)[0])
    kept = source_of(path, column={name: kind})
    assert not any("index of the pandas" in note for note in kept.notes)
    assert name in kept.schema.feature_names
    known = source_of(path, Expected(kept.schema), label=None)
    np.testing.assert_array_equal(read(known)[0], read(kept)[0])


@pytest.mark.parametrize("role", ["weight", "offset", "exposure"])
def test_an_index_may_be_a_weight_or_an_offset(tmp_path, role):
    """Named once: then rows like those before have it, too."""
    rows = frame(True, pd.Index(np.arange(60) + 0.5, name="n"))
    rows.to_parquet(tmp_path / "rows.parquet")
    named = source_of(tmp_path / "rows.parquet", **{role: "n"})
    again = source_of(tmp_path / "rows.parquet", Expected(named.schema), label=None)
    for source in (named, again):
        assert source.has_weight if role == "weight" else source.has_offset
        assert len(read(source)[1]) == 60


def test_an_index_may_be_the_label(tmp_path):
    rows = frame(False, pd.Index(["u", "v"] * 30, name="who")).drop(columns="y")
    rows.to_parquet(tmp_path / "rows.parquet")
    assert read(source_of(tmp_path / "rows.parquet", label="who"))[1] == ["u", "v"] * 30
