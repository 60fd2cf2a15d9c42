"""Addresses: which of them are followed.

Addresses come from whoever asks, but also out of run folders, configurations and parameters that
strangers may have written, and some of what fsspec knows runs what the other end sends.  So every
address is opened here, and only protocols that move bytes and nothing else are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fewpass.storage.redaction import IPV6, without_secrets

#: What may be opened; the rest of fsspec's protocols only where the user says so.
ALLOWED = (
    "file", "local", "memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "http", "https",
)  # fmt: skip
READ_ONLY = ("http", "https")
#: An environment variable: protocols allowed beside these, separated by commas.
SETTING = "FEWPASS_PROTOCOLS"

_LOCAL = ("file", "local")
#: The extra that brings a protocol, by its first letters, and the library in it.
EXTRAS = {"s3": ("s3", "s3fs"), "http": ("http", "aiohttp"), "g": ("gcs", "gcsfs"),
          "ab": ("azure", "adlfs"), "az": ("azure", "adlfs")}  # fmt: skip
#: Options by which a file system opens another one inside, whatever its own protocol is.
_INNER = ("protocol", "target_protocol", "target_options", "fo", "fs", "remote_protocol",
          "remote_options")  # fmt: skip


class BadAddress(ValueError):  # noqa: N818  users read the name, and it says enough
    """An address that is not followed; the message never repeats its secrets."""


def local_path(url: str) -> Path | None:
    """Return the absolute path that an address without a protocol, or with file://, names."""
    protocol = protocol_of(url)
    if protocol not in _LOCAL:
        return None
    path = unquote(url.partition("://")[2]) if "://" in url else Path(url).expanduser()
    return Path(os.path.abspath(path))  # noqa: PTH100  resolve() would follow links


def open_store(
    url: str, storage_options: Mapping[str, Any] | None = None, *, writing: bool = False
) -> tuple[Any, str]:
    """Return fsspec's file system for an address, and the path in it.

    Parameters
    ----------
    url
        A path or an address of an allowed protocol.
    storage_options
        Handed to the file system; none by default.
    writing
        Whether something is to be written there.

    Raises
    ------
    BadAddress
        Another protocol, a chain of them, options that would open another file system, a protocol
        whose library is not installed; http(s) for writing.
    """
    protocol = protocol_of(url)
    options = dict(storage_options or {})
    inner = [name for name in _INNER if name in options]
    if inner:
        raise BadAddress(
            f"The storage option {inner[0]} would open another place than the address says. "
            "Leave it out."
        )
    if writing:
        require_writable(protocol)
    import fsspec  # noqa: PLC0415 - a path on this machine needs none of it

    try:
        store, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise BadAddress(_lacking(url, protocol, error)) from error
    except ValueError as error:
        raise BadAddress(
            f"{without_secrets(url)} cannot be reached ({without_secrets(str(error))}). "
            "Check the address."
        ) from None  # the cause would repeat the address
    return store, path


def _lacking(url: str, protocol: str, error: ImportError) -> str:
    """Say what a protocol needs, and with which extra it comes, if that is known."""
    for start, (extra, library) in EXTRAS.items():
        if protocol.startswith(start):
            return (
                f"{without_secrets(url)} needs {library}, which is not installed. Install it with "
                f"pip install 'fewpass[{extra}]'."
            )
    return f"{without_secrets(url)} needs a library that is not installed ({error}). Install it."


def protocol_of(url: str) -> str:
    """Return the protocol of an address, `file` for a path; BadAddress unless it is allowed."""
    named, found, _ = url.partition("://")
    protocol = named if found else "data" if url.startswith("data:") else "file"
    shown = protocol if re.fullmatch(r"[\w+.-]{1,20}", protocol) else "?"
    if "::" in IPV6.sub("", url):
        raise BadAddress(
            f'An address of the protocol "{shown}" holds "::", and chains of addresses are not '
            "followed. Give one address, without any `::`."
        )
    known = allowed_protocols()
    if protocol not in known:
        raise BadAddress(
            f"{shown} is not supported; supported are paths, and addresses of {', '.join(known)}. "
            f"Copy the files to one of these; {SETTING}={shown} allows more, if you trust whoever "
            "wrote the address."
        )
    return protocol


def allowed_protocols() -> tuple[str, ...]:
    """Return the protocols that are followed, those of the user's setting included."""
    more = (name.strip() for name in os.environ.get(SETTING, "").split(","))
    return (*ALLOWED, *(name for name in more if name and name not in ALLOWED))


def require_writable(protocol: str) -> None:
    """Refuse protocols that are for reading only."""
    if protocol in READ_ONLY:
        raise BadAddress(
            f"{protocol}:// is for reading only. Write to a folder, or to an object store."
        )


def require_no_secrets(url: str) -> str:
    """Return an address as it is; BadAddress when it carries credentials or a query.

    Where something is stored is written down in plans, logs and manifests.
    """
    plain = without_secrets(url)
    if plain != url:
        raise BadAddress(
            f"The address {plain} carries a password, a token or a query, which logs would show. "
            "Hand credentials over as storage options or through the environment."
        )
    return url
