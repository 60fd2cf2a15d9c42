"""Manifests as bytes: a JSON object that ends with the SHA-256 of all that stands before it.

A sealed document proves itself: any changed byte is found without asking another file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MEMBER = b',"fingerprint":"'
TAIL_BYTES = len(MEMBER) + 64 + len(b'"}\n')


def seal(document: dict[str, Any]) -> bytes:
    """Bytes of the document on one line, its members in order, its fingerprint as the last one.

    Parameters
    ----------
    document
        At least one member, finite numbers only, no member called ``fingerprint``.
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return text[:-1] + MEMBER + hashlib.sha256(text).hexdigest().encode() + b'"}\n'


def unseal(raw: bytes) -> dict[str, Any]:
    """Return the document with its fingerprint.

    Raises
    ------
    ValueError
        When the bytes are not what `seal` wrote.
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
