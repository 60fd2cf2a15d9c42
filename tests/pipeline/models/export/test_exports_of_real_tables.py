"""Real tables, from their files to ONNX, SQL and memory: what `predict` says, to 1e-6."""

import csv
import io
import lzma

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from onnxruntime import InferenceSession

import fewpass
from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.models.export.export_formats import as_onnx, as_sql
from fewpass.pipeline.models.export.plain_model import of_run
from tests.pipeline.models.export.exported_rows import feeds_of


def rows_of(file):
    """Rows as dicts of text; None where `predict` reads nothing."""
    text = lzma.decompress(file.read_bytes()).decode()
    nothing = set(NULL_VALUES)
    rows = csv.DictReader(io.StringIO(text))
    return [{name: None if v in nothing else v for name, v in row.items()} for row in rows]


@pytest.mark.public_data
@pytest.mark.parametrize(("name", "label"), [("taxi", "tip"), ("penguins", "species")])
def test_they_say_what_predict_says(name, label, tmp_path, data_file):
    train, test = (data_file(f"tables/{name}_{part}.csv.xz") for part in ("train", "test"))
    fewpass.ingest(train, tmp_path / "set", label=label)
    fewpass.train(tmp_path / "set", tmp_path / "run", passes=2)
    fewpass.predict(tmp_path / "run", test, tmp_path / "p.parquet", probability=True)
    written = pd.read_parquet(tmp_path / "p.parquet")
    p = written[[one for one in written if one.startswith("probability_")]].to_numpy()
    rows, model = rows_of(test), of_run(str(tmp_path / "run"))
    loaded = fewpass.load(tmp_path / "run")
    one = [[*loaded.predict_one(row)["probabilities"].values()] for row in rows]
    np.testing.assert_allclose(one, p, atol=1e-6)
    table = pa.Table.from_pylist(rows)
    session = InferenceSession(as_onnx(model))
    (onnx,) = session.run(["probabilities"], feeds_of(model.recipe, table))
    np.testing.assert_allclose(onnx, p, atol=1e-6)
    database = duckdb.connect()
    database.register("rows", table.append_column("row", pa.array(range(len(rows)))))
    select = as_sql(model, "duckdb", "rows").decode()
    answers = database.sql(f"SELECT * FROM ({select}) ORDER BY row").df()
    found = answers[[one for one in answers if one.startswith("probability_")]].to_numpy()
    np.testing.assert_allclose(found, p, atol=1e-6)
    assert list(answers["predicted"]) == list(written["predicted"])
