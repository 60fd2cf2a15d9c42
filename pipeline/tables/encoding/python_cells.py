"""Cells of Python, NumPy and pandas as Arrow arrays: what nothing is said by is null."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from fewpass.pipeline.tables.encoding.cells import Written, is_single, read_numbers, words_of

_64_BITS, _DIGITS = 1 << 63, 10**76  # of Arrow's whole numbers, and of its decimals
#: What is missing, by the names of types: pandas need not be there.
_OF_PANDAS = ("NAType", "NaTType")


def arrow_cells(cells: Sequence[Any], kind: Any = None, written: Written | None = None) -> Any:
    """Return cells (n,) as an Arrow array, of a type where one is given.

    Cells of several types are what their texts say; in a column of numbers, given how text has
    these, numbers among other cells are written so.

    Raises
    ------
    pyarrow.ArrowException, TypeError, ValueError, OverflowError
        A cell is of no type that Arrow has.
    """
    try:
        return typed_alike(cells, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        if kind is not None or len(cells) < 2:
            raise
    return pa.array([_text_of(cell, written) for cell in cells], pa.large_string())


def _text_of(cell: Any, written: Written | None) -> str | None:
    typed = typed_alike([cell])
    if written is not None and (isinstance(cell, int) or is_single(typed.type)):
        number = float(read_numbers(typed).values[0])
        return None if math.isnan(number) else _number_text(number, written)
    text: str | None = words_of(typed)[0].as_py()
    return text


def _number_text(number: float, written: Written) -> str:
    """Return the text of a number that `read_numbers` reads, as written, as the same number."""
    digits = f"{Decimal(repr(number)):f}".removesuffix(".0")
    if written == "clock":
        return f"-PT{digits[1:]}S" if digits.startswith("-") else f"PT{digits}S"
    return digits.replace(".", ",") if written == "comma" else digits


def typed_alike(cells: Sequence[Any], kind: Any = None) -> Any:
    """Return cells (n,) of one type as an Arrow array; raise where they have several.

    None, NaN, and the NA and NaT of pandas are null.
    """
    return pa.array([_plain(cell) for cell in cells], kind)


def _plain(cell: Any) -> Any:
    """Return a cell, one that is missing as None, and whole numbers beyond 64 bits as decimals."""
    if isinstance(cell, np.generic):
        moment = isinstance(cell, np.datetime64)
        cell = cell.astype("datetime64[us]").item() if moment else cell.item()
    if isinstance(cell, int) and not -_64_BITS <= cell < _64_BITS:
        return _long(cell)
    is_nothing = isinstance(cell, float) and math.isnan(cell)
    return None if is_nothing or type(cell).__name__ in _OF_PANDAS else cell


def _long(number: int) -> Decimal | float | str:
    if abs(number) < _DIGITS:
        return Decimal(number)
    return float(number) if abs(number) <= sys.float_info.max else str(number)
