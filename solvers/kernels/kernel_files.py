"""Files of compiled kernels: whole, or not at all.

A file has its length and its checksum, which its name counts in, before the bytes that will run.
It is written beside its place and moved there, so that of two processes that compile the same
kernel each leaves a whole file; what a full disk, a power cut or a copy cut short leaves is found.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from pathlib import Path
from tempfile import NamedTemporaryFile

SUFFIX = ".kernel"

_HEADER = struct.Struct("<8sQ32s")
_MAGIC = b"fewpass1"


class DamagedKernel(OSError):  # noqa: N818 - as the storage's Damaged
    """A file that is not what was written; the message says what is wrong with it."""


def read_kernel(path: Path) -> bytes:
    """Return the bytes that a file was written with.

    Raises
    ------
    DamagedKernel
        If it has other bytes than were written, or somebody else may have written them.
    OSError
        If it is not there, or cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait
        raise DamagedKernel("it is no file")
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise DamagedKernel("another user owns it or can write to it")
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise DamagedKernel(f"it is cut short, to {found.st_size} bytes")
        magic, length, checksum = _HEADER.unpack(head)
        if magic != _MAGIC:
            raise DamagedKernel("it does not begin as a compiled kernel does")
        if found.st_size != _HEADER.size + length:
            raise DamagedKernel(f"it has {found.st_size} bytes in place of {_HEADER.size + length}")
        content = file.read()
    if _checksum(path.name, content) != checksum:
        raise DamagedKernel("its checksum is another")
    return content


def write_kernel(path: Path, content: bytes) -> None:
    """Write a file, or replace one; OSError where that cannot be."""
    head = _HEADER.pack(_MAGIC, len(content), _checksum(path.name, content))
    with NamedTemporaryFile(dir=path.parent, prefix=".partial-", delete=False) as file:
        try:
            file.write(head)
            file.write(content)
            file.close()
            os.replace(file.name, path)  # noqa: PTH105 - a name
        except BaseException:
            os.unlink(file.name)  # noqa: PTH108
            raise


def damaged_kernels(folder: Path) -> dict[str, str]:
    """Return what is wrong with files of a folder, by their names."""
    found = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            read_kernel(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            found[path.name] = why(error)
    return found


def why(error: Exception) -> str:
    """Say in a few words what is wrong with a file."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}"


def _checksum(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(name.encode())
    digest.update(content)
    return digest.digest()
