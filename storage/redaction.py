"""Addresses without their secrets, for storing, logging and printing."""

from __future__ import annotations

import re
from urllib.parse import unquote

IPV6 = re.compile(r"\[[0-9A-Fa-f:.%]*\]")

_PLACES = ("file", "local", "memory")  # without a server, hence without credentials
_WEB = ("http", "https")
_WITHOUT_USER = (*_WEB, "s3", "s3a", "gs", "gcs")  # elsewhere a user's name is part of the address
_SEEN = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*://[^\s"<>]+')
_END = re.compile(r"[.,;:!')\]`]*$")  # of the sentence around an address
_HOST = re.compile(rf"(?:{IPV6.pattern}|[^:@\[\]]*)(?::\d*)?")
_WEB_QUERY = re.compile(r"[?#].*")
_SERVERS = ("postgresql", "postgres")
_ONE_SERVER = rf"(?:{IPV6.pattern}|[\w.%-]*)(?::\d*)?"
_SERVER = re.compile(
    r"(?:(?P<user>[\w.~%+-]*)(?P<password>:[^/?]*)?@)?"
    rf"(?P<place>{_ONE_SERVER}(?:,{_ONE_SERVER})*(?:/[\w.~%+-]*)?)"
)
_WORD = re.compile(r"[^\s:/@?&=#,;()\[\]'\"]+")
_BARE_QUERY = re.compile(r"\?[\w.-]+=\S*")
_QUERY = re.compile(r"\?[\w.-]+=.*")  # outside http a bare ? is a wildcard


def without_secrets(text: str) -> str:
    """Return a text with user information, query and fragment removed from all addresses.

    If the end of a password is unclear, only the protocol of the address is kept.
    """
    return _SEEN.sub(_redacted, text)


def shown_address(address: str) -> str:
    """Return an address without its secrets, whatever is in it.

    In a text the address of a server ends at the first blank; on its own it is looked at whole.
    """
    is_of_server = address.partition("://")[0].lower() in _SERVERS
    return _plain(address) if is_of_server else without_secrets(address)


def without_words_of(address: str, text: str) -> str:
    """Return a text without any word of an address, as it stands there or decoded.

    Libraries repeat what they cannot read, and take a password's rest for a port or a name.
    """
    words = {word for form in (address, unquote(address)) for word in _WORD.findall(form)}
    longest_first = sorted(words, key=len, reverse=True)
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", "...", text)


def without_queries(text: str) -> str:
    """Return a text without queries, also those of incomplete addresses.

    Servers may repeat a requested path in their answers.
    """
    return _BARE_QUERY.sub("", text)


def _redacted(match: re.Match[str]) -> str:
    seen = match[0]
    end = _END.search(seen)
    at = end.start() if end else len(seen)
    return _plain(seen[:at]) + seen[at:]


def _plain(address: str) -> str:
    protocol, _, rest = address.partition("://")
    kind = protocol.lower()
    if kind in _PLACES and "::" not in address:
        return address
    if kind in _SERVERS:
        return f"{protocol}://{_of_server(rest)}"
    rest = (_WEB_QUERY if kind in _WEB else _QUERY).sub("", rest)
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not _HOST.fullmatch(host) or "::" in IPV6.sub("", rest):
        return f"{protocol}://..."  # the end of a password is unclear
    keep = at and ":" not in user and kind not in _WITHOUT_USER
    return f"{protocol}://{authority if keep else host}{slash}{path}"


def _of_server(rest: str) -> str:
    """Return user, place and database of a server's address; ... where these are not certain."""
    before, _, asked = rest.partition("?")
    parts = _SERVER.fullmatch(before)
    if parts is None or "@" in asked:
        return "..."
    user = f"{parts['user']}@" if parts["user"] and not parts["password"] else ""
    return f"{user}{parts['place']}"
