"""Turns of the tasks of a process that share its memory."""

from __future__ import annotations

from threading import BoundedSemaphore

from fewpass.pipeline.memory import release_freed_memory


class Turns:
    """A limit of the tasks that run at a time: a worker may have more threads than memory.

    Only the number is pickled, as each process has its own memory.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._free = BoundedSemaphore(at_once)

    def __reduce__(self) -> tuple[type[Turns], tuple[int]]:
        return Turns, (self.at_once,)

    def __enter__(self) -> None:
        self._free.acquire()

    def __exit__(self, *_: object) -> None:
        release_freed_memory()  # or each of 16 threads keeps some: 100 MB
        self._free.release()
