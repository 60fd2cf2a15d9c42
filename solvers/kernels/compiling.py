"""A listener for compilations: kernels that the cache on disk does not have yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from threading import Lock, Timer
from types import TracebackType
from typing import Self

_listening: list[Compiling] = []


class Compiling:
    """Listens to all threads of this process while it is open.

    Parameters
    ----------
    tell
        Called once, by any thread, when compilation has gone on for `after` seconds.
    after
        Seconds.

    Attributes
    ----------
    kernels : int
        Number compiled so far.
    seconds : float
        Time spent on them, summed over threads.
    """

    def __init__(self, tell: Callable[[], None] = lambda: None, after: float = 0.0) -> None:
        self.kernels, self.seconds = 0, 0.0
        self._tell, self._after = tell, after
        self._timer: Timer | None = None
        self._lock = Lock()  # kernels are compiled one at a time, but any thread may report it
        self._depth, self._began = 0, 0.0

    def __enter__(self) -> Self:
        _listening.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        _listening.remove(self)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def so_far(self) -> float:
        """Seconds spent so far, including the kernel being compiled."""
        with self._lock:
            return self.seconds + (time.perf_counter() - self._began if self._depth else 0.0)

    def on_start(self) -> None:
        """Note the time, and report the first compilation."""
        with self._lock:
            if self._depth == 0:
                self._began = time.perf_counter()
            self._depth += 1
            first = self._timer is None and not self.kernels and self._depth == 1
            if first and self._after:
                self._timer = Timer(self._after, self._tell)
                self._timer.daemon = True
                self._timer.start()
        if first and not self._after:
            self._tell()

    def on_end(self) -> None:
        """Count a kernel; those that it calls were compiled within it."""
        with self._lock:
            self._depth -= 1
            self.kernels += 1
            if self._depth == 0:
                self.seconds += time.perf_counter() - self._began


def compilation_begins() -> None:
    """Tell all who listen; `compilation_ends` follows."""
    for one in tuple(_listening):
        one.on_start()


def compilation_ends() -> None:
    """Tell all who heard it begin."""
    for one in tuple(_listening):
        one.on_end()


def working_seconds() -> float:
    """Return the time of a clock that stops while this process compiles (after a first call)."""
    compiled = _whole_process().so_far
    return time.perf_counter() - compiled


@cache
def _whole_process() -> Compiling:
    return Compiling().__enter__()
