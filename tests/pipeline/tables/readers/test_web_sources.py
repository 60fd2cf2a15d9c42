"""Sources on servers that behave badly: all rows come, or the source is refused by name."""

import gzip
import io
import os
import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.outputs import is_data_set
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.reading import stamps
from fewpass.pipeline.tables.readers import finding, open_source
from fewpass.pipeline.tables.stream.sources import is_source
from fewpass.storage.source_files import CutShort, SourceChanged, ranges, web_stream
from testing import web_server as answers
from testing.object_store import object_store
from testing.web_server import web_server

N = 900
X = np.random.default_rng(5).integers(1, 100, (N, 3)).astype(float)
Y = np.arange(N) % 2


def _buffered(write):
    out = io.BytesIO()
    write(out)
    return out.getvalue()


TABLE = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "target": Y})
SVM = "".join(f"{y} 1:{a:g} 2:{b:g} 3:{c:g}\n" for (a, b, c), y in zip(X, Y, strict=True)).encode()
CSV = (
    b"a,b,c,target\n"
    + "".join(f"{a:g},{b:g},{c:g},{y}\n" for (a, b, c), y in zip(X, Y, strict=True)).encode()
)
JSONL = "".join(
    f'{{"a": {a:g}, "b": {b:g}, "c": {c:g}, "target": {y}}}\n'
    for (a, b, c), y in zip(X, Y, strict=True)
).encode()
FILES = {
    "rows.svm": SVM,
    "rows.svm.gz": gzip.compress(SVM, mtime=0),
    "rows.csv": CSV,
    "rows.jsonl": JSONL,
    "rows.parquet": _buffered(
        lambda out: pa.parquet.write_table(TABLE, out, row_group_size=100, compression="none")
    ),
    "rows.arrow": _buffered(
        lambda out: pa.feather.write_feather(TABLE, out, compression="uncompressed", chunksize=100)
    ),
    "rows.npy": _buffered(lambda out: np.save(out, np.column_stack([X, Y]))),
    "rows.npz": _buffered(lambda out: np.savez(out, X=X, y=Y)),
}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """A few kilobytes are many ranges, and nobody waits."""
    monkeypatch.setattr(ranges, "FIRST_BYTES", 1 << 10)
    monkeypatch.setattr(ranges, "MOST_BYTES", 1 << 11)
    monkeypatch.setattr(ranges, "WAIT_S", 0.0)
    monkeypatch.setattr("fewpass.storage.source_files.web_stream.WAIT_S", 0.0)
    for where in ("web", "stores"):
        monkeypatch.setattr(f"fewpass.storage.source_files.{where}.BUFFER_BYTES", 1 << 9)


def opened(where, storage_options=None):
    label = None if re.search(r"\.(svm|npy|npz)", where) else "target"
    return open_source([where], SourceOptions(label=label), storage_options)


def rows_of(where, storage_options=None):
    """All arrays of a source's rows, as they are read piece by piece."""
    source = opened(where, storage_options)
    tables = [source.parse(piece).table for piece in source.pieces(2_000)]
    assert sum(table.n_rows for table in tables) == N
    return [part for table in tables for part in table if part is not None]


