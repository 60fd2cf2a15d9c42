"""Predictions in tables: the rows that a file of them has, all of them or none, and never twice."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import duckdb
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from adbc_driver_postgresql import dbapi
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring.sql_tables import PostgresTable, SqliteTable
from fewpass.pipeline.tables.readers.table_files import store_settings
from testing.object_store import object_store
from testing.postgres_server import postgres_server
from tests.pipeline.tables.readers.test_databases import needs_postgres

N = 400
KEPT = ["id", "at", "price"]


def rows_of(n, seed, first=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"size": rng.normal(size=n), "city": rng.choice(["Rome", "Oslo"], n)})
    score = table["size"] + (table["city"] == "Oslo") + 0.3 * rng.standard_normal(n)
    table["bought"] = np.where(score > 0.5, "yes", "no")
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    ids = pa.array(range(first, first + n), pa.int32())
    at = pa.array(range(1_700_000_000, 1_700_000_000 + n), pa.timestamp("s"))
    price = pa.array([None if k % 7 == 0 else f"{k}.50" for k in range(n)])
    for name, column in (("id", ids), ("at", at), ("price", price.cast(pa.decimal128(9, 2)))):
        arrow = arrow.append_column(name, column)
    return arrow


def write(path, *given):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(rows_of(*given), path)
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Two runs, and rows to predict."""
    folder = tmp_path_factory.mktemp("shop")
    write(folder / "train.parquet", 800, 0)
    fewpass.ingest(folder / "train.parquet", folder / "data", label="bought", drop=KEPT)
    for name, lam in (("run", "1/n"), ("other", "30/n")):
        fewpass.train(folder / "data", folder / name, loss="logistic", lam=lam, verbose=0)
    write(folder / "new.parquet", N, 1)
    return folder


@pytest.fixture(scope="module")
def server():
    with postgres_server() as address:
        yield address


class Place:
    """Where a table is, and how it is asked without fewpass."""

    def __init__(self, url, table, ask):
        self.url, self.table, self.ask = url, table, ask

    def predict(self, run, source, **more):
        settings = {"keep": ["id"], "unknown_features": "ignore", "table": self.table} | more
        return fewpass.predict(run, source, self.url, **settings)

    def count(self, condition="1 = 1"):
        return self.ask(f"SELECT count(*) FROM scores WHERE {condition}")[0][0]


def asked_of_postgres(address):
    def ask(query):
        with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall() if query.startswith("SELECT") else []

    return ask


def asked_of(library, path):
    def ask(query):
        with closing(library.connect(path)) as connection:
            found = connection.execute(query).fetchall()
            connection.commit()
            return found

    return ask


def asked_of_delta(path):
    def ask(query):
        table = pa.table(QueryBuilder().register("scores", DeltaTable(path)).execute(query))
        return [tuple(row.values()) for row in table.to_pylist()]

    return ask


KINDS = ["sqlite", "duckdb", "delta", pytest.param("postgresql", marks=needs_postgres)]


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    if request.param == "postgresql":
        address = request.getfixturevalue("server")
        ask = asked_of_postgres(address)
        ask("DROP TABLE IF EXISTS scores")
        return Place(address, "scores", ask)
    path = str(tmp_path / f"out.{request.param}")
    if request.param == "delta":
        return Place(path, None, asked_of_delta(path))
    library = sqlite3 if request.param == "sqlite" else duckdb
    return Place(path, "scores", asked_of(library, path))


