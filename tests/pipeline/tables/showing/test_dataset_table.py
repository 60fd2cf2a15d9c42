"""A data set as a table: kept columns, features by name, label and weight."""

import importlib

import numpy as np
import pyarrow as pa
import pytest

import fewpass
from fewpass.flows import cli
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.showing import dataset_table
from fewpass.storage.dataset import Dataset

CITIES = ("north", "south", "west, or east")


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """A table with a column of every kind, in its order."""
    place = tmp_path_factory.mktemp("visits")
    rng = np.random.default_rng(5)
    rows = [
        {
            "id": f"c{k:03d}" if k % 50 else "",
            "city": CITIES[rng.integers(3)],
            "age": int(rng.integers(18, 90)),
            "paid": round(float(rng.lognormal(3, 1)), 2) if k % 7 else None,
            "size": round(float(rng.normal(1e5, 3.0)), 2),
            "said": " ".join(rng.choice(["went", "came", "back", "again"], 4)),
            "day": f"2026-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}",
            "weight": float(rng.integers(1, 4)),
            "label": "yes" if rng.random() < 0.4 else "no",
        }
        for k in range(400)
    ]
    text = ["id,city,age,paid,size,said,day,weight,label"]
    for row in rows:
        cells = (
            f'"{v}"' if isinstance(v, str) else "" if v is None else str(v) for v in row.values()
        )
        text.append(",".join(cells))
    (place / "visits.csv").write_text("\n".join(text))
    fewpass.ingest(
        place / "visits.csv", place / "D", label="label", weight="weight", keep="id",
        shuffle=False, column={"said": "text"}, hash_bits=8,
    )  # fmt: skip
    return place / "D", rows


def test_features_are_those_of_the_recipe(visits):
    """Kept cells, label and weight as they came; features as encoding the rows makes them."""
    place, rows = visits
    table = fewpass.Dataset(place)
    origins = {column.name: column.origin for column in table.columns}
    assert table.shape == (400, len(origins))
    assert (origins["id"], origins["weight"], origins["label"]) == ("kept", "weight", "label")
    assert origins["said (features)"] == origins["age"] == origins["city=north"] == "feature"

    shown = table.to_arrow().to_pylist()
    for row, own in zip(rows, shown, strict=True):
        assert (own["id"], own["weight"], own["label"]) == (
            row["id"] or None, row["weight"], row["label"],
        )  # fmt: skip
    recipe = recipe_in(Dataset.open(str(place)).schema)
    X = encoded(recipe, pa.Table.from_pylist(rows)).toarray()
    for k, name in enumerate(recipe.outputs):
        if name in origins:
            own = [row[name] for row in shown]
        else:
            lists = [row["said (features)"] for row in shown]
            own = [sum(e["value"] for e in each if e["feature"] == name) for each in lists]
        np.testing.assert_allclose(own, X[:, k], atol=1e-6, err_msg=name)


def test_every_library_has_the_same_rows(visits):
    place, _ = visits
    table = fewpass.Dataset(place)
    pandas, polars = table.to_pandas(), table.to_polars()
    assert polars.drop("said (features)").to_dicts() == (
        table.to_arrow().drop_columns("said (features)").to_pylist()
    )
    lazy = table.to_dask()
    assert lazy.npartitions == sum(1 for _ in table.batches())
    frame = lazy.drop(columns="said (features)").compute()
    pandas_alone = pandas.drop(columns="said (features)")
    one, two = (each.astype(object).fillna("-") for each in (frame, pandas_alone))
    assert one.to_dict("list") == two.to_dict("list")
    assert frame.index.tolist() == list(range(400))
    assert table.to_pandas(7)["age"].tolist() == pandas["age"].tolist()[:7]
    assert table.head(0).num_rows == 0


def test_a_library_that_is_not_there_is_named(visits, monkeypatch):
    def absent(name):
        if name == "polars":
            raise ModuleNotFoundError("No module named 'polars'")
        return importlib.import_module(name)

    monkeypatch.setattr(dataset_table, "import_module", absent)
    with pytest.raises(BadInput, match=r"to_polars.*polars.*pip install polars.*to_arrow"):
        fewpass.Dataset(visits[0]).to_polars()


def test_sparse_rows_are_lists_of_features(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:2 90:3\n0 5000:0.5\n1\n0 1:4 2:1\n" * 10)
    fewpass.ingest(
        tmp_path / "rows.svm", tmp_path / "D", shuffle=False, scale="none", layout="sparse"
    )
    (features, label) = (table := fewpass.Dataset(tmp_path / "D")).columns
    assert (features.origin, label.name) == ("feature", "label")
    first = table.head(4).to_pylist()
    entries = [[(e["feature"], e["value"]) for e in row["features"]] for row in first]
    assert entries == [
        [("x0", 2.0), ("x89", 3.0)],
        [("x4999", 0.5)],
        [],
        [("x0", 4.0), ("x1", 1.0)],
    ]
    assert [row["label"] for row in first] == [1.0, 0.0, 1.0, 0.0]


def test_plain_numbers_are_as_stored(tmp_path):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 1000, 300), rng.normal(size=300).round(3)])
    lines = [f"{int(a)},{b},{b > 0:d}" for a, b in X]
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "\n".join(lines))
    fewpass.ingest(
        tmp_path / "rows.csv", tmp_path / "D", label="y", shuffle=False, encode="none",
        scale="standard",
    )  # fmt: skip
    table = fewpass.Dataset(tmp_path / "D").to_arrow()
    assert table.schema.names == ["a", "b", "y"]
    stored = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    np.testing.assert_allclose(stored, (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-5)


def test_head_prints_a_table_and_json(visits, capsys):
    place, rows = visits
    assert cli.main(["inspect", str(place), "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    assert set(printed.split()) >= {
        "id",
        "city",
        "age",
        "paid",
        "size",
        "said",
        "day",
        "label",
        "weight",
    }
    assert rows[1]["id"] in printed
    assert cli.main(["inspect", str(place), "--rows", "2", "--json"]) == 0
    assert '"origin": "kept"' in capsys.readouterr().out


def test_head_shows_many_columns_below_each_other(tmp_path, capsys):
    """Two dates of the same days were one column, and twenty columns were two letters wide."""
    rng = np.random.default_rng(0)
    names = [f"a column of numbers {k}" for k in range(8)]
    text = [",".join(("sent", "seen", *names, "label"))]
    for k in range(60):
        day = f"2026-{1 + k % 12:02d}-{1 + k % 28:02d}"
        text.append(",".join((day, day, *rng.normal(size=8).round(3).astype(str), "ab"[k % 2])))
    (tmp_path / "rows.csv").write_text("\n".join(text))
    fewpass.ingest(tmp_path / "rows.csv", tmp_path / "D", label="label", encode="linear")
    capsys.readouterr()
    assert cli.main(["inspect", str(tmp_path / "D"), "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)  # no name is broken
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    first = [line.split() for line in lines if line.strip().startswith("1 ")]
    assert len(first) == sum("row" in line.split() for line in lines) >= 4  # parts, all with rows
    titles = " ".join(line for line in lines if "(feature)" not in line).split()
    assert titles.count("sent") == titles.count("seen") == 1
