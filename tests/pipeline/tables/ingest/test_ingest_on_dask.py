"""An ingest by tasks of a cluster: the same data sets, refusals and notes as by threads."""

import gzip
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from distributed import LocalCluster
from pyarrow import csv, feather, parquet

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest import mapping
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.span_map import SpanMap
from fewpass.pipeline.tables.ingest.writing import GroupWriter
from fewpass.pipeline.tables.readers import arrow_rows, lines
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from testing.object_store import object_store

N, FILES = 900, 3


def table(first):
    rng = np.random.default_rng(first)
    X = rng.standard_normal((N, 5)).round(3)
    towns = np.array(["Graz", "Linz", 'a "quoted"\nname', None], object)[rng.integers(0, 4, N)]
    columns = {f"x{j}": x for j, x in enumerate(X.T.copy())}
    y = (X[:, 0] + rng.standard_normal(N) > 0.0).astype(np.int8)
    return pa.table(columns | {"town": pa.array(towns, pa.string()), "y": y})


def libsvm(rows):
    X = np.column_stack([rows.column(f"x{j}").to_numpy() for j in range(5)])
    y = rows.column("y").to_pylist()
    return "".join(
        f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) + "\n"
        for label, x in zip(y, X, strict=True)
    )


LABEL = {"label": "y"}
#: How a file is written, what it is called, how it is read, and how many spans three of them are.
KINDS = {
    "libsvm": (lambda t, p: p.write_text(libsvm(t)), "svm", {}, 3 * 3),
    "libsvm, marked": (
        lambda t, p: p.write_bytes(b"\xef\xbb\xbf" + libsvm(t).encode()), "svm", {}, 3 * 3,
    ),
    "packed libsvm": (
        lambda t, p: p.write_bytes(gzip.compress(libsvm(t).encode())), "svm.gz", {}, 3,
    ),
    "csv": (lambda t, p: csv.write_csv(t, p), "csv", LABEL, 3 * 3),
    "csv of numbers": (lambda t, p: csv.write_csv(t.drop("town"), p), "csv", LABEL, 3 * 3),
    "csv in another order": (
        lambda t, p: csv.write_csv(t.select(sorted(t.column_names, reverse=p.stem == "1")), p),
        "csv", LABEL, 3 * 3,
    ),
    "parquet": (
        lambda t, p: parquet.write_table(t, p, row_group_size=100), "parquet", LABEL, 3 * 3,
    ),
    "parquet of numbers": (
        lambda t, p: parquet.write_table(t.drop("town"), p, row_group_size=7), "parquet", LABEL, 9,
    ),
    "arrow": (lambda t, p: feather.write_feather(t, p, chunksize=100), "arrow", LABEL, 3),
    "jsonl": (
        lambda t, p: p.write_text("".join(f"{__import__('json').dumps(r)}\n" for r in t.to_pylist())),
        "jsonl", LABEL, 3 * 5,
    ),
}  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """Pieces of 2 kB, in spans of five."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(lines, "SPAN_BYTES", 10_000)
    monkeypatch.setattr(arrow_rows, "SPAN_BYTES", 10_000)


@pytest.fixture(scope="module")
def here():
    """Dask's threads of this process."""
    with open_executor(Execution(scheduler="local", threads=3)) as executor:
        yield executor


def plan_of(sources, place, **more):
    settings = {"chunk_bytes": "4kB", "test_fraction": 0.2} | more
    return IngestPlan(sources=tuple(map(str, sources)), dataset=str(place), **settings)


class StoppedError(Exception):
    """What ends an ingest in the middle."""


def stopped(*_):
    raise StoppedError


@pytest.mark.parametrize(
    ("kind", "shuffle"), [*((kind, True) for kind in KINDS), ("csv", False), ("parquet", False)]
)
def test_spans_and_their_records_make_the_set_that_threads_make(
    kind, shuffle, tmp_path, small, here, monkeypatch
):
    write, suffix, options, n_spans = KINDS[kind]
    files = [tmp_path / f"{k}.{suffix}" for k in range(FILES)]
    for k, file in enumerate(files):
        write(table(k), file)
    how = {"options": options, "shuffle": shuffle}
    expected = ingest(plan_of(files, tmp_path / "threads", **how))
    spans, mapped = [], mapping.map_span

    def noted(*given):
        spans.append(given)
        return mapped(*given)

    monkeypatch.setattr(mapping, "map_span", noted)
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(mapping.RowMapper, "_all_of", stopped)  # when all rows are in parts
        ingest(plan_of(files, tmp_path / "dask", **how), executor=here)
    monkeypatch.setattr(SpanMap, "map", stopped)
    made = ingest(plan_of(files, tmp_path / "dask", **how), executor=here)
    assert len(spans) >= 2 * n_spans
    assert (made.fingerprint, made.test_fingerprint) == (
        expected.fingerprint, expected.test_fingerprint,
    )  # fmt: skip
    assert (made.files, made.notes, made.rows) == (expected.files, expected.notes, expected.rows)
    assert not (tmp_path / "dask" / ".ingest").exists()


