"""What stands between the cells of delimited text, and whether quotes enclose them."""

from __future__ import annotations

import csv
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.rejection import shown

RETURN = 13
_QUOTE, _NO_BYTE = ord('"'), 256
DELIMITERS = ",;|\t"


class Dialect(NamedTuple):
    """How a line falls into cells."""

    delimiter: str
    quotes: bool = True  # whether a cell that begins with a double quote ends with one

    @property
    def quote(self) -> int:
        """The byte that encloses cells; none where quotes are part of the text."""
        return _QUOTE if self.quotes else _NO_BYTE

    @property
    def marks(self) -> tuple[int, int]:
        """Delimiter and quote, as kernels take them."""
        return ord(self.delimiter), self.quote


def find_delimiter(line: str, extension: str) -> str:
    """Return what most likely stands between the cells of a line."""
    return "\t" if extension == ".tsv" else max(DELIMITERS, key=line.count)


def split_line(line: str, dialect: Dialect, where: str) -> list[str]:
    """Return the cells of a line, quotes and blanks around them taken off.

    Raises
    ------
    BadInput
        The line cannot be taken apart; the message begins with `where`.
    """
    if not dialect.quotes:
        return [cell.strip() for cell in line.split(dialect.delimiter)] if line else []
    try:
        cells = next(csv.reader([line], delimiter=dialect.delimiter), [])
    except csv.Error as error:
        if "\r" in line:
            raise BadInput(
                f"{where}: a line that begins with {shown(line)} holds carriage returns alone, "
                "which end no line where others end in line feeds. Write these, for example by "
                "tr '\\r' '\\n'."
            ) from error
        raise BadInput(
            f"{where}: a line that begins with {shown(line)} cannot be taken apart ({error}). "
            "Check the file and its delimiter (`delimiter`)."
        ) from error
    return [cell.strip() for cell in cells]
