"""Addresses, and which of them may be opened.

Addresses come from users, but also from run folders, configurations and parameters that strangers
may have written, and some file systems of fsspec execute what the other side sends.  So all
addresses are opened here, and only with protocols that do nothing but transfer bytes.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fewpass.storage.redaction import IPV6, shown_address, without_secrets

#: Allowed protocols; others of fsspec's only if the user allows them.
ALLOWED = (
    "file", "local", "memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "http", "https",
)  # fmt: skip
READ_ONLY = ("http", "https")
#: What names a table that its own library opens, not a file: rows are read there, and nothing else.
TABLE_SERVERS = ("postgresql", "postgres", "iceberg")
#: An environment variable: further allowed protocols, separated by commas.
SETTING = "FEWPASS_PROTOCOLS"

_LOCAL = ("file", "local")
#: Object stores whose addresses begin with a bucket, never with a user.
_BUCKETS = ("s3", "s3a", "gs", "gcs")
#: The extra that installs a protocol, and its library, by the first letters of the protocol.
EXTRAS = {"s3": ("s3", "s3fs"), "http": ("http", "aiohttp"), "g": ("gcs", "gcsfs"),
          "ab": ("azure", "adlfs"), "az": ("azure", "adlfs")}  # fmt: skip
#: Options by which a file system of any protocol opens another one.
_INNER = ("protocol", "target_protocol", "target_options", "fo", "fs", "remote_protocol",
          "remote_options")  # fmt: skip


class BadAddress(ValueError):  # noqa: N818  users read the name, and it says enough
    """An address that is refused; the message never repeats its secrets."""


def local_path(url: str) -> Path | None:
    """Return the absolute path of an address without a protocol, or with file://; else None."""
    protocol = protocol_of(url)
    if protocol not in _LOCAL:
        return None
    home = os.path.expanduser(url)  # noqa: PTH111  pathlib refuses ~x, which may be a file
    path = unquote(url.partition("://")[2]) if "://" in url else home
    return Path(os.path.abspath(path))  # noqa: PTH100  resolve() would follow links


def open_store(
    url: str, storage_options: Mapping[str, Any] | None = None, *, writing: bool = False
) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the path in it.

    Parameters
    ----------
    url
        A path or an address of an allowed protocol.
    storage_options
        Handed to the file system; none by default.
    writing
        Whether something will be written there.

    Raises
    ------
    BadAddress
        Another protocol, a chain of them, options that would open another file system, a protocol
        whose library is not installed; http(s) for writing; a password before a bucket.
    """
    protocol = protocol_of(url)
    _require_bucket(url, protocol)
    options = dict(storage_options or {})
    inner = [name for name in _INNER if name in options]
    if inner:
        raise BadAddress(
            f"The storage option {inner[0]} would open another place than the address says. "
            "Leave it out."
        )
    if protocol in TABLE_SERVERS:
        raise BadAddress(
            f"{protocol}:// names a table, whose rows are read, and no folder or file. Name one."
        )
    if writing:
        require_writable(protocol)
    import fsspec  # noqa: PLC0415 - a path on this machine needs none of it

    if "://" in url and protocol in _LOCAL:
        url = str(local_path(url))  # %20 and the like are decoded, which fsspec does not
    try:
        store, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise BadAddress(_lacking(url, protocol, error)) from error
    except ValueError as error:
        raise BadAddress(
            f"{without_secrets(url)} cannot be reached ({without_secrets(str(error))}). "
            "Check the address."
        ) from None  # the cause would repeat the address and its secrets
    return store, path


def _require_bucket(url: str, protocol: str) -> None:
    """Refuse a user and a password before a bucket: stores take none there, and repeat them."""
    before = url.partition("://")[2].partition("/")[0]
    has_user = "@" in before or (":" in before and not before.startswith("arn:"))
    if protocol in _BUCKETS and has_user:
        raise BadAddress(
            f"An address of {protocol} begins with a bucket, and a user or a password was before "
            f"it. Write {protocol}://BUCKET/KEY, and hand credentials over through the environment."
        )


def _lacking(url: str, protocol: str, error: ImportError) -> str:
    """Return a message with the library that a protocol needs, and its extra."""
    for start, (extra, library) in EXTRAS.items():
        if protocol.startswith(start):
            return (
                f"{without_secrets(url)} needs {library}, which is not installed. Install it with "
                f"pip install 'fewpass[{extra}]'."
            )
    return f"{without_secrets(url)} needs a library that is not installed ({error}). Install it."


def protocol_of(url: str) -> str:
    """Return the protocol of an address, `file` for a path; BadAddress if it is not allowed."""
    named, separator, _ = url.partition("://")
    protocol = named if separator else "data" if url.startswith("data:") else "file"
    shown = protocol if re.fullmatch(r"[\w+.-]{1,20}", protocol) else "?"
    if "::" in IPV6.sub("", url):
        raise BadAddress(
            f'An address of the protocol "{shown}" holds "::", and chains of addresses are not '
            "followed. Give one address, without any `::`."
        )
    allowed = allowed_protocols()
    if protocol not in allowed:
        raise BadAddress(
            f"{shown} is not supported; supported are paths, and addresses of "
            f"{', '.join(allowed)}. Copy the files to one of these; {SETTING}={shown} allows more, "
            "if you trust whoever wrote the address."
        )
    return protocol


def allowed_protocols() -> tuple[str, ...]:
    """Return the allowed protocols, including those of the environment variable."""
    more = (name.strip() for name in os.environ.get(SETTING, "").split(","))
    return (*ALLOWED, *TABLE_SERVERS, *(name for name in more if name and name not in ALLOWED))


def is_table_server(url: str) -> bool:
    """Say whether an address names a table that its own library opens, such as postgresql://."""
    return protocol_of(url) in TABLE_SERVERS


def require_writable(protocol: str) -> None:
    """Refuse read-only protocols."""
    if protocol in READ_ONLY:
        raise BadAddress(
            f"{protocol}:// is for reading only. Write to a folder, or to an object store."
        )


def require_no_secrets(url: str) -> str:
    """Return the address unchanged; BadAddress if it contains credentials or a query.

    Addresses are recorded in plans, logs and manifests.
    """
    plain = shown_address(url)
    if plain != url:
        raise BadAddress(
            f"The address {plain} carries a password, a token or a query, which logs would show. "
            "Hand credentials over as storage options or through the environment."
        )
    return url


def command(*words: str) -> str:
    """Return a command line of fewpass as it is typed; capitals stand for what is to be named."""
    return shlex.join(("fewpass", *words))
