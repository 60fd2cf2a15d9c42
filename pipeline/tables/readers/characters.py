"""Bytes of text that readers look for, by name: as kernels compare them."""

from __future__ import annotations

TAB, NEWLINE, RETURN, SPACE = b"\t\n\r "
QUOTE, HASH, APOSTROPHE = b"\"#'"
PLUS, COMMA, MINUS, DOT, COLON = b"+,-.:"
ZERO, NINE = b"09"
BACKSLASH, HAT, BAR = b"\\^|"
