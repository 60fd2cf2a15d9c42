"""Amounts as text: `256MB` is 256,000,000 bytes, `1GiB` is 2^30; a count has its noun."""

from __future__ import annotations

import re
from numbers import Real
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from fewpass.solvers.bad_input import MOST_WHOLE, shown

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGTP", start=1)}
_UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGTP", start=1)}
_UNITS |= {prefix: 1000**power for power, prefix in enumerate("KMGTP", start=1)}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
#: The same for forms that are checked elsewhere, with the units that there are.
SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*([KMGTPkmgtp]?[Bb]?|[KMGTPkmgtp][Ii][Bb])\s*$"


def parse_bytes(size: float | str) -> int:
    """Return the bytes that `size` stands for.

    Parameters
    ----------
    size
        A whole number of bytes, or text: a number and a unit, in any case. `kB`, `MB`, `GB`, `TB`,
        `PB` (or only the letter) are powers of 1000; `KiB`, `MiB`, ... are powers of 1024.

    Raises
    ------
    ValueError
        `size` is not such a number, is negative, or is larger than any machine's memory.
    """
    count: Any = _written(size) if isinstance(size, str) else size
    is_number = isinstance(count, Real) and not isinstance(count, bool)
    if not is_number or not 0 <= count <= MOST_WHOLE or count != int(count):
        raise ValueError(f"{shown(size)} is no amount of memory. Write for example 256MB or 1GiB.")
    return int(count)


def _written(size: str) -> float | None:
    match = _SIZE.fullmatch(size)
    unit = match[2].upper() if match else ""
    if match is None or unit not in _UNITS:
        return None
    count = float(match[1]) * _UNITS[unit]
    return round(count) if count <= MOST_WHOLE else None


def format_bytes(count: float) -> str:
    """Format `count` bytes with three digits and a decimal unit, such as `1.23 MB`."""
    power = 0
    while abs(count) >= 999.5 and power < 5:  # 999.5 would be written 1000
        count, power = count / 1000, power + 1
    unit = ("B", "kB", "MB", "GB", "TB", "PB")[power]
    return f"{count:.3g} {unit}" if power else f"{count:.0f} {unit}"


def counted(n: float, one: str, several: str | None = None, spec: str = ",") -> str:
    """Write a count with its noun: `1 column`, `2 columns`, `1,000 classes`."""
    number = f"{n:{spec}}"
    return f"{number} {one if number == '1' else several or one + 's'}"


def format_passes(count: float, spec: str = ",.0f") -> str:
    """Format a number of passes, rounded by default."""
    return counted(count, "pass", "passes", spec)


#: A pydantic field with values of `parse_bytes`, in bytes.
ByteSize = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": SIZE_PATTERN}]}
    ),
]