def test_cells_that_are_unlike_the_recipe_are_noted_by_whoever_reads_them(
    tmp_path, small, here, monkeypatch
):
    csv.write_csv(table(0), tmp_path / "before.csv")
    ingest(plan_of([tmp_path / "before.csv"], tmp_path / "before", options=LABEL))
    rows = table(1).to_pandas().astype({"x1": object})
    rows.loc[[3, 500], "x0"], rows.loc[[200, 700], "x1"] = None, ["much", "more"]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    how = {"options": LABEL, "like": str(tmp_path / "before"), "test_fraction": 0.0}
    expected = ingest(plan_of([tmp_path / "rows.csv"], tmp_path / "threads", **how))
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(mapping.RowMapper, "_all_of", stopped)
        ingest(plan_of([tmp_path / "rows.csv"], tmp_path / "dask", **how), executor=here)
    monkeypatch.setattr(SpanMap, "map", stopped)
    made = ingest(plan_of([tmp_path / "rows.csv"], tmp_path / "dask", **how), executor=here)
    assert made.notes == expected.notes and made.fingerprint == expected.fingerprint
    assert any("2 cells hold no number ('much', ...)" in note for note in made.notes)
    assert any("2 cells are missing" in note for note in made.notes)


def test_lines_of_spans_are_those_of_the_file(tmp_path, small, here):
    rows = libsvm(table(0)).splitlines()
    for k in range(300, 900, 40):
        rows[k] = "1 2:x"
    file = tmp_path / "rows.svm"
    file.write_text("\n".join(rows) + "\n")
    skipping = {"options": {"on_bad_row": "skip"}}
    expected = ingest(plan_of([file], tmp_path / "threads", **skipping))
    made = ingest(plan_of([file], tmp_path / "dask", **skipping), executor=here)
    assert made.skipped_rows == expected.skipped_rows
    assert (made.skipped, made.fingerprint) == (expected.skipped, expected.fingerprint)
    for executor in (None, here):
        with pytest.raises(BadInput, match=r"rows\.svm, line 301: the value in '2:x'"):
            ingest(plan_of([file], tmp_path / "refused"), executor=executor)


