"""Conditions on rows as they are written: `id in FILE`, `city == "north"`, `age < 18`."""

from __future__ import annotations

import re
from typing import NamedTuple

_AND = re.compile(r"\s+and\s+(?=(?:[^\"']*[\"'][^\"']*[\"'])*[^\"']*$)")
_TERM = re.compile(
    r"^\s*(?P<column>.+?)\s*(?P<how>==|!=|<=|>=|<|>|=|\s+not\s+in\s+|\s+in\s+)\s*(?P<value>.+?)\s*$"
)
EXAMPLES = 'id in FILE, city == "north", age < 18, joined by `and`'
#: For forms that are checked elsewhere: some column, how it is compared, with what.
CONDITION_PATTERN = r"\S\s*(==|!=|<=|>=|<|>|=|\s(not\s+)?in\s)\s*\S"


class WrittenTerm(NamedTuple):
    """A condition on one column; what was quoted has its quotes."""

    column: str
    how: str
    value: str


def terms_of(text: str) -> list[WrittenTerm]:
    """Return the terms that are joined by `and`; ValueError for what is no condition."""
    return [_term(part) for part in _AND.split(text.strip())]


def as_condition(text: str) -> str:
    """Return the text of a condition; ValueError where it is none."""
    terms_of(text)
    return text


def _term(text: str) -> WrittenTerm:
    match = _TERM.match(text)
    if match is None:
        raise ValueError(f"`where` has {text!r}, which is no condition. Write {EXAMPLES}.")
    how, value = " ".join(match["how"].split()), match["value"]
    if how not in ("in", "not in") and unquoted(value) == value and not _is_number(value):
        raise ValueError(
            f'`where` compares with {value}, which is no number. Put text in quotes: "{value}".'
        )
    return WrittenTerm(unquoted(match["column"]), how, value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def unquoted(text: str) -> str:
    """Return a text without the quotes around it."""
    inside = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if inside else text
