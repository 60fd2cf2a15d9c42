"""Files that ingest does not read: what they are, and how to get rows out of them."""

from __future__ import annotations

import zipfile
from typing import BinaryIO, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.storage.source_file import is_page


class FileKind(NamedTuple):
    """A kind of file."""

    what: str
    ends: str  # of names, separated by blanks
    begins: tuple[bytes, ...]  # first bytes
    advice: str  # {} is the name in Python


def _by_pandas(reader: str) -> str:
    return (
        "Write its rows as CSV, in Python: `import pandas; "
        f"pandas.{reader}({{}}).to_csv('rows.csv', index=False)`."
    )


_EXCEL = FileKind("a spreadsheet", ".xlsx .xlsm .xlsb .xls .ods", (), _by_pandas("read_excel"))
_DOCUMENT = FileKind(
    "a document", ".docx .doc .odt .rtf .pptx .ppt .pdf .numbers", (b"%PDF-", b"{\\rtf"),
    "Write the rows of its table alone, as CSV.",
)  # fmt: skip
_ARCHIVE = FileKind(
    "an archive of files", ".zip .tar .tgz .7z .rar .tar.gz .tar.bz2 .tar.xz .tar.zst",
    (b"7z\xbc\xaf", b"Rar!"), "Unpack it, and name the files that were in it.",
)  # fmt: skip
_PAGE = FileKind(
    "a page of the web", ".html .htm", (),
    "Look at it in a browser: the address may be another, or ask for a login. Its first table "
    "becomes CSV in Python: `import pandas; "
    "pandas.read_html({})[0].to_csv('rows.csv', index=False)`.",
)  # fmt: skip
_KINDS = (
    _EXCEL, _DOCUMENT, _ARCHIVE, _PAGE,
    FileKind("a document of an office program", "", (b"\xd0\xcf\x11\xe0",),
            f"If it is a spreadsheet: {_EXCEL.advice}"),
    FileKind("a database of SQLite", "", (b"SQLite format 3\x00",),
            "Name it so (rows.sqlite), or say its format (`format=sqlite`)."),
    FileKind("a pickle", ".pkl .pickle .joblib",
            (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
            "Opening one may run code: where it was written, write the rows as Parquet, in Python "
            "`frame.to_parquet('rows.parquet')`."),
    FileKind("HDF5", ".h5 .hdf5 .hdf", (b"\x89HDF",), _by_pandas("read_hdf")),
    FileKind("ORC", ".orc", (b"ORC",), _by_pandas("read_orc")),
    FileKind("Avro", ".avro", (b"Obj\x01",), "Write its rows as Parquet or JSON lines."),
    FileKind("a document of XML", ".xml", (b"<?xml",), _by_pandas("read_xml")),
    FileKind("a file of SAS", ".sas7bdat .xpt", (), _by_pandas("read_sas")),
    FileKind("a file of SPSS", ".sav", (), _by_pandas("read_spss")),
    FileKind("a file of Stata", ".dta", (), _by_pandas("read_stata")),
    FileKind("a file of R", ".rds .rdata .rda", (), "Write its rows as CSV, in R by write.csv."),
    FileKind("a file of MATLAB", ".mat", (), "Write its rows as CSV, in MATLAB by writematrix."),
    FileKind("ARFF", ".arff", (b"@relation", b"@RELATION"),
            "Write its rows as CSV, in Weka by CSVSaver."),
    FileKind("a picture", ".png .jpg .jpeg .gif", (b"\x89PNG", b"\xff\xd8\xff"),
            "Name a file of rows."),
    FileKind("a model", ".onnx .skops .safetensors .liblinear", (),
            "Name a file of rows; programs that run models read this one."),
)  # fmt: skip
ZIP = b"PK\x03\x04"
#: First bytes that show the kind of a file, and the place of a tar's mark.
LOOKED_AT, _TAR_AT = 512, 257
#: Bytes that text does not hold.
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\v\f\r")


def begins_with(head: bytes, marks: bytes | tuple[bytes, ...]) -> bool:
    """Return whether a file begins with one of some marks.

    Text may begin with one of letters and digits, too: PAR1 is a name of a column as well.
    """
    marks = (marks,) if isinstance(marks, bytes) else marks
    mark = next((mark for mark in marks if mark and head.startswith(mark)), None)
    return mark is not None and not (mark.isalnum() and _CONTROLS.isdisjoint(head))


def refuse_named(name: str) -> None:
    """Refuse a file whose name says that it is of a kind that is not read."""
    named = name.lower()
    _refuse(name, next((kind for kind in _KINDS if named.endswith(_ends(kind))), None))


def _ends(kind: FileKind) -> tuple[str, ...]:
    return tuple(kind.ends.split())


def refuse_begun(name: str, head: bytes, stream: BinaryIO | None = None) -> None:
    """Refuse a file whose first bytes say so.

    Parameters
    ----------
    name, head
        The file, and as many of its first bytes as LOOKED_AT, if it has them.
    stream
        The file as stored, to look into it where it is a zip; None if that cannot be.
    """
    kind = next((kind for kind in _KINDS if begins_with(head, kind.begins)), None)
    if kind is None and is_page(head):
        kind = _PAGE
    if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        kind = _ARCHIVE
    if head.startswith(ZIP) and stream is not None:
        kind = _in_zip(stream)
    _refuse(name, kind)


def _in_zip(stream: BinaryIO) -> FileKind | None:
    """Return the kind of a zip; None for arrays of NumPy, and for what cannot be read."""
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return None
    if any(name.startswith("xl/") for name in members) or "content.xml" in members:
        return _EXCEL
    if any(name.startswith(("word/", "ppt/")) for name in members):
        return _DOCUMENT
    return None if all(name.endswith(".npy") for name in members) else _ARCHIVE


def _refuse(name: str, kind: FileKind | None) -> None:
    if kind is not None:
        advice = kind.advice.replace("{}", repr(name))
        raise BadInput(f"{name} is {kind.what}, and rows were expected. {advice}")
