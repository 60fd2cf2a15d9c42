"""Sources on servers that behave badly: all rows come, or the source is refused by name."""

import bz2
import gzip
import io
import lzma
import os
import re
from functools import partial
from types import SimpleNamespace

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
from fewpass.storage import source_file
from fewpass.storage.source_file import CutShort, SourceChanged
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
    """A few kilobytes of an object are many ranges, and nobody waits."""
    monkeypatch.setattr(source_file, "FIRST_BYTES", 1 << 10)
    monkeypatch.setattr(source_file, "MOST_BYTES", 1 << 11)
    monkeypatch.setattr(source_file, "BUFFER_BYTES", 1 << 9)
    monkeypatch.setattr(source_file, "WAITS_S", (0.0, 0.0, 0.0))


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
def test_a_server_that_sends_all_is_read_by_one_request(expected, name, answer):
    if answer is answers.packed and name.endswith("gz"):
        answer = partial(answers.good, Content_Encoding="x-gzip")  # as some servers call it
    with web_server(FILES[name], answer) as server:
        assert same(rows_of(server.url(name)), expected[name])
        assert server.count == (2 if answer is answers.breaks_now_and_then else 1)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("answer", answers.REFUSED, ids=lambda answer: answer.__name__)
def test_a_server_that_does_not_is_refused_by_name(name, answer):
    with web_server(FILES[name], answer) as server, pytest.raises(CutShort) as refused:
        rows_of(server.url(name))
    assert server.url(name) in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answers.breaks, rf"{len(SVM) * 2 // 3:,} bytes came, 3 times"),
        (answers.endless, "neither how long the file is nor where it ends"),
        (lambda asked: answers.good(asked)._replace(status=503), "the server answers 503"),
        (lambda asked: answers.good(asked, Content_Encoding="br"), 'encoded as "br"'),
    ],
)
def test_a_refusal_says_what_came(answer, said):
    with web_server(SVM, answer) as server, pytest.raises(CutShort, match=said):
        rows_of(server.url("rows.svm"))


@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [
        (404, FileNotFoundError, 1),
        (403, PermissionError, 1),
        (429, CutShort, 3),
        (503, CutShort, 3),
    ],
)
def test_only_a_busy_server_is_asked_again(status, error, requests):
    def answer(asked):
        return answers.good(asked)._replace(status=status)

    with web_server(SVM, answer) as server, pytest.raises(error) as refused:
        rows_of(server.url("rows.svm"))
    assert server.url("rows.svm") in str(refused.value)
    assert server.count == requests


@pytest.mark.parametrize("answer", [answers.no_ranges, answers.chunked])
def test_a_copy_takes_half_of_the_free_space_at_most(monkeypatch, answer):
    free = SimpleNamespace(free=2 * len(SVM) - 2)
    monkeypatch.setattr(source_file.shutil, "disk_usage", lambda _: free)
    refused = pytest.raises(CutShort, match=rf"{len(SVM) - 1:,} bytes that are half of what")
    with web_server(SVM, answer) as server, refused:
        rows_of(server.url("rows.svm"))


def test_an_answer_that_never_ends_is_refused_by_the_free_space(monkeypatch):
    free = SimpleNamespace(free=10 << 20)
    monkeypatch.setattr(source_file.shutil, "disk_usage", lambda _: free)
    sent = []

    def answer(asked):
        sent.append(asked.number)
        return answers.Answer(200, bytes(50 << 20), {"Transfer-Encoding": "chunked"})

    with web_server(b"", answer) as server, pytest.raises(CutShort, match="5,242,880 bytes"):
        rows_of(server.url("rows.svm"))
    assert sent == [1]  # asking again would bring no other


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


HERE = FILES | {
    "rows.svm.bz2": bz2.compress(SVM),
    "rows.svm.xz": lzma.compress(SVM),
    "rows.svm.zst": pa.compress(SVM, "zstd", asbytes=True),
}


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("how", ["shrinks", "grows", "is touched"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, name, how):
    path = tmp_path / name
    path.write_bytes(HERE[name])
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
    """A store that sends another part than it is asked for."""

    protocol = "s3"

    def cat_file(self, path, start=None, end=None, **_):
        return self.sent(self.store[path].getvalue(), start, end)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (lambda whole, start, end: whole[start : start + -(-(end - start) // 3)], None),
        (lambda *_: b"", rf"{len(SVM):,} bytes were expected, and 0 came"),
        (lambda whole, *_: whole, rf"{len(SVM):,} bytes came where [\d,]+ were asked for"),
    ],
    ids=["a third", "nothing", "the whole"],
)
def test_an_object_of_which_less_or_more_comes(expected, monkeypatch, sent, said):
    fs = Short(skip_instance_cache=True)
    fs.pipe_file("/rows.svm", SVM)
    fs.sent = sent
    monkeypatch.setattr(finding, "open_store", lambda *_: (fs, "/rows.svm"))
    if said is None:
        assert same(rows_of("s3://bucket/rows.svm"), expected["rows.svm"])
    else:
        with pytest.raises(CutShort, match=said):
            rows_of("s3://bucket/rows.svm")
