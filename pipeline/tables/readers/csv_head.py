"""The first rows of delimited text (CSV): what stands before them, between and around cells."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from typing import NamedTuple

from fewpass.pipeline.decimal_text import DECIMAL, MISSING_WORDS
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import listed, require_distinct, require_same
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.charsets import charset_of
from fewpass.pipeline.tables.readers.csv_quotes import looks_spaced
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import first_lines
from fewpass.pipeline.tables.readers.rejection import shown

NUMBER = re.compile(DECIMAL)
MISSING = {"", *MISSING_WORDS}
DELIMITERS = ",;|\t"
#: Bytes that tell whether quotes are text, and rows that tell what cells hold.
_LOOKED_AT, ROWS = 1 << 20, 1000
#: Bytes that tell the charset.
_CHARSET_BYTES = 1 << 18
#: Rows that tell whether the first one is a header, or a title.
_FIRST = 100
#: How text is decoded, so that its bytes can be counted.
_AS_IT_IS = ("utf-8", "surrogateescape")
_SEPARATOR = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)
#: Share of the lines that are rows where quotes are part of the text.
_WHOLE = 0.99


#: Tables of more columns than these are read with care for what a column takes, whatever its cells.
WIDE = 300


class CsvLayout(NamedTuple):
    """The rules by which rows fall into cells."""

    delimiter: str
    quotes: bool
    n_cells: int
    columns: tuple[int, ...]  # those that are read
    nulls: tuple[str, ...]


class CsvHead(NamedTuple):
    """The first rows of a file."""

    before: int  # lines before the table
    begins: tuple[int, int]  # bytes before the first row and before the second one
    delimiter: str
    rows: list[list[str]]  # without blank ones; the first may be a header
    ends: list[int]  # line, from 1, that each of them ends on

    @property
    def names(self) -> list[str]:
        """Cells of the first row without the blanks around them."""
        return [cell.strip() for cell in self.rows[0]] if self.rows else []


def head_of(text: bytes, address: Address, delimiter: str | None) -> CsvHead:
    """Take the first lines of a file apart."""
    lines = _lines(text)
    before = _lines_before(lines)
    first = lines[before] if before < len(lines) else ""
    delimiter = delimiter or find_delimiter(first, address.extension)
    if before and 1 < len(_cells(lines[before - 1], delimiter)) == len(_cells(first, delimiter)):
        before -= 1  # a comment that names the columns
    rows, ends = _rows(lines[before:], delimiter, quotes=address.quotes)
    ends = [before + end for end in ends]
    begins = _size(lines[:before]), _size(lines[: ends[0] if ends else before])
    return CsvHead(before, begins, delimiter, rows, ends)


def _lines(text: bytes) -> list[str]:
    return io.StringIO(text.decode(*_AS_IT_IS), newline="").readlines()


def _size(lines: Sequence[str]) -> int:
    return len("".join(lines).encode(*_AS_IT_IS))


def _lines_before(lines: Sequence[str]) -> int:
    """Return how many lines stand before a table: blank ones, those that begin with #, `sep=;`."""
    start = int(bool(lines) and _SEPARATOR.fullmatch(lines[0]) is not None)
    rest = (k for k in range(start, len(lines)) if lines[k].rstrip("\r\n") and lines[k][0] != "#")
    return next(rest, start)


def find_delimiter(line: str, extension: str) -> str:
    """Return what most likely stands between the cells of a line."""
    return "\t" if extension == ".tsv" else max(DELIMITERS, key=line.count)


def _cells(line: str, delimiter: str) -> list[str]:
    return next(iter(_rows([line], delimiter, quotes=True)[0]), [])


def _rows(
    lines: Sequence[str], delimiter: str, *, quotes: bool
) -> tuple[list[list[str]], list[int]]:
    """Return the first rows, and the line that each ends on.

    They end before a cell that is longer than Python's `csv` reads: Arrow tells where that is.
    """
    reader = csv.reader(lines, delimiter=delimiter)
    if not quotes:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    rows: list[list[str]] = []
    ends: list[int] = []
    with suppress(csv.Error):
        for row in islice(filter(None, reader), ROWS):
            rows.append(row)
            ends.append(reader.line_num)
    return rows, ends


# -- all files -----------------------------------------------------------------------------------


def as_seen(
    addresses: Sequence[Address], options: SourceOptions, longest: int
) -> tuple[list[Address], SourceOptions]:
    """Return files and options with what the first lines show: charset, blanks, quotes.

    Raises
    ------
    BadInput
        Text without a known charset, or a title before the table.
    """
    raw = first_lines(addresses[0], longest, _LOOKED_AT).bytes
    if options.charset is None and (guess := charset_of(raw[:_CHARSET_BYTES].tobytes())):
        others = [one._replace(charset=_charset_of(one, guess, longest)) for one in addresses[1:]]
        addresses = [addresses[0]._replace(charset=guess), *others]
        raw = first_lines(addresses[0], longest, _LOOKED_AT).bytes
    text = raw.tobytes()
    if b"\x00" in text[:1000]:
        raise BadInput(
            f"{addresses[0].name}: the text holds zero bytes. If it is UTF-16 without a mark, say "
            "which (`charset=utf-16-le`)."
        )
    spaced = looks_spaced(text) if options.delimiter is None else options.delimiter == " "
    quotes, delimiter = options.quote != "none", options.delimiter
    if spaced:
        options = options.model_copy(update={"delimiter": "\t"})
    else:
        if options.quote == "auto" and b'"' in text:
            quotes = not _are_text(text, head_of(text, addresses[0], delimiter))
        _refuse_title(text, addresses[0]._replace(quotes=quotes), options)
    return [a._replace(spaced=spaced, quotes=quotes) for a in addresses], options