def rows_in_quotes(long):
    """Rows of three cells, of which some hold lines that look like rows of two or of three."""
    inside = "".join(f"{k},red,{k % 2}\n" for k in range(long // 9))
    return "".join(f'{k % 97},"{inside if k % 211 == 100 else "a"}",{k % 2}\n' for k in range(1200))


@pytest.mark.parametrize("long", [300, 9_000, 40_000])
def test_rows_that_only_seem_to_begin_in_a_span_are_read_where_they_do(
    long, tmp_path, small, here, monkeypatch
):
    """Nothing in front of a span says that it begins inside of quotes: it is guessed, and mended."""
    file = tmp_path / "rows.csv"
    file.write_text("x,word,y\n" + rows_in_quotes(long))
    monkeypatch.setattr(lines, "BEFORE_BYTES", 200)
    options = {"options": LABEL | {"quote": "double"}, "test_fraction": 0.0}
    expected = ingest(plan_of([file], tmp_path / "threads", **options))
    numbers, mapped = [], mapping.map_span
    with monkeypatch.context() as patch:
        patch.setattr(mapping, "map_span", lambda *span: numbers.append(span[1]) or mapped(*span))
        made = ingest(plan_of([file], tmp_path / "dask", **options), executor=here)
    assert (made.fingerprint, made.rows) == (expected.fingerprint, 1200)
    assert (len(numbers) > len({*numbers})) == (long > 300)  # some were mapped again
    file.write_text("x,word,y\n" + rows_in_quotes(long) + "7,b\n")
    refused = []
    for executor in (None, here):
        with pytest.raises(BadInput, match="row 1202") as caught:
            ingest(plan_of([file], tmp_path / "refused", **options), executor=executor)
        refused.append(str(caught.value))
    assert refused[0] == refused[1]


@pytest.mark.parametrize("long", [8, 900])
def test_pieces_of_row_groups_are_those_of_the_file(long, tmp_path, small, here, monkeypatch):
    """Long words make pieces of fewer rows, so that none begins where it was taken to."""
    file = tmp_path / "rows.parquet"
    rows = table(0)
    words = ["w" * (long if k % 50 > 30 else 8) + f"{k % 90}" for k in range(N)]
    parquet.write_table(rows.append_column("word", pa.array(words)), file, row_group_size=70)
    options = {"options": LABEL | {"column": {"word": "hash"}}}
    expected = ingest(plan_of([file], tmp_path / "threads", **options))
    numbers, mapped = [], mapping.map_span
    with monkeypatch.context() as patch:
        patch.setattr(mapping, "map_span", lambda *span: numbers.append(span[1]) or mapped(*span))
        made = ingest(plan_of([file], tmp_path / "dask", **options), executor=here)
    assert (made.fingerprint, made.rows) == (expected.fingerprint, expected.rows)
    assert (len(numbers) > len({*numbers})) == (long > 100)
    y = rows.column("y").to_pylist()
    bad = rows.set_column(rows.num_columns - 1, "y", pa.array([*y[:-1], None], pa.int8()))
    parquet.write_table(bad.append_column("word", pa.array(words)), file, row_group_size=70)
    refused = []
    for executor in (None, here):
        with pytest.raises(BadInput, match="row 900") as caught:
            ingest(plan_of([file], tmp_path / "refused", **options), executor=executor)
        refused.append(str(caught.value))
    assert refused[0] == refused[1]


def test_a_source_of_one_span_is_read_here_and_written_there(tmp_path, here):
    numbers = np.column_stack([table(0).column(f"x{j}").to_numpy() for j in range(5)])
    np.save(tmp_path / "rows.npy", np.column_stack([numbers, numbers[:, 0] > 0.0]))
    made = [
        ingest(plan_of([tmp_path / "rows.npy"], tmp_path / f"set{k}"), executor=executor)
        for k, executor in enumerate((None, here))
    ]
    assert made[0].fingerprint == made[1].fingerprint


@pytest.mark.parametrize(("kind", "name"), [(SpanMap, "map"), (GroupWriter, "written")])
def test_a_process_does_as_many_tasks_at_a_time_as_its_memory_allows(
    tmp_path, here, monkeypatch, kind, name
):
    X = np.random.default_rng(0).standard_normal((40_000, 125), np.float32)
    names = [f"f{k}" for k in range(125)]
    rows = pa.table(dict(zip(names, X.T, strict=True)) | {"y": X[:, 0] > 0})
    files = [tmp_path / f"{k}.parquet" for k in range(4)]
    for k, file in enumerate(files):
        parquet.write_table(rows[10_000 * k : 10_000 * (k + 1)], file)
    done, running, most = getattr(kind, name), [], []

    def noted(*given):
        running.append(given)
        most.append(len(running))
        time.sleep(0.2)
        try:
            return done(*given)
        finally:
            running.pop()

    monkeypatch.setattr(kind, name, noted)
    how = {"options": {"label": "y", "encode": "none"}, "chunk_bytes": "4MB", "memory": "128MB"}
    plan = plan_of(files, tmp_path / "set", **how, test_fraction=0.0)
    made = ingest(plan, executor=here)
    assert (made.rows, len(most) > 3, {*most}) == (40_000, True, {1})


def test_workers_of_which_one_is_killed_make_the_same_set(tmp_path):
    files = [tmp_path / f"{k}.csv" for k in range(6)]
    for k, file in enumerate(files):
        csv.write_csv(table(k), file)
    expected = ingest(plan_of(files, tmp_path / "threads", options=LABEL))
    with open_executor(Execution(workers=2, threads=1)) as executor, ThreadPoolExecutor(1) as pool:
        first = executor.result(executor.submit("pid", os.getpid))
        killed = []

        def kill(progress):
            if progress.phase == "write" and not killed:
                killed.append(pool.submit(os.kill, first, signal.SIGKILL))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fewpass.pipeline.tables.ingest.progress.REPORT_EVERY", 0.0)
            plan = plan_of(files, tmp_path / "dask", options=LABEL)
            made = ingest(plan, executor=executor, progress=kill)
    assert killed
    assert (made.fingerprint, made.test_fingerprint) == (
        expected.fingerprint, expected.test_fingerprint,
    )  # fmt: skip
    assert [*Dataset.open(made.dataset).verify()] == []


def test_a_set_that_is_there_needs_no_cluster(tmp_path, here):
    file = tmp_path / "rows.svm"
    file.write_text(libsvm(table(0)))
    plan, opened = plan_of([file], tmp_path / "set"), []

    @contextmanager
    def opening():
        opened.append(1)
        yield here

    made = [ingest(plan, executor=opening()) for _ in range(2)]
    assert made[0].fingerprint == made[1].fingerprint
    assert opened == [1]


@pytest.fixture
def pickling():
    """A worker that is given what another process could be given."""
    only = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(processes=False, **only) as cluster,
        open_executor(Execution(scheduler=cluster)) as executor,
    ):
        yield executor


def test_rows_go_through_the_store_that_the_set_is_in(tmp_path, pickling):
    file = tmp_path / "rows.svm"
    file.write_text(libsvm(table(0)))
    expected = ingest(plan_of([file], tmp_path / "threads"))
    with object_store("sets") as store:
        target = {"storage_options": store.options}
        made = ingest(plan_of([file], "s3://sets/data", **target), executor=pickling)
        left = Folder("s3://sets/data", store.options).list(".ingest")
    assert made.fingerprint == expected.fingerprint
    assert left == []
