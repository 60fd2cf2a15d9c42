"""Cells unlike those that a recipe was made for, counted by column: words for numbers, and gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.source import Piece, PiecePlace

#: Characters of a word that are shown.
_SHOWN = 40


class _OfPiece(NamedTuple):
    """Cells of a piece that are missing numbers, by the number of their feature."""

    words: Mapping[int, int]
    examples: Mapping[int, str]
    gaps: Mapping[int, int]


class UnlikeCells:
    """Cells of columns of numbers that count as missing: words, and gaps where there were none."""

    def __init__(self, columns: TableColumns) -> None:
        self._columns = columns
        self._of_pieces: dict[tuple[int, int], _OfPiece] = {}  # by file and number

    def note(self, piece: Piece, encoded: Any, cells: Sequence[Any]) -> tuple[tuple[str, int], ...]:
        """Note what a piece was encoded to (`applying.EncodedRows`); in any thread, once.

        Parameters
        ----------
        cells
            Arrow arrays (n,) of the features.

        Returns
        -------
        tuple
            Of each column with words its name, and how many there are.
        """
        words: dict[int, int] = {}
        if encoded.words or encoded.gaps:
            words, gaps = (
                {k: int(mask.sum()) for k, mask in masks} for masks in (encoded.words, encoded.gaps)
            )
            first = {k: str(cells[k][int(mask.argmax())])[:_SHOWN] for k, mask in encoded.words}
            self._of_pieces[piece.place.file, piece.place.number] = _OfPiece(words, first, gaps)
        return tuple((self._name(k), n) for k, n in words.items())

    def join(self, other: UnlikeCells) -> None:
        """Take in what another process has noted of the same source."""
        self._of_pieces |= other._of_pieces

    def of(self, places: Iterable[PiecePlace]) -> list[Any]:
        """Return what was noted of some pieces, as JSON."""
        keys = [(place.file, place.number) for place in places]
        return [[key, [*self._of_pieces[key]]] for key in keys if key in self._of_pieces]

    def join_state(self, state: Sequence[Any]) -> None:
        """Take in what `of` says of pieces in another process."""
        for key, each in state:
            numbered = ({int(k): value for k, value in dict(one).items()} for one in each)
            self._of_pieces[key[0], key[1]] = _OfPiece(*numbered)

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for every column with such cells."""
        for k, n in self._sum("words").items():
            cells = counted(n, "cell holds", "cells hold")
            yield (
                f"{self._title(k)}: {cells} no number ({self._example(k)!r}"
                f"{', ...' * (n > 1)}), taken for missing. If these are words, say "
                f"`column={self._name(k)}=category`."
            )
        for k, n in self._sum("gaps").items():
            cells = counted(n, "cell is", "cells are")
            yield (
                f"{self._title(k)}: {cells} missing, and none was among the rows that its recipe "
                "was made by, so they count as its mean. Fill them in, or ingest all rows anew, "
                "with some of these among the first."
            )

    def _sum(self, what: str) -> Counter[int]:
        """Return how many cells each column has, in the order of the pieces."""
        sums: Counter[int] = Counter()
        for place in sorted(self._of_pieces):
            sums.update(getattr(self._of_pieces[place], what))
        return sums

    def _example(self, k: int) -> str:
        of_pieces = (self._of_pieces[place].examples for place in sorted(self._of_pieces))
        return next(examples[k] for examples in of_pieces if k in examples)

    def _name(self, k: int) -> str:
        return self._columns.name_of(self._columns.features[k])

    def _title(self, k: int) -> str:
        return f"C{self._columns.title(self._columns.features[k])[1:]}"
