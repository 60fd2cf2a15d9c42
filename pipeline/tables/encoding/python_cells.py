"""Cells of Python, NumPy and pandas as Arrow arrays: what nothing is said by is null."""

from __future__ import annotations

import datetime as dt
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
#: Types of single cells; those of numbers may stand beside each other, and no others.
_NUMBERS = (int, float, Decimal)
_SINGLE = (bool, *_NUMBERS, str, bytes, dt.datetime, dt.date, dt.time, dt.timedelta)


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
        return typed_alike(cells, kind, written)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        if kind is not None or len(cells) < 2:
            raise
    return pa.array([_text_of(cell, written) for cell in cells], pa.large_string())


def _text_of(cell: Any, written: Written | None) -> str | None:
    typed = typed_alike([cell], None, written)
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


def typed_alike(cells: Sequence[Any], kind: Any = None, written: Written | None = None) -> Any:
    """Return cells (n,) of one type as an Arrow array; raise where they have several.

    None, NaN, and the NA and NaT of pandas are null.  Arrow alone would take a 7 behind a span for
    microseconds, and a time behind a date for its day.
    """
    plain = [_plain(cell, is_number=written is not None) for cell in cells]
    if kind is None:
        _require_alike(plain)
    return pa.array(plain, kind)


def _require_alike(cells: Sequence[Any]) -> None:
    kinds = {_single(kind) for kind in {type(cell) for cell in cells}} - {None}
    if len(kinds) > 1 and not kinds <= {*_NUMBERS}:
        names = sorted(kind.__name__ for kind in kinds if kind)
        raise TypeError(f"{names[0]} beside {names[1]}")
    if kinds == {dt.datetime} and len({cell.tzinfo for cell in cells if cell is not None}) > 1:
        raise TypeError("times of several zones")


def _single(kind: type) -> type | None:
    """Return which of the types of single cells one is; None: it is another."""
    return next((one for one in _SINGLE if issubclass(kind, one)), None)


def _plain(cell: Any, *, is_number: bool = False) -> Any:
    """Return a cell, one that is missing as None, and whole numbers beyond 64 bits as decimals."""
    if isinstance(cell, np.generic):
        cell = _of_numpy(cell).item()
    if isinstance(cell, int) and not -_64_BITS <= cell < _64_BITS:
        return _long(cell, is_number=is_number)
    is_nothing = isinstance(cell, float) and math.isnan(cell)
    return None if is_nothing or type(cell).__name__ in _OF_PANDAS else cell


def _of_numpy(cell: Any) -> Any:
    """Return moments and spans in microseconds: in finer units NumPy's own are numbers."""
    if isinstance(cell, np.datetime64 | np.timedelta64):
        kind = "datetime64[us]" if isinstance(cell, np.datetime64) else "timedelta64[us]"
        return cell.astype(kind)
    return cell


def _long(number: int, *, is_number: bool) -> Decimal | float | str:
    """Return a whole number beyond 64 bits: beyond float64 it is digits, or infinite."""
    if abs(number) < _DIGITS:
        return Decimal(number)
    if abs(number) <= sys.float_info.max:
        return float(number)
    return math.inf * (1 if number > 0 else -1) if is_number else str(number)
