"""Rows of databases: SQLite, and a real PostgreSQL that these tests start."""

import datetime as dt
import json
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pyarrow as pa
import pytest

import fewpass
from fewpass.flows import cli
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.databases import cancellable
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.format_guess import reader_class
from fewpass.pipeline.tables.stream.sources import read_first_rows
from fewpass.storage.dataset import Dataset
from testing.postgres_server import postgres_server, programs

needs_postgres = pytest.mark.skipif(
    programs() is None and "CI" not in os.environ, reason="needs a PostgreSQL"
)
N = 3000
BY_ID = "SELECT id, country, spent, bought, day FROM visits ORDER BY id"


def row(i):
    country = None if i % 7 == 0 else ("Bénin", "Perú", "日本")[i % 3]
    return i, country, i * 1.25, i % 3 == 0, f"2026-01-{1 + i % 28:02d}"


@pytest.fixture(scope="module")
def lite(tmp_path_factory):
    path = tmp_path_factory.mktemp("lite") / "visits.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE visits (id INTEGER, country, spent, bought, day)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", map(row, range(N)))
    connection.commit()
    connection.close()
    return path


@pytest.fixture(scope="module")
def server():
    from adbc_driver_postgresql import dbapi

    with postgres_server() as address:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE visits (id int, country text, spent numeric(12, 2), bought boolean, "
                "day date, mark uuid, tags int[])"
            )
            for start in range(0, N, 500):
                rows = [row(i) for i in range(start, start + 500)]
                cells = ", ".join(
                    f"({i}, {'NULL' if c is None else repr(c)}, {s}, {b}, '{d}', "
                    f"'00000000-0000-0000-0000-{i:012d}', '{{{i},{i}}}')"
                    for i, c, s, b, d in rows
                )
                cursor.execute(f"INSERT INTO visits VALUES {cells}")
            connection.commit()
        yield address


def cells(address, query=None, piece_bytes=1 << 16):
    """All rows by column, as Python has them, and the pieces they came in."""
    (found,) = find([str(address)])
    word = "sqlite" if found.store else "postgresql"
    rows = reader_class(word)([found], SourceOptions(query=query), Expected())
    used = range(len(rows.names))
    pieces = list(rows.pieces(piece_bytes, used))
    parts = [rows.cells(piece, used).columns for piece in pieces]
    columns = [pa.chunked_array([part[k] for part in parts]).to_pylist() for k in used]
    return dict(zip(rows.names, columns, strict=True)), pieces


def expected(*, text_days=False):
    ids, countries, spent, bought, days = map(list, zip(*map(row, range(N)), strict=True))
    if not text_days:
        days = [dt.date.fromisoformat(day) for day in days]
    return {"id": ids, "country": countries, "spent": spent, "bought": bought, "day": days}


COMMENTED = f"/* of all */ -- by id\n {BY_ID} /* ; */"


@pytest.mark.parametrize(
    "query", [None, "visits", '"visits"', BY_ID, f"{BY_ID}; -- of all"[:-10], COMMENTED]
)
def test_rows_of_sqlite_are_those_of_its_table(lite, query):
    found, pieces = cells(lite, query)
    assert found == expected(text_days=True)
    assert len(pieces) > 2 and all(piece.n_bytes <= 1 << 16 for piece in pieces)


def test_types_of_sqlite_are_those_of_all_its_values(tmp_path):
    path = tmp_path / "mixed.db"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE t ("a b", c, d, e)')
        early = [(None, 1, 1, None)] * 5000
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [*early, ("x", 1.5, "u", None)])
    connection.close()
    found, _ = cells(path)
    last = {name: column[-1] for name, column in found.items()}
    assert last == {"a b": "x", "c": 1.5, "d": "u", "e": None}
    assert found["d"][0] == "1"


