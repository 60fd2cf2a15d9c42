"""Opening of a source by names: its files, its format, its reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import FORMATS, OWN_SETTINGS, TABLES
from fewpass.pipeline.settings.source_options import SourceOptions, as_remembered
from fewpass.pipeline.tables.readers.csv_head import as_seen
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.format_guess import format_of, reader_class
from fewpass.pipeline.tables.readers.lines import with_head
from fewpass.pipeline.tables.readers.source import Expected, Source
from fewpass.storage.column_schema import Schema

ANYTHING = Expected()
_OF_TEXT = ("delimiter", "quote", "header", "charset", "table_version")


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
        Columns that those of the files are matched with, and a bound on lines.

    Raises
    ------
    FileNotFoundError
        A file or a glob without any.
    BadInput
        Files of several formats, an empty file, options that do not fit the format, a first look
        (header, schema) that finds what cannot be used, or other columns than expected.
    """
    options = options or SourceOptions()
    addresses = [
        address._replace(charset=options.charset, budget=expected.budget)
        for address in find(specs, storage_options)
    ]
    word = format_of(addresses, options)
    _require_own(word, addresses[0].name, options)
    if expected.seen is not None and not any(word in words for words in OWN_SETTINGS.values()):
        addresses = expected.seen.new_among(addresses)
    if expected.schema is not None:
        options = _like_before(word, options, expected.schema)
        addresses = [address._replace(charset=options.charset) for address in addresses]
    if word == "csv":
        addresses[0] = with_head(addresses[0], expected.longest_line)
        addresses, options = as_seen(addresses, options, expected.longest_line)
    reader = reader_class(word)
    if word not in FORMATS:
        from fewpass.pipeline.tables.readers.table_opening import open_table  # noqa: PLC0415 - kernels

        return open_table(word, reader, addresses, options, expected)
    _require_no_table(word, addresses[0].name, options, expected)
    source: Source = reader(addresses, options, expected)
    return source


def _require_no_table(word: str, name: str, options: SourceOptions, expected: Expected) -> None:
    """Refuse what only tables can be asked for; BadInput."""
    if expected.passed:
        raise BadInput(
            f"{name}: only tables have columns to keep ({', '.join(TABLES)}), and this is {word}. "
            "Leave `keep` (`by`) out."
        )
    if options.is_encoded or options.asks_of_encoded:
        raise BadInput(
            f"Only tables are encoded ({', '.join(TABLES)}), but this is {word}. Leave `encode`, "
            "`column`, `cross` and `bins` out."
        )
    if options.names_offset:
        raise BadInput(
            f"{name}: offsets and exposures are columns of tables ({', '.join(TABLES)}), and this "
            f"is {word}. Write the rows as one of these."
        )


def _like_before(word: str, options: SourceOptions, schema: Schema) -> SourceOptions:
    """Return options with the settings of the schema; those of text apply to text alone."""
    # A version is of one table and one day, text has settings of its own.
    others = ("table_version",) if word == "csv" else _OF_TEXT
    reading = {name: value for name, value in schema.reading.items() if name not in others}
    return as_remembered(options, reading)


def _require_own(word: str, name: str, options: SourceOptions) -> None:
    """Refuse settings of other formats; BadInput."""
    for setting, words in OWN_SETTINGS.items():
        if getattr(options, setting) is not None and word not in words:
            raise BadInput(
                f"{name}: `{setting}` is a setting of {' and '.join(words)}, and this is {word}. "
                f"Leave it out."
            )
