"""Tasks run at once by the submitting thread, for fits of milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Done(NamedTuple):
    """A handle on an available result."""

    value: Any


class CallingThread:
    """An `Executor` that runs every task when it is submitted."""

    engine = "calling thread"
    why = "rows in memory"
    dashboard: str | None = None
    near = alone = True
    threads = 1  # fits run side by side where somebody searches over settings
    together = None  # tasks are submitted one by one

    def __init__(self) -> None:
        self.compiled: set[str] = set()

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Done:  # noqa: ARG002
        """Call the function, and store its result; exceptions are raised here."""
        return Done(function(*(a.value if isinstance(a, Done) else a for a in args)))

    submit_small = submit

    def item(self, name: str, handle: Done, k: int) -> Done:  # noqa: ARG002
        return Done(handle.value[k])

    def result(self, handle: Done) -> Any:
        return handle.value

    def everywhere(self, function: Callable[[], None]) -> None:
        function()

    def show_run(self, run: str) -> None:
        """Do nothing: there is no dashboard."""

    def heed(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: there are no workers to wait for."""

    def check_memory(self, memory: int) -> None:
        """Do nothing: tasks run in this process."""
