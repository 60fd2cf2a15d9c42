"""A title before a table, which would be taken for the names of its columns."""

from __future__ import annotations

from collections import Counter

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.delimited_layout import names_columns, without_comments
from fewpass.pipeline.tables.readers.dialect import DELIMITERS
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.lines import first_lines
from fewpass.pipeline.tables.readers.rejection import shown

#: Lines that are looked at, and bytes of them.
_LINES, _BYTES = 50, 1 << 16


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
