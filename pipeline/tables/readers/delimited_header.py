"""What stands before the rows of delimited text (CSV): comments, a title, the names of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fewpass.pipeline.decimal_text import DECIMAL, MISSING_WORDS
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import listed, require_distinct, require_same
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.dialect import DELIMITERS, Dialect, find_delimiter, split_line
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import WholeLines, first_lines
from fewpass.pipeline.tables.readers.rejection import shown

NUMBER = re.compile(DECIMAL)
_BEFORE_A_TABLE = b"#\r\n"  # lines that begin so
_SEPARATOR = re.compile(rb'"?sep=.?"?\r?\n', re.IGNORECASE)
#: A whole cell between quotes, whatever it holds.
_QUOTED = re.compile(r'(?<![^,;|\t\n])"(?:[^"]|"")*"(?![^,;|\t\r\n])')
MISSING = {"", *MISSING_WORDS}
#: Lines among which a title is looked for, and bytes of them.
_LINES, _BYTES = 50, 1 << 16


def first_line(text: WholeLines) -> str:
    """Return the first line, without its end."""
    end = int(np.argmax(text.bytes == ord("\n")))
    return text.bytes[:end].tobytes().decode("utf-8", "backslashreplace").rstrip("\r")


def dialect_of(head: WholeLines, address: Address, options: SourceOptions) -> Dialect:
    """Return how lines fall into cells: as was asked for, or as the first one shows."""
    delimiter = options.delimiter or find_delimiter(first_line(head), address.extension)
    return Dialect(delimiter, address.quotes)


def names_columns(cells: list[str]) -> bool:
    """Say whether a first line is a header: words, and no number."""
    words = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(words) and not any(NUMBER.fullmatch(cell) for cell in words)


def places_of(wanted: Sequence[str], actual: Sequence[str], name: str) -> tuple[int, ...] | None:
    """Return where each wanted column is in another file; None where they come in the same order.

    Raises BadInput when the file has other columns, or a row where they are named.
    """
    if tuple(actual) == tuple(wanted):
        return None
    if len(actual) == len(wanted) and not names_columns(list(actual)):
        raise BadInput(
            f"{name}: the first line is a row ({listed(list(actual))}), where the first file names "
            "its columns. Write their names above it, or send the parts of one table together: "
            "cat part-* | fewpass ingest - ..."
        )
    require_same(wanted, actual, name)
    require_distinct(wanted, name)
    return tuple(list(actual).index(column) for column in wanted)


def without_comments(text: WholeLines, name: str) -> WholeLines:
    """Return a file's text without the lines before the table that begin with #, or are `sep=;`.

    The last of them names the columns, and stays, where it has as many cells as the line after it.
    Empty lines before the table go, too.
    """
    excel = _SEPARATOR.match(text.bytes[:16].tobytes())
    if excel:
        text = WholeLines(text.bytes[excel.end() :], text.lines - 1)
    starts, start = [], 0
    while start < text.bytes.size and text.bytes[start] in _BEFORE_A_TABLE:
        starts.append(start)
        start += int(np.argmax(text.bytes[start:] == ord("\n"))) + 1
    if not starts or start == text.bytes.size:
        return text
    line = first_line(WholeLines(text.bytes[start:], 0))
    dialect = Dialect(find_delimiter(line, ""))
    last = first_line(WholeLines(text.bytes[starts[-1] :], 0))
    if len(split_line(last, dialect, name)) == len(split_line(line, dialect, name)) > 1:
        start = starts.pop()
    return WholeLines(text.bytes[start:], text.lines - len(starts))


def refuse_title(address: Address, options: SourceOptions, longest: int) -> None:
    """Refuse a file whose first line has one cell, where the table below has several.

    Raises
    ------
    BadInput
        With the line that the table begins in.
    """
    whole = first_lines(address, longest)
    head = without_comments(whole, address.name)
    text = head.bytes[:_BYTES].tobytes().decode("utf-8", "replace")
    if address.quotes:
        text = _QUOTED.sub("q", text)
    title, *lines = text.split("\n")[:_LINES]
    delimiter = options.delimiter or _delimiter(title, lines)
    usual, _ = _usual(lines, delimiter)
    rows = [[cell.strip() for cell in line.split(delimiter)] for line in lines]
    names = next((k for k, row in enumerate(rows) if len(row) == usual and all(row)), None)
    if names is None or not _is_title(title.strip(), delimiter, rows[names], options):
        return
    line = whole.lines - head.lines + 1
    begins = line + 1 + names
    raise BadInput(
        f"{address.name}, line {line}: {shown(title.strip())} is no row of the table, which begins "
        f"in line {begins} with {usual} cells. Leave out what stands before it, for example by "
        f"tail -n +{begins}, or begin such lines with #."
    )


def _delimiter(title: str, lines: list[str]) -> str:
    """Return what stands in a first line or, where nothing does, in most lines as often."""
    there = [one for one in DELIMITERS if one in title]
    if there:
        return max(there, key=title.count)
    return max(DELIMITERS, key=lambda one: _usual(lines, one)[1])


def _usual(lines: list[str], delimiter: str) -> tuple[int, int]:
    """Return how many cells most lines have, and how many lines these are; none of one cell."""
    counts = Counter(line.count(delimiter) + 1 for line in lines if delimiter in line)
    return counts.most_common(1)[0] if counts else (0, 0)


def _is_title(line: str, delimiter: str, names: list[str], options: SourceOptions) -> bool:
    """Say whether a line is the title of a table, and not a row of it with gaps, or half of one."""
    if line.count('"') % 2:  # a quoted cell goes on in the next line
        return False
    first, *others = line.split(delimiter)
    if not others:
        return not any(one in line for one in DELIMITERS)
    alone = bool(first.strip()) and not any(map(str.strip, others))
    return alone and len(others) > 1 and options.header is None and names_columns(names)
