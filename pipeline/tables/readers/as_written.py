"""Targets as they are written: labels such as 007 or 100000000000000001 are no floats.

Readers hand targets on as doubles.  Where what is written may be another label than the double,
they say in which rows, and what stands there; whoever counts labels asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.decimal_text import DECIMAL
from fewpass.pipeline.rows.targets import label_text
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.solvers.kernels.shapes import Bytes

_NUMBER = re.compile(DECIMAL, re.ASCII)
#: Zeros in front of a number, which a float forgets.
_PADDED = re.compile(r"[-+]?0\d")
#: Bytes of a number that are looked at, and what stands behind one in lines without commas.
_LONGEST, BLANKS = 1024, re.compile(rb"[\s#|]")


class AsWritten(NamedTuple):
    """What stands where targets may be no floats."""

    rows: NDArray[np.int64]  # (m,) of a table, ascending
    texts: Callable[[], Sequence[str]]  # (m,) worked out when asked for

    def names(self, *, padded: bool = True) -> tuple[NDArray[np.int64], list[str]]:
        """Return the rows (k,) with names in place of numbers, and their names.

        Parameters
        ----------
        padded
            Whether zeros in front of a number make it a name.
        """
        texts = self.texts()
        are_names = {text: not is_number(text, padded=padded) for text in set(texts)}
        named = np.fromiter(map(are_names.__getitem__, texts), np.bool_, len(texts))
        return self.rows[named], [texts[k] for k in np.flatnonzero(named).tolist()]

    def settled(self) -> AsWritten | None:
        """Return the names alone, without what they were read from; None where there are none."""
        rows, names = self.names()
        return AsWritten(rows, lambda: names) if names else None

    def among(self, rows: NDArray[np.int64]) -> AsWritten:
        """Return the same of some rows alone, ascending, numbered anew."""
        if not rows.size:
            return AsWritten(np.zeros(0, np.int64), tuple)
        at = np.searchsorted(rows, self.rows)
        stays = np.flatnonzero(rows[np.minimum(at, rows.size - 1)] == self.rows)

        def texts() -> list[str]:
            every = self.texts()
            return [every[k] for k in stays.tolist()]

        return AsWritten(at[stays], texts)


def is_number(text: str, *, padded: bool = True) -> bool:
    """Say whether the float that a text is read as stands for nothing else.

    1, +1, 1.0 and 1e0 are one number, 01 is a name, and so is 9007199254740993, which no float is.
    """
    if not _NUMBER.fullmatch(text):
        return True
    if padded and _PADDED.match(text):
        return False
    return Decimal(text) == Decimal(label_text(float(text)))


def in_text(
    text: Bytes, at: NDArray[np.int64], ends: re.Pattern[bytes] = BLANKS
) -> AsWritten | None:
    """Return what begins at positions (n,) of a text, -1: what is a float; None where all are."""
    rows = np.flatnonzero(at >= 0)
    if not rows.size:
        return None

    def texts() -> list[str]:
        words = []
        for start in at[rows].tolist():
            line = text[start : start + _LONGEST].tobytes().lstrip(b'"')
            words.append(ends.split(line, maxsplit=1)[0].decode("utf-8", "replace"))
        return words

    return AsWritten(rows, texts)


def in_array(target: NDArray[Any]) -> AsWritten | None:
    """Return which targets (n,) no float may be: whole numbers beyond 2^53; None: all are some."""
    if target.dtype.kind not in "iu" or target.dtype.itemsize < np.dtype(np.int64).itemsize:
        return None
    far = target > MOST_WHOLE
    if target.dtype.kind == "i":
        far |= target < -MOST_WHOLE
    rows = np.flatnonzero(far)
    return AsWritten(rows, lambda: list(map(str, target[rows].tolist()))) if rows.size else None


def labelled(
    target: NDArray[np.float64], written: AsWritten | None, *, padded: bool = True
) -> tuple[NDArray[np.int64], list[str]]:
    """Return which label each row (n,) has, and the labels, for targets that are numbers.

    Parameters
    ----------
    padded
        Whether zeros in front of a number make it a name; they do not where labels that are known
        are numbers.
    """
    values, places = np.unique(target, return_inverse=True)
    labels = [label_text(value) for value in values.tolist()]
    rows, names = (np.zeros(0, np.int64), []) if written is None else written.names(padded=padded)
    numbers = {label: k for k, label in enumerate(labels)}
    for row, name in zip(rows.tolist(), names, strict=True):
        places[row] = numbers.setdefault(name, len(numbers))
    used, codes = np.unique(places, return_inverse=True)
    every = list(numbers)
    return codes.astype(np.int64), [every[k] for k in used.tolist()]
