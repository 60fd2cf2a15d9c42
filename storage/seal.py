"""Manifests as bytes: a JSON object that ends with the SHA-256 of everything before it.

Any changed byte of a sealed document is detected without another file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MEMBER = b',"fingerprint":"'


def seal(
    document: dict[str, Any], indent: int | None = None, *, allow_nan: bool = False, depth: int = 1
) -> bytes:
    """Return the bytes of the document: its members in order, and its fingerprint.

    Parameters
    ----------
    document
        At least one member, no member called ``fingerprint``.
    indent
        Spaces before the members, for readability; None: all on one line.
    allow_nan
        Write non-finite numbers as Python does; ValueError by default, as JSON has none.
    depth
        Objects that the fingerprint lies in: 2 for a member of the last member.
    """
    separators = (",", ": " if indent else ":")
    text = json.dumps(document, separators=separators, allow_nan=allow_nan, indent=indent).encode()
    return text[:-depth] + _tail(text, depth)


def fingerprint_of(sealed: bytes, depth: int = 1) -> str:
    """Return the fingerprint of what `seal` returned."""
    end = len(sealed) - len(b'"\n') - depth
    return sealed[end - 64 : end].decode()


def unseal(raw: bytes, depth: int = 1) -> dict[str, Any]:
    """Return the document, fingerprint included.

    Raises
    ------
    ValueError
        The bytes were not written by `seal`, or were changed.
    """
    end = len(raw) - len(_tail(b"", depth))
    text = raw[: max(0, end)] + b"}" * depth
    if raw[max(0, end) :] != _tail(text, depth):
        raise ValueError("its fingerprint does not fit its content")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004  all that is wrong here is data
    return document


def _tail(text: bytes, depth: int) -> bytes:
    """Return what a sealed document ends with in place of its `depth` last braces."""
    digest = hashlib.sha256(text).hexdigest().encode()
    return MEMBER + digest + b'"' + b"}" * depth + b"\n"