@pytest.mark.parametrize(("beside", "beyond"), [(None, 2), (0.5, 0), (0.5, 2), (1e300, 0)])
def test_kept_whole_numbers_of_sqlite_are_no_others(tmp_path, beside, beyond):
    """One fraction makes doubles of all: those that are not exact are refused."""
    path, largest = tmp_path / "mixed.db", 2**53 - 1 + beyond
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "we""ird" (id, y)')
        ids = [(largest, 1), (7, 0)] + [(beside, 1)] * (beside is not None)
        connection.executemany('INSERT INTO "we""ird" VALUES (?, ?)', ids)
    connection.close()
    (found,) = find([str(path)])
    rows = reader_class("sqlite")([found], SourceOptions(), Expected(passed=("id",)))
    (piece,) = rows.pieces(1 << 16, [0])
    if beside is not None and beyond:
        with pytest.raises(BadInput, match=r"row 1 .* 'id' is kept.*CAST\(id AS text\)"):
            rows.cells(piece, [0])
    else:
        assert rows.cells(piece, [0]).columns[0].to_pylist()[:2] == [largest, 7]


def test_a_file_of_sqlite_that_is_written_meanwhile_is_refused(tmp_path, lite):
    path = tmp_path / "copy.sqlite"
    path.write_bytes(lite.read_bytes())
    (found,) = find([str(path)])
    rows = reader_class("sqlite")([found], SourceOptions(), Expected())
    pieces = rows.pieces(1 << 12, range(5))
    next(pieces)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(OSError, match="written to"):
        list(pieces)


@needs_postgres
@pytest.mark.parametrize("query", ["visits", BY_ID])
def test_rows_of_postgresql_are_those_of_its_table(server, query):
    found, pieces = cells(server, query)
    assert {name: found[name] for name in expected()} == expected()
    assert len(pieces) > 2 and all(piece.n_bytes <= 1 << 16 for piece in pieces)
    if query == "visits":
        assert found["mark"][7] == f"00000000-0000-0000-0000-{7:012d}"
        assert found["tags"][7] == [7, 7]


@needs_postgres
def test_kept_numerics_that_doubles_are_not_exact_for_are_refused(server):
    for largest, is_refused in ((2**53 - 1, False), (2**53 + 1, True)):
        query = f"SELECT {largest}::numeric AS id, 1 AS y"
        (found,) = find([server])
        rows = reader_class("postgresql")(
            [found], SourceOptions(query=query), Expected(passed=("id",))
        )
        (piece,) = rows.pieces(1 << 16, [0])
        if is_refused:
            with pytest.raises(BadInput, match=r"row 1 .* 'id' is kept.*CAST\(id AS text\)"):
                rows.cells(piece, [0])
        else:
            assert rows.cells(piece, [0]).columns[0].to_pylist() == [largest]


@needs_postgres
def test_money_is_no_cents_and_infinite_dates_are_missing(server):
    query = (
        "SELECT 12.5::money AS cost, d::date AS day, d::timestamp AS at, d::timestamptz AS tz, "
        "'x'::bytea AS raw FROM (VALUES ('infinity'), ('-infinity'), ('2026-01-02')) AS t (d)"
    )
    found, _ = cells(server, query)
    assert found["cost"] == [12.5] * 3 and found["raw"] == ["\\x78"] * 3
    for name in ("day", "at", "tz"):
        assert [f"{cell}"[:10] for cell in found[name]] == ["None", "None", "2026-01-02"]


@needs_postgres
def test_one_reading_sees_one_state_and_another_reading_is_another_source(server):
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE growing AS SELECT i, i % 2 AS y FROM generate_series(1, 900) i"
        )
        options = SourceOptions(label="y", query="SELECT * FROM growing ORDER BY i")
        before = open_source([server], options)
        stamp = before.files[0].stamp
        cursor.execute("INSERT INTO growing VALUES (901, 1)")
        assert sum(before.parse(piece).table.n_rows for piece in before.pieces(1 << 12)) == 900
        assert before.files[0].stamp == stamp
        assert open_source([server], options).files[0].stamp != stamp


