"""Rows of tables as they are written, before columns become numbers: Arrow columns of any type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.source import Expected, Piece, SourceFile


class Cells(NamedTuple):
    """The rows of a piece, by column."""

    columns: tuple[Any, ...]  # of those asked for, in their order: Arrow arrays (n,)
    n_rows: int
    lines: Callable[[], NDArray[np.int64]]  # where each row begins (n,), worked out when asked for
    faults: tuple[tuple[int, str, str], ...] = ()  # rows that are none: line, fact, advice


class RawRows(Protocol):
    """Files of one format of tables.

    Like `Source`, a class says how its format is told by a file's name and first bytes.
    """

    extensions: ClassVar[tuple[str, ...]]
    magic: ClassVar[bytes | tuple[bytes, ...]]
    packed: ClassVar[bool]
    unit: ClassVar[Literal["line", "row"]]  # what rows are counted in

    files: tuple[SourceFile, ...]
    names: tuple[str, ...] | None  # of the columns; None: the files name none
    types: tuple[str, ...]  # of the columns, as the format calls them

    @property
    def kinds(self) -> Mapping[str, str]:
        """What columns hold, as the setting `column` has it, where the files say so."""

    @property
    def decided(self) -> Mapping[str, Any]:
        """Settings that nobody gave and the first rows told, which later files are read with."""

    @property
    def index(self) -> tuple[str, ...]:
        """Columns that are the index of a frame, and no features."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What somebody should look at, once rows were read."""

    @property
    def has_folders(self) -> bool:
        """Whether some columns are names of folders, which no reader of numbers knows."""

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        """Take a first look at the files; BadInput when they do not fit each other."""

    def expands_to(self) -> float:
        """Estimate the bytes of all pieces together, from what the files say."""

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Read the files in order, in pieces of about `piece_bytes`; see `Source.pieces`.

        Parameters
        ----------
        used
            Columns that will be asked for.
        """

    def cells(self, piece: Piece, used: Sequence[int]) -> Cells:
        """Take the columns `used` out of a piece; pure, and safe in several threads at once."""


def numbered(piece: Piece, n: int) -> Callable[[], NDArray[np.int64]]:
    """Return where n rows of a piece are, that follow each other."""
    return lambda: piece.first_line + np.arange(n)
