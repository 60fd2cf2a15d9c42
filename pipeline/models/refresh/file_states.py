"""Files as they were at one look, and which taken file a found one is.

A file is known by its place: by all links that lead there, and on this machine by all its names.
One that was moved is the same if nothing is at its old place, its size and version are as they
were, and its name or its inode is, too.  A copy is another file.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.finding import Address, find, source_file
from fewpass.storage.locations import HERE, Location
from fewpass.storage.manifest import TakenFile
from fewpass.storage.source_files import LocalSource

_Identity = tuple[int | None, int | None, str | None]  # inode, bytes, version


class FileState(TakenFile):
    """A file as it was at one look; what is None is not known."""

    name: str  # address as the user wrote it, or a glob found it
    inode: int | None = None  # on this machine

    @classmethod
    def of(cls, address: Address) -> FileState:
        """Return the state of a file that was found; BadInput if it is none."""
        taken = source_file(address).taken()
        if address.format or taken is None:
            raise BadInput(
                f"{address.name} is a table or a stream, and a refresh learns from files as they "
                "come. Name a folder of files, or a glob."
            )
        inode = address.file.inode if isinstance(address.file, LocalSource) else None
        return cls(name=address.name, inode=inode, **taken.model_dump())

    @classmethod
    def named(cls, name: str, size: int | None = None, version: str | None = None) -> FileState:
        """Return what a record says that has no place."""
        return cls(name=name, place=Location.of(name).key, bytes=size, version=version)

    @property
    def identity(self) -> _Identity:
        """What all names of a file of this machine have in common."""
        return self.inode, self.bytes, self.version

    @property
    def path(self) -> str | None:
        """Its path on this machine."""
        store, _, path = self.place.partition(":")
        return path if store == HERE else None

    def differs(self, other: TakenFile) -> bool:
        """Whether size or version are others; what one look did not learn tells nothing."""
        looks = ((self.bytes, other.bytes), (self.version, other.version))
        return any(None not in look and look[0] != look[1] for look in looks)

    def now(self) -> FileState | None:
        """Return the state of what is at the same place now; None if nothing is."""
        found = looked([self.path or self.name])
        return next((one for one in found if one.place == self.place), None)


def looked(sources: Iterable[str]) -> list[FileState]:
    """Return the files of sources as they are now, each place once; a source may be missing."""
    files: dict[str, FileState] = {}
    for source in sources:
        with suppress(FileNotFoundError):
            for address in find([source], {}, inbox=True):
                state = FileState.of(address)
                files.setdefault(state.place, state)
    return list(files.values())


class Known(NamedTuple):
    """A file that a generation took."""

    generation: int
    file: FileState


class KnownFiles:
    """Files that were taken.

    Parameters
    ----------
    taken
        By generation.
    found
        The files of a look: no others need be looked for.
    """

    def __init__(
        self, taken: Mapping[int, Sequence[FileState]], found: Sequence[FileState]
    ) -> None:
        self._by_place = {
            file.place: Known(number, file) for number in sorted(taken) for file in taken[number]
        }
        self._found = {file.place for file in found}

    def match(self, file: FileState) -> Known | None:
        """Return which of them a found file is."""
        return (
            self._by_place.get(file.place)
            or self._elsewhere[0].get(file.identity)
            or self._moved(file)
        )

    def by_one_name(self, files: Sequence[FileState]) -> list[FileState]:
        """Leave out further names of a file of this machine."""
        first = {one.identity: one for one in reversed(files)}
        first |= {one.identity: one for one in files if one.place in self._by_place}
        return [
            one for one in files
            if one.inode is None or one.place in self._by_place or first[one.identity] is one
        ]  # fmt: skip

    def _moved(self, file: FileState) -> Known | None:
        _, gone = self._elsewhere
        for one in gone.get(file.identity[1:], ()) if file.version is not None else ():
            same_name = file.place.rpartition("/")[2] == one.file.place.rpartition("/")[2]
            if not (same_name or (file.inode is not None and file.inode == one.file.inode)):
                continue
            gone[file.identity[1:]].remove(one)
            if one.file.path is not None or one.file.now() is None:
                return one
        return None

    @cached_property
    def _elsewhere(
        self,
    ) -> tuple[dict[_Identity, Known], dict[tuple[int | None, str | None], list[Known]]]:
        """Return files that were not found: there by other names of them, or perhaps moved."""
        there: dict[_Identity, Known] = {}
        gone = defaultdict(list)
        for place in self._by_place.keys() - self._found:
            known = self._by_place[place]
            try:
                status = os.stat(known.file.path or "")  # noqa: PTH116 - a path as it was kept
            except OSError:
                gone[known.file.identity[1:]].append(known)
            else:
                there[status.st_ino, status.st_size, str(status.st_mtime_ns)] = known
        return there, gone
