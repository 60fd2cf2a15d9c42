"""Files that ingest does not read: what they are, and how to get rows out of them."""

from __future__ import annotations

import shlex
import zipfile
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.storage.source_files import is_page


class Foreign(NamedTuple):
    """A kind of file; its advice may name the file as {shell} or {python}."""

    what: str
    advice: str


def _by_pandas(what: str, reader: str) -> Foreign:
    return Foreign(
        what,
        "Write its rows as CSV, in Python: `import pandas; "
        f"pandas.{reader}({{python}}).to_csv('rows.csv', index=False)`.",
    )


_PICKLED = Foreign(
    "a pickle",
    "Opening one may run code: where it was written, write the rows as Parquet, in Python "
    "`frame.to_parquet('rows.parquet')`.",
)
_TABLE = "Write the rows of its table alone, as CSV."
_EXCEL = _by_pandas("a spreadsheet", "read_excel")
_OFFICE = Foreign("a document of an office program", f"If it is a spreadsheet: {_EXCEL.advice}")
_DOCUMENT = Foreign("a document", _TABLE)
_HTML = Foreign(
    "a page of the web",
    "Look at it in a browser: the address may be another, or ask for a login. Its first table "
    "becomes CSV in Python: `import pandas; "
    "pandas.read_html({python})[0].to_csv('rows.csv', index=False)`.",
)
_SQLITE = Foreign(
    "a database of SQLite", "Name it so (rows.sqlite), or say its format (`format=sqlite`)."
)
_ARCHIVE = Foreign("an archive of files", "Unpack it, and name the files that were in it.")
_HDF5 = _by_pandas("HDF5", "read_hdf")
_ORC, _STATA = _by_pandas("ORC", "read_orc"), _by_pandas("a file of Stata", "read_stata")
_SAS, _SPSS = _by_pandas("a file of SAS", "read_sas"), _by_pandas("a file of SPSS", "read_spss")
_AVRO = Foreign("Avro", "Write its rows as Parquet or JSON lines.")
_R = Foreign("a file of R", "Write its rows as CSV, in R by write.csv.")
_MATLAB = Foreign("a file of MATLAB", "Write its rows as CSV, in MATLAB by writematrix.")
_ARFF = Foreign("ARFF", "Write its rows as CSV, in Weka by CSVSaver.")
_PICTURE = Foreign("a picture", "Name a file of rows.")
_MODEL = Foreign("a model", "Name a file of rows; programs that run models read this one.")
_XML = _by_pandas("a document of XML", "read_xml")

#: By the ends of names.
_EXTENSIONS = {
    (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"): _EXCEL,
    (".docx", ".doc", ".odt", ".rtf", ".pptx", ".ppt", ".pdf", ".numbers"): _DOCUMENT,
    (".html", ".htm"): _HTML,
    (".xml",): _XML,
    (".zip", ".tar", ".tgz", ".7z", ".rar"): _ARCHIVE,
    (".pkl", ".pickle", ".joblib"): _PICKLED,
    (".h5", ".hdf5", ".hdf"): _HDF5,
    (".orc",): _ORC,
    (".avro",): _AVRO,
    (".sas7bdat", ".xpt"): _SAS,
    (".sav",): _SPSS,
    (".dta",): _STATA,
    (".rds", ".rdata", ".rda"): _R,
    (".mat",): _MATLAB,
    (".arff",): _ARFF,
    (".png", ".jpg", ".jpeg", ".gif"): _PICTURE,
    (".onnx", ".skops", ".safetensors", ".liblinear"): _MODEL,
}  # fmt: skip
_OF_EXTENSION = {end: kind for ends, kind in _EXTENSIONS.items() for end in ends}

#: By first bytes; a zip is looked into.
_MAGIC = {
    b"\xd0\xcf\x11\xe0": _OFFICE,
    b"%PDF-": _DOCUMENT,
    b"{\\rtf": _DOCUMENT,
    b"SQLite format 3\x00": _SQLITE,
    b"\x89HDF": _HDF5,
    b"Obj\x01": _AVRO,
    b"ORC": _ORC,
    b"\x89PNG": _PICTURE,
    b"\xff\xd8\xff": _PICTURE,
    b"7z\xbc\xaf": _ARCHIVE,
    b"Rar!": _ARCHIVE,
    b"<?xml": _XML,
    b"@relation": _ARFF,
    b"@RELATION": _ARFF,
    **{b"\x80" + bytes([k]): _PICKLED for k in range(2, 6)},
}
ZIP = b"PK\x03\x04"
#: First bytes that show the kind of a file, and the place of a tar's mark.
LOOKED_AT, _TAR_AT = 512, 257


def refuse_named(name: str) -> None:
    """Refuse a file whose name says that it is of a kind that is not read."""
    kind = _OF_EXTENSION.get(PurePosixPath(name).suffix.lower())
    if kind is None and name.lower().endswith((".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")):
        kind = _ARCHIVE
    if kind is not None:
        raise _refusal(name, kind)


def refuse_begun(name: str, head: bytes, stream: BinaryIO | None = None) -> None:
    """Refuse a file whose first bytes say so.

    Parameters
    ----------
    name, head
        The file, and as many of its first bytes as LOOKED_AT, if it has them.
    stream
        The file as stored, to look into it where it is a zip; None if that cannot be.
    """
    foreign = next((kind for mark, kind in _MAGIC.items() if head.startswith(mark)), None)
    if foreign is None and is_page(head):
        foreign = _HTML
    if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        foreign = _ARCHIVE
    if head.startswith(ZIP) and stream is not None:
        foreign = _in_zip(stream)
    if foreign is not None:
        raise _refusal(name, foreign)


def _in_zip(stream: BinaryIO) -> Foreign | None:
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


def _refusal(name: str, kind: Foreign) -> BadInput:
    advice = kind.advice.format(shell=shlex.quote(name), python=repr(name))
    return BadInput(f"{name} is {kind.what}, and rows were expected. {advice}")
