"""docs/sources.md: every command, on tables and databases as it describes."""

import re
import shlex
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from testing.postgres_server import postgres_server
from tests.conftest import PROJECT
from tests.pipeline.tables.readers.test_databases import needs_postgres


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    write_visits(path, 1500)
    return csv.read_csv(path)


def commands(*, of_server):
    text = (PROJECT / "docs/sources.md").read_text(encoding="utf-8")
    every = re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE)
    assert len(every) >= 12
    return [words for words in every if ("postgresql://" in words) == of_server]


def write_lakes(visits, place):
    from deltalake import write_deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    write_deltalake(str(place / "visits-delta"), visits)
    write_deltalake(str(place / "visits-delta"), visits, mode="append")
    where = {"uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
    catalog = SqlCatalog("shop", **where)
    catalog.create_namespace("db")
    table = catalog.create_table("db.visits", visits.schema)
    table.append(visits)
    metadata = table.metadata_location
    catalog.close()
    folder = place / "visits-iceberg/metadata"
    folder.mkdir(parents=True)
    (folder / "v1.metadata.json").write_bytes(
        (place / "warehouse/db/visits/metadata" / metadata.rpartition("/")[2]).read_bytes()
    )
    (folder / "version-hint.text").write_text("1")


def write_sqlite_and_folders(visits, place):
    connection = sqlite3.connect(place / "visits.sqlite")
    connection.execute(f"CREATE TABLE visits ({', '.join(visits.column_names)})")
    rows = [tuple(map(as_sqlite, row.values())) for row in visits.to_pylist()]
    marks = ", ".join("?" * visits.num_columns)
    connection.executemany(f"INSERT INTO visits VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    rest = visits.drop_columns("country")
    for year in (2025, 2026):
        for country in ("DE", "FR"):
            inside = place / f"visits-by-country/year={year}/country={country}"
            inside.mkdir(parents=True)
            pq.write_table(rest, inside / "part-0.parquet")


def as_sqlite(value):
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


def test_the_commands_of_the_page_run(visits, tmp_path, monkeypatch, capsys):
    from pyiceberg.utils.config import Config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read when it was imported
    write_lakes(visits, tmp_path)
    write_sqlite_and_folders(visits, tmp_path)
    for words in commands(of_server=False):
        assert cli.main(shlex.split(words)) == 0, f"{words}: {capsys.readouterr().err}"
        capsys.readouterr()
    assert pq.read_table("scored.parquet").num_rows == 2 * visits.num_rows


@needs_postgres
def test_the_commands_with_a_server_run(visits, tmp_path, monkeypatch, capsys):
    from adbc_driver_postgresql import dbapi

    monkeypatch.chdir(tmp_path)
    with postgres_server() as address:
        with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        monkeypatch.setenv("PGHOST", address.partition("host=")[2])
        monkeypatch.setenv("PGUSER", "tester")
        with dbapi.connect("postgresql:///shop") as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("visits", pa.Table.to_reader(visits))
            connection.commit()
        for words in commands(of_server=True):
            assert cli.main(shlex.split(words)) == 0, f"{words}: {capsys.readouterr().err}"
            capsys.readouterr()
    scored = pq.read_table("pg-scored.parquet")
    assert scored["visit"].to_pylist() == sorted(visits["visit"].to_pylist())
