"""Tables of Delta Lake and Iceberg, made by their own libraries, and by hand where these write no such file."""

import json
import shutil
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from fewpass.flows import cli
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.format_guess import reader_class
from fewpass.pipeline.tables.stream.sources import read_first_rows
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import concatenate
from testing.object_store import object_store

N = 2000


def visits(start=0, n=N, **more):
    ids = np.arange(start, start + n)
    columns = {
        "id": ids, "country": [f"c{k % 5}" for k in ids], "spent": ids * 1.5, "bought": ids % 3 == 0,
        "year": 2024 + ids % 2,
    }  # fmt: skip
    return pa.table(columns | {name: make(ids) for name, make in more.items()})


def cells(address, piece_bytes=1 << 14, storage_options=None, **options):
    """All rows by column in the order of their ids, and the pieces they came in."""
    found = find([str(address)], storage_options)
    rows = reader_class(found[0].format)(found, SourceOptions(**options), Expected())
    used = range(len(rows.names))
    pieces = list(rows.pieces(piece_bytes, used))
    parts = [pa.table(list(rows.cells(p, used).columns), list(rows.names)) for p in pieces]
    return pa.concat_tables(parts).sort_by("id"), pieces


def assert_same(ours, theirs):
    theirs = pa.table(theirs).sort_by("id")
    assert ours.column_names == theirs.column_names
    assert ours.to_pylist() == theirs.to_pylist()


# --- Delta Lake --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def delta(tmp_path_factory):
    """Versions: 0 rows, 1 more of them with one more column, 2 without some."""
    place = str(tmp_path_factory.mktemp("delta") / "visits")
    write_deltalake(place, visits(), partition_by=["year"])
    write_deltalake(place, visits(N, age=lambda ids: ids % 80), mode="append", schema_mode="merge")
    DeltaTable(place).delete("id % 10 = 3")
    return place


@pytest.mark.parametrize("version", [None, 0, 1, 2])
def test_rows_of_delta_are_those_of_its_library(delta, version):
    ours, pieces = cells(delta, table_version=version)
    assert_same(ours, DeltaTable(delta, version=version).to_pyarrow_table())
    assert all(piece.n_bytes <= 1 << 14 for piece in pieces) and len(pieces) > 4
    again, _ = cells(delta, piece_bytes=1 << 20, table_version=version)
    assert again.equals(ours)


def test_plain_numbers_of_delta_are_those_of_its_files(tmp_path):
    X = np.random.default_rng(0).standard_normal((500, 6))
    table = pa.table({f"x{k}": X[:, k] for k in range(6)} | {"y": np.arange(500) % 2})
    write_deltalake(str(tmp_path / "d"), table)
    (tmp_path / "copy").mkdir()
    for file in (tmp_path / "d").glob("*.parquet"):
        shutil.copy(file, tmp_path / "copy")
    read = []
    for place in ("d", "copy"):
        source = open_source([str(tmp_path / place)], SourceOptions(label="y"))
        read.append(concatenate([source.parse(piece).table for piece in source.pieces(1 << 12)]))
        assert source.recipe is None
    for ours, theirs in zip(*read, strict=True):
        assert (ours is theirs is None) or (ours == theirs).all()


