"""Dates that are compared as text: whether cells stand before and behind one as its moments do.

They do where they are written as it is, the year first: `2026-11-02 05:00` sorts before
`2026-11-02T04:00`, `02.11.2026` before `03.01.2025`, and in other zones other times are earlier.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.csv_head import MISSING

#: What begins as a date does: the year first, or last.
_DATE = re.compile(rb"(\d{4})([-./])\d{1,2}\2\d{1,2}(?!\d)|\d{1,2}([-./])\d{1,2}\3\d{4}(?!\d)")
_ZONE = re.compile(rb"(?<=\d)[+-]\d\d:?\d\d$")


def is_date(text: bytes) -> bool:
    """Say whether a text begins as a date does."""
    return _DATE.match(text) is not None


def cell_out_of_order(cells: NDArray[np.bytes_], date: bytes) -> str | None:
    """Return a cell of which the order as text does not tell whether it is before a date.

    Parameters
    ----------
    cells
        (n,) none of them empty.  Words for missing values are passed over.
    date
        What is compared with them.

    Returns
    -------
    str or None
        None where all begin in the form of the date: with the year, and in its zone if it has one.
    """
    letters = cells.astype(f"S{len(date)}").view(np.uint8).reshape(len(cells), len(date))
    form, zone = np.frombuffer(date, np.uint8), _ZONE.search(date)
    end = zone.start() if zone else len(date)
    alike = (_shape(letters[:, :end]) == _shape(form[:end])).all(1)
    alike &= (letters[:, end:] == form[end:]).all(1)
    read = _DATE.match(date)
    if read is None or read[1] is None:  # the day first
        alike[:] = False
    others = (word.decode("utf-8", "replace") for word in cells[~alike].tolist())
    return next((word for word in others if word.lower() not in MISSING), None)


def _shape(letters: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return letters with a 0 for every digit."""
    return np.where((letters >= ord("0")) & (letters <= ord("9")), np.uint8(ord("0")), letters)
