"""Folders named column=value: typed columns, in an ingest, in a training, and where a folder is predicted."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from fewpass.flows import cli
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.format_guess import reader_class

N = 600


def table(rng, year, country):
    x = rng.standard_normal(N)
    bought = x + (year - 2024) * 2 + (country == "DE") > rng.standard_normal(N)
    return pa.table({"id": np.arange(N), "x": x, "bought": bought})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """year=2023..2025, country=DE, FR and one that is missing, zip with zeros in front."""
    place, rng = tmp_path_factory.mktemp("hive") / "rows", np.random.default_rng(0)
    for year in (2023, 2024, 2025):
        for country, code in (("DE", "01067"), ("Côte%20d", "75001"), (None, "00000")):
            named = country or "__HIVE_DEFAULT_PARTITION__"
            inside = place / f"year={year}" / f"country={named}" / f"zip={code}"
            inside.mkdir(parents=True)
            pq.write_table(table(rng, year, country), inside / "part-0.parquet")
    return place


def cells(place, *names, like=None):
    found = find([str(place)])
    rows = reader_class("parquet")(found, SourceOptions(), Expected(like))
    used = [rows.names.index(name) for name in names]
    parts = [rows.cells(piece, used).columns for piece in rows.pieces(1 << 13, used)]
    columns = [pa.chunked_array([part[k] for part in parts]) for k in range(len(names))]
    return dict(zip(names, columns, strict=True)), dict(zip(rows.names, rows.types, strict=True))


def test_columns_of_folders_are_those_of_pyarrow_but_codes_stay_codes(folder):
    ours, types = cells(folder, "year", "country", "zip", "x")
    theirs = pa.dataset.dataset(folder, partitioning="hive").to_table()
    order = [str(part).split("year=")[1] for part in sorted(folder.rglob("*.parquet"))]
    assert len(order) == 9
    assert ours["year"].to_pylist() == theirs["year"].to_pylist()
    assert ours["country"].to_pylist() == theirs["country"].to_pylist()
    assert ours["x"].to_pylist() == theirs["x"].to_pylist()
    assert types["year"] == "int64" and types["country"] == types["zip"] == "text"
    assert set(ours["zip"].to_pylist()) == {"01067", "75001", "00000"}
    assert set(ours["country"].to_pylist()) == {"DE", "Côte d", None}


def test_a_part_of_a_folder_has_the_types_that_the_whole_had(folder, tmp_path):
    source = open_source([str(folder)], SourceOptions(label="bought"))
    part = folder / "year=2024/country=DE"
    _, types = cells(part, "zip", like=source.schema)
    assert types["zip"] == "text"
    _, alone = cells(folder / "year=2024/country=Côte%20d", "zip")
    assert alone["zip"] == "int64"  # 75001: nothing says that it is a code
    ours, types = cells(folder / "year=2024/country=Côte%20d", "zip", like=source.schema)
    assert types["zip"] == "text" and set(ours["zip"].to_pylist()) == {"75001"}


def test_a_folder_is_predicted_as_its_rows_with_the_columns_in_a_file(folder, tmp_path):
    whole = pa.dataset.dataset(folder, partitioning="hive").to_table()
    codes = cells(folder, "zip")[0]["zip"]
    at = whole.column_names.index("zip")
    pq.write_table(whole.set_column(at, "zip", codes), tmp_path / "flat.parquet")
    run = str(tmp_path / "run")
    assert cli.main(["train", str(folder), run, "--label", "bought", "--drop", "id"]) == 0
    keep = ["--keep", "year", "--keep", "country"]
    assert cli.main(["predict", run, str(folder), f"{tmp_path}/parts/", *keep]) == 0
    assert (
        cli.main(["predict", run, f"{tmp_path}/flat.parquet", f"{tmp_path}/flat-out.parquet"]) == 0
    )
    made = sorted((tmp_path / "parts").rglob("*.parquet"))
    assert [p.relative_to(tmp_path / "parts") for p in made] == [
        p.relative_to(folder) for p in sorted(folder.rglob("*.parquet"))
    ]
    parts = pa.concat_tables([pq.read_table(path, partitioning=None) for path in made])
    flat = pq.read_table(tmp_path / "flat-out.parquet")
    assert parts["score"].to_pylist() == flat["score"].to_pylist()
    assert parts["year"].to_pylist() == whole["year"].to_pylist()
    assert parts.schema.field("year").type == pa.int64()


@pytest.mark.parametrize(
    ("folders", "why"),
    [
        (["x=1"], "names the column 'x', which the file has itself"),
        (["a=1", "b=1"], "Read files of like folders together"),
        (["a=1", "plain"], "Read files of like folders together"),
    ],
)
def test_folders_that_fit_neither_the_files_nor_each_other_are_refused(tmp_path, folders, why):
    for name in folders:
        (tmp_path / "rows" / name).mkdir(parents=True)
        pq.write_table(pa.table({"x": [1.0], "y": [0]}), tmp_path / "rows" / name / "a.parquet")
    with pytest.raises(BadInput, match=why):
        open_source([str(tmp_path / "rows")], SourceOptions(label="y"))


def test_a_folder_without_a_number_is_refused_where_one_was_learnt_from(folder, tmp_path):
    source = open_source([str(folder)], SourceOptions(label="bought"))
    place = tmp_path / "year=old/country=DE/zip=1"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), place / "a.parquet")
    with pytest.raises(BadInput, match="year=old names no whole number"):
        open_source(
            [str(place)], SourceOptions(label_required=False), None, Expected(source.schema)
        )
