"""Which rows are meant: conditions on columns that a data set keeps as they were written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.row_condition import WrittenTerm, terms_of, unquoted
from fewpass.pipeline.tables.ingest.retained_columns import Retained, Words, words_of_retained
from fewpass.storage.folder import Folder

Mask = NDArray[np.bool_]
Test = Callable[[Words], Mask]

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": np.equal, "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


class Term(NamedTuple):
    """A condition on one column."""

    column: int  # among the kept ones
    holds: Test
    values: frozenset[bytes]  # that were listed; none where nothing was


class Condition:
    """A condition on kept columns: all its terms hold.

    Parameters
    ----------
    text
        Terms such as ``id in FILE`` (a line of the file for each value), ``city == "north"`` or
        ``age < 18``, joined by ``and``.  Quoted values are compared as text, numbers as numbers: a
        cell that is none is not meant.
    retained
        Names of the columns that the data set keeps.
    place
        The data set, for messages.
    storage_options
        For the address of the file.

    Raises
    ------
    BadInput
        A condition that cannot be read, or on a column that is not kept.
    FileNotFoundError
        The file is not there.
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
        self._retained, self._place, self._storage_options = list(retained), place, storage_options
        self.terms = [self._term(written) for written in _read(text)]
        self._matched: set[bytes] = set()

    def of(self, retained: Retained) -> Mask:
        """Say which rows are meant, of kept columns (n, bytes); returns (n,)."""
        meant = np.ones(len(retained), np.bool_)
        for term in self.terms:
            words = words_of_retained(retained, term.column)
            holds = term.holds(words)
            if term.values:
                self._matched.update(np.unique(words[holds]).tolist())
            meant &= holds
        return meant

    @property
    def unmatched(self) -> int:
        """Listed values that no row had so far."""
        return len(frozenset().union(*(term.values for term in self.terms)) - self._matched)

    def _term(self, written: WrittenTerm) -> Term:
        column, how, value = self._position(written.column), written.how, written.value
        if how in ("in", "not in"):
            values = self._listed(unquoted(value))
            listed = np.array(sorted(values), np.bytes_)
            inverted = how == "not in"
            return Term(
                column, lambda words: np.isin(words, listed, invert=inverted),
                frozenset() if inverted else values,
            )  # fmt: skip
        return Term(column, _comparison(how, value), frozenset())

    def _position(self, name: str) -> int:
        if name not in self._retained:
            raise BadInput(
                f"`where` names the column {shown_name(name)}, and {self._place} keeps "
                f"{', '.join(map(shown_name, self._retained))}. Name one of these, or ingest anew "
                f"with `keep={name}`."
            )
        return self._retained.index(name)

    def _listed(self, address: str) -> frozenset[bytes]:
        """Return the lines of a file, without blanks around them."""
        folder, _, name = address.rpartition("/")
        raw = Folder(folder or ".", self._storage_options).read(name)
        values = frozenset(line.strip() for line in raw.splitlines() if line.strip())
        if not values:
            raise BadInput(f"{address} has no line. Write a value on each line.")
        return values


def _read(text: str) -> list[WrittenTerm]:
    try:
        return terms_of(text)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _comparison(how: str, value: str) -> Test:
    compare, text = _COMPARED[how], unquoted(value)
    number = None if text != value else _as_number(text)
    if number is None:
        return lambda words: np.asarray(compare(words, text.encode()))
    return lambda words: _numbers_hold(words, lambda numbers: compare(numbers, number))


def _numbers_hold(words: Words, holds: Callable[[NDArray[np.float64]], Any]) -> Mask:
    """Compare the cells that are numbers; no other is meant."""
    different, at = np.unique(words, return_inverse=True)
    numbers = [_as_number(word.decode("utf-8", "replace")) for word in different.tolist()]
    values = np.array([np.nan if one is None else one for one in numbers])
    with np.errstate(invalid="ignore"):
        meant = np.asarray(holds(values)) & ~np.isnan(values)
    result: Mask = meant[at]
    return result


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
