"""From names to a source: which files, which format, which reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO, cast

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.settings.formats import (
    EXTENSIONS,
    FORMATS,
    OWN_SETTINGS,
    PLACES,
    PLAIN,
    TABLES,
    Format,
)
from fewpass.pipeline.settings.source_options import SourceOptions, as_remembered, contradiction
from fewpass.pipeline.tables.readers.charsets import as_utf8, peekable
from fewpass.pipeline.tables.readers.delimited_header import refuse_title
from fewpass.pipeline.tables.readers.dialect import looks_spaced
from fewpass.pipeline.tables.readers.finding import Address, find
from fewpass.pipeline.tables.readers.foreign import LOOKED_AT, ZIP, refuse_named
from fewpass.pipeline.tables.readers.lines import first_lines, refuse_foreign
from fewpass.pipeline.tables.readers.source import Expected, NumberRows, Source, TableRows
from fewpass.pipeline.tables.readers.stray_quotes import in_address
from fewpass.pipeline.tables.readers.streams import opened
from fewpass.storage.column_schema import Schema

_LOOKED_AT = 1 << 16
ANYTHING = Expected()
_LABEL = rb"([^\s:,;|]+|[-+]?[\d.]+(,[-+]?[\d.]+)*)"
_LIBSVM_LINE = re.compile(  # times of day have colons, too, but other cells around them
    rb"\s*(" + _LABEL + rb"\s+)?(qid:\d+\s+)?\d+:[^\s:,;|]+(\s+\d+:[^\s:,;|]+)*\s*(#.*)?"
)
_VW_LINE = re.compile(rb"[-+.\deE \t]*('\S*)?\|[^\s|]*([ \t]\|?[^\s|]*)+$")
_JSON_IN_ONE = re.compile(rb"\s*(\[\s*[{\[]|\[\s*$|\{\s*$)")
_MARKDOWN_RULE = re.compile(rb"[-:| \t]*---[-:| \t]*")  # below the names of the columns
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
    described = _described(specs, options, storage_options)
    addresses = [address._replace(budget=expected.budget) for address in described]
    word = _format(addresses, options)
    _require_own(word, addresses[0].name, options)
    if expected.schema is not None:
        options = _like_before(word, options, expected.schema)
        addresses = [address._replace(charset=options.charset) for address in addresses]
    if word == "csv" and _is_spaced(addresses[0], options, expected):
        addresses = [address._replace(spaced=True) for address in addresses]
        options = options.model_copy(update={"delimiter": "\t"})
    if word == "csv":
        if not addresses[0].spaced:
            refuse_title(addresses[0], options, expected.longest_line)
        first = in_address(addresses[0], options, expected.longest_line)
        addresses = [address._replace(quotes=first.quotes) for address in addresses]
    if word in FORMATS:
        if expected.passed:
            raise BadInput(
                f"{addresses[0].name}: only tables have columns to keep ({', '.join(TABLES)}), and "
                f"this is {word}. Leave `keep` out."
            )
        if _wants(options) or _asks(options):
            raise BadInput(
                f"Only tables are encoded ({', '.join(TABLES)}), but this is {word}. Leave "
                "`encode`, `column`, `cross` and `bins` out."
            )
        if _names_offset(options):
            raise BadInput(
                f"{addresses[0].name}: offsets and exposures are columns of tables "
                f"({', '.join(TABLES)}), and this is {word}. Write the rows as one of these."
            )
        return source_class(word)(addresses, options, expected)
    return _table(word, addresses, options, expected)


def _table(
    word: str, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> Source:
    """Open a table, encoded where that is needed, or where curves are better."""

    @cache
    def as_numbers() -> NumberRows:
        """Return the table as plain numbers, whose header is read once."""
        own = expected._replace(plain=True)
        return cast("NumberRows", rows_class(word)(addresses, options, own))

    needed = _is_encoded(word, addresses, options, expected, as_numbers)
    notes: tuple[str, ...] = ()
    if needed or _may_bend(addresses, options, expected, as_numbers):
        from fewpass.pipeline.tables.readers.encoded import EncodedSource  # noqa: PLC0415 - Arrow, and SciPy

        own = expected._replace(bent=not needed)
        source = EncodedSource(rows_class(word)(addresses, options, own), options, own)
        if needed or source.recipe.additive is not None:
            return source
        notes = tuple(source.notes_on_form())  # straight lines need no encoding
    from fewpass.pipeline.tables.readers.number_source import NumberSource  # noqa: PLC0415 - likewise

    return NumberSource(as_numbers(), options, expected, notes)


def _like_before(word: str, options: SourceOptions, schema: Schema) -> SourceOptions:
    """Return options with the settings of the schema; those of text apply to text alone."""
    text = () if word == "csv" else ("delimiter", "quote", "header", "charset")
    reading = {name: value for name, value in schema.reading.items() if name not in text}
    return as_remembered(options, reading)


def is_table(
    specs: Sequence[str], options: SourceOptions, storage_options: dict[str, Any] | None = None
) -> bool:
    """Say whether files are of a format of tables; raises what `open_source` does."""
    return _format(_described(specs, options, storage_options), options) not in FORMATS


def _described(
    specs: Sequence[str], options: SourceOptions, storage_options: dict[str, Any] | None
) -> list[Address]:
    addresses = find(specs, storage_options)
    return [address._replace(charset=options.charset) for address in addresses]


def _is_spaced(address: Address, options: SourceOptions, expected: Expected) -> bool:
    """Say whether cells stand between runs of blanks, as in the tables of R and Fortran."""
    if options.delimiter is not None:
        return options.delimiter == " "
    return looks_spaced(first_lines(address, expected.longest_line).bytes.tobytes())


def source_class(word: str) -> type[Source]:
    """Return the reader of the format of that word; KeyError where there is none."""
    reader: type[Source] = _named(FORMATS[word])
    return reader


def rows_class(word: str) -> type[TableRows]:
    """Return the reader of a format of tables as they are written."""
    reader: type[TableRows] = _named((TABLES | PLACES)[word])
    return reader


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _is_encoded(
    word: str, addresses: Sequence[Address], options: SourceOptions, expected: Expected,
    as_numbers: Callable[[], NumberRows],
) -> bool:  # fmt: skip
    """Say whether columns are encoded: as was asked for, as was done before, or as rows need it."""
    _require_additive(options)
    asked = _wants(options) or _asks(options)
    if options.encode == "none" and _asks(options):
        raise BadInput("`column`, `cross` and `bins` are for encoding. Leave `encode=none` out.")
    if expected.schema is not None:
        before = _as_before(asked, options, expected)
        if not before:
            _require_plain(word, addresses[0].name)
        return before
    by_name = _names_offset(options) or expected.split is not None
    if options.encode == "none":
        _require_no_roles(options, expected)
        _require_plain(word, addresses[0].name, ", or say `encode=auto`")
    if word not in PLAIN or _asks(options) or options.encode == "always" or by_name:
        return True
    if options.encode == "none" or options.missing == "zero":
        return options.encode in ADDITIVE
    if word == "csv":
        from fewpass.pipeline.tables.readers.plain_numbers import first_look  # noqa: PLC0415 - its kernels

        look = first_look(as_numbers, options, expected)
        if look != "codes, maybe":
            return look == "more"
    from fewpass.pipeline.tables.readers.sampling import is_more_than_numbers  # noqa: PLC0415 - Arrow

    rows = rows_class(word)(addresses, options, expected)
    return rows.has_folders or is_more_than_numbers(rows, options, expected)


def _may_bend(
    addresses: Sequence[Address], options: SourceOptions, expected: Expected,
    as_numbers: Callable[[], NumberRows],
) -> bool:  # fmt: skip
    """Say whether plain numbers are looked at as columns that may be curves."""
    if options.encode not in ("auto", *ADDITIVE) or expected.schema is not None:
        return False
    from fewpass.pipeline.tables.readers.bent_numbers import may_bend  # noqa: PLC0415 - likewise

    return may_bend(as_numbers(), addresses, options, expected)


def _require_no_roles(options: SourceOptions, expected: Expected) -> None:
    """Refuse columns that only an encoded table is asked for, where plain numbers are wanted."""
    if expected.split is not None:
        raise BadInput(
            f"`{expected.split.setting}` reads the column as an encoded table does. Leave "
            "`encode=none` out."
        )
    if _names_offset(options):
        raise BadInput("`offset` and `exposure` are for encoding. Leave `encode=none` out.")


def _require_plain(word: str, name: str, otherwise: str = "") -> None:
    """Refuse a format that is read as encoded columns alone, where plain numbers are wanted."""
    if word not in PLAIN:
        raise BadInput(
            f"{name}: columns of {word} files are always encoded, and plain numbers were expected. "
            f"Write the rows as CSV or Parquet{otherwise}."
        )


def _wants(options: SourceOptions) -> bool:
    """Say whether columns are encoded whatever they hold."""
    return options.encode == "always" or options.encode in ADDITIVE


def _require_additive(options: SourceOptions) -> None:
    """Refuse settings of additive models where none is asked for."""
    names = ("pairs", "knots", "pair_bins")
    given = [name for name in names if getattr(options, name) is not None]
    if given and options.encode not in ADDITIVE:
        raise BadInput(
            f"`{given[0]}` is of additive models, and encode is {options.encode}. Say "
            "`encode=additive`, or leave it out."
        )
    if options.encode == "splines" and {"pairs", "pair_bins"} & set(given):
        raise BadInput("`encode=splines` has no pairs. Say `encode=additive`, or leave pairs out.")


def _asks(options: SourceOptions) -> bool:
    """Say whether a setting makes sense for columns that are encoded only."""
    return bool(options.column or options.cross or options.bins)


def _names_offset(options: SourceOptions) -> bool:
    return options.offset is not None or options.exposure is not None


def _as_before(asked: bool, options: SourceOptions, expected: Expected) -> bool:
    assert expected.schema is not None, "columns are known"
    encoded = expected.schema.encoding is not None
    if (asked and not encoded) or (encoded and options.encode == "none"):
        now, before = ("are to be", "are not") if asked else ("are not to be", "are")
        raise BadInput(
            f"The columns {now} encoded, but those of {expected.whose} {before}. Leave `encode`, "
            "`column`, `cross` and `bins` out."
        )
    if encoded and options.encode == "linear" and _is_additive(expected.schema):
        raise BadInput(
            f"The columns are to be without curves, but those of {expected.whose} have some. Leave "
            "`encode` out."
        )
    if encoded and options.encode in ADDITIVE and not _is_additive(expected.schema):
        raise BadInput(
            f"The columns are to be those of an additive model, but those of {expected.whose} are "
            "not. Leave `encode` out."
        )
    other = contradiction(options, expected.schema.reading) if encoded else None
    if other is not None:
        name, now, before = other
        raise BadInput(
            f"`{name}` is {_in_words(now)}, but it was {_in_words(before)} when the recipe of "
            f"{expected.whose} was made, which is used as it is. Leave `{name}` out."
        )
    return encoded


def _is_additive(schema: Schema) -> bool:
    return schema.encoding is not None and "additive" in schema.encoding.recipe


def _in_words(setting: Any) -> str:
    """Return a setting in words."""
    if isinstance(setting, dict):
        setting = [f"{name}={kind}" for name, kind in setting.items()]
    if isinstance(setting, list):
        return ", ".join(setting) or "left out"
    return "left out" if setting is None else str(setting)


def _require_own(word: str, name: str, options: SourceOptions) -> None:
    """Refuse settings of other formats; BadInput."""
    for setting, words in OWN_SETTINGS.items():
        if getattr(options, setting) is not None and word not in words:
            raise BadInput(
                f"{name}: `{setting}` is a setting of {' and '.join(words)}, and this is {word}. "
                f"Leave it out."
            )


def _require_place(addresses: Sequence[Address], word: str) -> None:
    """Refuse a format that is not what the place is; BadInput."""
    for address in addresses:
        if address.format != word and (address.format is not None or word in PLACES):
            is_called = f"a table of {address.format}" if address.format else f"no table of {word}"
            raise BadInput(f"{address.name} is {is_called}. Leave `format={word}` out.")


def _format(addresses: Sequence[Address], options: SourceOptions) -> Format:
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
    with opened(address) as (stored, _):
        first = peekable(stored)
        begins = first.peek(LOOKED_AT)
        word = _with_magic(begins)
        if word is not None and not begins.startswith(ZIP):  # which a spreadsheet begins with, too
            return word
        refuse_named(address.name)
        refuse_foreign(address, begins)
        if word is not None:
            return word
        head = as_utf8(cast("BinaryIO", first), address.charset, address.name).read(_LOOKED_AT)
    return _guess_text(head, address.name)


def _with_magic(begins: bytes) -> Format | None:
    """Return the format whose files begin so; None where no format says."""
    readers: dict[str, Any] = {word: rows_class(word) for word in TABLES}
    readers |= {word: source_class(word) for word in FORMATS}
    for word, reader in readers.items():
        if reader.magic and begins.startswith(reader.magic):
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
        "arff": any(line.lstrip()[:9].lower() == b"@relation" for line in lines),
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
