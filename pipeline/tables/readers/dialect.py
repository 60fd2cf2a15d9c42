"""What stands between the cells of delimited text: a character, or a run of blanks; and quotes."""

from __future__ import annotations

import csv
from typing import NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.characters import NEWLINE, QUOTE, RETURN, SPACE, TAB
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes

_NO_BYTE = 256
DELIMITERS = ",;|\t"


#: Lines that show whether cells stand between blanks.
_LINES = 100


class Dialect(NamedTuple):
    """How a line falls into cells."""

    delimiter: str
    quotes: bool = True  # whether a cell that begins with a double quote ends with one

    @property
    def quote(self) -> int:
        """The byte that encloses cells; none where quotes are part of the text."""
        return QUOTE if self.quotes else _NO_BYTE

    @property
    def marks(self) -> tuple[int, int]:
        """Delimiter and quote, as kernels take them."""
        return ord(self.delimiter), self.quote


class CellLayout(NamedTuple):
    """Where in a line the cells are that are read."""

    dialect: Dialect
    n_cells: int
    places: list[int]  # of the columns that are read, in their order
    nulls: tuple[str, ...]


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


@kernel
def _put_tabs(text: Bytes, quote: int, out: Bytes) -> int:
    """Copy text with one tab for every run of blanks inside a line; return how much that is."""
    n, waits, begun, quoted = 0, False, False, False
    for at in range(text.size):
        c = text[at]
        if c == NEWLINE:
            out[n] = c
            n, waits, begun, quoted = n + 1, False, False, False
        elif not quoted and (c == SPACE or c == TAB or c == RETURN):  # noqa: PLR1714, SIM109 -- `in` builds a set
            waits = begun
        else:
            if waits:
                out[n] = TAB
                n += 1
            if c == quote and (quoted or waits or not begun):
                quoted = not quoted
            out[n] = c
            n, waits, begun = n + 1, False, True
    return n


def by_tabs(text: Bytes, quotes: bool) -> Bytes:
    """Return whole lines with a tab between cells; those in double quotes end on their line."""
    out = np.empty_like(text)
    return out[: _put_tabs(text, Dialect("\t", quotes).quote, out)]


def looks_spaced(head: bytes) -> bool:
    """Say whether the first lines have no other delimiter, but all the same number of blanks."""
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()][:_LINES]
    if len(lines) < 2 or any(mark in lines[0] for mark in (b",", b";", b"|", b"\t")):
        return False
    counts = {by_tabs(np.frombuffer(line, np.uint8), True).tobytes().count(b"\t") for line in lines}
    return len(counts) == 1 and counts != {0}
