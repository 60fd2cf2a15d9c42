"""Which formats of sources there are: a word for each, and where its class is.

A format is one file of pipeline/tables/readers, and one line here (docs/extending.md).  Its class
is imported when a source is opened, so the command line knows every word without any reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

FORMATS = {
    "libsvm": "fewpass.pipeline.tables.readers.libsvm:LibsvmSource",
    "csv": "fewpass.pipeline.tables.readers.delimited:DelimitedSource",
    "parquet": "fewpass.pipeline.tables.readers.parquet:ParquetSource",
    "npy": "fewpass.pipeline.tables.readers.npy:NpySource",
    "vw": "fewpass.pipeline.tables.readers.vw:VowpalWabbitSource",
    "npz": "fewpass.pipeline.tables.readers.npz:NpzSource",
}

#: Formats of tables: what reads their cells as they are written, for columns that are encoded.
TABLES = {
    "csv": "fewpass.pipeline.tables.readers.delimited_rows:DelimitedRows",
    "parquet": "fewpass.pipeline.tables.readers.arrow_rows:ParquetRows",
    "arrow": "fewpass.pipeline.tables.readers.arrow_rows:IpcRows",
    "jsonl": "fewpass.pipeline.tables.readers.json_rows:JsonRows",
    "arff": "fewpass.pipeline.tables.readers.arff:ArffRows",
}

#: What the names of files of a format end in: the classes' own `extensions`, told without them.
EXTENSIONS = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm", ".npy": "npy", ".vw": "vw",
    ".npz": "npz", ".arff": "arff",
}  # fmt: skip

#: What names of compressed files end in.
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
#: Words for standard input.
STANDARD_INPUT_WORDS = ("-", "stdin://")

if TYPE_CHECKING:  # a checker cannot read dictionaries; at run time only their words are taken
    Format = str
else:
    Format = Literal[("auto", *dict.fromkeys((*FORMATS, *TABLES)))]
