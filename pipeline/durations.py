"""Durations as text: `30s`, `5m`, `2h`; a number alone is seconds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from fewpass.solvers.bad_input import shown

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
MOST_SECONDS = 366 * 24 * 3600.0  # longest duration accepted
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")


def parse_seconds(text: Any) -> Any:
    """Return the seconds of "90", "30s", "5m" or "2h"; values other than text unchanged.

    Raises ValueError on other text.
    """
    if not isinstance(text, str):
        return text
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{shown(text)} is no duration. Write for example 30s, 5m or 2h.")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > MOST_SECONDS:
        raise ValueError(f"{shown(text)} is longer than a year. Write for example 30s, 5m or 2h.")
    return seconds


#: A pydantic field with values of `parse_seconds`, in seconds.
Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    Field(ge=0, le=MOST_SECONDS),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": MOST_SECONDS},
                {"type": "string", "pattern": rf"^\s*{_DURATION.pattern}\s*$"},
            ]
        }
    ),
]
