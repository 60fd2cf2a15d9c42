"""The format of files: by name, by their first bytes, by how their first lines look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, BinaryIO, cast

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import EXTENSIONS, FORMATS, PLACES, TABLES, Format
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.charsets import as_utf8, peekable
from fewpass.pipeline.tables.readers.csv_quotes import looks_spaced
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import refuse_unsupported
from fewpass.pipeline.tables.readers.streams import opened
from fewpass.pipeline.tables.readers.unsupported_files import (
    LOOKED_AT,
    ZIP,
    begins_with,
    refuse_named,
)


def reader_class(word: str) -> Any:
    """Return the class of a format, a `Source` or a `TableReader`; KeyError without one."""
    module, _, name = (FORMATS | TABLES | PLACES)[word].partition(":")
    return getattr(import_module(module), name)


_LOOKED_AT = 1 << 16
_LABEL = rb"([^\s:,;|]+|[-+]?[\d.]+(,[-+]?[\d.]+)*)"
_LIBSVM_LINE = re.compile(  # times of day have colons, too, but other cells around them
    rb"\s*(" + _LABEL + rb"\s+)?(qid:\d+\s+)?\d+:[^\s:,;|]+(\s+\d+:[^\s:,;|]+)*\s*(#.*)?"
)
_VW_LINE = re.compile(rb"[-+.\deE \t]*('\S*)?\|[^\s|]*([ \t]\|?[^\s|]*)+$")
_JSON_IN_ONE = re.compile(rb"\s*(\[\s*[{\[]|\[\s*$|\{\s*$)")
_MARKDOWN_RULE = re.compile(rb"[-:| \t]*---[-:| \t]*")  # below the names of the columns
_NUMBER = re.compile(rb"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*(#.*)?", re.IGNORECASE)


def _require_place(addresses: Sequence[Address], word: str) -> None:
    """Refuse a format that is not what the place is; BadInput."""
    for address in addresses:
        if address.format != word and (address.format is not None or word in PLACES):
            is_called = f"a table of {address.format}" if address.format else f"no table of {word}"
            raise BadInput(f"{address.name} is {is_called}. Leave `format={word}` out.")


def format_of(addresses: Sequence[Address], options: SourceOptions) -> Format:
    """Return the format that was asked for, or that all files have; BadInput where these differ."""
    if options.format != "auto":
        _require_place(addresses, options.format)
        return options.format
    formats = {_guess(address): address.name for address in addresses}
    if len(formats) > 1:
        listed = ", ".join(f"{name} is {kind}" for kind, name in sorted(formats.items()))
        raise BadInput(f"The sources have several formats: {listed}. Read one format at a time.")
    return next(iter(formats))


def _guess(address: Address) -> Format:
    if address.format is not None:
        return address.format
    if address.extension in EXTENSIONS:
        return EXTENSIONS[address.extension]
    if address.compression:  # an archive of files, whatever it is packed by
        refuse_named(address.name)
    with opened(address) as (stored, _):
        first = peekable(stored)
        begins = first.peek(LOOKED_AT)
        word = _with_magic(begins)
        if word is not None and not begins.startswith(ZIP):  # which a spreadsheet begins with, too
            return word
        refuse_named(address.name)
        refuse_unsupported(address, begins)
        if word is not None:
            return word
        head = as_utf8(cast("BinaryIO", first), address.charset, address.name).read(_LOOKED_AT)
    return _guess_text(head, address.name)


def _with_magic(begins: bytes) -> Format | None:
    """Return the format whose files begin so; None where no format says."""
    for word in (*TABLES, *FORMATS):
        if begins_with(begins, reader_class(word).magic):
            return word
    return None


def _guess_text(head: bytes, name: str) -> Format:
    if len(head) == _LOOKED_AT:  # cut within a word, maybe
        head = head[: 1 + max(map(head.rfind, (b" ", b"\t", b"\n", b",")))] or head
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    first = lines[0].strip() if lines else b""
    if len(lines) > 1 and b"|" in lines[1] and _MARKDOWN_RULE.fullmatch(lines[1].strip()):
        raise BadInput(
            f"{name}: the file is a table in Markdown, and rows of cells were expected. Write "
            "these alone, for example by sed '2d; s/^|//; s/|$//'."
        )
    if _JSON_IN_ONE.match(first):
        raise BadInput(
            f"{name}: the file is one JSON document, and JSON lines were expected. Write an object "
            "on each line, for example by jq -c '.[]'."
        )
    fits = {
        "jsonl": first.startswith(b"{") and first.endswith(b"}"),
        "vw": bool(first.split()[1:]) and any(map(_VW_LINE.match, lines)),
        "libsvm": any(map(_LIBSVM_LINE.fullmatch, lines)),
        "csv": any(mark in first for mark in (b",", b"\t", b";", b"|")) or looks_spaced(head),
    }
    fits["libsvm"] |= not fits["csv"] and bool(lines) and all(map(_NUMBER.fullmatch, lines))
    for word, suits in fits.items():
        if suits:
            return word
    raise BadInput(
        f"{name}: neither the name nor the first bytes tell the format. Say it (`format`), or name "
        "files of rows."
    )
