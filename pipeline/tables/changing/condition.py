"""Rows that are meant: conditions on columns that a data set keeps as they were written.

A column holds numbers where every cell of it that is not missing is a plain number: without leading
zeros or a plus, and with an exponent only where that has a sign or stands behind a fraction, for
007, +49 and 12E4 are ids.  All its cells are compared as numbers then, to the last digit; those of
any other column as they are written, but for blanks around them; of dates these have an order only
where they are written alike (date_order.py).  A missing cell, which is an empty
one, is meant by `is missing` alone.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.row_condition import Written, WrittenTerm, read_condition, terms_of
from fewpass.pipeline.tables.changing.date_order import cell_out_of_order, is_date
from fewpass.pipeline.tables.changing.listed_values import listed_values
from fewpass.pipeline.tables.ingest.retained_columns import Retained, Words, words_of_retained
from fewpass.pipeline.tables.readers.csv_head import MISSING
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.storage.manifest import RETAINED_BYTES

Mask = NDArray[np.bool_]

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*|(?=\.\d))(?:\.\d*(?:[eE][-+]?\d{1,4})?|[eE][-+]\d{1,4})?")


def _number(word: bytes) -> Decimal | None:
    """Return a plain number; None for text."""
    return Decimal(word.decode()) if _NUMBER.fullmatch(word) else None


class ColumnCells:
    """Cells of a kept column.

    Attributes
    ----------
    words
        (n,) without blanks around them.
    are_there
        (n,) which are not missing.
    """

    def __init__(self, retained: Retained, column: int) -> None:
        self.words: Words = np.strings.strip(words_of_retained(retained, column))
        self.are_there: Mask = self.words != b""

    @cached_property
    def _different(self) -> tuple[list[bytes], NDArray[np.int64]]:
        different, at = np.unique(self.words, return_inverse=True)
        return different.tolist(), at

    def text(self) -> str | None:
        """Return a cell that is no number; None where the others are missing, by whatever word."""
        texts = (word for word in self._different[0] if not _NUMBER.fullmatch(word))
        decoded = (text.decode("utf-8", "replace") for text in texts)
        return next((text for text in decoded if text.lower() not in MISSING), None)

    def where_number(self, holds: Callable[[Decimal], bool]) -> Mask:
        """Return which cells are numbers that meet a condition, (n,)."""
        words, at = self._different
        each = ((number := _number(word)) is not None and bool(holds(number)) for word in words)
        mask: Mask = np.fromiter(each, np.bool_, len(words))[at]
        return mask


class Term(NamedTuple):
    """A condition on one column: its values are numbers where the column holds numbers."""

    column: int  # among the kept ones
    how: str  # as of a `WrittenTerm`
    numbers: frozenset[Decimal] | None
    texts: NDArray[np.bytes_]  # in order

    def holds(self, cells: ColumnCells) -> Mask:
        """Return which cells meet it, (n,)."""
        if self.how in ("is missing", "is not missing"):
            return ~cells.are_there if self.how == "is missing" else cells.are_there
        if self.numbers is not None:
            return cells.where_number(self._of_number())
        if self.how in _COMPARED:
            compared: Mask = np.asarray(_COMPARED[self.how](cells.words, self.texts[0]))
        else:
            compared = np.isin(cells.words, self.texts, invert=self.how == "not in")
        return np.logical_and(cells.are_there, compared)

    def _of_number(self) -> Callable[[Decimal], bool]:
        numbers = self.numbers or frozenset()
        if self.how in _COMPARED:
            return lambda cell: _COMPARED[self.how](cell, *numbers)
        return numbers.__contains__ if self.how == "in" else lambda cell: cell not in numbers


class Condition:
    """A condition on kept columns; for its grammar see `fewpass.pipeline.settings.row_condition`.

    All rows are shown to `learn` first, then `decide` is called.

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
        self.retained, self._place = list(retained), place
        try:
            self._written = read_condition(text)
        except ValueError as error:
            raise BadInput(str(error)) from None
        self._lists: dict[WrittenTerm, frozenset[bytes]] = {}
        self._of_numbers: set[int] = set()  # columns, as far as is known
        self._dates: set[tuple[int, bytes]] = set()  # columns, and what is before or behind
        for term in terms_of(self._written):
            column = self._position(term.column)
            if "missing" not in term.how:
                self._of_numbers.add(column)
            texts = [one.strip().encode() for one in term.values if isinstance(one, str)]
            if term.how in _COMPARED and is_date(texts[0] if texts else b""):
                self._dates.add((column, texts[0]))
            if term.file is not None:
                self._lists[term] = listed_values(term.file, term.column, storage_options)
        self._text_in: dict[int, str] = {}  # an example of each other column
        self._out_of_order: dict[tuple[int, bytes], str] = {}  # a cell, of a date
        self._terms: dict[WrittenTerm, Term] = {}
        self._not_found: set[bytes | Decimal] = set()

    @property
    def is_learning(self) -> bool:
        """Return whether the kind of a column depends on further rows."""
        return bool(self._of_numbers or self._dates)

    def learn(self, retained: Retained) -> None:
        """Classify the columns by kept columns of rows (n, bytes)."""
        for column in sorted(self._of_numbers):
            text = ColumnCells(retained, column).text()
            if text is not None:
                self._text_in[column] = text
                self._of_numbers.discard(column)
        for column, date in sorted(self._dates):
            cells = ColumnCells(retained, column)
            cell = cell_out_of_order(cells.words[cells.are_there], date)
            if cell is not None:
                self._out_of_order[column, date] = cell
                self._dates.discard((column, date))

    def decide(self) -> None:
        """Compare as numbers or as text from now on; BadInput for one where it is the other."""
        self._terms = {written: self._term(written) for written in terms_of(self._written)}

    def of(self, retained: Retained) -> Mask:
        """Return which rows meet it, (n,), of kept columns (n, bytes)."""
        columns = {term.column for term in self._terms.values()}
        return self._meant(self._written, {k: ColumnCells(retained, k) for k in columns})

    def shown(self, retained: Retained) -> dict[str, str]:
        """Return the cells of one row (1, bytes) by the names of their columns."""
        every = enumerate(self.retained)
        return {n: words_of_retained(retained, k)[0].decode("utf-8", "replace") for k, n in every}

    @property
    def unmatched(self) -> int:
        """Values of `==` and `in` that no row had so far."""
        return len(self._not_found)

    def _meant(self, written: Written, cells: Mapping[int, ColumnCells]) -> Mask:
        if not isinstance(written, WrittenTerm):
            join = np.logical_and if written.every else np.logical_or
            meant: Mask = reduce(join, [self._meant(part, cells) for part in written.parts])
            return meant
        term = self._terms[written]
        own = cells[term.column]
        holds = term.holds(own)
        if term.how == "in":
            matched = np.unique(own.words[holds]).tolist()
            self._not_found.difference_update(
                matched if term.numbers is None else map(_number, matched)
            )
        return holds

    def _term(self, written: WrittenTerm) -> Term:
        column = self._position(written.column)
        numbers = [one for one in written.values if isinstance(one, Decimal)]
        quoted = [one for one in written.values if isinstance(one, str)]
        texts = {one.encode().strip() for one in quoted}  # of the blanks that cells lose
        if written.file is not None:
            texts |= self._lists[written]
        if column in self._of_numbers:
            if quoted and written.how != "in":
                raise self._of_other_kind(written, "holds numbers", f"the text {shown(quoted[0])}")
            values = {text if (n := _number(text)) is None else n for text in texts}.union(numbers)
            self._expect(written, values)
            read = frozenset(one for one in values if isinstance(one, Decimal))
            others = [one for one in values if isinstance(one, bytes)]
            if others and written.how == "not in":
                raise self._of_no_number(written, min(others))
            return Term(column, written.how, read, np.zeros(0, np.bytes_))
        if numbers:
            holds = f"holds text, such as {shown(self._text_in[column])}"
            raise self._of_other_kind(written, holds, f"the number {numbers[0]}")
        if written.how in _COMPARED:
            self._require_order(column, *texts)
        self._expect(written, texts)
        if written.how in ("in", "not in"):
            texts = {one for one in texts if len(one) <= RETAINED_BYTES}  # others equal no cell
        return Term(column, written.how, None, np.array(sorted(texts), np.bytes_))

    def _require_order(self, column: int, date: bytes) -> None:
        """Refuse a date that cells do not stand before and behind as text."""
        if (cell := self._out_of_order.get((column, date))) is not None:
            raise BadInput(
                f"{self._place}: column {shown_name(self.retained[column])} holds {shown(cell)}, "
                f"and `where` compares it with {shown(date)}. Dates are in order as text only "
                "where they are written alike, the year first: write it so, or list values."
            )

    def _expect(self, written: WrittenTerm, values: Iterable[bytes | Decimal]) -> None:
        if written.how == "in":
            self._not_found.update(values)

    def _of_other_kind(self, written: WrittenTerm, holds: str, value: str) -> BadInput:
        quotes = "Leave out" if "numbers" in holds else "Put the number in"
        return BadInput(
            f"{self._place}: column {shown_name(written.column)} {holds}, and `where` compares it "
            f"with {value}. {quotes} the quotes."
        )

    def _of_no_number(self, written: WrittenTerm, value: bytes) -> BadInput:
        return BadInput(
            f"{self._place}: column {shown_name(written.column)} holds numbers, and "
            f"{written.file} lists {shown(value)}, which is none, so rows that `not in` is to "
            "leave there would go. Write plain numbers, such as 7; a header is the column's name."
        )

    def _position(self, name: str) -> int:
        if name not in self.retained:
            raise BadInput(
                f"`where` names the column {shown_name(name)}, and {self._place} keeps "
                f"{', '.join(map(shown_name, self.retained))}. Name one of these, or ingest anew "
                f"with `keep={name}`."
            )
        return self.retained.index(name)
