"""Files of other programs are named, by their names and by their first bytes, with a way out."""

import ast
import io
import pickle
import re
import sqlite3
import tarfile
import zipfile

import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.opening import open_source
from fewpass.pipeline.tables.readers.unsupported_files import _KINDS


def zipped(*members):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in members:
            archive.writestr(name, "x")
    return held.getvalue()


def tarred():
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"), io.BytesIO())
    return held.getvalue()


def database(folder):
    with sqlite3.connect(folder / "made.db") as made:
        made.execute("create table t(a)")
    return (folder / "made.db").read_bytes()


BYTES = {
    "a spreadsheet": zipped("[Content_Types].xml", "xl/workbook.xml"),
    "a spreadsheet, of another kind": zipped("mimetype", "content.xml"),
    "a document": zipped("[Content_Types].xml", "word/document.xml"),
    "an archive": zipped("a.csv", "b.csv"),
    "an archive, of one file": zipped("a.csv"),
    "an archive, tar": tarred(),
    "a document, PDF": b"%PDF-1.4\n%\xe2\xe3\n",
    "a document of an office program": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512),
    "a pickle": pickle.dumps({"a": [1, 2]}),
    "a page of the web": b"\n<!DOCTYPE html>\n<html><body></body></html>\n",
    "ARFF": b"@relation r\n@attribute a numeric\n@data\n1\n",
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(100),
}


@pytest.mark.parametrize("what", BYTES)
@pytest.mark.parametrize("name", ["nameless", "rows.csv"])
def test_first_bytes_tell(what, name, tmp_path):
    (tmp_path / name).write_bytes(BYTES[what])
    with pytest.raises(BadInput) as refused:
        open_source([str(tmp_path / name)])
    assert f"{tmp_path / name} is {what.partition(',')[0]}" in str(refused.value)


def test_a_database_is_told_by_its_bytes(tmp_path):
    (tmp_path / "rows.csv").write_bytes(database(tmp_path))
    with pytest.raises(BadInput, match="a database of SQLite"):
        open_source([str(tmp_path / "rows.csv")])


@pytest.mark.parametrize("extension", [end for kind in _KINDS for end in kind.ends.split()])
def test_names_tell_and_advice_can_be_typed(extension, tmp_path):
    path = tmp_path / f"it's mine{extension}"
    path.write_bytes(b"\x00\x01\x02")
    with pytest.raises(BadInput) as refused:
        open_source([str(path)])
    said = str(refused.value)
    assert said.startswith(f"{path} is ")
    for snippet in re.findall(r"`([^`]+)`", said):
        ast.parse(snippet)


def test_arrays_of_numpy_are_no_archive(tmp_path):
    (tmp_path / "nameless").write_bytes(zipped("Z.npy"))
    with pytest.raises(BadInput) as refused:
        open_source([str(tmp_path / "nameless")])
    assert "archive" not in str(refused.value)


@pytest.mark.parametrize("mark", ["PAR1", "ORC", "ARROW1", "BZh"])
@pytest.mark.parametrize("name", ["nameless", "rows.csv"])
def test_a_column_may_be_called_like_a_mark(mark, name, tmp_path):
    (tmp_path / name).write_text(f"{mark}_x,b,y\n" + "1,2,0\n3,5,1\n" * 50)
    source = open_source([str(tmp_path / name)])
    assert source.schema.names == (f"{mark}_x", "b", "y")
