"""Readers: of rows of numbers (`Source`), or of tables before they are such (`TableReader`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import UNTOLD, Budget
from fewpass.storage.column_schema import Schema
from fewpass.storage.manifest import TakenFile
from fewpass.storage.table import Table

if TYPE_CHECKING:
    from fewpass.pipeline.settings.source_options import SourceOptions
    from fewpass.pipeline.tables.encoding.expansion import Expansion
    from fewpass.pipeline.tables.readers.columns import TableColumns
    from fewpass.pipeline.tables.readers.finding import Address
    from fewpass.pipeline.tables.readers.label_texts import LabelTexts
    from fewpass.pipeline.tables.readers.seen_files import SeenFiles
    from fewpass.pipeline.tables.readers.unlike_cells import UnlikeCells

#: How many skipped rows of one piece are listed with their reason; all of them are counted.
LISTED = 100
#: Raw bytes of a piece, about.  Part of what a seed means: the order of rows, and which of them are
#: held out, are drawn piece by piece.
PIECE_BYTES = 4 << 20
#: Bytes of a span of plain text, or of row groups, about: a task of another process.
SPAN_BYTES = 64 << 20
#: Spans of a long source: these grow with it, as each has files and a record of its own.
MOST_SPANS = 4096

#: The largest value by type of number: finite, and such that the sums of fourth powers are, too.
LARGEST: Mapping[str, float] = MappingProxyType(
    {"float32": float(np.finfo(np.float32).max), "float64": 1e70}
)
#: Characters of a label at most; more is not a class, but a column of text.
LONGEST_LABEL = 1024


class SplitBy(NamedTuple):
    """The column that rows are held out by."""

    column: str | int
    how: Literal["by", "group"]  # the last ones, or whole groups
    seed: int

    @property
    def setting(self) -> str:
        """Return the setting that asks for it."""
        return f"test_{self.how}"


class Expected(NamedTuple):
    """Requirements that a source has to fit, besides the options."""

    schema: Schema | None = None  # columns to match
    whose: str = "the model"  # that they are the columns of
    budget: Budget = UNTOLD  # that memory has
    split: SplitBy | None = None  # rows are to have keys that they are held out by
    task: str = "auto"  # what targets are
    held_out: float = 0.0  # share of the rows that nothing may be chosen by
    seed: int = 0
    passed: tuple[str, ...] = ()  # columns whose cells are handed on as they are
    passes_features: bool = False  # whether those of all features are, behind these
    one_pass: bool = False  # whether rows are learnt from once, as they are read
    may_curve: bool = False  # whether curves may be added that nobody asked for
    seen: SeenFiles | None = None  # files whose rows were taken before: these are left out

    @property
    def read_anyway(self) -> frozenset[str | int]:
        """Columns that are read also where they are dropped: kept ones, and those held out by."""
        split = () if self.split is None else (self.split.column,)
        return frozenset((*self.passed, *split))

    @property
    def longest_line(self) -> int:
        """Bytes of the longest line that is read."""
        return self.budget.longest_row


class SourceFile(NamedTuple):
    """One file of a source."""

    name: str  # full path or URL
    bytes: int | None  # as stored; None: the store does not say
    version: int | str | None = None  # what changes with its content; None: likewise
    packed: bool = False  # whether it is compressed
    place: str | None = None  # as `TakenFile` has it; None: it is not recognised

    @property
    def stamp(self) -> list[Any]:
        """Name, size and version, as JSON has them."""
        return [self.name, self.bytes, self.version]

    def taken(self) -> TakenFile | None:
        """Return what tells it from others, and from itself in another state."""
        if self.place is None:
            return None
        version = None if self.version is None else str(self.version)
        return TakenFile(place=self.place, bytes=self.bytes, version=version)


class BadRow(NamedTuple):
    """A row that was skipped."""

    file: str
    line: int  # from 1; the row number where the format has no lines
    reason: str

    def in_words(self, before: int = 0) -> str:
        """Say it; `before` lines stand in front of what its line counts from."""
        return f"{self.file}, line {self.line + before}: {self.reason}"


class PiecePlace(NamedTuple):
    """The number of a piece: what is drawn at random for its rows depends on that alone."""

    number: int  # among those of its file
    file: int  # number of the file among those of the source


class SourceSpan(NamedTuple):
    """Pieces of one file that follow each other and can be read alone, in another process."""

    file: int  # number of the file among those of the source
    first: int = 0  # number of the first range of its text, or row group, where it has several
    stop: int | None = None  # of the first one behind; None: to the end
    begin: int | None = None  # position of its first row; None: to be found, or guessed
    lines: int = 0  # lines of the file before that row, as far as they were counted


class Extent(NamedTuple):
    """The place in a file of the rows of a piece."""

    lines: int  # lines, or rows, that they take
    begin: int  # position: of text a byte, of Parquet what `PieceStart.position` makes
    end: int


class Piece(NamedTuple):
    """A part of one file, not parsed yet."""

    place: PiecePlace
    file: str
    first_line: int  # number of its first line (or row) in the file, from 1
    content: Any  # what the reader that made it parses
    n_bytes: int  # size of the content, decompressed
    extent: Extent | None = None  # None: its file is read in one span

    @property
    def where(self) -> str:
        """Return the words that messages about its rows begin with."""
        return f"{self.file}, after line {self.first_line - 1}"


class Among(NamedTuple):
    """All rows of a piece, of which some were skipped."""

    target: NDArray[np.float64]  # (n_read,)
    good: NDArray[np.int64]  # (n,) which of them were not

    def without(self, rows: NDArray[np.int64]) -> Among:
        """Return the others than some of all rows."""
        left = np.delete(np.arange(len(self.target)), rows)
        good = self.good[~np.isin(self.good, rows)]
        return Among(self.target[left], np.searchsorted(left, good))


class ParsedRows(NamedTuple):
    """The rows of one piece."""

    table: Table  # target float64: the number, or the code into `labels`; NaN where there is none
    labels: tuple[str, ...] | None  # this piece's string labels; None: targets are numbers
    max_index: int  # largest column seen, from 0; -1: none
    skipped: tuple[BadRow, ...]  # the first LISTED of them
    n_skipped: int
    n_merged: int = 0  # values added to the one before, of the same index in the row
    n_beyond: int = 0  # values left out, whose index is beyond the features asked for
    texts: LabelTexts | None = None  # of targets that may be no floats; None: all are
    split: NDArray[np.float64] | None = None  # (n,) keys that rows are held out by, if asked for
    among: Among | None = None  # the rows that held-out ones are drawn from; None: these
    words: tuple[tuple[str, int], ...] = ()  # columns of numbers, and how many cells were words
    passed: tuple[Any, ...] = ()  # the columns that are handed on as they are, Arrow arrays (n,)
    n_weightless: int = 0  # of weight 0, which were left out


class FilesOfAFormat:
    """Files of one format.

    The class says which names and first bytes a file of the format has, and whether it is
    compressed in itself: then the bytes as stored say nothing of how much there is to parse.
    """

    extensions: ClassVar[tuple[str, ...]] = ()  # lower case, with the dot
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""  # what files begin with; b"" tells nothing

    packed: bool = False
    piece_bytes: int = PIECE_BYTES  # most raw bytes of a piece, about, however many are asked for
    files: tuple[SourceFile, ...]

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        """Take a first look at the files.

        Raises
        ------
        BadInput
            Options that do not fit the format, files that do not fit each other or `expected`.
        """
        raise NotImplementedError

    def spans(self, piece_bytes: int) -> list[SourceSpan]:  # noqa: ARG002
        """Return spans of some files that are all rows, in order; none: they are read as one."""
        return []

    def ranges(self, piece_bytes: int) -> list[SourceSpan]:  # noqa: ARG002
        """Return spans of a piece or some each, if threads can read the text of files apart."""
        return []

    @property
    def cuts_by_columns(self) -> bool:
        """Return whether it depends on the columns that are read where spans begin."""
        return False


class Source(FilesOfAFormat):
    """Files of one format, read as rows."""

    hashes_names: ClassVar[bool] = False  # whether columns are hashes of names

    layout: Literal["dense", "sparse"]
    n_features: int | None  # None: known only once all is read
    schema: Schema | None = None  # None: rows of this format have no columns but the features
    left_out: tuple[str, ...] = ()  # names of columns that the schema lacks
    has_weight: bool = False
    has_offset: bool = False
    remarks: tuple[str, ...] = ()  # what somebody should look at, before rows are read

    def estimated_bytes(self) -> int:
        """Bytes that all rows would take in memory; for text an estimate from the first lines."""
        raise NotImplementedError

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Read the files in order, in pieces of about `piece_bytes`.

        The pieces of a file depend on that file and on `piece_bytes` only.  Of text, piece k has
        the rows whose first byte is one of those from k `piece_bytes` on: a row that is longer
        makes a larger piece.

        Raises
        ------
        BadInput
            An empty file, or a compressed one that ends early or is damaged.
        """
        raise NotImplementedError

    def pieces_of(self, span: SourceSpan, piece_bytes: int) -> Iterator[Piece]:
        """Read the pieces of a span, the same as those of all `pieces`.

        Lines are counted from the span's first one on, behind those that it says are before.
        """
        raise NotImplementedError

    def parse(self, piece: Piece) -> ParsedRows:
        """Turn a piece into rows; pure, and safe in several threads at once.

        Raises
        ------
        BadInput
            The first bad row, unless the options say to skip such rows.
        """
        raise NotImplementedError

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks that somebody should look at, once rows were read."""
        return self.remarks

    @property
    def kinds(self) -> dict[str, str]:
        """Return the kind of every column, as the setting `column` has it; drops included."""
        return {}

    @property
    def unlike_cells(self) -> UnlikeCells | None:
        """Cells of the rows read so far that the recipe was not made for; None: there are none."""
        return None

    @property
    def cell_notes(self) -> tuple[str, ...]:
        """Return sentences about these cells."""
        return () if self.unlike_cells is None else tuple(self.unlike_cells.sentences())

    def threshold(self) -> float | None:
        """Return the key from which on rows are held out by a column; None: rows have no keys."""
        return None

    def hashed_names(self) -> dict[int, str]:
        """Return the names of columns that the first lines have most often."""
        return {}

    def parse_codes(self) -> Expansion | None:
        """Parse rows to codes, where there are any, from now on; return what becomes of them."""
        return None


class TableCells(NamedTuple):
    """The rows of a piece, by column."""

    columns: tuple[Any, ...]  # of those asked for, in their order: Arrow arrays (n,)
    n_rows: int
    lines: Callable[[], NDArray[np.int64]]  # where each row begins (n,), worked out when asked for
    faults: tuple[tuple[int, str, str], ...] = ()  # rows that are none: line, fact, advice
    #: Of columns that are handed on, by number, where what is written says more than a cell.
    written: Mapping[int, Any] = MappingProxyType({})


class NumberColumns(NamedTuple):
    """Columns that are taken as plain numbers."""

    types: tuple[str, ...]  # of all columns of the files
    are_words: bool  # whether targets are words


class TableReader(FilesOfAFormat):
    """Files of one format of tables, before their columns become numbers."""

    unit: ClassVar[Literal["line", "row"]] = "row"  # what rows are counted in

    names: tuple[str, ...] | None  # of the columns; None: the files name none
    types: tuple[str, ...]  # of the columns, as the format calls them
    n_rows: int | None = None  # where the files say how many there are
    decided: Mapping[str, Any] = MappingProxyType({})
    """Settings inferred from the first rows, with which later files are read."""
    index: tuple[str, ...] = ()
    """Columns that are the index of a frame, and no features."""
    notes: tuple[str, ...] = ()
    """Remarks that somebody should look at, once rows were read."""

    @property
    def has_folders(self) -> bool:
        """Return whether some columns are names of folders: these are no plain numbers."""
        return False

    def expands_to(self) -> float:
        """Estimate the bytes of all pieces together, from what the files say."""
        raise NotImplementedError

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Read the files in order, in pieces of about `piece_bytes`; see `Source.pieces`.

        Parameters
        ----------
        used
            Columns that will be asked for.
        """
        raise NotImplementedError

    def pieces_of(self, span: SourceSpan, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Read the pieces of a span; see `Source.pieces_of`."""
        raise NotImplementedError

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        """Take the columns `used` out of a piece; pure, and safe in several threads at once."""
        raise NotImplementedError

    # -- formats whose columns may be plain numbers (settings/formats.py: PLAIN) -----------------

    def use_stored_types(self) -> None:
        """Take columns as the files store them from now on: none of folders."""
        raise NotImplementedError

    def as_numbers(self, columns: TableColumns, options: SourceOptions) -> NumberColumns:
        """Take columns as plain numbers from now on; BadInput where they are none."""
        raise NotImplementedError

    def plain_rows(self, piece: Piece, options: SourceOptions) -> ParsedRows | None:  # noqa: ARG002
        """Read rows of nothing but plain numbers in compiled code; None: their cells tell."""
        return None


def numbered(piece: Piece, n: int) -> Callable[[], NDArray[np.int64]]:
    """Return where n rows of a piece are, that follow each other."""
    return lambda: piece.first_line + np.arange(n)
