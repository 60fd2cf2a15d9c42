"""No row that is held out takes part in the choice of a form."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fewpass import ingest
from fewpass.pipeline.tables.ingest import mapping
from fewpass.pipeline.tables.readers import fitted_table, sampling
from fewpass.storage.dataset import Dataset

N = 3000
LABELS = {"amounts": "price", "classes": "place", "two classes": "sold"}
SPLITS = {
    "at random": {}, "by a column": {"test_by": "day"}, "groups": {"test_group": "shop"},
}  # fmt: skip


def table():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, N))
    price = np.round(np.exp(np.sin(2 * x) + 0.3 * z + 0.1 * rng.normal(size=N)), 1)
    return pd.DataFrame({
        "id": [f"row {k}" for k in range(N)], "key": [f"{7 * k:x}" for k in range(N)], "x": x, "z": z, "noise": rng.choice([*"abc"], N),
        "day": rng.permutation(N) // 10, "shop": rng.integers(0, 40, N).astype(str), "price": price,
        "sold": (price > 1).astype(int), "place": np.where(price > 2, "c", np.where(price > 1, "b", "a")),
    })  # fmt: skip


@pytest.fixture
def chosen_by(monkeypatch):
    """The rows that a form was chosen by; pieces are small."""
    seen = SimpleNamespace(rows=[])
    learnt = fitted_table.FittedTable._learnt

    def noted(self, sample):
        rows = learnt(self, sample)
        seen.rows = rows.column("id").to_pylist()
        return rows

    monkeypatch.setattr(fitted_table.FittedTable, "_learnt", noted)
    for module in (sampling, mapping):
        monkeypatch.setattr(module, "PIECE_BYTES", 25_000)
    return seen


def written(folder, kind):
    """Write the table, some of whose rows are bad in text."""
    rows = table()
    if kind == "parquet":
        rows.to_parquet(folder / "rows.parquet")
        return folder / "rows.parquet", {}
    rows = rows.astype({"x": object, "price": object})
    rows.loc[::97, "x"], rows.loc[5::89, "price"] = "broken", "broken"
    rows.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv", {"on_bad_row": "skip"}


@pytest.mark.parametrize(("kind", "split", "label"), [
    ("csv", "at random", "amounts"), ("csv", "by a column", "classes"), ("csv", "groups", "two classes"),
    ("parquet", "at random", "classes"), ("parquet", "by a column", "two classes"),
    ("parquet", "groups", "amounts"),
])  # fmt: skip
def test_the_form_is_chosen_without_the_test(tmp_path, chosen_by, kind, label, split):
    path, how = written(tmp_path, kind)
    left_out = set(LABELS.values()) - {LABELS[label]} | {"day", "shop"}
    asked = {
        "label": LABELS[label], "drop": tuple(left_out), "column": {"x": "number"},
        "keep": ("id",), "test_fraction": 0.25,
    }  # fmt: skip
    for encode in ("linear", "additive"):
        ingest(path, tmp_path / encode, encode=encode, **asked, **SPLITS[split], **how)
    test, training = rows_of(tmp_path / "additive-test"), rows_of(tmp_path / "additive")
    assert test == rows_of(tmp_path / "linear-test")
    assert not test & {*chosen_by.rows}
    assert training <= {*chosen_by.rows}  # the others are bad
    assert len(test) == pytest.approx(0.25 * (len(test) + len(training)), rel=0.03)


def rows_of(folder):
    dataset = Dataset.open(str(folder))
    chunks = (dataset.with_retained(k, dataset.read_chunk(k)) for k in range(dataset.n_chunks))
    return {bytes(row).rstrip(b"\0").decode() for chunk in chunks for row in chunk.retained}
