"""From names to a source: which files, which format, which reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.errors import BadInput
from pipeline.sources.delimited import DelimitedSource
from pipeline.sources.libsvm import LibsvmSource
from pipeline.sources.npy import NpySource
from pipeline.sources.npz import NpzSource
from pipeline.sources.options import Format, SourceOptions
from pipeline.sources.parquet import ParquetSource
from pipeline.sources.source import Source
from pipeline.sources.streams import Address, find, opened

_EXTENSIONS: dict[str, Format] = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
}
_MAGIC: dict[bytes, Format] = {b"PAR1": "parquet", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz"}
_READERS: dict[str, Callable[[Sequence[Address], SourceOptions], Source]] = {
    "libsvm": LibsvmSource,
    "csv": DelimitedSource,
    "parquet": ParquetSource,
    "npy": NpySource,
    "npz": NpzSource,
}
_LOOKED_AT = 1 << 16
_LIBSVM_ENTRY = re.compile(rb"(^|\s)(qid:)?\d+:[-+.\d]")
_NUMBER = re.compile(rb"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*(#.*)?", re.IGNORECASE)


def open_source(
    specs: Sequence[str],
    options: SourceOptions | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Source:
    """Open files as one source of rows.

    Parameters
    ----------
    specs
        Paths, URLs and globs, read in this order (a glob's own files by name).  Files may be
        compressed (.gz, .bz2, .xz, .zst); all have the same format.
    options
        How to read them.
    storage_options
        Handed to fsspec.

    Raises
    ------
    FileNotFoundError
        A file or a glob without any.
    BadInput
        Files of several formats, an empty file, options that do not fit the format, or a first
        look (header, schema) that finds what cannot be used.
    """
    options = options or SourceOptions()
    addresses = find(specs, storage_options)
    reader = _READERS[_format(addresses, options)]
    return reader(addresses, options)


def _format(addresses: Sequence[Address], options: SourceOptions) -> Format:
    if options.format != "auto":
        return options.format
    found = {_guess(address): address.name for address in addresses}
    if len(found) > 1:
        listed = ", ".join(f"{name} is {kind}" for kind, name in sorted(found.items()))
        raise BadInput(f"The sources have several formats: {listed}. Read one format at a time.")
    return next(iter(found))


def _guess(address: Address) -> Format:
    known = _EXTENSIONS.get(address.extension)
    if known:
        return known
    with opened(address) as (stream, _):
        head = stream.read(_LOOKED_AT)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    return _guess_text(head, address.name)


def _guess_text(head: bytes, name: str) -> Format:
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    if any(_LIBSVM_ENTRY.search(line) for line in lines):
        return "libsvm"
    if lines and any(mark in lines[0] for mark in (b",", b"\t", b";", b"|")):
        return "csv"
    if lines and all(_NUMBER.fullmatch(line) for line in lines):
        return "libsvm"  # rows without any value
    raise BadInput(
        f"{name}: neither the name nor the first bytes tell the format. Name it (--format)."
    )
