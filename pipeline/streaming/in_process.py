"""Tasks in this process, one after the other, while the caller waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Done:
    """A result that is already here."""

    value: Any


def uninterrupted(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function where no signal reaches it: numba's results are lost on a Ctrl-C.

    Python handles signals in the main thread, and a kernel that is about to hand over a NamedTuple
    there dies of it.  So the main thread waits for another one, and for its end when interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    try:
        threading.Thread(target=work, name="fewpass-span").start()
        return future.result()
    finally:
        wait([future])


class InProcess:
    """Runs every task at once, while the caller waits."""

    dashboard: str | None = None
    near = alone = True

    def __init__(self) -> None:
        self.compiled: set[str] = set()

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Done:  # noqa: ARG002
        """Run the task and keep its result."""
        return Done(uninterrupted(function, *(a.value if isinstance(a, Done) else a for a in args)))

    submit_small = submit

    def item(self, name: str, handle: Done, k: int) -> Done:  # noqa: ARG002
        """Take the item."""
        return Done(handle.value[k])

    def result(self, handle: Done) -> Any:
        """Return the result."""
        return handle.value

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it here."""
        function()

    def announce(self, run: str) -> None:
        """Do nothing: there is no dashboard."""