def z85(data):
    digits = ("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
              ".-:+=^!/*?&<>()[]{}@%$#")  # fmt: skip
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(digits[w // 85**k % 85] for w in words for k in (4, 3, 2, 1, 0))


def delta_by_hand(place, features, *, deleted=(), renamed=None):
    """A table of one file, maybe with rows deleted by a vector, or columns that the file calls otherwise."""
    from pyroaring import BitMap

    (place / "_delta_log").mkdir(parents=True)
    table = pa.table({"id": np.arange(9), "spent": np.arange(9.0)})
    called = renamed or {}
    pq.write_table(
        table.rename_columns([called.get(name, name) for name in table.column_names]),
        place / "part 1.parquet", row_group_size=4,
    )  # fmt: skip
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {
            "delta.columnMapping.id": k, "delta.columnMapping.physicalName": called.get(name, name),
        }}
        for k, (name, kind) in enumerate({"id": "long", "spent": "double"}.items(), 1)
    ]  # fmt: skip
    vector = struct.pack("<iqi", 1681511377, 1, 0) + BitMap(deleted).serialize()
    configuration = {"delta.columnMapping.mode": "name"} if renamed else {}
    add = {"path": "part%201.parquet", "partitionValues": {}, "modificationTime": 1,
           "size": (place / "part 1.parquet").stat().st_size, "dataChange": True,
           "stats": json.dumps({"numRecords": 9})}  # fmt: skip
    if deleted:
        add["deletionVector"] = {
            "storageType": "i", "pathOrInlineDv": z85(vector + bytes(-len(vector) % 4)),
            "sizeInBytes": len(vector), "cardinality": len(deleted),
        }  # fmt: skip
    log = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                      "writerFeatures": features}},
        {"metaData": {"id": "954700e8-462d-4adc-b2a0-0d7a1647f5a5", "createdTime": 1,
                      "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "schemaString": json.dumps({"type": "struct", "fields": fields}),
                      "configuration": configuration}},
        {"add": add},
    ]  # fmt: skip
    (place / f"_delta_log/{0:020d}.json").write_text("\n".join(map(json.dumps, log)))
    return place


def test_columns_that_files_call_otherwise_have_the_tables_names(tmp_path):
    renamed = {"id": "col-1", "spent": "col-2"}
    place = delta_by_hand(tmp_path / "d", ["deletionVectors", "columnMapping"], renamed=renamed)
    for piece_bytes in (1 << 14, 64):
        ours, _ = cells(place, piece_bytes=piece_bytes)
        assert ours.to_pydict() == {"id": [*range(9)], "spent": [float(k) for k in range(9)]}


def test_fields_inside_of_columns_that_files_call_otherwise_have_the_tables_names(tmp_path):
    renamed = {"id": "col-1", "spent": "col-2"}
    place = delta_by_hand(tmp_path / "d", ["columnMapping"], renamed=renamed)
    log = place / f"_delta_log/{0:020d}.json"
    inner = {"name": "euro", "type": "double", "nullable": True,
             "metadata": {"delta.columnMapping.id": 3,
                          "delta.columnMapping.physicalName": "col-3"}}  # fmt: skip
    column = json.dumps({"type": "struct", "fields": [inner]})
    log.write_text(log.read_text().replace(json.dumps('"double"')[1:-1], json.dumps(column)[1:-1]))
    spent = [{"col-0": "gone", "col-3": k * 1.5} for k in range(9)]
    pq.write_table(pa.table({"col-1": range(9), "col-2": spent}), place / "part 1.parquet")
    ours, _ = cells(place)
    assert ours.to_pydict() == {"id": [*range(9)], "spent.euro": [k * 1.5 for k in range(9)]}


DOTTED = {"id": [*range(9)], "a": [k * 1.5 for k in range(9)], "a.b": [k % 2 for k in range(9)]}


@pytest.mark.parametrize("structure", [False, True])
def test_columns_whose_names_begin_as_others_do_are_columns_of_their_own(
    tmp_path, catalog, structure
):
    rows = pa.table(DOTTED)
    if structure:
        rows = rows.set_column(1, "a", pa.array([{"c": number} for number in DOTTED["a"]]))
    write_deltalake(str(tmp_path / "d"), rows)
    iceberg = made(catalog, rows).metadata_location.removeprefix("file://")
    for place in (tmp_path / "d", iceberg):
        ours, _ = cells(place, piece_bytes=64)
        assert [*ours.to_pydict().values()] == [*DOTTED.values()]
        assert ours.column_names == ["id", "a.c" if structure else "a", "a.b"]


def test_rows_that_a_deletion_vector_names_are_refused(tmp_path):
    place = delta_by_hand(tmp_path / "d", ["deletionVectors"], deleted=[0, 3, 4, 8])
    with pytest.raises(BadInput, match=r"deletion vectors, which are not read.*DuckDB"):
        cells(place)


