"""Whole numbers that are names: padded with zeros, or longer than a double can tell apart."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: Share of the cells that begin with a zero, and that may have another width.
_PADDED, _STRAY = 0.001, 0.01
#: Up to here doubles hold every whole number.
LARGEST_EXACT = 1 << 53
#: Digits of text that may be beyond; cells that are looked at.
_DIGITS, _TRIED = 16, 1000


def is_whole(kind: Any) -> bool:
    """Say whether an Arrow type is one of whole numbers."""
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0))


def are_codes(cells: Any) -> bool:
    """Say whether whole numbers, an Arrow array of them or of text, are names and no amounts."""
    if is_whole(cells.type):
        return _are_beyond_doubles(cells)
    return _are_padded(cells) or _are_too_long(cells)


def _are_padded(cells: Any) -> bool:
    """Say whether digits are padded with zeros to one width, as zip codes are."""
    padded = cells.filter(pc.starts_with(cells, "0"))
    padded = padded.filter(pc.match_substring_regex(padded, r"^0\d+$"))
    if len(padded) <= _PADDED * len(cells):
        return False
    width = pc.mode(pc.binary_length(padded))[0]["mode"].as_py()
    alike = pc.match_substring_regex(cells, rf"^\d{{{width}}}$")
    written = pc.match_substring_regex(cells, r"\d")
    return bool(pc.sum(alike).as_py() >= (1.0 - _STRAY) * pc.sum(written).as_py())


def _are_too_long(cells: Any) -> bool:
    if not (pc.max(pc.binary_length(cells)).as_py() or 0) >= _DIGITS:
        return False
    long = cells.filter(pc.match_substring_regex(cells, rf"^[-+]?\d{{{_DIGITS},}}$"))
    return any(not _is_exact(word) for word in long[:_TRIED].to_pylist())


def _is_exact(digits: str) -> bool:
    """Say whether a double gives a whole number back; Python reads none of thousands of digits."""
    number = float(digits)
    return math.isfinite(number) and int(number) == int(digits)


def _are_beyond_doubles(cells: Any) -> bool:
    known = cells.drop_null()
    ends = pc.min_max(known)
    largest = max((abs(end) for end in ends.as_py().values() if end is not None), default=0)
    if largest <= LARGEST_EXACT:
        return False
    return any(int(float(number)) != number for number in known.to_pylist())
