"""Amounts as text: `256MB` is 256,000,000 bytes, `1GiB` is 2^30; a count has its noun."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from numbers import Real
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from fewpass.solvers.bad_input import MOST_WHOLE, shown

LARGE = 1e4  # from here on decimals say little
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


def passes_of(made: float, most: float, spec: str, of: str = "of") -> str:
    """Write the passes made of those allowed; alone where a method made more, to certify."""
    if made > most:
        return format_passes(made, spec)
    return f"{made:{spec}} {of} {format_passes(most)}"


def format_seconds(seconds: float) -> str:
    """Write a duration: 4.2 s, 3:07, 1:02:03."""
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def as_fixed(number: float | None, decimals: int) -> str:
    """Write a number with fixed decimals, a large one with eight digits; a dash for none."""
    large = number is not None and abs(number) >= LARGE
    return or_dash(number, ".8g" if large else f".{decimals}f")


def decimals_of(numbers: Iterable[float]) -> int:
    """Return the decimals of losses: 6, or more where the least has fewer than six digits by them.

    Losses of counts for a unit of exposure may be far below 1.
    """
    least = min(
        (abs(number) for number in numbers if number and math.isfinite(number)), default=1.0
    )
    return max(6, 5 - math.floor(math.log10(least)))


def or_none(number: float | None, style: str = ".6g") -> str | None:
    """Write a number in a style; None where there is none."""
    return None if number is None else format(number, style)


def or_dash(number: float | None, style: str) -> str:
    """Write a number in a style, or a dash where there is none."""
    return "-" if number is None else format(number, style)


#: A pydantic field with values of `parse_bytes`, in bytes.
ByteSize = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": SIZE_PATTERN}]}
    ),
]
