"""docs/sources.md: every command, on tables and databases as it describes."""

import re
import shlex
import sqlite3
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from fewpass.flows import cli
from fewpass.pipeline.clicks import write_visits
from testing.postgres_server import postgres_server
from tests.conftest import PROJECT
from tests.pipeline.tables.readers.test_databases import needs_postgres

PAGE = PROJECT / "docs/sources.md"


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    path = tmp_path_factory.mktemp("visits") / "demo-output/visits.csv"
    path.parent.mkdir()
    write_visits(path, 1500)
    return path


def commands(*, of_server):
    text = PAGE.read_text(encoding="utf-8")
    every = re.findall(r"^\$ fewpass (.*)$", text, re.MULTILINE)
    assert len(every) >= 12
    return [words for words in every if ("postgresql://" in words) == of_server]


def make_tables():
    """The tables of the page, of the visits of the demo."""
    from deltalake import write_deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    visits = csv.read_csv("demo-output/visits.csv").slice(0, 1500)
    write_deltalake("visits-delta", visits)
    write_deltalake("visits-delta", visits, mode="append")

    catalog = SqlCatalog(
        "shop", uri="sqlite:///catalog.db", warehouse=Path("warehouse").absolute().as_uri()
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.visits", visits.schema)
    table.append(visits)
    catalog.close()
    Path("visits-iceberg/metadata").mkdir(parents=True)
    state = Path(table.metadata_location.removeprefix("file://")).read_bytes()
    Path("visits-iceberg/metadata/v1.metadata.json").write_bytes(state)
    Path("visits-iceberg/metadata/version-hint.text").write_text("1")

    database = sqlite3.connect("visits.sqlite")
    database.execute(f"CREATE TABLE visits ({', '.join(visits.column_names)})")
    rows = [
        [str(cell) if hasattr(cell, "year") else cell for cell in row.values()]
        for row in visits.to_pylist()
    ]
    database.executemany(f"INSERT INTO visits VALUES ({', '.join('?' * visits.num_columns)})", rows)
    database.commit()
    database.close()

    for year in (2025, 2026):
        for country in ("DE", "FR"):
            folder = Path(f"visits-by-country/year={year}/country={country}")
            folder.mkdir(parents=True)
            pq.write_table(visits.drop_columns("country"), folder / "part-0.parquet")


def test_the_commands_of_the_page_run(visits, tmp_path, monkeypatch, capsys):
    from pyiceberg.utils.config import Config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read when it was imported
    (tmp_path / "demo-output").symlink_to(visits.parent)
    make_tables()
    for words in commands(of_server=False):
        assert cli.main(shlex.split(words)) == 0, f"{words}: {capsys.readouterr().err}"
        capsys.readouterr()
    assert pq.read_table("scored.parquet").num_rows == 2 * 1500


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
            cursor.adbc_ingest("visits", csv.read_csv(visits).to_reader())
            connection.commit()
        for words in commands(of_server=True):
            assert cli.main(shlex.split(words)) == 0, f"{words}: {capsys.readouterr().err}"
            capsys.readouterr()
    scored = pq.read_table("pg-scored.parquet")
    assert scored["visit"].to_pylist() == sorted(csv.read_csv(visits)["visit"].to_pylist())