@needs_postgres
def test_rows_of_a_query_are_new_at_every_reading(server, tmp_path):
    """Where that would double or mix rows it is refused, with advice; otherwise all is read anew."""
    options = {"label": "bought", "query": BY_ID}
    dataset = str(tmp_path / "set")
    result = fewpass.ingest(server, dataset, **options)
    assert any("begins anew" in note for note in result.notes)
    with pytest.raises(BadInput, match="overwrite"):
        fewpass.ingest(server, dataset, **options)
    with pytest.raises(BadInput, match=r"cannot be told.*`again=true`"):
        fewpass.append(dataset, server, query=BY_ID)
    assert fewpass.append(dataset, server, query=BY_ID, again=True).appended == N
    few = BY_ID.replace("ORDER", "WHERE id < 7 ORDER")
    assert fewpass.append(dataset, server, query=few).appended == 7
    assert Dataset.open(dataset).n_rows == 2 * N + 7
    reading = SourceReading(sources=(server,), options=options)
    plan = TrainingPlan(dataset=server, lam="1/n", source=reading)
    begun = read_first_rows(plan)
    with pytest.raises(BadInput, match=r"so this training cannot go on.*ingest the rows"):
        read_first_rows(begun.plan, again=True)
    begun.close()


@needs_postgres
def test_readings_at_once_and_readings_that_stop_early_do_not_disturb_each_other(server):
    (found,) = find([server])
    query = "SELECT i, repeat('x', 100) AS x FROM generate_series(1, 100000) i ORDER BY i"
    rows = reader_class("postgresql")([found], SourceOptions(query=query), Expected())
    one, other = (rows.pieces(1 << 16, [0, 1]) for _ in range(2))
    next(one)
    assert rows.expands_to() > 1e6
    for _ in range(3):
        next(other)
    other.close()
    read = 0
    for piece in one:
        read = piece.first_line + piece.content.num_rows - 1
    assert read == 100_000


@needs_postgres
def test_a_data_set_of_postgresql_is_that_of_its_rows_in_a_file(server, lite, tmp_path):
    options = {"label": "bought", "query": BY_ID, "column": {"day": "date"}}
    sets = {}
    for name, source in (("pg", server), ("lite", str(lite))):
        plan = IngestPlan(sources=(source,), dataset=str(tmp_path / name), options=options)
        assert ingest(plan).rows == N
        sets[name] = Dataset.open(plan.dataset)
    chunks = [[one.read_stored(k) for k in range(one.n_chunks)] for one in sets.values()]
    for ours, theirs in zip(*chunks, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            assert a is None or (a == b).all()


@needs_postgres
def test_a_model_learns_from_a_database_and_predicts_it_and_no_password_is_kept(
    server, tmp_path, capfd
):
    secret = "g3h3im"
    address = server.replace("tester@", f"tester:{secret}@")
    run, out = str(tmp_path / "run"), str(tmp_path / "out.parquet")
    train = ["train", address, run, "--query", BY_ID, "--label", "bought"]
    assert cli.main(train) == 0
    assert cli.main(["predict", run, address, out, "--query", BY_ID, "--keep", "id"]) == 0
    assert cli.main(["evaluate", run, address, "--query", BY_ID, "--label", "bought"]) == 0
    dataset = str(tmp_path / "set")
    assert cli.main(["ingest", address, dataset, "--query", BY_ID, "--label", "bought"]) == 0
    assert cli.main(["train", address, run, "--query", "nothing", "--label", "bought"]) != 0
    printed = capfd.readouterr()
    assert secret not in printed.out + printed.err
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert pa.parquet.read_table(out)["id"].to_pylist() == list(range(N))
    assert json.loads((tmp_path / "run/run.json").read_text())


@needs_postgres
@pytest.mark.parametrize(
    ("query", "why"),
    [
        (None, "Say which of its rows"),
        ("nowhere", "nowhere"),
        ("DELETE FROM visits", "neither the name of a table nor a SELECT"),
        ("WITH gone AS (DELETE FROM visits RETURNING *) SELECT * FROM gone", "cannot be read"),
        ("SELECT 1 / (id - 5) AS x, bought FROM visits", "division by zero"),
        ("SELECT id AS x, id AS x FROM visits", "x"),
    ],
)
def test_queries_that_give_no_rows_are_refused(server, query, why):
    with pytest.raises(BadInput, match=why):
        source = open_source([server], SourceOptions(label="bought", query=query))
        list(map(source.parse, source.pieces(1 << 16)))


def test_settings_of_other_formats_are_refused(lite, tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    with pytest.raises(BadInput, match="`query` is a setting of postgresql and sqlite"):
        open_source([str(tmp_path / "rows.csv")], SourceOptions(query="t"))
    with pytest.raises(BadInput, match="`table_version` is a setting of delta and iceberg"):
        open_source([str(lite)], SourceOptions(table_version=1))
    with pytest.raises(BadInput, match="has 2 tables"):
        path = tmp_path / "two.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE a (x)")
            connection.execute("CREATE TABLE b (x)")
        connection.close()
        open_source([str(path)], SourceOptions(label="x"))


def test_a_server_that_is_not_there_is_told_without_the_password():
    begin = time.monotonic()
    address = "postgresql://someone:g3h3im@127.0.0.1:9/db"
    with pytest.raises(BadInput, match="cannot be read") as refused:
        open_source([address], SourceOptions(query="visits"))
    assert "g3h3im" not in str(refused.value) and time.monotonic() - begin < 30


# -- what does not fit, and what does not end ------------------------------------------------------

SMALL = Budget.of(128_000_000)
MOST = SMALL.longest_row
LONG_CELLS = "CASE WHEN x = 1234 THEN {} ELSE 'z' END AS c, 'w' || x AS b, x % 2 AS y"
COUNTED = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c{}) SELECT {} FROM c"
SOME = " WHERE x < 3000"


