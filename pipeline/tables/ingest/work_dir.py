"""The folder of an unfinished ingest: one owner at a time, and what is already done.

It is local.  Of a set in a store there is another in the store, for what workers make;
who owns the first takes a lease in that one, as processes elsewhere see no lock of this machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from fewpass.pipeline.errors import BadInput, BusyPlace
from fewpass.pipeline.lease import Lease
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.storage.folder import Folder
from fewpass.storage.kinds import INSIDE
from fewpass.storage.new_file import PARTIAL
from fewpass.storage.part_files import READ_AGAIN, DamagedPart
from fewpass.storage.seal import seal, unseal

Looked = TypeVar("Looked")

#: The record that all rows are in files.
MAPPED = "mapped"
#: The folder of parts that tasks have made of spans, and of their records.
SPANS = "spans"
_OURS = re.compile(
    rf"\.?(lock|{MAPPED}\.json|{SPANS}|part-\d+|chunks-\w+\.jsonl)(\.[0-9a-f]{{12}}\{PARTIAL})?"
)
#: Times that a folder may be gone again before its lock is opened.
MOST_TRIES = 100
#: The lease in a store.
OWNER = "owner.json"


def work_dir_path(folder: Folder, spill: str | None) -> Path:
    """Return the folder that all ingests of this data set work in, so that one finds another's."""
    if spill is None and folder.is_local:
        return folder.local_path(INSIDE)
    name = f"fewpass-ingest-{hashlib.sha256(folder.url.encode()).hexdigest()[:16]}"
    if spill is not None:
        return Path(spill).expanduser().absolute() / name
    return Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"


def is_mapped(plan: IngestPlan) -> bool:
    """Return whether an ingest that was cut short has all rows in files, and the next goes on."""
    folder = Folder(plan.dataset, plan.storage_options)
    return WorkDir(work_dir_path(folder, plan.spill)).folder.exists(f"{MAPPED}.json")


def has_spans(plan: IngestPlan) -> bool:
    """Return whether an ingest on a cluster that was cut short has some rows in files."""
    place = work_dirs_of([Folder(plan.dataset, plan.storage_options)], plan.spill)[0]
    return SPANS in (place.in_store or place.folder).names()


def remove_leftovers(plan: IngestPlan) -> None:
    """Remove what an ingest left that was killed, or lost power, after its sets were complete."""
    urls = [url for url in (plan.dataset, plan.test_url) if url is not None]
    folders = [Folder(url, plan.storage_options) for url in urls]
    for work_dir in work_dirs_of(folders, plan.spill):
        if work_dir.has_leftovers:
            with work_dir.owned():
                work_dir.clear()


def work_dirs_of(folders: Sequence[Folder], spill: str | None = None) -> list[WorkDir]:
    """Return the folders to own before data sets are made or changed, training set first.

    The first is where the unfinished work lies.
    """
    places = [WorkDir(work_dir_path(folders[0], spill))] if spill is not None else []
    of_stores = (None if one.is_local else one.child(INSIDE) for one in folders)
    paths = (work_dir_path(one, None) for one in folders)
    return [*places, *map(WorkDir, paths, of_stores)]


@contextmanager
def all_owned(work_dirs: Iterable[WorkDir]) -> Iterator[None]:
    """Own several, one after the other; BusyPlace where another process has one of them."""
    with ExitStack() as owned:
        for work_dir in work_dirs:
            owned.enter_context(work_dir.owned())
        yield


def looked_at(look: Callable[[], Looked], work_dirs: Iterable[WorkDir]) -> Looked:
    """Return what a look at data sets returns that is made before they are owned.

    Where it refuses, another process may be replacing them: then it is BusyPlace, and of a process
    that has just ended the look is made again.
    """
    try:
        return look()
    except (OSError, ValueError):
        with all_owned(one for one in work_dirs if one.has_leftovers):
            return look()


