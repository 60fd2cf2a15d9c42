"""Tasks on a Dask cluster: in other processes or on other machines, or on threads of this one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from operator import itemgetter
from threading import Lock
from typing import Any
from uuid import uuid4

from fewpass.pipeline.execution.packing import call, packed
from fewpass.pipeline.execution.threads import InProcess, Item, Work, value_of

TOPIC = "fewpass-runs"  # of a scheduler's events: which runs were trained on it
PATIENCE_S = 4.0  # with a result, before it is asked whether anybody works
LOOK_SECONDS = 1.0  # how often a wait looks whether Dask has lost a task


class OnDask:
    """Runs tasks on the cluster of a `distributed.Client`.

    A task that loses its worker runs again elsewhere: nothing is pinned to a worker.  One that
    raises is not tried again: it is a pure function, and would raise again.

    Parameters
    ----------
    client
        A `distributed.Client`.
    dashboard
        Address of the page about learning.
    why
        Why tasks run there.
    await_workers
        Called while a result is long in coming: waits while there are no workers, and raises
        NoWorkers when that lasts.
    """

    engine = "dask"
    near = alone = False

    def __init__(
        self,
        client: Any,
        dashboard: str | None,
        why: str = "",
        await_workers: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._await_workers = client, await_workers
        self.compiled: set[str] = set()
        self._numbers = itertools.count()
        self._token = uuid4().hex
        self._handle = type_of_handles()
        self.dashboard, self.why = dashboard, why

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Submit under a key that the dashboard shows as `name`."""
        key = f"{name}-{next(self._numbers):06d}-{self._token}"
        given = [packed(value, self._handle) for value in (function, *args)]
        return self._client.submit(call, *given, key=key, pure=False)

    submit_small = submit

    def item(self, name: str, handle: Any, k: int) -> Any:
        """Take the item where the tuple is."""
        return self.submit(name, itemgetter(k), handle)

    def result(self, handle: Any) -> Any:
        """Wait and fetch; ConnectionError when the cluster is gone, or all its workers are."""
        from distributed.comm.core import CommClosedError  # noqa: PLC0415

        while handle.status == "pending":
            try:
                return result_of(handle, PATIENCE_S)
            except TimeoutError:
                if handle.status != "pending":
                    break
            with suppress(CommClosedError, TimeoutError):  # a scheduler's end is told by the task
                self._await_workers()
        return result_of(handle)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it on the workers that are there; a cluster that goes meanwhile is no error."""
        if self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.run(function, on_error="ignore")

    def show_run(self, run: str) -> None:
        """Leave the run's address among the scheduler's events, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})


class OnDaskThreads(InProcess):
    """Runs spans as tasks of a cluster whose workers are threads of this process.

    Dask says when, and shows it; a task is the number of a work, so what a span is given and what
    it returns stays in this process as it is.  Small tasks do not pass Dask, which takes some
    milliseconds of the interpreter for each.
    """

    engine = "dask"

    def __init__(self, client: Any, dashboard: str | None, why: str = "") -> None:
        super().__init__(sum(client.nthreads().values()), why)
        self.dashboard, self.alone = dashboard, False
        self._client, self._token = client, uuid4().hex
        self._lock = Lock()
        self._tasks: list[Any] = []  # Dask's, of works under way

    def _started(self, threads: int) -> ThreadPoolExecutor | None:  # noqa: ARG002
        """Return nothing: Dask lends the threads."""
        return None

    def result(self, handle: Work | Item) -> Any:
        """Wait and return, or raise; ConnectionError when Dask has lost a task."""
        work = handle.work if isinstance(handle, Item) else handle
        while not wait([work.result], LOOK_SECONDS).done:
            self._require_tasks()
        return value_of(handle)

    def show_run(self, run: str) -> None:
        """Leave the run's address among the scheduler's events, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})

    def _start(self, name: str, work: Work) -> None:
        number = next(_numbers)
        _lent[number] = work
        key = f"{name}-{number:06d}-{self._token}"
        with self._lock:  # a task that is let go before its end is not shown
            task = self._client.submit(_do, number, key=key, pure=False)
            self._tasks = [task, *(t for t in self._tasks if t.status != "finished")]

    def _require_tasks(self) -> None:
        """Raise what became of a task that Dask did not bring to its end."""
        for task in self._tasks:
            if task.status not in ("pending", "finished"):
                result_of(task)
                raise RuntimeError(f"Dask gave up a task: it is {task.status}.")


_numbers = itertools.count()
_lent: dict[int, Work] = {}  # what tasks of this process's clusters are to do, by number


def _do(number: int) -> None:
    _lent.pop(number).do()


def type_of_handles() -> type:
    """Return the class of what `distributed.Client.submit` returns."""
    from distributed import Future  # noqa: PLC0415

    return Future


def result_of(future: Any, timeout_s: float | None = None) -> Any:
    """Wait for a future of Dask's and fetch; ConnectionError when the cluster is gone."""
    from distributed.comm.core import CommClosedError  # noqa: PLC0415

    try:
        return future.result(timeout_s)
    except (CancelledError, CommClosedError) as error:
        raise ConnectionError(
            "The Dask scheduler is gone, and with it all that was computed since the last "
            f"snapshot ({type(error).__name__}). Start it again, then the same command "
            "or fewpass resume: it goes on from that snapshot."
        ) from error
