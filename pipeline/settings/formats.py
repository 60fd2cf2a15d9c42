"""Formats of sources: a word for each, and where its class is.

A format is one file of pipeline/tables/readers, and one line here (docs/extending.md).  Its class
is imported when a source is opened, so the command line knows every word without any reader.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from fewpass.storage.addresses import READ_ONLY, protocol_of
from fewpass.storage.redaction import without_secrets

FORMATS = {
    "libsvm": "fewpass.pipeline.tables.readers.libsvm:LibsvmSource",
    "npy": "fewpass.pipeline.tables.readers.arrays:NpySource",
    "vw": "fewpass.pipeline.tables.readers.vw:VowpalWabbitSource",
    "npz": "fewpass.pipeline.tables.readers.arrays:NpzSource",
}

#: Formats of tables, whose columns are encoded; those of some may be plain numbers as well.
TABLES = {
    "csv": "fewpass.pipeline.tables.readers.csv_rows:CsvRows",
    "parquet": "fewpass.pipeline.tables.readers.arrow_rows:ParquetRows",
    "arrow": "fewpass.pipeline.tables.readers.arrow_rows:IpcRows",
    "jsonl": "fewpass.pipeline.tables.readers.json_rows:JsonRows",
    "sqlite": "fewpass.pipeline.tables.readers.sqlite:SqliteRows",
}
#: Tables that are found by their place, not by the name or the content of a file.
PLACES = {
    "delta": "fewpass.pipeline.tables.readers.delta:DeltaRows",
    "iceberg": "fewpass.pipeline.tables.readers.iceberg:IcebergRows",
    "postgresql": "fewpass.pipeline.tables.readers.postgresql:PostgresRows",
}
PLAIN = ("csv", "parquet", "delta", "iceberg")

#: What a folder holds that is such a table, and what the address of one begins with.
DELTA_LOG = "_delta_log"
MARKS = {DELTA_LOG: "delta", "metadata/version-hint.text": "iceberg"}
SERVERS = {"postgresql": "postgresql", "postgres": "postgresql", "iceberg": "iceberg"}
#: How the file's name ends that describes such a table.
DESCRIPTIONS = {".metadata.json": "iceberg"}
#: Settings of some formats alone.
OWN_SETTINGS = {"query": ("postgresql", "sqlite"), "table_version": ("delta", "iceberg")}

#: What the names of files of a format end in: the classes' own `extensions`, told without them.
EXTENSIONS = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm", ".npy": "npy", ".vw": "vw",
    ".npz": "npz", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite",
}  # fmt: skip

#: What names of compressed files end in.
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
#: Words for standard input.
STANDARD_INPUT_WORDS = ("-", "stdin://")

if TYPE_CHECKING:  # a checker cannot read dictionaries; at run time only their words are taken
    Format = str
else:
    Format = Literal[("auto", *dict.fromkeys((*FORMATS, *TABLES, *PLACES)))]


def server_format(address: str) -> str | None:
    """Return the format of a table that an address names by its protocol; None of any other."""
    return SERVERS.get(protocol_of(address))


def is_file_on_web(address: str) -> bool:
    """Say whether a web address ends as files of rows do.

    It is not looked for what a data set has there: some servers have an answer to every address.
    """
    protocol, separator, rest = without_secrets(address).partition("://")
    if not separator or protocol not in READ_ONLY:
        return False
    suffixes = PurePosixPath(rest).suffixes[-2:]
    return any(suffix.lower() in (*EXTENSIONS, *COMPRESSIONS) for suffix in suffixes)