class WorkDir:
    """Records of an unfinished ingest, each whole or absent.

    Parameters
    ----------
    path
        The folder; made when absent.
    in_store
        The one in the store; None: the set is not in one.
    """

    def __init__(self, path: Path, in_store: Folder | None = None) -> None:
        self.path, self.in_store = path, in_store
        self._lease: Lease | None = None
        self.shared = path.name != INSIDE  # others may write where it lies
        self.folder = Folder(str(path))
        self._made_parent = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lease to the process that took it; workers write chunks, and own nothing."""
        return vars(self) | {"_lease": None}

    @property
    def has_leftovers(self) -> bool:
        """Return whether there is something, perhaps no more than a lock."""
        in_store = () if self.in_store is None else self.in_store.names()
        return self.path.is_dir() or SPANS in in_store

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep all other ingests and changes out; the lock goes with its process, however it ends.

        The folder goes at the end, if nothing of the work is left.

        Raises
        ------
        BusyPlace
            If another, in this process or another, works here, or in the store.
        """
        lock = self._locked()
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            with ExitStack() as leased:
                if self.in_store is not None:
                    lease = Lease(
                        self.in_store, OWNER, "written to, as its set is made or changed,"
                    )
                    self._lease = leased.enter_context(lease)
                yield
        finally:
            self._remove_empty()
            os.close(lock)

    def require_owned(self) -> None:
        """Raise LeaseLost where another process took this one for dead, and goes on."""
        if self._lease is not None:
            self._lease.check()

    def _locked(self) -> int:
        """Return the lock, open; its last owner may remove the folder between any two calls."""
        for tries_left in reversed(range(MOST_TRIES)):
            try:
                lock = self._opened()
            except FileNotFoundError:
                if not tries_left:
                    raise
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "another"
                os.close(lock)
                raise BusyPlace(
                    f"Process {owner} is at work in {self.path}: it makes or changes the data set. "
                    "Wait until it ends, or choose another folder."
                ) from None
            if self._is_current(lock):
                return lock
            os.close(lock)
        raise BusyPlace(f"Others make and remove {self.path} all the time. Choose another folder.")

    def _opened(self) -> int:
        self._make()
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            os.close(lock)
            raise BadInput(f"{self.path / 'lock'} is no file. Remove it.")
        return lock

    def _make(self) -> None:
        """Make the folder, for this user alone, or make sure that it is.

        Its name can be foreseen, so that an ingest that was cut short is found again: in a folder
        that many can write to, another user may have been there first.
        """
        self._made_parent |= not self.shared and not self.path.parent.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        status = self.path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise BadInput(f"{self.path} is no folder, or a link to one. Remove it.")
        if self.shared and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            raise BadInput(
                f"{self.path} belongs to another user, or others can write to it: what lies there "
                "may not be ours. Remove it, or name a folder of your own as `spill`."
            )

        others = [one.name for one in self.path.iterdir() if not _OURS.fullmatch(one.name)]
        if others and not (self.path / "lock").exists():  # which a power cut may have taken
            raise BadInput(
                f"{self.path} is for unfinished work, and holds {others[0]}, which is not ours. "
                "Move it, or remove it."
            )

    def _is_current(self, lock: int) -> bool:
        try:
            return os.path.samestat(os.fstat(lock), (self.path / "lock").stat())
        except FileNotFoundError:
            return False

    def clear(self, keep: str | None = None) -> None:
        """Remove everything but lock and lease, and what is called `keep`."""
        if self.in_store is not None and keep != SPANS:
            self.in_store.delete_tree(SPANS)
        for entry in self.path.iterdir():
            if entry.name not in ("lock", keep):
                folder = entry.is_dir() and not entry.is_symlink()
                shutil.rmtree(entry) if folder else entry.unlink()

    def _remove_empty(self) -> None:
        """Remove the folder where only the lock is left in it."""
        with suppress(FileNotFoundError):
            if [entry.name for entry in self.path.iterdir()] != ["lock"]:
                return
            (self.path / "lock").unlink()
            self.path.rmdir()
        if self._made_parent:
            with suppress(OSError):  # there is something in it by now
                self.path.parent.rmdir()

    def record(self, name: str, state: dict[str, Any]) -> None:
        """Write a record, sealed, replacing one of that name."""
        self.folder.write(f"{name}.json", seal(state))

    def recorded(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None.

        Raises
        ------
        DamagedPart
            When it is damaged.
        """
        key = f"{name}.json"
        if not self.folder.exists(key):
            return None
        try:
            return unseal(self.folder.read(key))
        except ValueError as error:
            raise DamagedPart(
                f"{self.folder.address(key)} is not as it was written ({error}). {READ_AGAIN}"
            ) from error

    def append(self, name: str, entry: dict[str, Any]) -> None:
        """Add one entry, sealed, to a list of records."""
        self.folder.append_line(f"{name}.jsonl", seal(entry).decode().rstrip("\n"))

    def entries(self, name: str) -> list[dict[str, Any]]:
        """Return the entries of a list of records that are as they were written.

        One that is not, cut short by a kill or damaged, is left out: its work is done again.
        """
        if not self.folder.exists(f"{name}.jsonl"):
            return []
        records: list[dict[str, Any]] = []
        for line in self.folder.read(f"{name}.jsonl").splitlines(keepends=True):
            with suppress(ValueError):
                records.append(unseal(line))
        return records
