"""Files of an inbox for a refresh: new ones, and all of a generation of which one changed.

States are recorded as they were before their files are read (file_states.py).  So whatever a writer
does meanwhile, the next look finds another state, and the rows are read anew.  Waiting for files at
rest spares that, and rows that are cut off; nothing depends on it, nor on any clock.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fewpass.pipeline.models.refresh.file_states import FileState, Member, looked, matched


class Replacement(NamedTuple):
    """A generation that is read anew, as files of it have changed."""

    generation: int
    files: tuple[FileState, ...]  # all of it, as they are now
    changed: tuple[FileState, ...]  # of these, those that are other than they were


class CannotReplace(NamedTuple):
    """A file that has changed, though the generation that took it cannot be read anew."""

    file: FileState
    generation: int
    reason: str


class Moved(NamedTuple):
    """A file that is to be known as another one from now on: it, or what is there, was moved."""

    generation: int
    then: FileState
    now: FileState  # at its new place; `displaced`, if there is none


class Arrivals(NamedTuple):
    """The files of an inbox, by what a refresh does with them."""

    new: tuple[FileState, ...] = ()  # never taken: a generation of their own
    changed: tuple[Replacement, ...] = ()  # each replaces a generation
    cannot_replace: tuple[CannotReplace, ...] = ()  # their rows stay as they were taken
    growing: tuple[FileState, ...] = ()  # these, or others of their generation: they wait
    moved: tuple[Moved, ...] = ()


def arrivals(
    sources: Iterable[str],
    taken: Mapping[int, Sequence[FileState]],
    refused: Collection[FileState] = (),
    *,
    settle_s: float = 0.0,
    clock: Callable[[], float] = time.time,
    wait: Callable[[float], None] = time.sleep,
) -> Arrivals:
    """Look at an inbox, and once more if something there may still be written.

    Parameters
    ----------
    sources
        Files, folders, globs or addresses.
    taken
        By generation, the files that it took, in their newest states and at their newest places.
    refused
        Files that are passed over as long as they are in these states.
    settle_s
        Seconds that a file has to stay as it is; 0: none.  One that was changed longer ago by the
        clock of this machine is at rest.  A time that lies in the future, or that is not known,
        is no reason to wait any longer.
    clock, wait
        Seconds since the epoch; what waits for some.

    Raises
    ------
    BadInput
        A source is a table, a stream or a pipe.
    """
    files = looked(sources)
    sorted_out = _SortedOut(files, taken, refused)
    candidates = [*sorted_out.new, *(now for _, now in sorted_out.changed)]
    now = clock()
    pause = max((_unsettled_s(one, settle_s, now) for one in candidates), default=0.0)
    if pause <= 0:
        return sorted_out.arrivals([])
    wait(pause)
    again = {one.place: one for one in looked(sources)}
    left = [one for one in files if one.place in again]
    growing = [again[one.place] for one in left if again[one.place].differs(one)]
    return _SortedOut(left, taken, refused).arrivals(growing)


def _unsettled_s(file: FileState, settle_s: float, now: float) -> float:
    """Return after how many seconds a second look tells whether a file is at rest."""
    if file.path is None or file.version is None:
        return settle_s
    return min(settle_s, settle_s - (now - int(file.version) / 1e9))


class _SortedOut:
    """The files of one look, compared with those that were taken.

    Parameters
    ----------
    files
        Those that were found.
    taken, refused
        As of `arrivals`.
    """

    def __init__(
        self,
        files: Sequence[FileState],
        taken: Mapping[int, Sequence[FileState]],
        refused: Collection[FileState],
    ) -> None:
        self.taken = taken
        self.refused = {_state_of(one) for one in refused if one.version is not None}
        self.new: list[FileState] = []
        self.changed: list[tuple[Member, FileState]] = []
        self.moved: list[Moved] = []
        self.cannot_replace: list[CannotReplace] = []
        self.now: dict[tuple[int, str], FileState] = {}  # by generation and recorded place
        self.places = {one.place for one in files}
        numbers = {one.place: number for number, those in taken.items() for one in those}
        self.passed_over = {
            one.identity: numbers[one.place] for one in refused
            if one.inode is not None and one.place in numbers
        }  # fmt: skip
        for file, then in matched(files, taken, refused):
            self._add(file, then)
        self.moved += [
            Moved(number, one, one.displaced)
            for number, those in taken.items() for one in those if self._is_displaced(number, one)
        ]  # fmt: skip

    def _add(self, file: FileState, then: Member | None) -> None:
        if then is not None:
            self.now[then.generation, then.file.place] = file
        if _state_of(file) in self.refused:
            return
        if then is None and file.identity in self.passed_over:
            why = "it was passed over at another place, where a file of a generation was taken"
            self.cannot_replace.append(CannotReplace(file, self.passed_over[file.identity], why))
        elif then is None:
            self.new.append(file)
        elif file.differs(then.file):
            self.changed.append((then, file))
        if then is not None and then.file.place != file.place:
            here = {"name": file.name, "place": file.place}  # in the state that was taken
            now = then.file.model_copy(update=here) if file.differs(then.file) else file
            self.moved.append(Moved(then.generation, then.file, now))

    def _is_displaced(self, generation: int, file: FileState) -> bool:
        return file.place in self.places and (generation, file.place) not in self.now

    def arrivals(self, growing: Sequence[FileState]) -> Arrivals:
        """Return what a refresh does with them, while some are still written."""
        waiting = {one.place: one for one in growing}
        changed: dict[int, list[FileState]] = defaultdict(list)
        for then, now in self.changed:
            changed[then.generation].append(now)
        replaced: list[Replacement] = []
        cannot_replace = [*self.cannot_replace]
        for generation, files in changed.items():
            members, fault = self._read_anew(generation)
            if any(one.place in waiting for one in (*files, *members)):
                waiting = {one.place: one for one in files} | waiting
            elif fault:
                cannot_replace += [CannotReplace(one, generation, fault) for one in files]
            else:
                replaced.append(Replacement(generation, members, tuple(files)))
        new = tuple(one for one in self.new if one.place not in waiting)
        return Arrivals(
            new, tuple(replaced), tuple(cannot_replace), tuple(waiting.values()),
            tuple(self.moved),
        )  # fmt: skip

    def _read_anew(self, generation: int) -> tuple[tuple[FileState, ...], str]:
        """Return the files of a generation as they are now, or why it cannot be read anew."""
        files = []
        for then in self.taken[generation]:
            now = self.now.get((generation, then.place))
            if now is None and then.place not in self.places:
                now = then.now()
            if now is None or _state_of(now) in self.refused:
                fact = "is gone" if now is None else "was refused"
                return (), (
                    f"it has changed since generation {generation:06d} took it, and {then.name}, "
                    f"whose rows are among its, {fact}. Put that back, or write new rows to a file "
                    "of their own."
                )
            files.append(now)
        return tuple(files), ""


def _state_of(file: FileState) -> tuple[str, int | None, str | None]:
    return file.place, file.bytes, file.version