def same(found, expected):
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Rows of the files when they lie on a disk."""
    folder, found = tmp_path_factory.mktemp("rows"), {}
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
        found[name] = rows_of(str(folder / name))
    return found


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("answer", answers.TAKEN, ids=lambda answer: answer.__name__)
def test_a_server_that_sends_all_is_read(expected, name, answer):
    if answer is answers.packed and name.endswith("gz"):
        answer = partial(answers.good, Content_Encoding="x-gzip")  # as some servers call it
    with web_server(FILES[name], answer) as server:
        assert same(rows_of(server.url(name)), expected[name])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("answer", answers.REFUSED, ids=lambda answer: answer.__name__)
def test_a_server_that_does_not_is_refused_by_name(expected, name, answer):
    """A format that says where it ends is read to there, whatever the server says of that."""
    in_order = re.search("npy$|arrow$", name)
    told = (answers.endless, answers.lies) if in_order else (answers.endless,)
    with web_server(FILES[name], answer) as server:
        url = server.url(name)
        if answer in told and not re.search("svm$|csv|jsonl", name):
            assert same(rows_of(url), expected[name])
            return
        with pytest.raises((CutShort, SourceChanged, BadInput, FileNotFoundError)) as refused:
            rows_of(url)
    assert url in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answers.beyond, rf"{len(SVM):,} bytes at first, {len(SVM) // 3:,} now"),
        (answers.empty, r"bytes that were expected behind the first [\d,]+ came 0"),
        (answers.shifted, r"bytes [\d,]+ to [\d,]+ came where [\d,]+ to [\d,]+ were asked for"),
        (answers.breaks, rf"{len(SVM) * 2 // 3:,} bytes came where {len(SVM):,} were expected"),
        (answers.changes, 'ETag "1" at first, "2" now'),
        (answers.fails, "503 Service Unavailable"),
    ],
)
def test_what_came_is_told_beside_what_was_expected(answer, said):
    with web_server(SVM, answer) as server, pytest.raises((CutShort, SourceChanged), match=said):
        rows_of(server.url("rows.svm"))


def test_a_copy_of_what_comes_as_a_stream_has_its_limits(monkeypatch):
    monkeypatch.setattr(web_stream, "MOST_BYTES", len(FILES["rows.parquet"]) - 1)
    for answer in (answers.no_ranges, answers.chunked):
        refused = pytest.raises(CutShort, match=r"knows no ranges.*Fetch the file")
        with web_server(FILES["rows.parquet"], answer) as server, refused:
            rows_of(server.url("rows.parquet"))


@pytest.mark.parametrize("page", [b"<!DOCTYPE html>\n<html>", b"\n  <html lang=en><body>Log in"])
@pytest.mark.parametrize("name", ["rows", *FILES])
def test_a_page_where_rows_are_expected(name, page):
    """As a network answers to everybody who has not logged in."""
    with web_server(page + b", 1:2 a|b {}" * 400, answers.no_ranges) as server:
        with pytest.raises(BadInput) as refused:
            rows_of(server.url(name))
        assert server.url(name) in str(refused.value)
        if not re.search(r"\.(gz|parquet|arrow|npy|npz)$", name):
            assert "page of the web" in str(refused.value)


@pytest.mark.parametrize(
    "told", [{"tag": '"%s"'}, {"tag": "", "Last_Modified": "day %s"}, {"tag": ""}]
)
def test_another_version_has_another_stamp(told):
    """So that what goes on after a kill is refused, as with a file of this machine."""

    def answer(asked):
        version = len(asked.content) if told != {"tag": ""} else ""
        return answers.good(asked, **{k: v % version if "%" in v else v for k, v in told.items()})

    with web_server(SVM, answer) as server:
        first, again = (stamps(open_source([server.url("rows.svm")])) for _ in range(2))
        server.content = SVM + SVM.splitlines(keepends=True)[0]
        assert first == again != stamps(open_source([server.url("rows.svm")]))


def test_a_server_with_an_answer_to_every_address_has_no_data_set_in_a_file():
    with web_server(SVM) as server:
        for name in ("rows.svm", "rows.SVM.gz", "rows.parquet"):
            assert is_source(server.url(name))
            assert not is_data_set(server.url(name))


def test_an_ingest_of_another_version_is_another_ingest(tmp_path):
    def answer(asked):
        return answers.good(asked, tag=f'"{hash(asked.content)}"')

    with web_server(SVM, answer) as server:
        plan = IngestPlan(sources=(server.url("rows.svm"),), dataset=str(tmp_path / "set"))
        first = ingest(plan).fingerprint
        assert ingest(plan).fingerprint == first
        server.content = SVM.replace(b"1 1:", b"0 1:", 1)
        with pytest.raises(BadInput, match="of other sources"):
            ingest(plan)


# -- files of this machine ---------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["shrinks", "grows", "is touched"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, name, how):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    source = opened(str(path))
    with pytest.raises((SourceChanged, CutShort), match=re.escape(str(path))):
        for number, _ in enumerate(source.pieces(2_000)):
            if number == 0:
                _change(path, how)


def _change(path, how):
    if how == "shrinks":
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
    elif how == "grows":
        with path.open("ab") as file:
            file.write(FILES["rows.svm"][:100])
    else:
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def test_a_file_that_changed_since_the_first_look_is_refused(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(SVM)
    source = open_source([str(path)])
    path.write_bytes(SVM[: len(SVM) // 2])
    with pytest.raises(SourceChanged, match=rf"{len(SVM):,} bytes at first, .* now"):
        list(source.pieces(2_000))


# -- stores ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store():
    with object_store("rows") as made:
        yield made


@pytest.mark.parametrize("name", ["rows.svm", "rows.parquet"])
def test_an_object_that_changes_while_it_is_read_is_refused(expected, store, name):
    store.fs.pipe_file(f"rows/{name}", FILES[name])
    url = f"s3://rows/{name}"
    assert same(rows_of(url, store.options), expected[name])
    source = opened(url, store.options)
    first = stamps(source)
    with pytest.raises(SourceChanged, match=re.escape(url)):
        for number, _ in enumerate(source.pieces(2_000)):
            if number == 0:
                store.fs.pipe_file(f"rows/{name}", FILES[name][:-2] + b"9\n")
    store.fs.invalidate_cache()
    assert stamps(opened(url, store.options)) != first if name == "rows.svm" else first


class Short(MemoryFileSystem):
    """A store that gives a third of what is asked for, or nothing."""

    protocol = "s3"
    share = 3

    def _open(self, path, mode="rb", **more):
        if mode != "rb":
            return super()._open(path, mode, **more)
        whole = self.store[path].getvalue()

        class File(io.BytesIO):
            def read(self, n):
                start = self.tell()
                return whole[start : start + (max(1, n // Short.share) if Short.share else 0)]

        return File(whole)


@pytest.mark.parametrize("share", [3, 0])
def test_an_object_of_which_less_comes_is_asked_for_again(expected, monkeypatch, share):
    monkeypatch.setattr(Short, "share", share)
    fs = Short(skip_instance_cache=True)
    fs.pipe_file("/rows.svm", SVM)
    monkeypatch.setattr(finding, "open_store", lambda *_: (fs, "/rows.svm"))
    if share:
        assert same(rows_of("s3://bucket/rows.svm"), expected["rows.svm"])
    else:
        with pytest.raises(CutShort, match=r"expected behind the first 0 came 0"):
            rows_of("s3://bucket/rows.svm")