def test_what_asks_for_more_than_is_known_is_refused(tmp_path, delta):
    place = delta_by_hand(tmp_path / "d", ["rowsInReverse"])
    with pytest.raises(BadInput, match="rowsInReverse"):
        cells(place)
    with pytest.raises(BadInput, match="cannot be read"):
        cells(delta, table_version=99)
    with pytest.raises(BadInput, match="table of delta"):
        open_source([delta], SourceOptions(format="parquet"))
    with pytest.raises(BadInput, match="no table of delta"):
        open_source([str(next((tmp_path / "d").glob("*.parquet")))], SourceOptions(format="delta"))
    with pytest.raises(BadInput, match="one table at a time"):
        open_source([delta, delta], SourceOptions())


def test_an_ingest_names_its_version_and_reads_it_again_when_the_table_has_moved_on(tmp_path):
    place = str(tmp_path / "table")
    write_deltalake(place, visits())
    made = IngestPlan(sources=(place,), dataset=str(tmp_path / "a"), options={"label": "bought"})
    result = ingest(made)
    assert any("version 0 of the table" in note for note in result.notes)
    first = Dataset.open(made.dataset)
    assert first.schema.reading["table_version"] == "0"
    write_deltalake(place, visits(N), mode="append")
    with pytest.raises(BadInput):  # the data set is there, of another version
        ingest(made)
    options = {"label": "bought", "table_version": 0}
    again = IngestPlan(sources=(place,), dataset=str(tmp_path / "b"), options=options)
    ingest(again)
    for k in range(first.n_chunks):
        ours, theirs = first.read_stored(k), Dataset.open(again.dataset).read_stored(k)
        for a, b in zip(ours, theirs, strict=True):
            assert (a is b is None) or (a == b).all()


def test_a_training_that_goes_on_reads_the_version_that_it_began_with(tmp_path):
    place = str(tmp_path / "table")
    write_deltalake(place, visits())
    reading = SourceReading(sources=(place,), options={"label": "bought"})
    begun = read_first_rows(TrainingPlan(dataset=place, lam="1/n", source=reading))
    begun.close()
    assert begun.plan.source.options.table_version == "0"
    write_deltalake(place, visits(N), mode="append")
    resumed = read_first_rows(begun.plan, again=True)
    resumed.close()
    anew = read_first_rows(TrainingPlan(dataset=place, lam="1/n", source=reading))
    anew.close()
    print_of = lambda rows: rows.dataset.manifest.fingerprint  # noqa: E731
    assert print_of(resumed) == print_of(begun) != print_of(anew)
    assert resumed.dataset.n_rows == begun.dataset.n_rows


def test_commands_take_a_delta_table_as_any_source(delta, tmp_path, capsys):
    run, out = str(tmp_path / "run"), str(tmp_path / "out.parquet")
    words = ["--label", "bought", "--table-version", "1"]
    assert cli.main(["train", delta, run, *words]) == 0
    assert cli.main(["evaluate", run, delta, *words]) == 0
    assert cli.main(["predict", run, delta, out, "--keep", "id"]) == 0
    assert len(pq.read_table(out)) == DeltaTable(delta).to_pyarrow_table().num_rows
    assert cli.main(["predict", run, delta, f"{tmp_path}/folder/"]) != 0
    assert "is a table" in capsys.readouterr().err


def test_a_table_in_an_object_store_is_read_with_the_options_given(delta):
    with object_store("bucket") as store:
        store.fs.put(delta, "bucket/visits", recursive=True)
        ours, _ = cells("s3://bucket/visits", storage_options=store.options)
    assert_same(ours, DeltaTable(delta).to_pyarrow_table())


# --- Iceberg -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """A catalog with a table: rows, a column renamed, widened and added, more rows, some deleted."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.types import DoubleType, LongType

    place = tmp_path_factory.mktemp("iceberg")
    catalog = SqlCatalog(
        "shop", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/warehouse"
    )
    catalog.create_namespace("db")
    first = visits().set_column(2, "spent", pa.array(np.arange(N) * 1.5, pa.float32()))
    table = catalog.create_table("db.visits", first.schema)
    with table.update_spec() as spec:
        spec.add_identity("year")
    table.append(first)
    with table.update_schema() as schema:
        schema.rename_column("country", "land")
        schema.update_column("spent", DoubleType())
        schema.add_column("age", LongType())
    more = visits(N, age=lambda ids: ids % 80).rename_columns({"country": "land"})
    table.append(more.select(table.schema().as_arrow().names))
    table.delete("id < 100")
    yield catalog, place
    catalog.engine.dispose()


