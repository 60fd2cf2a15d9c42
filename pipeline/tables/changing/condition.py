"""Which rows are meant: conditions on columns that a data set keeps as they were written.

A column holds numbers where every cell of it that is not missing is a plain number: without leading
zeros or a plus, and with an exponent only where that has a sign or stands behind a fraction, for
007, +49 and 12E4 are ids.  It is compared with numbers to the last digit; a column with other cells
is not.  Text is what is written, in any column, but for blanks around it.  A missing cell, which is
an empty one, is meant by `is missing` alone.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.row_condition import (
    Written,
    WrittenTerm,
    read_condition,
    terms_of,
)
from fewpass.pipeline.tables.changing.listed_values import listed_values
from fewpass.pipeline.tables.ingest.retained_columns import Retained, Words, words_of_retained
from fewpass.pipeline.tables.readers.delimited_header import MISSING
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.storage.manifest import RETAINED_BYTES

Mask = NDArray[np.bool_]

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*|(?=\.\d))(?:\.\d*(?:[eE][-+]?\d{1,4})?|[eE][-+]\d{1,4})?")


class Term(NamedTuple):
    """A condition on one column."""

    column: int  # among the kept ones
    how: str  # as of a `WrittenTerm`
    texts: NDArray[np.bytes_]  # the values that are text, in order
    numbers: frozenset[Decimal]  # the others

    @property
    def asks_kind(self) -> bool:
        """Whether it makes sense for a column of numbers alone, or for one of text alone."""
        return bool(self.numbers) or self.how in _COMPARED

    def holds(self, cells: KeptCells) -> Mask:
        """Say which cells it holds of; returns (n,)."""
        if self.how in ("is missing", "is not missing"):
            return ~cells.are_there if self.how == "is missing" else cells.are_there
        if self.how in _COMPARED:
            compare = _COMPARED[self.how]
            if self.numbers:
                return cells.where_number(lambda cell: compare(cell, *self.numbers))
            return cells.are_there & np.asarray(compare(cells.words, self.texts[0]))
        listed, could_be = np.isin(cells.words, self.texts), cells.are_there
        if self.numbers:
            listed |= cells.where_number(self.numbers.__contains__)
            could_be = cells.where_number(lambda _: True)
        return cells.are_there & listed if self.how == "in" else could_be & ~listed


class KeptCells:
    """Cells of a kept column, as text and as numbers.

    Attributes
    ----------
    words
        (n,) without blanks around them.
    are_there
        (n,) which are not missing.
    """

    def __init__(self, words: Words) -> None:
        self.words: Words = np.strings.strip(words)
        self.are_there: Mask = self.words != b""

    @cached_property
    def _different(self) -> tuple[list[bytes], NDArray[np.int64]]:
        different, at = np.unique(self.words, return_inverse=True)
        return different.tolist(), at

    @cached_property
    def numbers(self) -> list[Decimal | None]:
        """Return the numbers of different cells; None for text and missing ones."""
        words, _ = self._different
        return [Decimal(word.decode()) if _NUMBER.fullmatch(word) else None for word in words]

    def where_number(self, holds: Callable[[Decimal], bool]) -> Mask:
        """Say which cells are numbers of which something holds; returns (n,)."""
        _, at = self._different
        each = (number is not None and bool(holds(number)) for number in self.numbers)
        mask: Mask = np.fromiter(each, np.bool_, len(self.numbers))[at]
        return mask

    def examples(self) -> dict[str, str]:
        """Return a cell that is a number, and one that is text; words for missing are neither."""
        found: dict[str, str] = {}
        for word, number in zip(self._different[0], self.numbers, strict=True):
            text = word.decode("utf-8", "replace")
            if text.lower() not in MISSING:
                found.setdefault("text" if number is None else "number", text)
        return found


class Condition:
    """A condition on kept columns; for its grammar see `fewpass.pipeline.settings.row_condition`.

    Parameters
    ----------
    text
        Such as ``id in FILE`` or ``city == "north" and age < 18``.
    retained
        Names of the columns that the data set keeps.
    place
        The data set, for messages.
    storage_options
        For the addresses of files.

    Raises
    ------
    BadInput
        A condition or a list that cannot be read, or a column that is not kept.
    FileNotFoundError
        A file that is not there.
    """

    def __init__(
        self,
        text: str,
        retained: Sequence[str],
        place: str,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        if not retained:
            raise BadInput(
                f"{place} keeps no column as it was written, so its rows cannot be told apart. "
                "Ingest the sources anew with `keep=COLUMN`, such as an id."
            )
        self.retained, self._place, self._storage_options = list(retained), place, storage_options
        self._examples: dict[tuple[int, str], str] = {}
        try:
            self._written = read_condition(text)
        except ValueError as error:
            raise BadInput(str(error)) from None
        self._not_found: set[bytes | Decimal] = set()
        self._terms = {written: self._term(written) for written in terms_of(self._written)}

    def of(self, retained: Retained) -> Mask:
        """Say which rows are meant, of kept columns (n, bytes); returns (n,).

        It counts once `require_kinds` has passed after all rows.
        """
        columns = {term.column for term in self._terms.values()}
        return self._meant(
            self._written, {k: KeptCells(words_of_retained(retained, k)) for k in columns}
        )

    def require_kinds(self) -> None:
        """Refuse to compare text with numbers, by the kinds of all cells so far; BadInput."""
        for written, term in self._terms.items():
            text, number = (self._examples.get((term.column, kind)) for kind in ("text", "number"))
            name = shown_name(written.column)
            if term.numbers and text is not None:
                raise BadInput(
                    f"{self._place}: column {name} holds text, such as {shown(text)}, and `where` "
                    f"compares it with the number {min(term.numbers)}. Put the number in quotes to "
                    "have it compared as text."
                )
            if term.how in _COMPARED and not term.numbers and number is not None and text is None:
                raise BadInput(
                    f"{self._place}: column {name} holds numbers, such as {number}, and `where` "
                    f"asks for the order of text. Leave out the quotes: {written.column} "
                    f"{term.how} {number}."
                )

    def shown(self, retained: Retained) -> dict[str, str]:
        """Return the cells of one row (1, bytes) by the names of their columns."""
        every = enumerate(self.retained)
        return {n: words_of_retained(retained, k)[0].decode("utf-8", "replace") for k, n in every}

    @property
    def unmatched(self) -> int:
        """Values of `==` and `in` that no row had so far."""
        return len(self._not_found)

    def _meant(self, written: Written, cells: Mapping[int, KeptCells]) -> Mask:
        if isinstance(written, WrittenTerm):
            term = self._terms[written]
            return self._holds(term, cells[term.column])
        join = np.logical_and if written.every else np.logical_or
        meant: Mask = reduce(join, [self._meant(part, cells) for part in written.parts])
        return meant

    def _holds(self, term: Term, cells: KeptCells) -> Mask:
        if term.asks_kind:
            for kind, example in cells.examples().items():
                self._examples.setdefault((term.column, kind), example)
        holds = term.holds(cells)
        if term.how == "in":
            self._not_found.difference_update(np.unique(cells.words[holds]).tolist())
            if term.numbers:
                self._not_found.difference_update(term.numbers.intersection(cells.numbers))
        return holds

    def _term(self, written: WrittenTerm) -> Term:
        numbers = frozenset(one for one in written.values if isinstance(one, Decimal))
        texts = {one.strip().encode() for one in written.values if isinstance(one, str)}
        column = self._position(written.column)
        if written.file is not None:
            texts |= listed_values(written.file, written.column, self._storage_options)
        if written.how == "in":
            self._not_found |= texts | numbers
        short = sorted(text for text in texts if len(text) <= RETAINED_BYTES or not written.file)
        return Term(column, written.how, np.array(short, np.bytes_), numbers)

    def _position(self, name: str) -> int:
        if name not in self.retained:
            raise BadInput(
                f"`where` names the column {shown_name(name)}, and {self._place} keeps "
                f"{', '.join(map(shown_name, self.retained))}. Name one of these, or ingest anew "
                f"with `keep={name}`."
            )
        return self.retained.index(name)
