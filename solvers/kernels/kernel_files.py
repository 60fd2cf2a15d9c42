"""Files of compiled kernels, written as a whole or not at all.

A file has a header with its length and a checksum of its name and content.  It is written under
another name and then renamed, so that each of two processes that compile the same kernel leaves a
whole file; damage by a full disk, a power cut or an incomplete copy is detected.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir

from fewpass.solvers.kernels.levels import compiled_with

SUFFIX = ".kernel"

#: Kernels that the wheel has, in a folder for each level (`pipeline/packaged_kernels.py`).
PACKAGED = Path(__file__).parent / "packaged"

_HEADER = struct.Struct("<8sQ32s")
_MAGIC = b"fewpass1"


@cache
def _name_of_folder() -> str:
    return hashlib.sha256(compiled_with().encode()).hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled kernels: in the user's cache, or a private temporary folder.

    Kernels of other versions of numba or NumPy, or for other processors, lie next to it.

    They are code to be run, so a folder that somebody else can write to is refused.  A folder that
    cannot be written, as in an image, is used for the kernels that it has.

    Raises
    ------
    PermissionError
        When neither place can be written.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
    temporary = Path(gettempdir()) / f"fewpass-{os.getuid()}"
    for base in (caches / "fewpass", temporary):
        if not base.is_absolute():  # no home folder
            continue
        if base == temporary and base.is_symlink():  # anybody may have created it
            continue
        folder = base / _name_of_folder()
        try:
            base.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
        except OSError:
            continue
        usable = os.access(folder, os.W_OK) or any(folder.glob(f"*{SUFFIX}"))
        if usable and all(map(_is_users, (base, folder))):
            return folder
    raise PermissionError(
        f"No folder of this user's for compiled kernels: neither {caches} nor {temporary} can be "
        "written. Set XDG_CACHE_HOME to a folder that can."
    )


def _is_users(folder: Path) -> bool:
    """Return whether a folder belongs to this user, and nobody else can write to it."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


class DamagedKernel(OSError):  # noqa: N818 - as the storage's Damaged
    """A file that differs from what was written; the message says how."""


def read_kernel(path: Path) -> bytes:
    """Return the content of a file.

    Raises
    ------
    DamagedKernel
        If it differs from what was written, or somebody else may have written it.
    OSError
        If it does not exist or cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would block
        raise DamagedKernel("it is no file")
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not _is_private(status, path):
            raise DamagedKernel("another user owns it or can write to it")
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise DamagedKernel(f"it is cut short, to {status.st_size} bytes")
        magic, length, checksum = _HEADER.unpack(head)
        if magic != _MAGIC:
            raise DamagedKernel("it does not begin as a compiled kernel does")
        if status.st_size != _HEADER.size + length:
            raise DamagedKernel(
                f"it has {status.st_size} bytes in place of {_HEADER.size + length}"
            )
        content = file.read()
    if _checksum(path.name, content) != checksum:
        raise DamagedKernel("its checksum is another")
    return content


def _is_private(status: os.stat_result, path: Path) -> bool:
    """Return whether this user wrote a file, or who can change the package's own sources."""
    if not path.is_relative_to(PACKAGED):
        return status.st_uid == os.getuid() and not status.st_mode & 0o022
    source = Path(__file__).stat()
    writers = 0o022 & ~(source.st_mode & 0o020)
    return status.st_uid in {0, os.getuid(), source.st_uid} and not status.st_mode & writers


def write_kernel(path: Path, content: bytes) -> None:
    """Write or replace a file; OSError if that fails."""
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
    """Return the faults of the damaged files of a folder, by name."""
    faults = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            read_kernel(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            faults[path.name] = why(error)
    return faults


def why(error: Exception) -> str:
    """Describe the fault of a file in a few words."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}"


def _checksum(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(name.encode())
    digest.update(content)
    return digest.digest()