def lite_of(path, query):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW v AS {query}")
        connection.commit()
    return str(path)


def rows_within(address, word, query=None, **options):
    (found,) = find([address])
    found = found._replace(budget=SMALL)
    options = SourceOptions(label="y", query=query, **options)
    return reader_class(word)([found], options, Expected(budget=SMALL))


def test_a_cell_of_sqlite_longer_than_a_row_may_be_is_refused_by_the_number_of_its_row(tmp_path):
    long = f"replace(hex(zeroblob({MOST // 2 + 1})), '00', 'ab')"
    made = COUNTED.format(SOME, LONG_CELLS.format(long))
    path = lite_of(tmp_path / "long.db", made)
    with pytest.raises(BadInput, match=r"row 1234: the row takes.*`drop`.*memory=\d+MB"):
        list(rows_within(path, "sqlite").pieces(1 << 20, range(3)))
    kept = rows_within(path, "sqlite", drop=("c",))
    read = [kept.names.index(name) for name in ("b", "y")]
    assert sum(piece.content.num_rows for piece in kept.pieces(1 << 20, read)) == 3000


def test_a_row_of_sqlite_whose_cells_are_too_long_together_is_refused(tmp_path):
    half = f"hex(zeroblob({MOST // 4 + 1}))"
    wide = ", ".join(f"{half} AS c{k}" for k in range(2))
    path = lite_of(tmp_path / "wide.db", f"SELECT 'a' AS c0, 'b' AS c1 UNION ALL SELECT {wide}")
    with pytest.raises(BadInput, match="row 2: the row takes"):
        list(rows_within(path, "sqlite").pieces(1 << 20, range(2)))


def test_texts_of_sqlite_are_fetched_by_their_bytes(tmp_path):
    made = "printf('%.*c', 100000, 'x') AS t, x AS y"
    rows = rows_within(lite_of(tmp_path / "texts.db", COUNTED.format(SOME, made)), "sqlite")
    part = rows.part(0)
    taken = [batch.nbytes for batch in part.batches(["t", "y"], 3000, 1 << 20)]
    assert sum(taken) > 3000 * 100_000 and max(taken) <= 1 << 20