def test_rows_of_iceberg_are_those_of_its_library(warehouse, monkeypatch):
    catalog, place = warehouse
    table = catalog.load_table("db.visits")
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{place}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read when it was imported
    by_path = table.metadata_location.removeprefix("file://")
    for snapshot in (None, *(one.snapshot_id for one in table.snapshots())):
        theirs = table.scan(snapshot_id=snapshot).to_arrow()
        ours, pieces = cells(by_path, table_version=snapshot)
        assert_same(ours, theirs)
        assert all(piece.n_bytes <= 1 << 14 for piece in pieces) and len(pieces) > 4
    assert_same(cells("iceberg://shop/db.visits")[0], table.scan().to_arrow())


def test_columns_of_now_are_read_and_those_of_a_snapshot_where_it_is_named(tmp_path):
    """A column that was deleted without any new rows; a training that goes on reads the same."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/own.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.visits", visits().schema)
    table.append(visits())
    for change in (lambda schema: schema.delete_column("spent"),
                   lambda schema: schema.rename_column("country", "land")):  # fmt: skip
        with table.update_schema(allow_incompatible_changes=True) as schema:
            change(schema)
    place = table.metadata_location.removeprefix("file://")
    snapshot = table.current_snapshot().snapshot_id
    assert_same(cells(place)[0], table.scan().to_arrow())
    assert_same(
        cells(place, table_version=snapshot)[0], table.scan(snapshot_id=snapshot).to_arrow()
    )
    reading = SourceReading(sources=(place,), options={"label": "bought"})
    begun = read_first_rows(TrainingPlan(dataset=place, source=reading))
    begun.close()
    resumed = read_first_rows(begun.plan, again=True)
    resumed.close()
    assert "spent" not in {column.name for column in begun.dataset.schema.columns}
    assert resumed.dataset.manifest.fingerprint == begun.dataset.manifest.fingerprint
    with pytest.raises(BadInput, match="cannot be read"):
        cells(place, table_version=f"{snapshot}/99")
    catalog.engine.dispose()


def made(catalog, table, by=None):
    """A table of Iceberg with those rows, maybe in files by the values of a column."""
    own = catalog.create_table("db.own", table.schema)
    if by:
        with own.update_spec() as spec:
            spec.add_identity(by)
    own.append(table)
    return own


@pytest.fixture
def catalog(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/own.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


def test_fields_inside_of_columns_are_found_by_their_ids(catalog):
    spent = [{"euro": k, "cents": 100 + k} for k in range(9)]
    table = made(catalog, pa.table({"id": range(9), "spent": spent}))
    for old, new in (("euro", "old"), ("cents", "euro"), ("old", "cents")):
        with table.update_schema() as schema:
            schema.rename_column(f"spent.{old}", new)
    ours, _ = cells(table.metadata_location.removeprefix("file://"))
    assert_same(ours, table.scan().to_arrow().flatten())
    assert ours["spent.euro"].to_pylist() == [100 + k for k in range(9)]


def test_names_of_fields_tell_where_files_have_no_ids(catalog, tmp_path):
    rows = pa.table({"id": range(9), "spent": [{"euro": k} for k in range(9)]})
    table = made(catalog, rows.slice(0, 0))
    names = table.schema().name_mapping.model_dump_json()
    with table.transaction() as change:
        change.set_properties(**{"schema.name-mapping.default": names})
    pq.write_table(rows, tmp_path / "rows.parquet")
    table.add_files([f"file://{tmp_path}/rows.parquet"])
    with table.update_schema() as schema:
        schema.rename_column("spent.euro", "dollars")
    ours, _ = cells(table.metadata_location.removeprefix("file://"))
    assert ours.to_pydict() == {"id": [*range(9)], "spent.dollars": [*range(9)]}


def test_a_table_of_iceberg_may_have_a_file_for_each_day(catalog):
    days = pa.array([20000 + k % 3 for k in range(9)], pa.int32()).cast(pa.date32())
    table = made(catalog, pa.table({"id": range(9), "day": days}), by="day")
    assert_same(cells(table.metadata_location.removeprefix("file://"))[0], table.scan().to_arrow())


def test_a_folder_of_iceberg_is_read_by_its_version_hint_alone(warehouse, tmp_path):
    catalog, _ = warehouse
    location = catalog.load_table("db.visits").metadata_location
    folder = location.removeprefix("file://").partition("/metadata/")[0]
    with pytest.raises(BadInput, match=r"without a version hint.*\.metadata\.json"):
        find([folder])
    copy = tmp_path / "visits"
    shutil.copytree(folder, copy)
    (copy / "metadata/version-hint.text").write_text(location.rpartition("/")[2])
    assert_same(cells(copy)[0], catalog.load_table("db.visits").scan().to_arrow())
    with pytest.raises(BadInput, match="has no snapshot 7"):
        cells(copy, table_version=7)


def with_deleted_rows(table, place):
    """The metadata of a table whose newest snapshot deletes rows of one file by their positions."""
    from pyiceberg import manifest as of

    data = next(iter(table.scan().plan_files())).file
    positions = np.array([0, 5, data.record_count - 1])
    deletes = pa.table({"file_path": [data.file_path] * 3, "pos": positions})
    pq.write_table(deletes, place / "deletes.parquet")
    file = of.DataFile.from_args(
        content=of.DataFileContent.POSITION_DELETES, file_path=f"file://{place}/deletes.parquet",
        file_format=of.FileFormat.PARQUET, partition=data.partition, record_count=3,
        file_size_in_bytes=(place / "deletes.parquet").stat().st_size, spec_id=data.spec_id,
    )  # fmt: skip
    file.spec_id = data.spec_id
    before = table.current_snapshot()
    numbers = {"snapshot_id": before.snapshot_id + 1, "sequence_number": 99}

    class Deletes(of.ManifestWriterV2):
        def content(self):
            return of.ManifestContent.DELETES

    spec = table.specs()[data.spec_id]
    output = table.io.new_output(f"file://{place}/deletes.avro")
    with Deletes(spec, table.schema(), output, numbers["snapshot_id"], "null") as writer:
        writer.add_entry(of.ManifestEntry.from_args(
            status=of.ManifestEntryStatus.ADDED, data_file=file, **numbers))  # fmt: skip
    listed = table.io.new_output(f"file://{place}/list.avro")
    with of.write_manifest_list(
        2, listed, numbers["snapshot_id"], before.snapshot_id, 99, "null"
    ) as manifests:
        manifests.add_manifests([*before.manifests(table.io), writer.to_manifest_file()])
    document = json.loads(table.metadata.model_dump_json())
    newest = dict(document["snapshots"][-1])
    newest |= {"snapshot-id": numbers["snapshot_id"], "sequence-number": 99,
               "manifest-list": f"file://{place}/list.avro"}  # fmt: skip
    document["snapshots"].append(newest)
    document |= {"current-snapshot-id": numbers["snapshot_id"], "last-sequence-number": 99}
    document["refs"]["main"]["snapshot-id"] = numbers["snapshot_id"]
    path = place / "v9.metadata.json"
    path.write_text(json.dumps(document))
    return path


def test_rows_that_a_file_of_deletes_names_are_gone(warehouse, tmp_path):
    from pyiceberg.table import StaticTable

    table = warehouse[0].load_table("db.visits")
    path = with_deleted_rows(table, tmp_path)
    theirs = StaticTable.from_metadata(str(path)).scan().to_arrow()
    assert theirs.num_rows == table.scan().to_arrow().num_rows - 3
    for piece_bytes in (1 << 14, 1 << 10):
        assert_same(cells(path, piece_bytes=piece_bytes)[0], theirs)
