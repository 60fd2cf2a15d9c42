"""What a power cut leaves: of files the content, of folders the names, as of their last fsync.

While a process runs, `Recorder` keeps what it brought to the disk.  `cut` then makes the folder
what it would be after the cut: everything else may be lost, as file systems are allowed to.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import stat
from pathlib import Path

#: What may have become of content that was not fsynced: nothing of it, zeros, its first half, all.
UNSYNCED = ("empty", "zeros", "half", "kept")


class Recorder:
    """Keeps a copy of every file and every list of names as of its last fsync.

    Parameters
    ----------
    root
        The folder, which counts as being on the disk as it is now.
    place
        Where the copies go.
    """

    def __init__(self, root: Path, place: Path) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._open, self._read, self._write, self._close = os.open, os.pread, os.write, os.close
        self._place, self._held = str(place), dict[int, int]()
        place.mkdir(parents=True, exist_ok=True)
        self._log = self._open(f"{place}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for where, _, files in os.walk(root):
            for name in [*files, "."]:
                path = f"{where}/{name}"
                if stat.S_ISREG(os.lstat(path).st_mode) or name == ".":
                    descriptor = self._open(path, os.O_RDONLY)
                    self.synced(descriptor)
                    self._close(descriptor)

    def synced(self, descriptor: int) -> None:
        """Keep what a file or a folder holds now."""
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            path = f"/proc/self/fd/{descriptor}"
            with os.scandir(path) as entries:
                listed = [(e.name, e.inode(), e.is_dir(follow_symlinks=False)) for e in entries]
            names = {name: inode for name, inode, _ in listed}
            for name, inode in names.items():
                self._hold(inode, f"{path}/{name}")
            folders = [inode for _, inode, is_folder in listed if is_folder]
            line = {"folder": found.st_ino, "names": names, "folders": folders}
        else:
            self._hold(found.st_ino, f"/proc/self/fd/{descriptor}")
            self._copy(descriptor, found)
            line = {"file": found.st_ino}
        self._write(self._log, (json.dumps(line) + "\n").encode())

    def _copy(self, descriptor: int, found: os.stat_result) -> None:
        reading = self._open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
        path = f"{self._place}/{found.st_ino}"
        copy = self._open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._write(copy, self._read(reading, found.st_size, 0))
        self._close(copy)
        self._close(reading)
        os.rename(f"{path}.new", path)  # noqa: PTH104 - beside the folder that is watched

    def _hold(self, inode: int, path: str) -> None:
        """Keep a file open: its number is given to no other file meanwhile."""
        if inode not in self._held:
            try:
                self._held[inode] = self._open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                self._held[inode] = -1


def cut(root: Path, place: Path, seed: int | None) -> None:
    """Make `root` what is left of it after a power cut; its process is dead.

    `seed` None: all that was not fsynced is gone.  A number: by chance each name and each content
    that was not fsynced is there or not, which file systems may do, too.
    """
    names = dict[int, dict[str, int]]()
    folders = set[int]()
    for line in (place / "log").read_text().splitlines():
        told = json.loads(line)
        if "folder" in told:
            names[told["folder"]] = told["names"]
            folders.update(told["folders"])
    left = _Left(names, folders, place, random.Random(seed) if seed is not None else None)
    fresh = root.with_name(f"{root.name}.after")
    left.folder(root, root.stat().st_ino, fresh)
    shutil.rmtree(root)
    fresh.rename(root)


class _Left:
    """What is left of one folder, and of those below it."""

    def __init__(
        self,
        names: dict[int, dict[str, int]],
        folders: set[int],
        place: Path,
        chance: random.Random | None,
    ) -> None:
        self._names, self._folders, self._place, self._chance = names, folders, place, chance
        self._now = dict[int, Path]()

    def folder(self, now: Path | None, inode: int, to: Path) -> None:
        to.mkdir()
        listed = {e.name: e.inode() for e in os.scandir(now)} if now else {}
        synced = self._names.get(inode, {})
        for name in sorted({*synced, *listed}):
            choices = [synced.get(name)]
            if self._chance:
                choices.append(listed.get(name))
            chosen = self._chance.choice(choices) if self._chance else choices[0]
            if chosen is not None:
                self._entry(
                    now / name if now and listed.get(name) == chosen else None, chosen, to / name
                )

    def _entry(self, now: Path | None, inode: int, to: Path) -> None:
        if inode in self._folders or (now is not None and now.is_dir()):
            self.folder(now, inode, to)
            return
        kept, current = self._place / str(inode), now.read_bytes() if now else b""
        if not kept.exists():
            to.write_bytes(self._unsynced(current))
        elif self._chance and now and self._chance.random() < 0.5:
            to.write_bytes(current)
        else:
            to.write_bytes(kept.read_bytes())
        if now is not None:
            shutil.copystat(now, to)

    def _unsynced(self, content: bytes) -> bytes:
        what = self._chance.choice(UNSYNCED) if self._chance else "empty"
        return {
            "empty": b"",
            "zeros": bytes(len(content)),
            "half": content[: len(content) // 2],
            "kept": content,
        }[what]


def forget(place: Path) -> None:
    """Remove what was recorded."""
    shutil.rmtree(place)
