"""Leases: one training at a time in a run's folder, one refresh in a store; the dead's expire.

The holder's name lies in `lease.json`, of a store in `refresh.lease.json`, created only where there
is none, and is written again every few seconds.  A lease is stale when its holder is dead: on the
same machine that is known at once, elsewhere when it gave no sign of life for a minute (clocks must
agree to some seconds).
Before each snapshot the holder looks whether the lease is still its own, so that one who was only
asleep, and was taken for dead, stops instead of writing on.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, NamedTuple, Self
from uuid import uuid4

import psutil  # type: ignore[import-untyped]
from pydantic import ConfigDict, Field, TypeAdapter

from fewpass.pipeline.errors import BusyPlace
from fewpass.storage.folder import Folder
from fewpass.storage.local_files import NoFile
from fewpass.storage.seal import seal, unseal

KEY = "lease.json"
LASTS_S = 60.0  # without a sign of life, until a holder on another machine counts as dead
RENEW_S = 15.0
_START_TICKS = 19  # its place in Linux's /proc/PID/stat, behind the name
SAME_START_S = 1.0  # a process id is used again later than this


class InUse(BusyPlace):
    """A folder that another process is at work in."""


class LeaseLost(RuntimeError):  # noqa: N818 - users read the message, not the name
    """A process that was taken for dead, and whose run another one has taken over."""


class Holder(NamedTuple):
    """Holder of a lease."""

    token: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    host: str
    machine: str  # boot and process-id space: process ids compare only within
    pid: Annotated[int, Field(ge=1, lt=1 << 31)]
    started: float  # of the process; seconds since the machine's start, where it tells them
    since: float
    renewed: float

    @classmethod
    def myself(cls) -> Holder:
        """Return this process as a new holder."""
        now = time.time()
        host, pid = socket.gethostname(), os.getpid()
        return cls(uuid4().hex, host, _machine(), pid, _start_of(pid), now, now)

    def is_dead(self) -> bool:
        """Return whether the holder is known, or after a minute's silence believed, to be dead."""
        if (self.host, self.machine) != (socket.gethostname(), _machine()):
            return self.silence() > LASTS_S
        if self.pid == os.getpid():
            return self.token not in _MINE
        return not process_lives(self.pid, self.started)

    def silence(self) -> float:
        """Seconds since the last sign of life."""
        return time.time() - self.renewed


_HOLDER = TypeAdapter(Holder, config=ConfigDict(defer_build=True, strict=True, allow_inf_nan=False))
_MINE: set[str] = set()  # tokens that this process holds


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    return "only the host's name is known"


def process_lives(pid: int, started: float) -> bool:
    """Say whether the process of that id is still the one that started then."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(_start_of(pid) - started) < SAME_START_S
    except psutil.NoSuchProcess:
        return False


def _start_of(pid: int) -> float:
    """Return when a process started, by a clock that nobody sets where there is one.

    The time of day at which Linux began moves with every correction of the clock.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
    return float(psutil.Process(pid).create_time())


def holder_of(folder: Folder, key: str = KEY) -> Holder | None:
    """Return who holds a folder's lease; None when nobody does, or what is there is no lease."""
    return _holder_in(_read(folder, key))


def lease_faults(folder: Folder) -> Iterator[str]:
    """Yield a sentence if what lies there as the lease is none."""
    raw = _read(folder)
    if raw is not None and _holder_in(raw) is None:
        yield (
            f"{folder.address(KEY)} is no lease: {raw[:40]!r}. Nobody holds the run by it; the "
            "next training takes it away."
        )


def release_stale(folder: Folder) -> Holder | None:
    """Remove a dead holder's lease; return whose it was, None when there was none to remove."""
    raw = _read(folder)
    holder = _holder_in(raw)
    if raw is None or holder is None or not holder.is_dead():
        return None
    return holder if _bury(folder, raw) else None


def _read(folder: Folder, key: str = KEY) -> bytes | None:
    """Return what lies there as the lease, b"" if that is no file; None when nothing does."""
    try:
        return folder.read(key)
    except NoFile:
        return b""
    except FileNotFoundError:
        return None


