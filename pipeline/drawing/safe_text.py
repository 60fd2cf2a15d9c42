"""Names and labels in what others will render: HTML, Markdown, JSON.

They are other people's words: of a path, a column, a class.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

#: Control characters but tab and line end, marks that turn the direction of writing, line
#: separators, and halves of characters.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: What makes links, pictures, code, emphasis, tables, headings and lists of a text in Markdown.
_MARKED = re.compile(r"[\\`*\[\]|~#]|(?<!\w)_|_(?!\w)|^[-+](?=[ -]|$)|^\d+[.)](?= |$)")
_IN_SCRIPTS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def without_control(text: str) -> str:
    """Write out the characters that a terminal or a browser would obey."""
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def as_html(text: str) -> str:
    """Return a text as HTML that shows it, between tags and in quoted attributes."""
    return html.escape(without_control(text))


def as_markdown(text: str) -> str:
    """Return a text as Markdown that shows it, on one line: no link, no picture, no HTML."""
    line = " ".join(without_control(text).split())
    marked = _MARKED.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", line)
    return html.escape(marked, quote=False)


def as_json(value: Any) -> str:
    """Write JSON that stays JSON inside a page, too; numbers that it has no word for are null."""
    return json.dumps(finite(value), allow_nan=False).translate(_IN_SCRIPTS)


def finite(value: Any, said: Callable[[str], str] = str) -> Any:
    """Return what JSON has words for: None for numbers that are not finite, texts as `said`."""
    if isinstance(value, dict):
        return {finite(name, said): finite(inner, said) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner, said) for inner in value]
    if isinstance(value, str):
        return said(value)
    return None if isinstance(value, float) and value - value != 0.0 else value