def test_the_rows_are_those_of_a_file_and_the_same_again_replaces_them(shop, place, tmp_path):
    kept = {"keep": KEPT, "probability": True}
    fewpass.predict(shop / "run", shop / "new.parquet", tmp_path / "p.parquet", **kept)
    file = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    for _ in range(2):
        result = place.predict(shop / "run", shop / "new.parquet", **kept)
        assert result.columns == (*file.column_names, "model", "source", "source_version")
        assert (result.rows, result.table) == (N, place.table)
        names = ", ".join(f'"{name}"' for name in result.columns)
        found = place.ask(f"SELECT {names} FROM scores ORDER BY id")
        assert len(found) == N
        columns = dict(zip(result.columns, zip(*found, strict=True), strict=True))
        for name in ("id", "predicted", "score", "probability_no", "probability"):
            assert list(columns[name]) == file[name].to_pylist()
        prices = [None if p is None else float(p) for p in columns["price"]]
        assert prices == [None if p is None else float(p) for p in file["price"].to_pylist()]
        assert [str(t)[:19] for t in columns["at"]] == [str(t) for t in file["at"].to_pylist()]
        assert set(columns["model"]) == {fewpass.load(shop / "run").version}
        assert set(columns["source"]) == {str(shop / "new.parquet")}
    assert "host" not in result.output
    place.predict(shop / "other", shop / "new.parquet", **kept)
    assert place.count() == 2 * N
    place.predict(shop / "other", shop / "new.parquet", **kept)
    assert place.count() == 2 * N
    place.predict(shop / "run", shop / "new.parquet", overwrite=True, **kept)
    assert place.count() == N


def test_a_table_of_other_columns_is_refused_with_both_lists_and_stays(shop, place):
    place.predict(shop / "run", shop / "new.parquet")
    for overwrite in (False, True):
        with pytest.raises(BadInput, match=r"'id', 'predicted', .*these predictions have 'predic"):
            place.predict(shop / "run", shop / "new.parquet", keep=[], overwrite=overwrite)
    assert place.count() == N
    with pytest.raises(BadInput, match="'model' is a column of the output"):
        place.predict(shop / "run", shop / "new.parquet", keep=["model"])


def test_a_data_set_and_rows_of_several_files(shop, place, tmp_path):
    place.predict(shop / "run", shop / "data", keep=[])
    assert place.ask("SELECT DISTINCT source, source_version FROM scores") == [
        (str(shop / "data"), None)
    ]
    for k in range(3):
        write(tmp_path / f"in/{k}.parquet", 10 + k, k)
    place.predict(shop / "run", f"{tmp_path}/in/*.parquet", keep=[], overwrite=True)
    counts = place.ask("SELECT source, count(*) FROM scores GROUP BY source ORDER BY source")
    assert counts == [(str(tmp_path / f"in/{k}.parquet"), 10 + k) for k in range(3)]
    place.predict(shop / "run", f"{tmp_path}/in/1.parquet", keep=[])
    assert place.count() == 10 + 11 + 12


def test_cells_take_the_types_of_a_table_that_is_there(shop, place, tmp_path):
    """Columns in another order; of text that is read from CSV, numbers."""
    text = pyarrow.parquet.read_table(shop / "new.parquet").to_pandas()[["id", "size", "city"]]
    text.to_csv(tmp_path / "new.csv", index=False)
    names = ["score real", "source text", "source_version text", "model text", "id bigint"]
    columns = ", ".join([*names, "predicted text"])
    if place.table is None:
        kinds = {"real": pa.float32(), "text": pa.string(), "bigint": pa.int64()}
        schema = pa.schema(
            [(name.split()[0], kinds[name.split()[1]]) for name in columns.split(", ")]
        )
        write_deltalake(place.url, pa.table(schema.empty_table()))
    else:
        place.ask(f"CREATE TABLE scores ({columns})")
    place.predict(shop / "run", tmp_path / "new.csv")
    assert place.ask("SELECT CAST(sum(id) AS bigint), count(*) FROM scores") == [
        (N * (N - 1) // 2, N)
    ]
    (score,) = place.ask("SELECT score FROM scores WHERE id = 5")[0]
    assert score == pytest.approx(fewpass.load(shop / "run").decision_function(
        [{"size": text["size"][5], "city": text["city"][5]}])[0], rel=1e-5)  # fmt: skip


KILLED = """
import os, signal, sys
import fewpass
from fewpass.pipeline.scoring import output_table, sql_tables
run, source, output, table, at = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(reader):
    yield next(reader)
    die()

if at == "commit":  # all is there but the last word; of Delta Lake, whose own it is, one batch
    for kind in (sql_tables.SqlTable, sql_tables.PostgresTable):
        kind.commit = die
    output_table.BATCH_ROWS = 100
    real = output_table.WaitingRows.reader
    def reader(rows):
        whole = real(rows)
        return type(whole).from_batches(whole.schema, dying(whole))
    if output.endswith(".delta"):
        output_table.WaitingRows.reader = reader
else:
    output_table.ParquetPredictions.close = die
fewpass.predict(run, source, output, table=table or None, keep=["id"])
"""


def killed(shop, place, at):
    words = (shop / "run", shop / "new.parquet", place.url, place.table or "", at)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, words)], capture_output=True, timeout=120
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_killed_before_a_row_is_written_it_leaves_nothing(shop, tmp_path):
    path = str(tmp_path / "out.sqlite")
    killed(shop, Place(path, "scores", asked_of(sqlite3, path)), "scored")
    assert not os.listdir(tmp_path)  # noqa: PTH208 - names alone


