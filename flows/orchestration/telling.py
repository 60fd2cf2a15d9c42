"""Telling somebody far away how things stand, without ever waiting for them."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class NewestNews(Generic[T]):
    """Hands the newest of what it is given to a function, in a thread of its own.

    Whoever gives never waits: what the function did not come to is replaced.  The function's errors
    are its own affair; one that hangs costs news, not work.

    Parameters
    ----------
    tell
        Takes the newest news.
    every_s
        Seconds from one call to the next, at least.
    """

    def __init__(self, tell: Callable[[T], None], every_s: float) -> None:
        self._tell, self._every_s = tell, every_s
        self._changed = threading.Condition()
        self._news: list[T] = []  # at most one
        self._busy = False
        self._urgent = False
        context = contextvars.copy_context()  # Prefect's settings and client lie there
        run = threading.Thread(target=context.run, args=(self._run,), daemon=True)
        run.start()

    def give(self, news: T) -> None:
        """Tell this next, in place of what is waiting."""
        with self._changed:
            self._news = [news]
            self._changed.notify_all()

    def flush(self, most_s: float) -> bool:
        """Wait until everything is told, for so many seconds at most; say whether it was."""
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._news and not self._busy, most_s)

    def _run(self) -> None:
        told = -self._every_s
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._news))
                rest = told + self._every_s - time.monotonic()
                self._changed.wait_for(lambda: self._urgent, max(0.0, rest))
                (news,), self._news, self._busy = self._news, [], True
            told = time.monotonic()
            self._tell(news)
            with self._changed:
                self._busy = False
                self._urgent = self._urgent and bool(self._news)
                self._changed.notify_all()
