"""A title before a table, which would be taken for the names of its columns."""

from __future__ import annotations

from collections import Counter

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sources.delimited_layout import names_columns, without_comments
from fewpass.pipeline.sources.dialect import find_delimiter
from fewpass.pipeline.sources.rejection import shown
from fewpass.pipeline.sources.streams import Address, first_lines

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
    head = without_comments(whole)
    text = head.bytes[:_BYTES].tobytes().decode("utf-8", "replace")
    title, *lines = text.split("\n")[:_LINES]
    delimiter = options.delimiter or find_delimiter("".join(lines), address.extension)
    rows = [[cell.strip() for cell in line.split(delimiter)] for line in lines]
    usual = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    names = next((k for k, row in enumerate(rows) if len(row) == usual and all(row)), None)
    goes_on = title.count('"') % 2 == 1  # a quoted cell, in the next line
    if (
        usual < 2
        or names is None
        or goes_on
        or not _is_title(title.split(delimiter), rows[names], options)
    ):
        return
    line = whole.lines - head.lines + 1
    begins = line + 1 + names
    raise BadInput(
        f"{address.name}, line {line}: {shown(title.strip())} is no row of the table, which begins "
        f"in line {begins} with {usual} cells. Leave out what stands before it, for example by "
        f"tail -n +{begins}, or begin such lines with #."
    )


def _is_title(cells: list[str], names: list[str], options: SourceOptions) -> bool:
    """Say whether a line is the title of a table, and not a row of it with gaps."""
    if len(cells) == 1:
        return True
    alone = bool(cells[0].strip()) and not any(map(str.strip, cells[1:]))
    return alone and len(cells) > 2 and options.header is None and names_columns(names)
