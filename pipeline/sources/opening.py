"""From names to a source: which files, which format, which reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pipeline.errors import BadInput
from pipeline.settings.formats import EXTENSIONS, FORMATS, TABLES, Format
from pipeline.settings.source_options import SourceOptions, as_remembered
from pipeline.sources.raw_rows import RawRows
from pipeline.sources.source import Expected, MayLackNumbers, Source
from pipeline.sources.streams import Address, find, opened
from storage.schema import Schema

_LOOKED_AT = 1 << 16
ANYTHING = Expected()
_LIBSVM_ENTRY = re.compile(rb"(^|\s)(qid:)?\d+:[-+.\d]")
_VW_LINE = re.compile(rb"[-+.\deE \t]*('\S*)?\|\S*[ \t]+\S*[^|]*$")
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
    word = _format(addresses, options)
    if expected.schema is not None:
        options = _like_before(word, options, expected.schema)
    if word not in TABLES:
        if options.encode == "always" or _asks(options):
            raise BadInput(
                f"Only tables are encoded ({', '.join(TABLES)}), but this is {word}. Leave "
                "`encode`, `column`, `cross` and `bins` out."
            )
        return source_class(word)(addresses, options, expected)
    if _is_encoded(word, addresses, options, expected):
        from pipeline.sources.encoded import EncodedSource  # noqa: PLC0415 - Arrow, and SciPy

        return EncodedSource(rows_class(word)(addresses, options, expected), options, expected)
    return source_class(word)(addresses, options, expected)


def _like_before(word: str, options: SourceOptions, schema: Schema) -> SourceOptions:
    """Read as was read before; what only text has is for text."""
    text = {} if word == "csv" else {"delimiter": None, "header": None}
    kept = {name: value for name, value in schema.reading.items() if name not in text}
    return as_remembered(options, kept)


def is_table(
    specs: Sequence[str], options: SourceOptions, storage_options: dict[str, Any] | None = None
) -> bool:
    """Say whether files are of a format of tables; raises what `open_source` does."""
    return _format(find(specs, storage_options), options) in TABLES


def source_class(word: str) -> type[Source]:
    """Return the reader of the format of that word; KeyError where there is none."""
    found: type[Source] = _named(FORMATS[word])
    return found


def rows_class(word: str) -> type[RawRows]:
    """Return the reader of a format of tables as they are written."""
    found: type[RawRows] = _named(TABLES[word])
    return found


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _is_encoded(
    word: str, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> bool:
    """Say whether columns are encoded: as was asked for, as was done before, or as rows need it."""
    asked = options.encode == "always" or _asks(options)
    if options.encode == "none" and _asks(options):
        raise BadInput("`column`, `cross` and `bins` are for encoding. Leave `encode=none` out.")
    if expected.schema is not None:
        return _as_before(asked, options, expected)
    if word not in FORMATS or asked:
        return True
    if options.encode == "none" or options.missing == "zero":
        return False
    from pipeline.sources.encoded import SAMPLE_BYTES, is_more_than_numbers  # noqa: PLC0415

    rows = rows_class(word)(addresses, options, expected)
    if rows.has_folders or is_more_than_numbers(rows, options, expected):
        return True
    plain = source_class(word)(addresses, options, expected)
    return isinstance(plain, MayLackNumbers) and plain.lacks_numbers(SAMPLE_BYTES)


def _asks(options: SourceOptions) -> bool:
    """Say whether a setting makes sense for columns that are encoded only."""
    return bool(options.column or options.cross or options.bins)


def _as_before(asked: bool, options: SourceOptions, expected: Expected) -> bool:
    assert expected.schema is not None, "columns are known"
    encoded = expected.schema.encoding is not None
    if (asked and not encoded) or (encoded and options.encode == "none"):
        now, before = ("are to be", "are not") if asked else ("are not to be", "are")
        raise BadInput(
            f"The columns {now} encoded, but those of {expected.whose} {before}. Leave `encode`, "
            "`column`, `cross` and `bins` out."
        )
    return encoded


def _format(addresses: Sequence[Address], options: SourceOptions) -> Format:
    if options.format != "auto":
        return options.format
    found = {_guess(address): address.name for address in addresses}
    if len(found) > 1:
        listed = ", ".join(f"{name} is {kind}" for kind, name in sorted(found.items()))
        raise BadInput(f"The sources have several formats: {listed}. Read one format at a time.")
    return next(iter(found))


def _guess(address: Address) -> Format:
    if address.extension in EXTENSIONS:
        return EXTENSIONS[address.extension]
    readers: dict[str, Any] = {word: rows_class(word) for word in TABLES}
    readers |= {word: source_class(word) for word in FORMATS}
    with opened(address) as (stream, _):
        head = stream.read(_LOOKED_AT)
    for word, reader in readers.items():
        if reader.magic and head.startswith(reader.magic):
            return word
    return _guess_text(head, address.name)


def _guess_text(head: bytes, name: str) -> Format:
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    if lines and lines[0].lstrip().startswith(b"{") and lines[0].rstrip().endswith(b"}"):
        return "jsonl"
    if any(_VW_LINE.match(line) for line in lines):
        return "vw"
    if any(_LIBSVM_ENTRY.search(line) for line in lines):
        return "libsvm"
    if lines and any(mark in lines[0] for mark in (b",", b"\t", b";", b"|")):
        return "csv"
    if lines and all(_NUMBER.fullmatch(line) for line in lines):
        return "libsvm"  # rows without any value
    raise BadInput(
        f"{name}: neither the name nor the first bytes tell the format. Name it (`format`)."
    )