@pytest.mark.parametrize("is_new", [True, False])
def test_killed_at_its_last_word_it_leaves_no_row_and_repeated_it_leaves_all_once(
    shop, place, is_new
):
    if not is_new:
        place.predict(shop / "other", shop / "new.parquet")
    killed(shop, place, "commit")
    if not is_new:
        assert place.count() == N
        assert place.count(f"model = '{fewpass.load(shop / 'run').version}'") == 0
    place.predict(shop / "run", shop / "new.parquet")
    assert place.count() == (N if is_new else 2 * N)


def test_a_row_that_cannot_be_read_leaves_no_row(shop, place, tmp_path):
    lines = "".join(f"{k},0.5,Rome\n" for k in range(N))
    (tmp_path / "bad.csv").write_text(f"id,size,city\n{lines}1,2,3,4,5\n")
    place.predict(shop / "run", shop / "new.parquet")
    with pytest.raises(BadInput, match=f"row {N + 2}"):
        place.predict(shop / "run", tmp_path / "bad.csv")
    assert place.count() == N


@pytest.fixture
def folder_of_files(tmp_path):
    """A folder of predictions, asked as a table is."""
    out = tmp_path / "scored"
    place = Place(f"{out}/", None, None)
    place.count = lambda *_: sum(pd.read_parquet(file).shape[0] for file in out.rglob("*.parquet"))
    return place


@pytest.mark.parametrize("kind", ["sqlite", "delta", "files"])
def test_new_files_alone_are_predicted_each_once(shop, tmp_path, kind, folder_of_files):
    """By the model of the day; a changed file anew, an empty one later, beside a bad one."""
    path = str(tmp_path / f"out.{kind}")
    place = {
        "sqlite": Place(path, "scores", asked_of(sqlite3, path)),
        "delta": Place(path, None, asked_of_delta(path)),
        "files": folder_of_files,
    }[kind]
    inbox = tmp_path / "in"
    inbox.mkdir()

    def again(run="run"):
        found = place.predict(shop / run, f"{inbox}/*.parquet", only_new=True)
        return found.files, found.files - found.done_before

    assert again() == (0, 0)
    write(inbox / "1.parquet", 10, 1)
    write(inbox / "2.parquet", 20, 2, 100)
    assert again() == (2, 2)
    assert again() == (2, 0)
    write(inbox / "3.parquet", 30, 3, 200)
    (inbox / "4.parquet").touch()
    assert again("other") == (3, 1)
    assert place.count() == 60
    if kind != "files":
        models = place.ask("SELECT count(DISTINCT model), count(DISTINCT source) FROM scores")
        assert models == [(2, 3)]
    write(inbox / "1.parquet", 5, 4)  # written anew
    (inbox / "0.parquet").write_bytes(b"PAR1, but no more")
    write(inbox / "4.parquet", 40, 5, 300)
    with pytest.raises(BadInput, match=r"0\.parquet.*4 of 5 files are predicted"):
        again("other")
    assert place.count() == 5 + 20 + 30 + 40
    (inbox / "0.parquet").unlink()
    assert again() == (4, 0)
    if kind == "files":
        with pytest.raises(BadInput, match="of another model"):
            place.predict(shop / "run", f"{inbox}/*.parquet")