def _holder_in(raw: bytes | None) -> Holder | None:
    with contextlib.suppress(ValueError):  # a changed bit could name another process, alive
        if raw is not None:
            document = unseal(raw)
            del document["fingerprint"]
            return _HOLDER.validate_python(document)
    return None


def _bury(folder: Folder, stale: bytes, key: str = KEY) -> bool:
    """Remove a lease if it still is that one; of several that want to, who makes the mark does.

    Returns whether it was removed here.
    """
    dead = _holder_in(stale)
    mark = f"lease-{dead.token if dead else 'unreadable'}.dead"
    if not folder.create(mark, repr(time.time()).encode(), durable=False):
        _wait_for(folder, mark)
        return False
    unchanged = _read(folder, key) == stale
    if unchanged:
        folder.delete(key)
    folder.delete(mark)
    return unchanged


def _wait_for(folder: Folder, mark: str) -> None:
    """Let the other one finish; remove the mark of one who died in between."""
    time.sleep(0.2)
    with contextlib.suppress(FileNotFoundError, ValueError):
        if time.time() - float(folder.read(mark)) > LASTS_S:
            folder.delete(mark)


class Lease:
    """The right to work in a folder, reserved inside a `with` block.

    Parameters
    ----------
    folder
        Where.
    key
        The object that says who holds it.
    what
        What its holder does to the folder.
    """

    def __init__(self, folder: Folder, key: str = KEY, what: str = "trained into") -> None:
        self._folder, self._key, self._what = folder, key, what
        self._mine = Holder.myself()
        self._over, self._taker = threading.Event(), 0
        self._thread = threading.Thread(target=self._renew, name="fewpass-lease", daemon=True)

    def __enter__(self) -> Self:
        """Take the lease; InUse when a living process holds it."""
        self._taker = threading.get_ident()
        _MINE.add(self._mine.token)  # before others can read it, and ask whether it is alive
        try:
            while not self._taken():
                self._make_way()
        except BaseException:
            _MINE.discard(self._mine.token)
            raise
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Give the lease back, if it is still ours.

        A thread that did not take it is collecting an iterator that was dropped, perhaps between
        two lines of the renewal or of a store's own loop, and may wait for neither: the lease is no
        longer renewed, and stays where it is.  In this process it counts as given back.
        """
        self._over.set()
        if threading.get_ident() != self._taker:
            _MINE.discard(self._mine.token)
            return
        self._thread.join()
        _MINE.discard(self._mine.token)
        with contextlib.suppress(OSError):  # what is left behind is stale: nobody waits for it
            holder = holder_of(self._folder, self._key)
            if holder is not None and holder.token == self._mine.token:
                self._folder.delete(self._key)

    def check(self) -> None:
        """Raise LeaseLost when another process has taken the folder over."""
        holder = holder_of(self._folder, self._key)
        if holder is None or holder.token != self._mine.token:
            by = f"process {holder.pid} on {holder.host}" if holder else "somebody"
            raise LeaseLost(
                f"{self._folder.url} was taken over by {by} while this process gave no sign of "
                "life. It goes on there; do nothing here."
            )

    def _taken(self) -> bool:
        return self._folder.create(self._key, _written(self._mine), durable=False)

    def _make_way(self) -> None:
        """Remove the lease of a dead one, if that is what lies there; InUse when of a living."""
        raw = _read(self._folder, self._key)
        if raw is None:  # given back in this moment
            return
        holder = _holder_in(raw)
        if holder is not None and not holder.is_dead():
            raise InUse(
                f"{self._folder.url} is being {self._what} by process {holder.pid} on "
                f"{holder.host}, last sign of life {holder.silence():.0f} s ago. Wait for it, "
                f"or stop it; {self._if_dead()}."
            )
        _bury(self._folder, raw, self._key)

    def _if_dead(self) -> str:
        if self._key == KEY:
            return "should it be dead, fewpass check with `free` frees the run"
        return f"should it be dead, it is not waited for after {LASTS_S:.0f} s of silence"

    def _renew(self) -> None:
        while not self._over.wait(RENEW_S):
            with contextlib.suppress(OSError, LeaseLost):  # a snapshot will find out
                self.check()
                self._folder.write(
                    self._key, _written(self._mine._replace(renewed=time.time())), durable=False
                )


def _written(holder: Holder) -> bytes:
    return seal(holder._asdict(), indent=1)
