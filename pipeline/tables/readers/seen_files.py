"""Files whose rows were taken before, recognised by what they are and not by what they are called.

A file is the same by every path, link and hard link that leads to it, and in another folder of this
machine if it is not in the first one any more; it is as it was where its size and time of change
are, or what its store says.  A copy, and a file that was renamed, is another file.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.finding import Address, source_file
from fewpass.pipeline.tables.readers.source import SourceFile
from fewpass.storage.locations import HERE
from fewpass.storage.manifest import TakenFile

MOST_NAMED = 5
_State = tuple[int | None, str | None]


class NothingNew(BadInput):
    """All that was named was taken before."""


class SeenFiles:
    """Files that were taken, in their states.

    Parameters
    ----------
    files
        Those that were taken, in any number of states each.
    """

    def __init__(self, files: Iterable[TakenFile] = ()) -> None:
        self._states: dict[str, list[_State]] = defaultdict(list)  # by place, or by inode now
        self._gone: set[tuple[str, _State]] = set()  # by name: such may have been moved
        self.left_out: tuple[str, ...] = ()  # names of those that were named again
        for file in files:
            self._add(file)

    def _add(self, file: TakenFile) -> None:
        self._states[file.place].append(_state_of(file))
        if (inode := _inode_at(file.place)) is not None:
            self._states[inode].append(_state_of(file))
        elif file.version is not None and file.place.startswith(f"{HERE}:"):
            self._gone.add((_name_of(file), _state_of(file)))

    def new_among(self, addresses: Sequence[Address]) -> list[Address]:
        """Return the files that were not taken, each once.

        Raises
        ------
        NothingNew
            There is none.
        BadInput
            One was taken in another state.
        """
        new, again, named = [], [], SeenFiles()  # which may have one twice
        for address in addresses:
            file = source_file(address).taken()
            if file and any(seen.has(file, address.name) for seen in (self, named)):
                again.append(address.name)
                continue
            new.append(address)
            if file is not None:
                named._add(file)
        self.left_out = tuple(again)
        if not new:
            raise NothingNew(f"{again[0]}: all files that were named were taken before.")
        return new

    def notes(self) -> tuple[str, ...]:
        """Say which files were left out, where none was taken by another call."""
        if not self.left_out:
            return ()
        names = ", ".join(self.left_out[:MOST_NAMED]) + ", ..." * (len(self.left_out) > MOST_NAMED)
        return (f"Named more than once, if by other names, and taken once: {names}.",)

    def last_of(self, table: SourceFile) -> str | None:
        """Return which version of a table or a query was taken last, if one was.

        NothingNew where that is the one of now.
        """
        states = self._states.get(table.place or "", [])
        if any(version == table.version for _, version in states):
            raise NothingNew(f"{table.name}: version {table.version} of it was taken before.")
        return states[-1][1] if states else None

    def has(self, file: TakenFile, name: str) -> bool:
        """Return whether a file was taken as it is; BadInput where it was another then."""
        state = _state_of(file)
        states = self._states.get(file.place) or self._states.get(_inode_at(file.place) or "")
        if not states:
            return (_name_of(file), state) in self._gone
        if state in states:
            return True
        raise BadInput(
            f"{name} was taken before, and has grown or was written anew since ({_said(states[-1])}"
            f" then, {_said(state)} now): its rows of then would be there twice. Write the new "
            "rows to a file of their own, or append all that it has now as well: `again=true`."
        )


def _inode_at(place: str) -> str | None:
    """Return what all names of a file of this machine have in common; None where there is none."""
    store, _, path = place.partition(":")
    if store != HERE:
        return None
    try:
        status = os.stat(path)  # noqa: PTH116 - a name, as it was kept
    except OSError:
        return None
    return f"{status.st_dev}:{status.st_ino}"


def _name_of(file: TakenFile) -> str:
    return file.place.rpartition("/")[2]


def _state_of(file: TakenFile) -> _State:
    return file.bytes, file.version


def _said(state: _State) -> str:
    size, version = state
    return f"{size:,} bytes" if size is not None else f"version {version}"