def test_what_only_new_and_table_do_not_go_with_is_refused(shop, tmp_path):
    source = shop / "new.parquet"
    for out, more, why in (
        ("p.csv", {"only_new": True}, "would be one file"),
        ("out/", {"only_new": True, "overwrite": True}, "Leave one out"),
        ("p.csv", {"table": "scores"}, "is no database"),
        ("p.sqlite", {}, "table=scores"),
        ("p.duckdb", {"table": "a; DROP TABLE b"}, "table=scores"),
        ("p.delta", {"table": "scores"}, "is a table itself"),
        ("run/p.sqlite", {"table": "t"}, "lies in the run"),
        ("train.parquet/p.sqlite", {"table": "t"}, "no such folder"),
    ):
        with pytest.raises((BadInput, OSError), match=why):
            fewpass.predict(shop / "run", source, shop / out, **more)
    for out in ("iceberg://shop/db.t", "s3://bucket/p.duckdb"):
        with pytest.raises(BadInput, match=r"not written|this machine"):
            fewpass.predict(shop / "run", source, out, table="t")
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(BadInput, match="not a database"):
        fewpass.predict(shop / "run", source, tmp_path / "text.db", table="t")


def test_rows_and_their_predictions_are_in_one_database(shop, tmp_path):
    """The file is read to its end before it is written."""
    rows = pyarrow.parquet.read_table(shop / "new.parquet").to_pandas()[["id", "size", "city"]]
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        rows.to_sql("visits", connection, index=False)
    for query in ("visits", "SELECT * FROM visits WHERE id < 10"):
        for _ in range(2):
            fewpass.predict(shop / "run", path, path, table="scores", query=query, keep=["id"])
    found = asked_of(sqlite3, path)("SELECT source, count(*) FROM scores GROUP BY 1 ORDER BY 2")
    assert [count for _, count in found] == [10, N]
    assert found[0][0] == f"{path} SELECT * FROM visits WHERE id < 10"


@needs_postgres
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_at_once_leave_the_rows_once(shop, server, tmp_path, kind, monkeypatch):
    """The first takes its time from its last row to its last word."""
    path = str(tmp_path / "out.sqlite")
    ask = asked_of(sqlite3, path) if kind == "sqlite" else asked_of_postgres(server)
    place = Place(path if kind == "sqlite" else server, "scores", ask)
    if kind == "postgresql":
        ask("DROP TABLE IF EXISTS scores")
    place.predict(shop / "other", shop / "new.parquet")
    table = SqliteTable if kind == "sqlite" else PostgresTable
    real, began = table.commit, threading.Barrier(2)

    def slow(self, connection):
        time.sleep(0.5)
        real(self, connection)

    def one():
        began.wait()
        place.predict(shop / "run", shop / "new.parquet")

    monkeypatch.setattr(table, "commit", slow)
    both = [threading.Thread(target=one) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert place.count() == 2 * N


@needs_postgres
def test_a_password_is_in_no_row_and_in_no_word(shop, server, tmp_path, capfd):
    from fewpass.flows import cli

    host = server.partition("host=")[2]
    address = f"postgresql://tester:s3cretg3h3im@/postgres?host={host}"
    ask = asked_of_postgres(server)
    ask("DROP TABLE IF EXISTS scores, visits")
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("visits", pyarrow.parquet.read_table(shop / "new.parquet").to_reader())
        connection.commit()
    words = ["predict", str(shop / "run"), address, address, "--table", "scores"]
    assert cli.main([*words, "--query", "visits", "--keep", "id"]) == 0
    for wrong in (address.replace("host=", "host=/nowhere"), address.replace("@/", "@%zz/")):
        assert cli.main([*words[:3], wrong, *words[4:], "--query", "visits"]) == 2
    said = "".join(capfd.readouterr())
    assert "g3h3im" not in said
    assert ask("SELECT DISTINCT source FROM scores") == [("postgresql:///postgres visits",)]


def test_a_table_of_delta_lake_in_an_object_store(shop, monkeypatch):
    with object_store("bucket") as store:
        monkeypatch.setitem(fsspec.config.conf, "s3", store.options)
        for _ in range(2):
            fewpass.predict(shop / "run", shop / "new.parquet", "s3://bucket/p.delta", keep=["id"])
        options = store_settings(store.fs)
        table = DeltaTable("s3://bucket/p.delta", storage_options=options)
        found = pa.table(QueryBuilder().register("t", table).execute("SELECT id FROM t"))
    assert sorted(found["id"].to_pylist()) == list(range(N))
