"""Lists of values as other systems write them: a value on each line, or a table with a header.

Byte order marks, UTF-16, compression and line ends are read as those of all text files.  What is
not plainly one value of the column on each line is refused with the line: these are rows to delete.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.readers.csv_head import find_delimiter
from fewpass.pipeline.tables.readers.finding import Address, find
from fewpass.pipeline.tables.readers.lines import line_pieces
from fewpass.pipeline.tables.readers.rejection import shown

_PIECE_BYTES, _HEAD_LINES = 1 << 20, 100
_BLANKS = " \t\r\n\v\f\ufeff"  # a byte order mark may be left of files joined to one


def listed_values(
    file: str, column: str, storage_options: dict[str, Any] | None = None
) -> frozenset[bytes]:
    """Return the values of a list, in UTF-8, without blanks around them; empty ones are none.

    Parameters
    ----------
    file
        Path, glob or address of text: lines, in double quotes where they hold quotes or delimiters.
        A first line that names the column is a header, also of several columns.
    column
        Whose values these are.
    storage_options
        For fsspec.

    Raises
    ------
    BadInput
        A line that is no single value, with its number; no value at all.
    """
    every: set[bytes] = set()
    for address in find([file], storage_options):
        every.update(_values_in(address, column))
    if not every:
        raise BadInput(f"{file} lists no value of {shown_name(column)}. Write one on each line.")
    return frozenset(every)


def _values_in(address: Address, column: str) -> Iterator[bytes]:
    place: int | None = None
    for line, cells in _rows_in(address):
        if place is None:
            place, is_header = _place_of(column, cells, f"{address.name}, line {line}")
            width = len(cells)
            if is_header:
                continue
        if len(cells) != width:
            raise _several(f"{address.name}, line {line}", cells, width)
        if cells[place]:
            yield cells[place].encode()


def _place_of(column: str, cells: Sequence[str], where: str) -> tuple[int, bool]:
    """Return which cell of a line is the column's, by the first one, and whether that is a header.

    A header that is spelled otherwise but for its case is taken for a value, which no row has.
    """
    for wanted, names in ((column, cells), (column.lower(), [cell.lower() for cell in cells])):
        if names.count(wanted) == 1:
            return names.index(wanted), True
    if len(cells) > 1:
        raise BadInput(
            f"{where}: there are {len(cells)} cells, and not one that is {shown_name(column)}. "
            "Name the column in the first line, or write a value on each line, in double quotes "
            "where it holds a delimiter."
        )
    return 0, False


def _several(where: str, cells: Sequence[str], width: int) -> BadInput:
    return BadInput(
        f"{where}: {len(cells)} cells (the first is {shown(cells[0])}), where the first line has "
        f"{width}. Put a value that holds a delimiter in double quotes."
    )


def _rows_in(address: Address) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a list that are not empty, with the lines that they end in."""
    lines = _lines_of(address)
    head = list(itertools.islice(lines, _HEAD_LINES))
    first = next(filter(None, (line.strip(_BLANKS) for line in head)), "")
    reader = csv.reader(
        itertools.chain(head, lines), delimiter=find_delimiter(first, address.extension),
        skipinitialspace=True, strict=True,
    )  # fmt: skip
    try:
        for cells in reader:
            stripped = [cell.strip(_BLANKS) for cell in cells]
            if any(stripped):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise BadInput(
            f"{address.name}, line {reader.line_num}: {error}. Write a value on each line, in "
            "double quotes where it holds a delimiter, and double the quotes inside."
        ) from error


def _lines_of(address: Address) -> Iterator[str]:
    number = 0
    for piece in line_pieces([address], _PIECE_BYTES, _PIECE_BYTES):
        for line in piece.content.bytes.tobytes().split(b"\n")[:-1]:
            number += 1
            try:
                decoded = line.decode()
            except UnicodeDecodeError:
                decoded = "\0"
            if "\0" in decoded:
                raise BadInput(
                    f"{address.name}, line {number}: {shown(line)} is no UTF-8 text. Save the list "
                    "as UTF-8, or as UTF-16 with a byte order mark."
                )
            yield f"{decoded}\n"
