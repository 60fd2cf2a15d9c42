"""Tasks on a Dask cluster: in other processes or on other machines, or on threads of this one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from copy import copy
from functools import cached_property
from operator import itemgetter
from threading import Lock
from typing import Any
from uuid import uuid4

from fewpass.pipeline.errors import NoWorkers
from fewpass.pipeline.passes.packed import OtherVersions, call, packed, type_of_handles
from fewpass.pipeline.passes.threads import InProcess, Item, PoolTask, value_of
from fewpass.pipeline.passes.together import Together
from fewpass.pipeline.passes.versions import versions_here
from fewpass.pipeline.passes.watched_cluster import WatchedCluster, result_of
from fewpass.pipeline.passes.workers import ANSWER_SECONDS, LOOK_SECONDS, Workers

PAGE = "/fewpass"  # of a scheduler's dashboard, about the trainings on it
HAS_PAGE = "has_fewpass_page"  # an attribute of a scheduler that has it
TOPIC = "fewpass-runs"  # of a scheduler's events: the runs trained on it
SAME_VERSIONS = (
    "Have it use the same environment as this process, then give the same command again, or "
    "`fewpass resume`."
)


class OnDask:
    """Runs tasks on the cluster of a `distributed.Client`.

    A task that loses its worker runs again on another one: nothing is pinned.  A task that raises
    is not repeated: it is a pure function, and would raise again.

    Parameters
    ----------
    client
        A `distributed.Client`.
    dashboard
        Address of the page on the training.
    why
        Why tasks run there.
    workers
        The workers; checked when a result takes long.
    """

    engine = "dask"
    near = alone = False

    def __init__(
        self,
        client: Any,
        dashboard: str | None,
        why: str = "",
        workers: Workers | None = None,
    ) -> None:
        self._client, self._workers = client, workers
        self._versions, self._token = versions_here(), uuid4().hex
        self._watched = WatchedCluster(client, workers)
        self.compiled: set[str] = set()
        self._numbers = itertools.count()
        self._handle = type_of_handles()
        self.dashboard, self.why = dashboard, why

    @property
    def threads(self) -> int:
        """Threads of the worker that has the fewest."""
        return min(self.together.threads())

    @cached_property
    def together(self) -> Together:
        """Submits graphs of tasks."""
        return Together(self._client, self._watched, self._token)

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Submit a task under a key that the dashboard shows as `name`."""
        key = f"{name}-{next(self._numbers):06d}-{self._token}"
        given = [packed(value, self._handle) for value in (function, *args)]
        return self._client.submit(call, self._versions, *given, key=key, pure=False)

    submit_small = submit

    def item(self, name: str, handle: Any, k: int) -> Any:
        return self.submit(name, itemgetter(k), handle)

    def result(self, handle: Any) -> Any:
        """Return a result; ConnectionError if the cluster or all its workers are gone.

        Workers with other versions are reported, also if their task failed.
        """
        try:
            return self._watched.waited(self._client.gather(handle, asynchronous=True))
        except NoWorkers:
            raise
        except Exception as error:  # noqa: BLE001 - raised below
            self._require_equals(error)
            again = copied(error)
        try:
            raise again
        finally:
            del again  # its traceback has this frame

    def _require_equals(self, error: Exception) -> None:
        """Raise OtherVersions if new workers have other versions: that is why a task failed."""
        if self._workers is None or self._client.status != "running":
            return
        try:
            others = self._workers.others()
        except (OSError, TimeoutError):
            return
        if not others and isinstance(error, OtherVersions):  # and it is gone
            others = [f"A Dask worker differs: {error}."]
        if others:
            raise OtherVersions(f"{' '.join(others)} {SAME_VERSIONS}") from error

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function on all present workers; ignore a cluster that ends meanwhile."""
        if self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.run(function, on_error="ignore", callback_timeout=ANSWER_SECONDS)

    def heed(self, stopping: Callable[[], bool]) -> None:
        self._watched.stopping = stopping

    def check_workers(self, memory: int, url: str, sees: Callable[[], bool]) -> None:
        if self._workers is not None:
            with suppress(OSError, TimeoutError):
                self._workers.warn_of_limits(memory)
            self._workers.require_sight(url, sees)

    def show_run(self, run: str) -> None:
        """Log the run's address as an event of the scheduler, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})


def copied(error: Exception) -> Exception:
    """Return a copy of an error that Dask keeps with the handle of a task.

    The error's own traceback would keep what has been in its frames, all handles among it.
    """
    again: Exception = copy(error).with_traceback(error.__traceback__)
    again.__cause__, again.__suppress_context__ = error.__cause__, error.__suppress_context__
    error.__traceback__ = None
    return again


class OnDaskThreads(InProcess):
    """Runs spans as tasks of a cluster whose workers are threads of this process.

    Dask schedules and displays the tasks; a task is the number of a `PoolTask`, so that arguments
    and results stay in this process.  Small tasks bypass Dask, which takes some milliseconds for
    each.
    """

    engine = "dask"

    def __init__(self, client: Any, dashboard: str | None, why: str = "") -> None:
        super().__init__(sum(client.nthreads().values()), why)
        self.dashboard, self.alone = dashboard, False
        self._client, self._token = client, uuid4().hex
        self._lock = Lock()
        self._tasks: list[Any] = []  # Dask's futures of running works

    def _started(self, threads: int) -> ThreadPoolExecutor | None:  # noqa: ARG002
        """Return None: Dask has the threads."""
        return None

    def result(self, handle: PoolTask | Item) -> Any:
        """Return a result; ConnectionError if Dask has lost a task."""
        work = handle.work if isinstance(handle, Item) else handle
        while not wait([work.result], LOOK_SECONDS).done:
            self._require_tasks()
        return value_of(handle)

    def show_run(self, run: str) -> None:
        """Log the run's address as an event of the scheduler, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})

    def _start(self, name: str, work: PoolTask) -> None:
        number = next(_numbers)
        _lent[number] = work
        key = f"{name}-{number:06d}-{self._token}"
        with self._lock:  # a task without references is not displayed
            task = self._client.submit(_do, number, key=key, pure=False)
            self._tasks = [task, *(t for t in self._tasks if t.status != "finished")]

    def _require_tasks(self) -> None:
        """Raise the error of a task that Dask did not finish."""
        for task in self._tasks:
            if task.status not in ("pending", "finished"):
                result_of(task)
                raise RuntimeError(f"Dask gave up a task: it is {task.status}.")


_numbers = itertools.count()
_lent: dict[int, PoolTask] = {}  # works of this process's clusters, by number


def _do(number: int) -> None:
    _lent.pop(number).do()
