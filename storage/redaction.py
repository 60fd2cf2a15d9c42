"""Addresses told without their secrets: all that is stored, logged or printed of them."""

from __future__ import annotations

import re

IPV6 = re.compile(r"\[[0-9A-Fa-f:.%]*\]")

_PLACES = ("file", "local", "memory")  # no server, so nothing to hand credentials to
_WEB = ("http", "https")
_WITHOUT_USER = (*_WEB, "s3", "s3a", "gs", "gcs")  # elsewhere a user's name is part of the place
_SEEN = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*://[^\s"<>]+')
_END = re.compile(r"[.,;:!')\]`]*$")  # of the sentence that an address stands in
_HOST = re.compile(rf"(?:{IPV6.pattern}|[^:@\[\]]*)(?::\d*)?")
_WEB_QUERY = re.compile(r"[?#].*")
_BARE_QUERY = re.compile(r"\?[\w.-]+=\S*")
_QUERY = re.compile(r"\?[\w.-]+=.*")  # elsewhere than in http a bare ? stands for any character


def without_secrets(text: str) -> str:
    """Return a text with user information, query and fragment taken out of every address in it.

    An address of which it cannot be told where a password ends keeps its protocol alone.
    """
    return _SEEN.sub(_told, text)


def without_queries(text: str) -> str:
    """Return a text without queries, also of addresses of which the rest is gone.

    A server may repeat what it was asked for.
    """
    return _BARE_QUERY.sub("", text)


def _told(found: re.Match[str]) -> str:
    seen = found[0]
    end = _END.search(seen)
    at = end.start() if end else len(seen)
    return _plain(seen[:at]) + seen[at:]


def _plain(address: str) -> str:
    protocol, _, rest = address.partition("://")
    kind = protocol.lower()
    if kind in _PLACES and "::" not in address:
        return address
    rest = (_WEB_QUERY if kind in _WEB else _QUERY).sub("", rest)
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not _HOST.fullmatch(host) or "::" in IPV6.sub("", rest):
        return f"{protocol}://..."  # no telling where a password ends
    keep = at and ":" not in user and kind not in _WITHOUT_USER
    return f"{protocol}://{authority if keep else host}{slash}{path}"
