"""The budget of memory: who may take what of it, and why.

What importing the libraries takes is outside.  `PROGRAM_BYTES` are reserved first, for scoring
the weights, too; `rows` is the rest.  Some take a share of the rest, or of the whole budget; others
a number of copies of what they keep.  These numbers stand here and nowhere else (docs/scaling.md
prints them): windows, and with them bits, depend on shares and copies.

Arrays that a file asks for (a line, a row, a window of its compression, columns) are compared with
their share before they are taken.  A page or a batch of a Parquet or Arrow file comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, Self, overload

from fewpass.pipeline.errors import BadInput, TooLittleMemory
from fewpass.pipeline.sizes import counted, format_bytes

PROGRAM_BYTES = 96_000_000  # measured
PROGRAM = "kernels, modules imported late, compressed chunks, a cluster in this process"
MEGABYTE = 10**6
READING, INGEST, TRAINING = "reading files", "ingest", "training"
FROM_SOURCE, SCORING, ANYONE = "training from a source", "scoring", "everything"
TableKind = Literal["plain", "typed", "encoded", "curved"]
#: Bytes of a column while tables are read, measured: of numbers its name and its place ("plain");
#: of a typed file its description by Arrow, and an array in every piece that is being read; an
#: encoded one has a recipe as well; a curved one is fitted with and without its curve.
BYTES_OF_COLUMN = {"plain": 600, "typed": 6_000, "encoded": 32_000, "curved": 80_000}
LEAST_SAMPLE, SAMPLE_MEMORY = 4 << 20, 64 << 20  # of the cells that decide on a recipe


class MemoryShare:
    """A share of a budget, in bytes: an attribute of `Budget`.

    Parameters
    ----------
    part, of
        How much of the whole budget, or of its `rows`.
    taker, what, why
        Words for the table.
    """

    def __init__(
        self, part: str, of: Literal["budget", "rows"], taker: str, what: str, why: str
    ) -> None:
        self.part, self.of = Fraction(part), of
        self.taker, self.what, self.why = taker, what, why

    @overload
    def __get__(self, budget: None, owner: type) -> MemoryShare: ...
    @overload
    def __get__(self, budget: Budget, owner: type) -> int: ...
    def __get__(self, budget: Budget | None, owner: type) -> MemoryShare | int:
        """Return the bytes of a budget."""
        return self if budget is None else self.taken_of(budget)

    def __str__(self) -> str:
        """Write the part as a fraction."""
        whole = "the budget" if self.of == "budget" else "the rest"
        return f"{self.part} of {whole}" if self.part != 1 else whole

    def taken_of(self, budget: Budget) -> int:
        """Return the bytes, rounded down."""
        whole = budget.rows if self.of == "rows" else budget.memory
        return whole * self.part.numerator // self.part.denominator

    def with_this(self, budget: Budget, size: int) -> int:
        """Return the least budget whose share is so large, all else as in this one."""
        least = -(-size * self.part.denominator // self.part.numerator)
        return least + (budget.memory - budget.rows if self.of == "rows" else 0)


class Copies(int):
    """Number of copies of something in memory at once, at most; or bytes of a small thing."""

    taker: str
    what: str
    why: str

    def __new__(cls, number: int, taker: str, what: str, why: str) -> Self:
        """Keep the words for the table."""
        made = super().__new__(cls, number)
        made.taker, made.what, made.why = taker, what, why
        return made


class TakenMemory(NamedTuple):
    """A part of a budget that a training takes, in bytes."""

    what: str
    bytes: int
    why: str


@dataclass(frozen=True)
class Budget:
    """Bytes that a command may take beyond the libraries, and who may take them.

    Attributes
    ----------
    memory
        As asked for (`memory`).
    rows
        Without the program's own and a model's.
    """

    memory: int
    rows: int

    @classmethod
    def of(cls, memory: int) -> Budget:
        """Return the budget of a plan's `memory`."""
        return cls(memory, memory - PROGRAM_BYTES)

    longest_row = MemoryShare(
        "1/16", "rows", READING, "the longest line or row",
        "it is copied a few times, by several threads",
    )  # fmt: skip
    unpacking = MemoryShare(
        "1", "rows", READING, "the dictionary of a file of xz", "it is there once"
    )
    page = MemoryShare(
        "1/8", "budget", READING, "what is read ahead of the columns of a Parquet file",
        "it is there as stored and decoded, and in a piece",
    )  # fmt: skip
    pages = MemoryShare(
        "1/2", "budget", READING, "parts of a file side by side", "every column has one"
    )
    columns = MemoryShare(
        "1/2", "budget", READING, "descriptions of columns", "600 to 80,000 bytes of each"
    )
    sampled_cells = MemoryShare(
        "1/4", "rows", READING, "cells that decide on a recipe",
        "fitting it takes several times as much; 4 to 64 MiB",
    )  # fmt: skip
    pieces = MemoryShare(
        "1/4", "rows", f"{INGEST}, {FROM_SOURCE}", "pieces of text that are being parsed",
        "one per thread and two more, where they fit",
    )  # fmt: skip
    piece = Copies(
        6, f"{INGEST}, {FROM_SOURCE}", "copies of a piece", "text, rows, and what parsing needs"
    )
    retained = MemoryShare(
        "7/8", "rows", INGEST, "rows, where they stay in memory until they are written",
        "with the pieces in the making; more rows go to files",
    )  # fmt: skip
    retained_row = Copies(
        16, INGEST, "bytes of each such row", "its key, and its bucket while parts are made"
    )
    retained_cells = Copies(
        4 << 20, INGEST, "bytes of cells that are kept as written, at a time",
        "elsewhere they are as long as they were written, until they are among the rows",
    )  # fmt: skip
    measured_column = Copies(
        48, INGEST, "bytes of a column",
        "statistics of all rows and of some (40), the order both ways (8); later as stored (16)",
    )  # fmt: skip
    grouping = MemoryShare(
        "1/4", "rows", INGEST, "rows on their way to files",
        "those of a file for each task of a process, of two files where threads share the work",
    )  # fmt: skip
    part_copies = Copies(3, INGEST, "copies of them", "as they came, together, by bucket")
    least_run = MemoryShare(
        "1/32", "rows", INGEST, "rows of a run, which are put in order together",
        "one per thread, with chunks in the making, where they fit",
    )  # fmt: skip
    run = MemoryShare(
        "1/4", "rows", INGEST, "rows of a run, where fewer threads leave so much",
        "each run reads of every file",
    )  # fmt: skip
    run_copies = Copies(2, INGEST, "copies of a run", "with the buckets at its ends")
    written_chunk = Copies(3, INGEST, "copies of a chunk", "rows, and what encoding needs")
    scaled_chunk = Copies(6, INGEST, "copies of a chunk whose rows are scaled", "before and after")
    chunk = MemoryShare("1/16", "budget", INGEST, "a chunk", "at most 8 MiB, unless given")

    windows = Copies(
        3, TRAINING, "windows of each stream", "one is stepped, two are read, each by a thread"
    )
    row_numbers = Copies(
        2, TRAINING, "versions of the numbers that a method keeps per row", "one read, one written"
    )
    states = Copies(
        2, TRAINING, "states of each stream", "what a span is given, and its own; sums come on top"
    )
    in_place = Copies(
        2, f"{TRAINING}, {FROM_SOURCE}", "states where there is no memory for copies",
        "itself, and the weights in a snapshot with the order of columns",
    )  # fmt: skip
    weights = Copies(
        4, f"{TRAINING}, {SCORING}", "weights of classes trained in groups, or of a model",
        "retained, in a snapshot, and as the bytes of it",
    )  # fmt: skip
    single_copies = Copies(
        2, TRAINING, "copies by row and by column, for methods that read single ones",
        "unless mapped from files; one of all, and one while it is made",
    )  # fmt: skip
    single_row = Copies(400, TRAINING, "bytes of a row, for such methods", "state and trees")
    single_column = Copies(100, TRAINING, "bytes of a column, for such methods", "and a snapshot")
    held_out = MemoryShare(
        "1/8", "budget", TRAINING, "held-out rows, with early stopping",
        "they are read chunk by chunk next to the rows that are learnt from",
    )  # fmt: skip
    lam_rows = MemoryShare(
        "1/8",
        "budget",
        TRAINING,
        "rows that lam is chosen by",
        "and the parts that they are cut to",
    )
    lam_class = Copies(
        24, TRAINING, "bytes of each such row and class, where one model tells all classes apart",
        "dual variable, score and loss",
    )  # fmt: skip
    lam_states = MemoryShare(
        "1/4", "budget", TRAINING, "states of models that lam is chosen by",
        "as many side by side as fit; the budget of the training is asked before",
    )  # fmt: skip
    sure_to_fit = MemoryShare(
        "1/2", "budget", TRAINING, "one model of all classes that is not planned for, as it fits",
        "at most 256 bytes of each weight, 64 of each row and class",
    )  # fmt: skip
    wide_weight = Copies(256, TRAINING, "bytes of a weight of such a model", "at most")
    wide_row = Copies(64, TRAINING, "bytes of a row and class of such a model", "at most")
    small_parts = Copies(
        1 << 24, TRAINING, "bytes of sums over some rows that are not added up yet",
        "more where the state is large",
    )  # fmt: skip

    first_rows = MemoryShare(
        "1/6", "rows", FROM_SOURCE, "the first rows", "as they came, as they are learnt from, whole"
    )
    held_out_rows = MemoryShare(
        "1/8", "rows", FROM_SOURCE, "held-out rows (`test_fraction`)", "nothing is learnt from them"
    )
    buffers = Copies(
        3, FROM_SOURCE, "buffers of rows", "one is stepped, one made of pieces: these and the whole"
    )
    source_states = Copies(
        5, FROM_SOURCE, "states", "stepped, its copy inside a walk, what a snapshot makes of it"
    )
    sums = Copies(
        6, FROM_SOURCE, "two numbers of each column", "counted, with three buffers, as moments"
    )
    piece_copies = Copies(3, FROM_SOURCE, "copies of a piece", "read, parsed, cut to size")

    scored_piece = MemoryShare(
        "1/16", "budget", SCORING, "pieces of text, one per thread and one more, where they fit",
        "its text, rows, scaled rows and scores fit twice",
    )  # fmt: skip
    slices = MemoryShare(
        "1/8", "budget", SCORING, "sums of slices of the rows (`by`)",
        "those of all, and of pieces that wait to be added",
    )  # fmt: skip
    freed = MemoryShare(
        "1/128", "budget", ANYONE, "freed memory that a thread may keep",
        "new memory costs as much as filling it five times; 1 to 32 MiB",
    )  # fmt: skip

    def require(self, state_bytes: int, rows_bytes: int, state: str) -> None:
        """Raise TooLittleMemory, which adds up what is needed, where it is more than there is."""
        least = state_bytes + rows_bytes + PROGRAM_BYTES
        if least > self.memory:
            raise TooLittleMemory(
                f"A memory budget of {format_bytes(self.memory)} is too small: {state} takes "
                f"{format_bytes(state_bytes)}, rows in memory at a time at least "
                f"{format_bytes(rows_bytes)}, and the program itself "
                f"{format_bytes(PROGRAM_BYTES)}. Use `memory={-(-least // MEGABYTE)}MB` or more."
            )

    # -- arrays that a file asks for ---------------------------------------------------------------

    @property
    def sample(self) -> int:
        """Bytes of the cells that decide on a recipe."""
        return max(LEAST_SAMPLE, min(SAMPLE_MEMORY, self.sampled_cells))

    def most_columns(self, kind: TableKind) -> int:
        """Return the largest number of columns."""
        return self.columns // BYTES_OF_COLUMN[kind]

    def require_side_by_side(self, size: int, what: str, advice: str) -> None:
        """Refuse parts of a file that are too large together; `what` ends before "3 GB"."""
        self._require(Budget.pages, size, what, advice)

    def require_row(self, size: int, where: str) -> None:
        """Refuse a row that is too long."""
        advice = "Check that it is one row, leave the column out (`drop`)"
        self._require(Budget.longest_row, size, f"{where}: the row takes", advice)

    def require_slices(self, size: int, slices: int) -> None:
        """Refuse slices of the rows whose sums are too large."""
        what = f"The sums of {counted(slices, 'slice')} take"
        self._require(Budget.slices, size, what, "Name a column of fewer values")

    def require_columns(self, n: int, where: str, kind: TableKind) -> None:
        """Refuse more columns than can be described.

        Parameters
        ----------
        n
            Their number.
        where
            The file.
        kind
            Of the table, which decides on what is in memory of each.
        """
        what = f"{where}: {n:,} columns take"
        advice = "Check that it is a table of so many (a sparse format suits it better), drop some"
        self._require(Budget.columns, n * BYTES_OF_COLUMN[kind], what, advice)

    def _require(self, share: MemoryShare, size: int, what: str, advice: str) -> None:
        most = share.taken_of(self)
        if size > most:
            raise BadInput(
                f"{what} {format_bytes(size)}, where a memory budget of "
                f"{format_bytes(self.memory)} has room for {format_bytes(most)}. {advice}, or give "
                f"at least `memory={-(-share.with_this(self, size) // MEGABYTE)}MB`."
            )


#: What a process may use, over what a training takes at most where nobody gives its memory.
DEFAULT_PART = 2
#: Where nobody says how much memory there is.
UNTOLD = Budget(1 << 32, 1 << 32)


def remaining(memory: int, taken: list[TakenMemory]) -> TakenMemory:
    """Return what is left of a budget."""
    left = memory - sum(one.bytes for one in taken)
    return TakenMemory("unused", left, f"of {format_bytes(memory)} (`memory`)")
