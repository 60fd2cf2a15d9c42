"""What reading may take of a budget of memory: the one place where it is asked for.

A file may make whoever reads it have something whole: a line, a row, a page, a batch, a window of
its compression, a description of every column.  What such a thing takes is told by the file before
it is taken, and compared with the room that there is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import format_bytes

#: Shares of what is for rows. A line is copied a few times, by several threads; a window
#: of a compressed file is there once.
ROW_SHARE, WINDOW_SHARE = 16, 1
#: Shares of the whole budget. A page or a batch is there as it is stored, as it was packed, as
#: Arrow has it, and in a piece; pages of all columns lie side by side; fitting a recipe takes
#: several times the cells of its sample.
PART_SHARE, SIDE_BY_SIDE_SHARE, COLUMNS_SHARE, SAMPLE_SHARE = 8, 2, 2, 4
#: Bytes in memory of the cells that decide on a recipe, at most.
SAMPLE_MEMORY = 64 << 20
#: What a column takes while tables are read, in bytes, measured: of numbers its name and its place
#: ("plain"); of a typed file its description by Arrow, and an array in every piece that is being
#: read; one that is encoded has a recipe beside.
BYTES_OF_COLUMN = {"plain": 600, "typed": 6_000, "encoded": 32_000}
Kept = Literal["plain", "typed", "encoded"]
MEGABYTE = 10**6


class Room(NamedTuple):
    """What reading may take of a budget.

    Attributes
    ----------
    budget
        Bytes, as they were asked for (`memory`).
    rows
        Bytes of it that are for rows: without the program's own, and a model's.
    """

    budget: int
    rows: int

    @property
    def row(self) -> int:
        """Bytes of the longest line, or row, that is read."""
        return self.rows // ROW_SHARE

    @property
    def sample(self) -> int:
        """Bytes of the cells that decide on a recipe."""
        return min(SAMPLE_MEMORY, self.budget // SAMPLE_SHARE)

    @property
    def part(self) -> int:
        """Bytes of a page, a batch or another part that a file cannot be read without."""
        return self.budget // PART_SHARE

    @property
    def side_by_side(self) -> int:
        """Bytes of such parts that are there at once, one for each column."""
        return self.budget // SIDE_BY_SIDE_SHARE

    def require_part(self, size: int, what: str, advice: str) -> None:
        """Refuse a part of a file that is too large; `what` ends before "3 GB"."""
        self._require(size, self.part, PART_SHARE * size, what, advice)

    def require_side_by_side(self, size: int, what: str, advice: str) -> None:
        """Refuse parts that are too large together."""
        self._require(size, self.side_by_side, SIDE_BY_SIDE_SHARE * size, what, advice)

    def require_window(self, size: int, what: str, advice: str) -> None:
        """Refuse what unpacking a compressed file takes."""
        least = self.budget - self.rows + WINDOW_SHARE * size
        self._require(size, self.rows // WINDOW_SHARE, least, what, advice)

    def require_row(self, size: int, where: str) -> None:
        """Refuse a row that is too long."""
        least = self.budget - self.rows + ROW_SHARE * size
        advice = "Check that it is one row, leave the column out (`drop`)"
        self._require(size, self.row, least, f"{where}: the row takes", advice)

    def require_columns(self, n: int, where: str, kept: Kept) -> None:
        """Refuse so many columns that what is kept of each is too much together.

        Parameters
        ----------
        n
            How many there are.
        where
            The file.
        kept
            What is kept of each.
        """
        each = BYTES_OF_COLUMN[kept]
        what = f"{where}: {n:,} columns take"
        advice = "Check that it is a table of so many (a sparse format suits it better), drop some"
        most = self.budget // COLUMNS_SHARE
        self._require(n * each, most, COLUMNS_SHARE * n * each, what, advice)

    def most_columns(self, kept: Kept) -> int:
        """Return how many columns there may be."""
        return self.budget // COLUMNS_SHARE // BYTES_OF_COLUMN[kept]

    def _require(self, size: int, most: int, least: int, what: str, advice: str) -> None:
        if size > most:
            raise BadInput(
                f"{what} {format_bytes(size)}, where a memory budget of "
                f"{format_bytes(self.budget)} has room for {format_bytes(most)}. {advice}, or give "
                f"at least `memory={-(-least // MEGABYTE)}MB`."
            )


#: Where nobody says how much memory there is.
UNTOLD = Room(1 << 32, 1 << 32)
