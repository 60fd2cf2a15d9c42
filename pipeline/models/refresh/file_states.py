"""Files as they were at one look, and which taken file a found one is.

A file is known by its place: by all links that lead there.  One that is at another place now is the
same where size, version and inode are as they were; if nothing is at the old place, also as they
were when it was passed over, or size, version and name; so logs that are rotated stay what they
are, and what is written anew in their place is new.  A copy is another file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.finding import Address, find, source_file
from fewpass.storage.locations import HERE
from fewpass.storage.manifest import TakenFile

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
        inode = address.file.inode if address.file else None
        return cls(name=address.name, inode=inode, **taken.model_dump())

    @property
    def identity(self) -> _Identity:
        """Identity that all names of a file of this machine have in common."""
        return self.inode, self.bytes, self.version

    @property
    def displaced(self) -> FileState:
        """The same, where another one is at its place now."""
        return self.model_copy(update={"place": f"gone:{self.place}"})

    @property
    def path(self) -> str | None:
        """Its path on this machine."""
        store, _, path = self.place.partition(":")
        return path if store == HERE else None

    def differs(self, other: TakenFile) -> bool:
        """Return whether size or version are others; what one look did not learn tells nothing."""
        looks = ((self.bytes, other.bytes), (self.version, other.version))
        return any(None not in look and look[0] != look[1] for look in looks)

    def now(self) -> FileState | None:
        """Return the state of what is at the same place now; None if nothing is."""
        with suppress(BadInput):  # a table may have its place by now
            there = looked([self.path or self.name])
            return next((one for one in there if one.place == self.place), None)
        return None


def looked(sources: Iterable[str]) -> list[FileState]:
    """Return the files of sources as they are now, each place once; a source may be missing."""
    files: dict[str, FileState] = {}
    for source in sources:
        with suppress(FileNotFoundError):
            for address in find([source], {}, inbox=True):
                state = FileState.of(address)
                files.setdefault(state.place, state)
    return list(files.values())


class Member(NamedTuple):
    """A file that a generation took."""

    generation: int
    file: FileState


def matched(
    files: Sequence[FileState], taken: Mapping[int, Sequence[FileState]],
    refused: Collection[FileState] = (),
) -> Iterator[tuple[FileState, Member | None]]:  # fmt: skip
    """Yield found files, each by one name, with which taken one each is, in whatever state.

    Parameters
    ----------
    files
        As they were found.
    taken
        By generation.
    refused
        States that were passed over since, also of taken files.
    """
    every = [Member(number, file) for number in sorted(taken) for file in taken[number]]
    members = {one.file.place: one for one in every}
    same = {
        one.place: members[one.place] for one in files
        if one.place in members and not one.differs(members[one.place].file)
    }  # fmt: skip
    retained = {id(one) for one in same.values()}
    same |= _moved(
        [one for one in files if one.place not in same],
        [one for one in every if id(one) not in retained],
        {one.place for one in files},
        refused,
    )
    retained = {id(one) for one in same.values()}
    other = {place: one for place, one in members.items() if id(one) not in retained}
    named = {one.identity for one in files if one.place in same}
    for file in sorted(files, key=lambda one: one.place not in other):
        if file.place in same:
            yield file, same[file.place]
        elif file.inode is None or file.identity not in named:
            yield file, other.get(file.place)
            named.add(file.identity)


def _moved(
    files: Sequence[FileState], taken: Sequence[Member], places: Collection[str],
    refused: Collection[FileState],
) -> dict[str, Member]:  # fmt: skip
    """Return which taken files are at other places now, by these."""
    at = {one.file.place: one for one in taken}
    states = [(one, at[one.place]) for one in refused if one.place in at]
    states += [(one.file, one) for one in taken]
    there = {state.identity: one for state, one in states if state.inode is not None}
    gone = {_named(state): one for state, one in states if state.place not in places}
    moved: dict[str, Member] = {}
    went: set[int] = set()
    for file in files:
        one = there.get(file.identity) or gone.get(_named(file))
        if one is None or id(one) in went or file.version is None:
            continue
        if one.file.identity == file.identity or one.file.now() is None:
            moved[file.place] = one
            went.add(id(one))
    return moved


def _named(file: FileState) -> tuple[str, int | None, str | None]:
    return file.place.rpartition("/")[2], file.bytes, file.version
