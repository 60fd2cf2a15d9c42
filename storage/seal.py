"""Manifests as bytes: a JSON object that ends with the SHA-256 of everything before it.

Any changed byte of a sealed document is detected without another file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MEMBER = b',"fingerprint":"'
TAIL_BYTES = len(MEMBER) + 64 + len(b'"}\n')


def seal(document: dict[str, Any], indent: int | None = None, *, allow_nan: bool = False) -> bytes:
    """Return the bytes of the document: its members in order, and its fingerprint.

    Parameters
    ----------
    document
        At least one member, no member called ``fingerprint``.
    indent
        Spaces before the members, for readability; None: all on one line.
    allow_nan
        Write non-finite numbers as Python does; ValueError by default, as JSON has none.
    """
    separators = (",", ": " if indent else ":")
    text = json.dumps(document, separators=separators, allow_nan=allow_nan, indent=indent).encode()
    return text[:-1] + MEMBER + hashlib.sha256(text).hexdigest().encode() + b'"}\n'


def unseal(raw: bytes) -> dict[str, Any]:
    """Return the document, fingerprint included.

    Raises
    ------
    ValueError
        The bytes were not written by `seal`, or were changed.
    """
    text, tail = raw[:-TAIL_BYTES] + b"}", raw[-TAIL_BYTES:]
    if tail != MEMBER + hashlib.sha256(text).hexdigest().encode() + b'"}\n':
        raise ValueError("its fingerprint does not fit its content")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004  all that is wrong here is data
    return document
