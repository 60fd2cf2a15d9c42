"""Words in columns of numbers, which count as missing: how many there are, of which column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.fitting import SHOWN
from fewpass.pipeline.tables.readers.column_roles import name_of
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.source import Piece


class _Words(NamedTuple):
    """Words in a column of numbers."""

    column: int  # of the recipe
    n: int
    example: str


class WordsForNumbers:
    """The words of all pieces so far."""

    def __init__(self) -> None:
        self._of_pieces: dict[tuple[str, int], list[_Words]] = {}

    def note(self, piece: Piece, words: Any, cells: Sequence[Any]) -> None:
        """Note the words of a piece that were read as missing numbers; in any thread, once.

        Parameters
        ----------
        words
            Pairs of a column of the recipe and the rows (n,) in which it has words.
        cells
            Arrow arrays (n,) of the recipe's columns.
        """
        self._of_pieces[(piece.file, piece.first_line)] = [
            _Words(k, int(mask.sum()), str(cells[k][int(mask.argmax())])[:SHOWN])
            for k, mask in words
        ]

    def counts(self, columns: TableColumns) -> dict[str, int]:
        """Return how many cells of each column of numbers were words, by its name."""
        counts: dict[str, int] = {}
        for of_piece in list(self._of_pieces.values()):
            for one in of_piece:
                name = name_of(columns, columns.features[one.column])
                counts[name] = counts.get(name, 0) + one.n
        return counts

    def sentences(self, columns: TableColumns) -> Iterator[str]:
        """Yield a sentence for every column of numbers in which words were read as missing."""
        for k, one in self._of_columns().items():
            column = columns.features[k]
            cells = counted(one.n, "cell holds", "cells hold")
            yield (
                f"C{columns.title(column)[1:]}: {cells} no number ({one.example!r}"
                f"{', ...' * (one.n > 1)}), taken for missing. If these are words, say "
                f"`column={name_of(columns, column)}=category`."
            )

    def _of_columns(self) -> dict[int, _Words]:
        """Return the words of each column, with the first example in the order of the pieces."""
        of_columns: dict[int, _Words] = {}
        for place in sorted(self._of_pieces):
            for one in self._of_pieces[place]:
                before = of_columns.get(one.column, one._replace(n=0))
                of_columns[one.column] = before._replace(n=before.n + one.n)
        return of_columns
