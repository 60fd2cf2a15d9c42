"""From names to a source: which files, which format, which reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pipeline.errors import BadInput
from pipeline.settings.formats import FORMATS, Format
from pipeline.settings.source_options import SourceOptions
from pipeline.sources.source import Expected, Source
from pipeline.sources.streams import Address, find, opened

_LOOKED_AT = 1 << 16
ANYTHING = Expected()
_LIBSVM_ENTRY = re.compile(rb"(^|\s)(qid:)?\d+:[-+.\d]")
_NUMBER = re.compile(rb"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*(#.*)?", re.IGNORECASE)


def open_source(
    specs: Sequence[str],
    options: SourceOptions | None = None,
    storage_options: dict[str, Any] | None = None,
    expected: Expected = ANYTHING,
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
    expected
        Columns that are known, which those of the files are matched with, and a bound on lines.

    Raises
    ------
    FileNotFoundError
        A file or a glob without any.
    BadInput
        Files of several formats, an empty file, options that do not fit the format, a first look
        (header, schema) that finds what cannot be used, or other columns than expected.
    """
    options = options or SourceOptions()
    addresses = find(specs, storage_options)
    return source_class(_format(addresses, options))(addresses, options, expected)


def source_class(word: str) -> type[Source]:
    """Return the reader of the format of that word; KeyError where there is none."""
    module, _, name = FORMATS[word].partition(":")
    found: type[Source] = getattr(import_module(module), name)
    return found


def _format(addresses: Sequence[Address], options: SourceOptions) -> Format:
    if options.format != "auto":
        return options.format
    found = {_guess(address): address.name for address in addresses}
    if len(found) > 1:
        listed = ", ".join(f"{name} is {kind}" for kind, name in sorted(found.items()))
        raise BadInput(f"The sources have several formats: {listed}. Read one format at a time.")
    return next(iter(found))


def _guess(address: Address) -> Format:
    readers = {word: source_class(word) for word in FORMATS}
    for word, reader in readers.items():
        if address.extension in reader.extensions:
            return word
    with opened(address) as (stream, _):
        head = stream.read(_LOOKED_AT)
    for word, reader in readers.items():
        if reader.magic and head.startswith(reader.magic):
            return word
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
        f"{name}: neither the name nor the first bytes tell the format. Name it (`format`)."
    )
