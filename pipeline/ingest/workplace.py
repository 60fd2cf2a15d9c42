"""The local folder of an unfinished ingest: one owner at a time, and what is already done."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from storage.folder import Folder

#: Where unfinished work lies inside a local data set.
INSIDE = ".ingest"


def workplace_path(folder: Folder, spill: str | None) -> Path:
    """Return the folder that all ingests of this data set work in, so that one finds another's."""
    if spill is None and folder.is_local:
        return folder.local_path(INSIDE)
    name = f"fewpass-ingest-{hashlib.sha256(folder.url.encode()).hexdigest()[:16]}"
    if spill is not None:
        return Path(spill).expanduser().absolute() / name
    return Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"


class Workplace:
    """Records of an unfinished ingest, each whole or absent.

    Parameters
    ----------
    path
        The folder; made when absent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = Folder(str(path))

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep every other ingest out; the lock goes with its process, however that ends.

        Raises
        ------
        BadInput
            If another ingest, in this process or another, works here.
        """
        lock = self._locked()
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(lock)

    def _locked(self) -> int:
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "another"
                os.close(lock)
                raise BadInput(
                    f"Process {owner} is at work in {self.path}. "
                    "Wait until it ends, or ingest into another folder."
                ) from None
            if self._is_current(lock):
                return lock
            os.close(lock)  # its owner finished and removed it between our two calls

    def _is_current(self, lock: int) -> bool:
        try:
            return os.path.samestat(os.fstat(lock), (self.path / "lock").stat())
        except FileNotFoundError:
            return False

    def clear(self) -> None:
        """Remove everything but the lock."""
        for entry in self.path.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def remove(self) -> None:
        """Remove the folder; for the end, when nothing of it is needed."""
        self.clear()
        (self.path / "lock").unlink(missing_ok=True)
        self.path.rmdir()

    def record(self, name: str, state: dict[str, Any]) -> None:
        """Write a record, replacing one of that name."""
        self.folder.write(f"{name}.json", json.dumps(state).encode())

    def recorded(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None."""
        if not self.folder.exists(f"{name}.json"):
            return None
        state: dict[str, Any] = json.loads(self.folder.read(f"{name}.json"))
        return state

    def append(self, name: str, entry: dict[str, Any]) -> None:
        """Add one entry to a list of records."""
        self.folder.append_line(f"{name}.jsonl", json.dumps(entry))

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the entries of a list of records, without one that a kill cut short."""
        if not self.folder.exists(f"{name}.jsonl"):
            return []
        lines = self.folder.read(f"{name}.jsonl").split(b"\n")
        whole = [line for line in lines[:-1] if line.endswith(b"}")]
        found: list[dict[str, Any]] = []
        for line in whole:
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:  # a torn line, with the next one appended to it
                continue
        return found
