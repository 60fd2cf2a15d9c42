"""How delimited text (CSV) is made up: delimiter, header, and what its columns are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.matching import require_distinct, require_same
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import delimited_kernel as grammar
from fewpass.pipeline.tables.readers.columns import Columns, choose
from fewpass.pipeline.tables.readers.dialect import Dialect, find_delimiter, split_line
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import Text
from fewpass.pipeline.tables.readers.source import Expected

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_BEFORE_A_TABLE = b"#\r\n"  # lines that begin so
_SEPARATOR = re.compile(rb'"?sep=.?"?\r?\n', re.IGNORECASE)
MISSING = {"", *(word.decode() for word in grammar.MISSING_WORDS)}
#: Rows from which the kind of the labels, numbers or words, is told.
_KIND_ROWS = 1000


class Layout(NamedTuple):
    """How the lines of a source are made up; the same for all its files."""

    dialect: Dialect
    has_header: bool
    columns: Columns
    roles: NDArray[np.int8]  # (columns,), see delimited_kernel
    order: NDArray[np.intp] | None  # (d,) which feature in the file each is; None: they ascend


def first_line(text: Text) -> str:
    """Return the first line, without its end."""
    end = int(np.argmax(text.bytes == ord("\n")))
    return text.bytes[:end].tobytes().decode("utf-8", "backslashreplace").rstrip("\r")


def without_header(text: Text) -> Text:
    """Return text without its first line."""
    end = int(np.argmax(text.bytes == ord("\n")))
    return Text(text.bytes[end + 1 :], text.lines - 1)


def dialect_of(head: Text, address: Address, options: SourceOptions) -> Dialect:
    """Return how lines fall into cells: as was asked for, or as the first one shows."""
    delimiter = options.delimiter or find_delimiter(first_line(head), address.extension)
    return Dialect(delimiter, address.quotes)


def study(text: Text, address: Address, options: SourceOptions, expected: Expected) -> Layout:
    """Delimiter, header and columns, from the first lines of the first file."""
    line = first_line(text)
    dialect = dialect_of(text, address, options)
    cells = split_line(line, dialect, address.name)
    has_header = names_columns(cells) if options.header is None else options.header
    names = cells if has_header else None
    columns = choose(names, len(cells), options, address.name, expected)
    rows = without_header(text) if has_header else text
    roles = _roles(columns, rows, dialect, address.name)
    order = np.argsort(np.argsort(columns.features))
    ascends = bool((np.diff(columns.features) > 0).all())
    return Layout(dialect, has_header, columns, roles, None if ascends else order)


def types_of(layout: Layout) -> list[str]:
    """Say what the cells of every column are read as; those that are dropped may be anything."""
    kinds = {grammar.DROPPED: "any", grammar.TEXT_TARGET: "text"}
    return [kinds.get(role, "number") for role in layout.roles.tolist()]


def names_columns(cells: list[str]) -> bool:
    """Say whether a first line is a header: words, and no number."""
    words = [cell for cell in cells if cell.lower() not in MISSING]
    return bool(words) and not any(_NUMBER.fullmatch(cell) for cell in words)


def _roles(columns: Columns, rows: Text, dialect: Dialect, name: str) -> NDArray[np.int8]:
    roles = np.full(columns.n_columns, grammar.DROPPED, np.int8)
    roles[list(columns.features)] = grammar.FEATURE
    if columns.weight is not None:
        roles[columns.weight] = grammar.WEIGHT
    if columns.label is not None:
        words = _mostly_words(rows, columns.label, dialect, name)
        roles[columns.label] = grammar.TEXT_TARGET if words else grammar.TARGET
    return roles


def _mostly_words(rows: Text, column: int, dialect: Dialect, name: str) -> bool:
    """Whether most cells of a column, among the first rows, are neither numbers nor missing."""
    found, start = [], 0
    ends = np.flatnonzero(rows.bytes == ord("\n"))[:_KIND_ROWS]
    for end in ends.tolist():
        line = rows.bytes[start:end].tobytes().decode("utf-8", "replace")
        cells = split_line(line, dialect, name)
        start = end + 1
        if column < len(cells) and cells[column].lower() not in MISSING:
            found.append(_NUMBER.fullmatch(cells[column]) is None)
    return sum(found) > len(found) / 2


def like_header(text: Text, layout: Layout, address: Address) -> Layout:
    """Return the layout of a file whose columns may come in another order than the first's."""
    cells = split_line(first_line(text), layout.dialect, address.name)
    known = layout.columns.names
    assert known is not None, "the first file has a header"
    places = places_of(known, cells, address.name)
    if places is None:
        return layout
    columns, features = layout.columns, tuple(places[k] for k in layout.columns.features)
    label, weight = (None if k is None else places[k] for k in (columns.label, columns.weight))
    columns = columns._replace(names=tuple(cells), label=label, weight=weight, features=features)
    roles = np.empty_like(layout.roles)
    roles[list(places)] = layout.roles
    return layout._replace(columns=columns, roles=roles, order=np.argsort(np.argsort(features)))


def places_of(known: Sequence[str], found: Sequence[str], name: str) -> tuple[int, ...] | None:
    """Return where each known column is in another file; None where they come in the same order.

    Raises BadInput when the file has other columns.
    """
    if tuple(found) == tuple(known):
        return None
    require_same(known, found, name)
    require_distinct(known, name)
    return tuple(list(found).index(column) for column in known)


def without_comments(text: Text, name: str) -> Text:
    """Return a file's text without the lines before the table that begin with #, or are `sep=;`.

    The last of them names the columns, and stays, where it has as many cells as the line after it.
    Empty lines before the table go, too.
    """
    excel = _SEPARATOR.match(text.bytes[:16].tobytes())
    if excel:
        text = Text(text.bytes[excel.end() :], text.lines - 1)
    starts, start = [], 0
    while start < text.bytes.size and text.bytes[start] in _BEFORE_A_TABLE:
        starts.append(start)
        start += int(np.argmax(text.bytes[start:] == ord("\n"))) + 1
    if not starts or start == text.bytes.size:
        return text
    line = first_line(Text(text.bytes[start:], 0))
    dialect = Dialect(find_delimiter(line, ""))
    last = first_line(Text(text.bytes[starts[-1] :], 0))
    if len(split_line(last, dialect, name)) == len(split_line(line, dialect, name)) > 1:
        start = starts.pop()
    return Text(text.bytes[start:], text.lines - len(starts))
