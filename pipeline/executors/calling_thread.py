"""Tasks done at once by whoever submits them: for fits of milliseconds in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Done(NamedTuple):
    """A handle on a result that is here."""

    value: Any


class CallingThread:
    """Calls every task as it is submitted; an `Executor`."""

    engine = "calling thread"
    why = "rows in memory"
    dashboard: str | None = None
    near = alone = True

    def __init__(self) -> None:
        self.compiled: set[str] = set()

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Done:  # noqa: ARG002
        """Call the function, and keep what it returns; what it raises is raised here."""
        return Done(function(*(a.value if isinstance(a, Done) else a for a in args)))

    submit_small = submit

    def item(self, name: str, handle: Done, k: int) -> Done:  # noqa: ARG002
        """Take the item."""
        return Done(handle.value[k])

    def result(self, handle: Done) -> Any:
        """Return the result."""
        return handle.value

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it."""
        function()

    def show_run(self, run: str) -> None:
        """Do nothing: there is no dashboard."""

    def heed(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: who works is here."""

    def check_memory(self, memory: int) -> None:
        """Do nothing: this process takes what it was given."""
