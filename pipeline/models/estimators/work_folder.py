"""The folder of a fit's data set and run: one that stays, or a temporary one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PREFIX = "fewpass-fit-"
LOCK = "lock"


class WorkFolder(NamedTuple):
    """Addresses of what a fit makes."""

    data: str
    run: str
    retained: bool


@contextmanager
def work_folder(folder: str | os.PathLike[str] | None) -> Iterator[WorkFolder]:
    """Open a folder to work in.

    A named one stays.  A temporary one goes at the end, also of an error; one whose process was
    killed goes when the next one is made.
    """
    if folder is not None:
        yield _inside(os.fspath(folder), retained=True)
        return
    remove_abandoned()
    made = Path(tempfile.mkdtemp(prefix=f".new-{PREFIX}"))
    with (made / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = made.rename(made.with_name(made.name.removeprefix(".new-")))  # locked from the first
        try:
            yield _inside(str(path), retained=False)
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _inside(folder: str, *, retained: bool) -> WorkFolder:
    return WorkFolder(f"{folder.rstrip('/')}/data", f"{folder.rstrip('/')}/run", retained)


def remove_abandoned() -> None:
    """Remove temporary folders whose process has ended: nobody holds their lock."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
