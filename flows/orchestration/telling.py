"""Telling somebody far away how things stand, without ever waiting for them."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable

MOST_KEYS = 64

Call = Callable[[], object]


class Teller:
    """Makes calls in a thread of its own: whoever has something to tell never waits.

    Every call has a key.  What waits under a key is replaced by what is given later, so the newest
    wins, and no more wait than there are keys.  A call that failed, and may go well another time,
    is made again until it does or is replaced.

    Parameters
    ----------
    every_s
        Seconds from one call under a key to the next one, and from a failure to the next call, at
        least.
    may_pass
        Whether a call that raised this error may go well another time.
    warn
        Takes the first of several errors in a row.
    """

    def __init__(
        self,
        every_s: float,
        may_pass: Callable[[Exception], bool],
        warn: Callable[[Exception], None],
    ) -> None:
        self._every_s, self._may_pass, self._warn = every_s, may_pass, warn
        self._changed = threading.Condition()
        self._waiting: dict[str, tuple[contextvars.Context, Call]] = {}
        self._told: dict[str, float] = {}  # when a call under a key was last made
        self._rests_until = 0.0
        self._busy = self._urgent = self._is_failing = False
        self._thread: threading.Thread | None = None

    def give(self, key: str, call: Call) -> None:
        """Make this call next under its key, in the context that holds now."""
        with self._changed:
            if key not in self._waiting and len(self._waiting) == MOST_KEYS:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[key] = (contextvars.copy_context(), call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, most_s: float) -> bool:
        """Wait until everything is sent, for `most_s` seconds at most; say whether it was."""
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._waiting and not self._busy, most_s)
            self._urgent = False
            return done

    def _run(self) -> None:
        while True:
            key, context, call = self._next()
            try:
                context.run(call)
            except Exception as error:  # noqa: BLE001 - whatever it is, work goes on
                self._failed(key, context, call, error)
            else:
                self._is_failing = False
            with self._changed:
                self._told[key] = time.monotonic()
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> tuple[str, contextvars.Context, Call]:
        """Wait until a call is due, and take it."""
        with self._changed:
            while True:
                due = {key: self._due(key) for key in self._waiting}
                key = min(due, key=lambda one: due[one]) if due else ""
                rest = due[key] - time.monotonic() if due else None
                if rest is not None and rest <= 0.0:
                    self._busy = True
                    return (key, *self._waiting.pop(key))
                self._changed.wait(rest)

    def _due(self, key: str) -> float:
        usual = self._told.get(key, -self._every_s) + self._every_s
        return max(self._rests_until, 0.0 if self._urgent else usual)

    def _failed(self, key: str, context: contextvars.Context, call: Call, error: Exception) -> None:
        if not self._is_failing:
            context.run(self._warn, error)
        self._is_failing = True
        with self._changed:
            self._rests_until = time.monotonic() + self._every_s
            if self._may_pass(error):
                self._waiting.setdefault(key, (context, call))
