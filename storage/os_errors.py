"""Errors of the operating system with the address they are about, and advice."""

from __future__ import annotations

import errno

_FULL, _CLOSED = (
    "Free some space or choose another place", "Change its permissions or choose another place",
)  # fmt: skip
_ADVICE = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EACCES: _CLOSED, errno.EPERM: _CLOSED,
    errno.EROFS: _CLOSED, errno.EFBIG: "Allow larger files (ulimit -f)",
}  # fmt: skip


def described(error: OSError, address: str) -> OSError:
    """Return a storage error with its address and advice."""
    advice = (
        f"{_ADVICE.get(error.errno or 0, 'Check the storage')}, then run the same command again."
    )
    text = error.strerror or str(error)
    if error.errno is None:
        return OSError(f"{address}: {text}. {advice}")
    return OSError(error.errno, f"{text}. {advice}", address)