@pytest.mark.parametrize("n", [498, 499, 500, 1999, 2000])
def test_so_many_columns_of_sqlite_are_read_as_it_can_have(tmp_path, n):
    path, names = tmp_path / "wide.db", [f"c{k}" for k in range(n)]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(names)})")
        connection.execute(f"INSERT INTO t VALUES ({', '.join(map(str, range(n)))})")
        connection.execute(f"INSERT INTO t VALUES ({', '.join(['NULL'] * (n - 1))}, 'x')")
        connection.commit()
    found, _ = cells(path)
    assert list(found) == names
    assert all(found[f"c{k}"] == [k, None] for k in range(n - 1))
    assert found[names[-1]] == [str(n - 1), "x"]


@needs_postgres
def test_a_row_of_postgresql_longer_than_it_may_be_is_refused_by_its_number(server):
    long = f"repeat('ab', {MOST // 2})"
    made = COUNTED.format(SOME, LONG_CELLS.format(long))
    rows = rows_within(server, "postgresql", made)
    with pytest.raises(BadInput, match=r"row 1234: the row takes.*`drop`.*memory=\d+MB"):
        list(rows.pieces(1 << 20, range(3)))
    read = [rows.names.index(name) for name in ("b", "y")]
    assert sum(piece.content.num_rows for piece in rows.pieces(1 << 20, read)) == 3000


class Struck(BaseException):
    """What a signal raises here."""


@pytest.fixture
def struck():
    """What has a signal raise in this thread, which waits by then."""

    def strike(*_):
        raise Struck

    def strike_soon():
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        return pytest.raises(Struck)

    before = signal.signal(signal.SIGUSR1, strike)
    yield strike_soon
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(60)
def test_a_view_of_sqlite_without_end_is_left_by_a_signal(tmp_path, struck):
    path = lite_of(tmp_path / "endless.db", COUNTED.format("", "x AS a, x % 2 AS y"))
    with struck():
        rows_within(path, "sqlite")


@needs_postgres
@pytest.mark.timeout(60)
def test_a_query_of_postgresql_without_end_is_left_by_a_signal(server, struck):
    """It is cancelled: what asks waits until the server has answered."""
    query = "SELECT count(*) AS a, 1 AS y FROM generate_series(1, 1000000000000) AS x"
    rows = rows_within(server, "postgresql", query)
    with struck():
        next(rows.pieces(1 << 20, range(2)))


@pytest.mark.timeout(60)
def test_what_cannot_be_cancelled_is_left_alone(struck):
    end = threading.Event()
    with struck():
        cancellable(end.wait)
    end.set()


# -- addresses -------------------------------------------------------------------------------------

PASSWORDS = (
    "50%OFFg3h3im", "g3h3im/r3st", "g3h3im@r3st", "g3h3im:r3st", "g3h3im#r3st", "g3h3im r3st",
    "12/g3h3im", "77/g3h3im@r3st", "g3h3im?sslmode=r3st", "g3h3im'r3st", 'g3h3im"r3st', "g3h3im]r3st",
    "%zzr3st", "g3h3im%20r3st", "g3h3im&r3st=r3st", "connection-g3h3im",
)  # fmt: skip
WAYS = (
    "postgresql://bob:{}@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?user=bob&password={}",
    "postgres://bob:{}@[::1]:1/db", "postgresql://bob:{}@127.0.0.1:99999/db",
    "postgresql://bob@127.0.0.1:1/db?passfile={0}&sslmode={0}",
    "postgresql://bob@127.0.0.1:1/db?service={}", "postgresql://127.0.0.1:1/db?{}",
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_no_word_of_a_secret_is_shown_whatever_libpq_makes_of_it(way, tmp_path, capfd):
    for password in PASSWORDS:
        address = way.format(password)
        words = ["ingest", address, str(tmp_path / "set"), "--query", "t", "--label", "y"]
        assert cli.main([*words, "--debug", "--verbose"]) != 0
        said = "".join(capfd.readouterr())
        assert "cannot be read" in said
        for word in ("g3h3im", "r3st", "OFF"):
            assert word not in said, (address, said)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"r3st" not in path.read_bytes()