def _charset_of(address: Address, guess: str, longest: int) -> str | None:
    """Return the charset of a file next to one of a charset; None where its head is UTF-8."""
    head = first_lines(address, longest, _CHARSET_BYTES).bytes.tobytes()
    return guess if head.isascii() or charset_of(head) is not None else None


def _are_text(text: bytes, head: CsvHead) -> bool:
    """Say whether quotes are part of the text.

    Then some do not end their cells, few cells begin with any, and every line is a row.  With tabs
    it is enough that one is never closed: who writes tabs between cells seldom encloses them.
    """
    lines = [line.rstrip("\r\n") for line in _lines(text)[head.before :] if line.strip()]
    n, mark = lines[0].count(head.delimiter), re.escape(head.delimiter)
    quoted = [*filter(re.compile(rf'(?:^|{mark})"').search, lines)]
    whole = sum(line.count(head.delimiter) == n for line in lines)
    if not n or 2 * len(quoted) >= len(lines) or whole < _WHOLE * len(lines):
        return False
    cell = re.compile(
        rf'"(?:[^"]|"")*(?P<end>"?)(?P<behind>[^{mark}]*)(?:{mark}|$)|[^"{mark}][^{mark}]*{mark}?|{mark}'
    )
    cells = [(line, m) for line in quoted for m in cell.finditer(line) if m["end"] is not None]
    unended = [line.count(head.delimiter) == n for line, m in cells if not m["end"]]
    goes_on = head.delimiter == "\t" and 2 * sum(unended) > len(unended)
    return goes_on or any(m["end"] and m["behind"].strip() for _, m in cells)


def _refuse_title(text: bytes, address: Address, options: SourceOptions) -> None:
    """Refuse a first row of one cell, where the rows below it have several."""
    head = head_of(text, address, options.delimiter)
    if len(head.names) == 1:  # which says nothing of what stands between cells
        heads = [head_of(text, address, one) for one in options.delimiter or DELIMITERS]
        head = max(heads, key=lambda one: _usual(one)[1])
    rows, (usual, _) = head.rows[1:_FIRST], _usual(head)
    begins = next((row for row in rows if len(row) == usual and all(map(str.strip, row))), None)
    if begins is None or not _is_title(head.names, begins, options):
        return
    line = head.ends[1 + rows.index(begins)] - "".join(begins).count("\n")
    raise BadInput(
        f"{address.name}, line {head.before + 1}: {shown(head.names[0])} is no row of the table, "
        f"which begins in line {line} with {usual} cells. Leave out what stands before it, for "
        f"example by tail -n +{line}, or begin such lines with #."
    )


def _usual(head: CsvHead) -> tuple[int, int]:
    """Return how many cells most rows below the first one have, none of one, and how many do."""
    counts = Counter(len(row) for row in head.rows[1:_FIRST] if len(row) > 1)
    return counts.most_common(1)[0] if counts else (0, 0)


def _is_title(first: list[str], begins: list[str], options: SourceOptions) -> bool:
    if len(first) == 1:
        return not any(one in first[0] for one in DELIMITERS)
    alone = bool(first[0]) and not any(first[1:])
    return alone and len(first) > 2 and options.header is None and names_columns(begins)


# -- the header ----------------------------------------------------------------------------------


def has_header(head: CsvHead, options: SourceOptions) -> bool:
    """Say whether the first row names the columns: as was asked for, or by what it holds."""
    if options.header is not None:
        return options.header
    return names_columns(head.names) and not _come_again(head)


def names_columns(cells: Sequence[str]) -> bool:
    """Say whether a first row is a header: words, and no number."""
    words = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(words) and not any(NUMBER.fullmatch(cell) for cell in words)


def _come_again(head: CsvHead) -> bool:
    """Say whether most cells of the first row are values that their columns have later, too."""
    later = [{cell and cell.strip() for cell in c} for c in zip_longest(*head.rows[1:_FIRST])]
    again = [cell in column for cell, column in zip(head.names, later, strict=False)]
    return sum(again) > len(head.names) / 2


def without_nameless(header: list[str]) -> list[str]:
    """Return a header without the cells at its end that are empty."""
    last = max((k for k, name in enumerate(header) if name), default=-1)
    return header[: last + 1]


def spare_cells(head: CsvHead) -> int:
    """Return how many cells each of the first rows has, all empty, behind those that have names."""
    rows, named = head.rows[1:], len(without_nameless(head.names))
    widths = {len(row) for row in rows}
    spare = max(widths, default=0) - named
    if not named or spare < 1 or len(widths) > 1 or len(head.names) not in (named, named + spare):
        return 0
    return 0 if any(any(row[named:]) for row in rows) else spare


def places_of(wanted: Sequence[str], actual: Sequence[str], name: str) -> tuple[int, ...]:
    """Return where each wanted column is in another file; none where they come in the same order.

    Raises BadInput when the file has other columns, or a row where they are named.
    """
    if tuple(actual) == tuple(wanted):
        return ()
    if len(actual) == len(wanted) and not names_columns(actual):
        raise BadInput(
            f"{name}: the first row is no header ({listed(list(actual))}), where the first file "
            "names its columns. Write their names above it, or send the parts of one table "
            "together: cat part-* | fewpass ingest - ..."
        )
    require_same(wanted, actual, name)
    require_distinct(wanted, name)
    return tuple(list(actual).index(column) for column in wanted)
